"""Targets without vector arithmetic: every lane computed on its own, vectors only in memory."""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import closed_by

MEMORY_WIDTHS = (2, 4)  # vectors that such targets load and store


class _Scalariser:
    def __init__(self) -> None:
        self.done: dict[UOp, UOp] = {}
        self.lanes: dict[UOp, tuple[UOp, ...]] = {}

    def lane(self, node: UOp, number: int) -> UOp:
        """One lane of what `node` has become."""
        found = self.lanes.get(node)
        if found is None:
            return self.done[node]
        return found[number]

    def run(self, root: UOp) -> UOp:
        for node in root.toposort():
            count = node.dtype.count
            if node.op is Ops.STORE and node.src[1].dtype.count > 1:
                self.done[node] = self.store(node)
            elif node.op is Ops.GEP:
                picked = tuple(self.lane(*node.lane(n)) for n in range(len(node.arg)))
                self.put(node, picked)
            elif count == 1:
                source = tuple(self.done[s] for s in node.src)
                if node.op is Ops.BARRIER:
                    source = single_stores(source)
                self.done[node] = node if source == node.src else node.replace(src=source)
            else:
                self.put(node, self.vector(node))
        return self.done[root]

    def put(self, node: UOp, lanes: tuple[UOp, ...]) -> None:
        if len(lanes) == 1:
            self.done[node] = lanes[0]
        else:
            self.lanes[node] = lanes
            self.done[node] = UOp(Ops.VECTORIZE, node.dtype, lanes)

    def vector(self, node: UOp) -> tuple[UOp, ...]:
        count, scalar = node.dtype.count, node.dtype.scalar()
        if node.op is Ops.LANES:
            return tuple(UOp.const(scalar, n) for n in range(count))
        if node.op is Ops.VECTORIZE:
            return tuple(self.done[s] for s in node.src)
        if node.op is Ops.LOAD:
            return self.load(node)
        closed = closed_by(node)
        width = len(node.src) - len(closed)
        return tuple(
            UOp(
                node.op,
                scalar,
                (*(self.lane(s, n) for s in node.src[:width]), *(self.done[r] for r in closed)),
                node.arg,
            )
            for n in range(count)
        )

    def load(self, node: UOp) -> tuple[UOp, ...]:
        """A vector load where the target has one and nothing is masked lane by lane."""
        place, count, scalar = node.src[0], node.dtype.count, node.dtype.scalar()
        rest = tuple(self.done[s] for s in node.src[1:])
        masked = len(place.src) > 2 and place.src[2].dtype.count > 1
        if count in MEMORY_WIDTHS and not masked and node.dtype.scalar().bits >= 16:
            whole = UOp(Ops.LOAD, node.dtype, (self.done[place], *rest))
            return tuple(whole.gep(n) for n in range(count))
        return tuple(UOp(Ops.LOAD, scalar, (self.place(place, n), *rest)) for n in range(count))

    def place(self, place: UOp, number: int) -> UOp:
        """The INDEX of one element of a vector access."""
        memory, position = self.done[place.src[0]], self.done[place.src[1]]
        condition = tuple(self.lane(s, number) for s in place.src[2:])
        moved = (position + number).simplify() if number else position
        return UOp(Ops.INDEX, place.dtype, (memory, moved, *condition))

    def store(self, node: UOp) -> UOp:
        place, value = node.src[:2]
        ranges = tuple(self.done[r] for r in node.src[2:])
        count = value.dtype.count
        masked = len(place.src) > 2 and place.src[2].dtype.count > 1
        if count in MEMORY_WIDTHS and not masked and value.dtype.bits >= 16:
            whole = self.done[place], self.done[value], *ranges
            return UOp(Ops.STORE, dtypes.void, whole, node.arg)
        stores = tuple(
            UOp(Ops.STORE, dtypes.void, (self.place(place, n), self.lane(value, n), *ranges))
            for n in range(count)
        )
        return UOp.sink(*stores)


def scalarise(root: UOp) -> UOp:
    """The kernel with arithmetic on scalars only; memory is still moved by vectors of 2 and 4."""
    return UOp.sink(*single_stores(_Scalariser().run(root).src))


def single_stores(source: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """The stores, those of one vector's lanes side by side with the others."""
    stores: list[UOp] = []
    for one in source:
        stores.extend(one.src if one.op is Ops.SINK else (one,))
    return tuple(stores)
