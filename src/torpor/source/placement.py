"""Which values of a linear program get a name, and which are written where they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.ir.ops import ALU, EFFECT, Ops
from torpor.ir.uop import UOp
from torpor.source.lanes import values

_STATEMENTS: Final = EFFECT | {Ops.RANGE, Ops.ACC}
_ALWAYS: Final = frozenset({
    Ops.CONST, Ops.PARAM, Ops.VARIABLE, Ops.DEFINE_LOCAL, Ops.INDEX, Ops.GEP
})  # fmt: skip
_ONCE: Final = ALU | {Ops.VECTORIZE}


class Placement:
    """For each value the places (numbers in the list) where its text will stand, each as often as
    it stands there.

    `named` holds the values that become a variable; `used` those that are needed at all. A value
    that is used once, in the block that computes it, is written at its use. A register's read is
    written at its uses if nothing stores to the register in between.
    """

    def __init__(self, nodes: Sequence[UOp]):
        self.nodes = nodes
        self.named: set[UOp] = set()
        self.used: set[UOp] = set()
        self.points: dict[UOp, list[int]] = {}
        self.blocks = self.find_blocks()
        self.stores: dict[UOp, list[int]] = {}
        for number, node in enumerate(nodes):
            if node.op is Ops.STORE and node.src[0].op is Ops.ACC:
                self.stores.setdefault(node.src[0], []).append(number)
        for number in reversed(range(len(nodes))):
            self.place(number, nodes[number])

    def find_blocks(self) -> list[int]:
        """For each node the number of the RANGE or IF that it stands in; -1 outside of all."""
        blocks, open_blocks = [], [-1]
        for number, node in enumerate(self.nodes):
            blocks.append(open_blocks[-1])
            if node.op in (Ops.RANGE, Ops.IF):
                open_blocks.append(number)
            elif node.op in (Ops.END, Ops.ENDIF):
                open_blocks.pop()
        return blocks

    def place(self, number: int, node: UOp) -> None:
        if node.op in _STATEMENTS:
            self.used.add(node)
            points = [number]
        else:
            points = self.points.get(node, [])
            if not points:
                return
            self.used.add(node)
            if not self.is_inline(number, node, points):
                self.named.add(node)
                points = [number]
        for operand in values(node):
            self.points.setdefault(operand, []).extend(points)

    def is_inline(self, number: int, node: UOp, points: list[int]) -> bool:
        if node.op in _ALWAYS:
            return True
        if node.op is Ops.LOAD and node.src[0].op is Ops.ACC:
            return self.is_unchanged(number, node.src[0], points)
        once = node.op in _ONCE and len(points) == 1
        return once and self.blocks[points[0]] == self.blocks[number]

    def is_unchanged(self, number: int, register: UOp, points: list[int]) -> bool:
        """Whether the register keeps its value from here to all of these places."""
        same_block = all(self.blocks[p] == self.blocks[number] for p in points)
        last = max(points)
        return same_block and not any(number < s < last for s in self.stores.get(register, ()))
