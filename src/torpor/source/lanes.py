"""Vectors that a language cannot say, written out lane by lane (linear form to linear form)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp
from torpor.source.linear import constant

Keeps = Callable[[UOp], bool]
# How many operands are values; the others only order, and keep equal nodes apart.
_VALUES: Final = {Ops.LOAD: 1, Ops.STORE: 2, Ops.END: 0, Ops.ENDIF: 0, Ops.BARRIER: 0}


def write_out(linear: Sequence[UOp], keeps: Keeps) -> list[UOp]:
    """The program with every vector node for which `keeps` is false computed lane by lane.

    A CHECK becomes a statement of its own (src = (condition,)) and its value what it checks. An IF
    asks whether its condition holds in some lane.
    A vector that is made of lanes, and each lane of a vector, is listed where it is computed; one
    that nothing uses costs nothing, as renderers leave unused values out.
    """
    work = _Writer(keeps)
    for node in linear:
        work.add(node)
    return list(work.made)


class _Writer:
    def __init__(self, keeps: Keeps):
        self.keeps = keeps
        self.made: dict[UOp, None] = {}
        self.whole: dict[UOp, UOp] = {}
        self.lanes: dict[UOp, tuple[UOp, ...]] = {}

    def put(self, node: UOp) -> UOp:
        self.made[node] = None
        return node

    def lane(self, node: UOp, number: int) -> UOp:
        """One lane of what `node` has become; a scalar is all its lanes."""
        return self.lanes[node][number] if node in self.lanes else self.whole[node]

    def add(self, node: UOp) -> None:
        op = node.op
        if op is Ops.CHECK:
            self.check(node)
        elif op is Ops.IF and width(node) > 1:
            self.branch(node)
        elif op is Ops.GEP or op is Ops.VECTORIZE or op is Ops.LANES:
            self.choose(node)
        elif width(node) == 1 or (op is not Ops.INDEX and self.keeps(node)):
            self.keep(node)
        elif op is not Ops.INDEX:
            self.spread(node)

    def keep(self, node: UOp) -> None:
        made = node.replace(src=(*(self.source(s) for s in values(node)), *self.order(node)))
        self.whole[node] = self.put(made)
        if node.dtype.count > 1:
            lanes = range(node.dtype.count)
            if node.op is not Ops.ACC:
                self.lanes[node] = tuple(self.put(made.gep(n)) for n in lanes)

    def source(self, node: UOp) -> UOp:
        """What an operand of a kept node has become (an INDEX is listed when it is used)."""
        if node.op is Ops.INDEX and node not in self.whole:
            self.keep(node)
        return self.whole[node]

    def order(self, node: UOp) -> tuple[UOp, ...]:
        """What the operands that are no values have become."""
        return tuple(self.whole.get(s, s) for s in node.src[len(values(node)) :])

    def choose(self, node: UOp) -> None:
        """Lanes taken from vectors, or put together."""
        if node.op is Ops.LANES:
            picked = tuple(
                self.put(UOp.const(node.dtype.scalar(), n)) for n in range(node.dtype.count)
            )
        elif node.op is Ops.GEP:
            picked = tuple(self.lane(*node.lane(n)) for n in range(len(node.arg)))
        else:
            picked = tuple(self.whole[s] for s in node.src)
        self.gather(node, picked)

    def gather(self, node: UOp, picked: tuple[UOp, ...]) -> None:
        """`node` has become these lanes."""
        if node.dtype.count == 1:
            self.whole[node] = picked[0]
            return
        self.lanes[node] = picked
        self.whole[node] = self.put(UOp(Ops.VECTORIZE, node.dtype, picked))

    def spread(self, node: UOp) -> None:
        count, scalar = width(node), node.dtype.scalar()
        if node.op is Ops.ACC:
            self.lanes[node] = tuple(
                self.put(UOp(Ops.ACC, scalar, (self.lane(node.src[0], n),), f"{node.arg}_{n}"))
                for n in range(count)
            )
            return
        picked = []
        for number in range(count):
            if node.op in (Ops.LOAD, Ops.STORE):
                source = self.access(node, number)
            else:
                assert node.op in ALU, f"{node.op} of vectors cannot be written out"
                source = tuple(self.lane(s, number) for s in node.src)
            picked.append(self.put(without_zero(UOp(node.op, scalar, source, node.arg))))
        if node.op is not Ops.STORE:
            self.gather(node, tuple(picked))

    def access(self, node: UOp, number: int) -> tuple[UOp, ...]:
        """Operands of one lane's LOAD or STORE."""
        place = node.src[0]
        value = (self.lane(node.src[1], number),) if node.op is Ops.STORE else ()
        order = self.order(node)
        if place.op is Ops.ACC:
            return (self.lane(place, number), *value, *order)
        memory, position = (self.whole[s] for s in place.src[:2])
        condition = tuple(self.lane(s, number) for s in place.src[2:])
        moved = position
        if number and constant(position) is not None:
            moved = self.put(position.const_like(position.arg + number))
        elif number:
            moved = self.put(position + self.put(position.const_like(number)))
        return (self.put(UOp(Ops.INDEX, place.dtype, (memory, moved, *condition))), *value, *order)

    def check(self, node: UOp) -> None:
        value, condition = node.src
        for number in range(condition.dtype.count):
            self.put(UOp(Ops.CHECK, dtypes.void, (self.lane(condition, number),), node.arg))
        self.whole[node] = self.whole[value]
        if value in self.lanes:
            self.lanes[node] = self.lanes[value]

    def branch(self, node: UOp) -> None:
        condition = node.src[0]
        holds = self.lane(condition, 0)
        for number in range(1, condition.dtype.count):
            holds = self.put(holds | self.lane(condition, number))
        self.whole[node] = self.put(node.replace(src=(holds,)))


def without_zero(node: UOp) -> UOp:
    """The equation x + 0 = x, for integers: the first lane of a position."""
    zero = node.op is Ops.ADD and node.dtype.is_int and constant(node.src[1]) == 0
    return node.src[0] if zero else node


def values(node: UOp) -> tuple[UOp, ...]:
    """The operands that are values."""
    return node.src[: _VALUES.get(node.op, len(node.src))]


def width(node: UOp) -> int:
    """How many lanes the node computes or moves."""
    if node.op is Ops.INDEX:
        return max((s.dtype.count for s in node.src[2:]), default=1)
    if node.op is Ops.STORE:
        return node.src[1].dtype.count
    return max((node.dtype.count, *(s.dtype.count for s in values(node))))


def is_masked(place: UOp) -> bool:
    """Whether an INDEX has a condition for each lane."""
    return place.op is Ops.INDEX and len(place.src) > 2 and place.src[2].dtype.count > 1
