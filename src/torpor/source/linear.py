"""What every renderer asks of a linear program: its parameters, and facts about its integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ContractError
from torpor.ir.ops import ROWS, AxisType, Ops
from torpor.ir.uop import UOp

OPENS: Final = {Ops.RANGE: Ops.END, Ops.IF: Ops.ENDIF}


@dataclass(frozen=True)
class Signature:
    """What the function of a linear program takes, in order.

    parameters: (slot, PARAM) for each slot from 0 on; None for a slot that the program never uses.
    variables:  the VARIABLEs, in the program's order.
    checks:     an error word (int64) follows.
    thread:     the RANGE that is cut among threads, or None; then its first iteration and the one
                past its last follow (int64).
    """

    parameters: tuple[tuple[int, UOp | None], ...]
    variables: tuple[UOp, ...]
    checks: bool
    thread: UOp | None


def signature(linear: Sequence[UOp]) -> Signature:
    """The function that a linear program becomes; a `ContractError` for two PARAMs of one slot."""
    slots: dict[int, UOp] = {}
    for node in linear:
        if node.op is Ops.PARAM and slots.setdefault(node.arg.slot, node) is not node:
            raise ContractError(f"two parameters have the number {node.arg.slot}")
    parameters = tuple((n, slots.get(n)) for n in range(max(slots, default=-1) + 1))
    threads = [n for n in linear if n.op is Ops.RANGE and n.arg[1] is AxisType.THREAD]
    return Signature(
        parameters,
        tuple(n for n in linear if n.op is Ops.VARIABLE),
        any(n.op is Ops.CHECK for n in linear),
        threads[0] if threads else None,
    )


def prepare(linear: Sequence[UOp]) -> list[UOp]:
    """The program with every operand listed before its first use and dtype index as int32.

    Hand-made lists may leave operands out. A `ContractError` if loops and conditions do not nest,
    or if integers are divided that may be below 0: machines differ there.
    """
    listed: dict[UOp, None] = {}
    for node in linear:
        if all(s in listed for s in node.src) and node.op is not Ops.SINK:
            listed[node] = None
        elif node.op is not Ops.SINK:
            listed.update(node.toposort(lambda n: n not in listed))
    nodes = list(listed)
    if any(n.dtype.kind == "index" for n in nodes):
        nodes = _without_index(nodes)
    _check_nesting(nodes)
    for node in nodes:
        if node.op in (Ops.IDIV, Ops.MOD) and min(s.vmin for s in node.src) < 0:
            raise ContractError(f"{node.op} of what may be below 0 is not written out")
    return nodes


def _without_index(nodes: list[UOp]) -> list[UOp]:
    made: dict[UOp, UOp] = {}
    for node in nodes:
        dtype = node.dtype
        if dtype.kind == "index":
            dtype = dtypes.int32.vec(dtype.count)
        made[node] = UOp(node.op, dtype, tuple(made[s] for s in node.src), node.arg)
    return list(dict.fromkeys(made.values()))


def _check_nesting(nodes: list[UOp]) -> None:
    opened: list[UOp] = []
    for node in nodes:
        if node.op in OPENS:
            opened.append(node)
        elif node.op in OPENS.values() and (not opened or opened.pop() is not node.src[0]):
            raise ContractError(f"{node.op} does not close what was opened last")
    if opened:
        raise ContractError(f"{opened[-1].op} {opened[-1].arg} is never closed")


def factor(node: UOp) -> int:
    """An integer that divides every value of the node; 0 if the value is always 0.

    A wrapping operand may only break factors that are no power of two.
    """
    if node.op is Ops.CONST:
        return abs(int(node.arg))
    if node.op in (Ops.ADD, Ops.SUB):
        return math.gcd(factor(node.src[0]), factor(node.src[1]))
    if node.op is Ops.MUL:
        return factor(node.src[0]) * factor(node.src[1])
    if node.op is Ops.SHL and node.src[1].op is Ops.CONST:
        return factor(node.src[0]) << int(node.src[1].arg)
    if node.op is Ops.WHERE:
        return math.gcd(factor(node.src[1]), factor(node.src[2]))
    return 1


def alignment(index: UOp, itemsize: int, limit: int) -> int:
    """The greatest power of two (at most `limit`) that divides the byte offset of element `index`
    of `itemsize` bytes.
    """
    offset = factor(index) * itemsize
    return limit if offset == 0 else min(limit, offset & -offset)


def stays_in_range(node: UOp) -> bool:
    """Whether an ADD, SUB, MUL or SHL of integers is proved, from operands' bounds, not to wrap.

    A SHL must be of what is not negative, by a constant: C defines no other.
    """
    if node.op is Ops.SHL:
        count = constant(node.src[1])
        if count is None or node.src[0].vmin < 0 or not node.dtype.is_int:
            return False
        return bool(0 <= count < node.dtype.bits and node.src[0].vmax << count <= node.dtype.max)
    rule = ROWS[node.op].bounds
    if rule is None or not node.dtype.is_int:
        return False
    low, high = rule(*((s.vmin, s.vmax) for s in node.src))
    return bool(node.dtype.min <= low and high <= node.dtype.max)


def constant(node: UOp) -> bool | int | float | None:
    """The number that every lane of the node is, or None."""
    if node.op is Ops.VECTORIZE and all(s is node.src[0] for s in node.src):
        return constant(node.src[0])
    return node.arg if node.op is Ops.CONST else None


def lanes(dtype: DType) -> range:
    """The numbers of the format's lanes."""
    return range(dtype.count)
