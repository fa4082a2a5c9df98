"""Nodes of a loop's body for all steps at once: each value with a first axis that counts steps.

before  at each step: sum over k of x[i, k] * w[k, j]
after   sum over k of x[t, i, k] * w[k, j]

A loop in the body becomes one loop whose carries and rows are those of all steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from torpor.graph.loop import slot, slots_of
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Size, shape_of, shaped
from torpor.ir.ops import ALU, LOOPED, MOVEMENT, Ops
from torpor.ir.records import calls_host
from torpor.ir.rewrite import unite_origins
from torpor.ir.uop import UOp

_ALONG: Final = frozenset({Ops.REDUCE_AXIS, Ops.GATHER, Ops.SCATTER, Ops.PRIOR, Ops.SCAN_AXIS})
_PLAIN: Final = frozenset({Ops.CONTIGUOUS, Ops.DETACH, Ops.CHECK, Ops.AFTER})
POSSIBLE: Final = ALU | MOVEMENT | _ALONG | _PLAIN | {Ops.SLOT, Ops.CONST}


def is_possible(node: UOp, counted: bool = False) -> bool:
    """Whether a node, its operands aside, can be computed for all steps at once. `counted`: their
    number is known; then loops of as many rounds in each step can be too, and calls of the host.
    """
    if node.op in (Ops.RESHAPE, Ops.EXPAND):
        return is_plain(node.arg)
    if node.op in LOOPED:
        return counted and (node.op is not Ops.STEPS or are_possible([node.arg]))
    if node.op is Ops.LOOP:
        return counted and node.arg.goes_on is None and are_possible(node.arg.nexts)
    return node.op in POSSIBLE or (counted and calls_host(node))


def are_possible(nodes: Sequence[UOp], counted: bool = True) -> bool:
    """Whether nodes, and all that they are made of, can be computed for all steps at once."""
    return all(is_possible(one, counted) for one in [*UOp.sink(*nodes).toposort()][:-1])


def becomes_one(item: UOp) -> bool:
    """Whether a loop without carries gives something of loops, or of calls of the host: one of
    these is made for all its steps, as many as there are.
    """
    order = item.arg.toposort() if item.op is Ops.STEPS and not item.src[0].arg.nexts else ()
    return any(one.op is Ops.LOOP or calls_host(one) for one in order)


class Abreast:
    """Values for all of `count` steps; `given` says what nodes are, `fixed` what those are that are
    the same at each step.
    """

    def __init__(self, count: Size, given: Mapping[UOp, UOp], fixed: Mapping[UOp, UOp]):
        self.count, self.given = count, given
        self.wide = dict(given)  # node -> its values
        self.same = dict(fixed)  # node -> its value
        self.bodies: dict[UOp, Abreast] = {}  # by LOOP

    def values(self, root: UOp) -> UOp:
        """The values of a node, step by step."""
        order = root.toposort(lambda n: n not in self.wide and n not in self.same)
        for node in order:
            if node in self.wide or node in self.same:
                continue
            if any(s in self.wide for s in node.src):
                made = self.widened(node)
                self.wide[node] = made
            else:
                made = node.replace(src=tuple([self.same[s] for s in node.src]))
                self.same[node] = made
            unite_origins(node, made)
        return self.repeated(root)

    def repeated(self, node: UOp) -> UOp:
        """The values of a node, of one that is the same at each step too."""
        if node in self.wide:
            return self.wide[node]
        shape = shape_of(node)
        return expand(reshape(self.same[node], (1, *shape)), (self.count, *shape))

    def widened(self, node: UOp) -> UOp:
        """The values of a node of which an operand varies."""
        if node.op is Ops.LOOP:
            return self.loop(node)
        if node.op in LOOPED:
            return self.of_loop(node, self.wide[node.src[0]])
        if node.op in ALU:
            return node.replace(src=tuple([self.operand(s, node) for s in node.src]))
        source = tuple([self.repeated(s) for s in node.src])
        return node.replace(src=source, arg=widened_arg(node, self.count))

    def loop(self, node: UOp) -> UOp:
        """The LOOP for all steps. What is the same for each of them, and no carry, stays so."""
        loop, sources, given, fixed = node.arg, list[UOp](), dict[UOp, UOp](), dict[UOp, UOp]()
        for n, (source, one) in enumerate(zip(node.src, slots_of(node), strict=True)):
            stepped, same = n in loop.stepped, n >= len(loop.nexts) and source in self.same
            wide = self.same[source] if same else self.repeated(source)
            sources.append(exchanged(wide) if stepped and not same else wide)
            (fixed if same else given)[one] = slot(n, sources[-1], stepped)
        body = self.bodies[node] = Abreast(self.count, given, fixed)
        nexts = tuple(map(body.values, loop.nexts))
        return node.replace(src=tuple(sources), arg=replace(loop, nexts=nexts))

    def of_loop(self, node: UOp, loop: UOp) -> UOp:
        """What the LOOP for all steps gives, the axis of these in front."""
        if node.op is Ops.LAST:
            return node.replace(src=(loop,))
        arg = self.bodies[node.src[0]].values(node.arg) if node.op is Ops.STEPS else node.arg
        return exchanged(node.replace(src=(loop,), arg=arg))

    def operand(self, node: UOp, user: UOp) -> UOp:
        """An operand of arithmetic: numbers without axes meet operands of any shape."""
        made, wanted = self.repeated(node), shape_of(user)
        if shape_of(node) == wanted:
            return made
        return expand(reshape(made, (self.count, *[1] * len(wanted))), (self.count, *wanted))


def widened_arg(node: UOp, count: Size) -> Any:
    """The arg of a node whose operands have one more axis in front."""
    op, arg = node.op, node.arg
    if op in (Ops.RESHAPE, Ops.EXPAND):
        return (count, *arg)
    if op is Ops.PERMUTE:
        return (0, *(axis + 1 for axis in arg))
    if op is Ops.PAD:
        return ((0, 0), *arg)
    if op is Ops.SHRINK:
        return ((0, count), *arg)
    if op is Ops.FLIP:
        return (False, *arg)
    if op is Ops.SHEAR:
        return (arg[0] + 1, arg[1] + 1, *arg[2:])
    if op is Ops.REDUCE_AXIS:
        return arg[0], tuple(axis + 1 for axis in arg[1])
    if op is Ops.GATHER:
        return arg + 1
    if op is Ops.KERNEL:
        call, shape = arg
        shapes = tuple([(count, *one) for one in call.shapes])
        return replace(call, shapes=shapes), (count, *shape)
    if op in (Ops.SCATTER, Ops.SCAN_AXIS):
        return arg[0], arg[1] + 1, *arg[2:]
    return arg


def exchanged(node: UOp) -> UOp:
    """The node with its first two axes exchanged."""
    shape = shape_of(node)
    axes = 1, 0, *range(2, len(shape))
    return shaped(UOp(Ops.PERMUTE, node.dtype, (node,), axes), tuple(shape[a] for a in axes))


def reshape(node: UOp, shape: Sequence[Any]) -> UOp:
    """The node in another shape."""
    made = tuple(shape)
    return (
        node
        if shape_of(node) == made
        else shaped(UOp(Ops.RESHAPE, node.dtype, (node,), made), made)
    )


def expand(node: UOp, shape: Sequence[Any]) -> UOp:
    """The node with axes of size 1 repeated."""
    made = tuple(shape)
    return (
        node if shape_of(node) == made else shaped(UOp(Ops.EXPAND, node.dtype, (node,), made), made)
    )
