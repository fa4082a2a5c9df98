"""Vectors: one written-out axis becomes the lanes of vector operations.

Accesses that are neighbours along the axis become vector loads and stores; those that do not depend
on it stay scalar and are broadcast; the rest are written out lane by lane.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.unroll import shifted, split_position
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    number_of,
    replace_range,
    size_of,
    values_of,
)
from torpor.rules.affine import strides_of

# Width of vectors that come with cheap stores under masks: AVX-512's. Those of AVX2 (vmaskmovps)
# take AMD's processors many cycles (Agner Fog, "Instruction tables").
MASKED_BYTES: Final = 64


class _Vectoriser:
    def __init__(self, root: UOp, lane: UOp, width: int):
        self.loops = find_loops(root)
        self.lane, self.width = lane, width
        self.done: dict[UOp, UOp] = {}
        self.wholes: dict[UOp, tuple[Ops, UOp]] = {}  # of reductions over the lanes: their vectors
        self.stores: dict[UOp, list[UOp]] = {}
        self.positions: dict[UOp, tuple[UOp, dict[UOp, int]] | None] = {}
        self.moved = False  # whether positions have changed that do not depend on the lanes

    def run(self, root: UOp) -> UOp:
        for node in self.loops.order:
            if node.op is Ops.SINK:
                continue
            if node.op is Ops.STORE:
                self.stores[node] = self.store(node)
            elif node.op is not Ops.INDEX:
                made = self.done[node] = self.make(node)
                if made is not node and node.dtype is dtypes.index and not self.varies(node):
                    self.moved = True
        return UOp.sink(*(s for store in root.src for s in self.stores[store]))

    def varies(self, node: UOp) -> bool:
        return self.lane in self.loops.free[node]

    def vector(self, node: UOp) -> UOp:
        """The node in all lanes."""
        made = self.done[node]
        return made if made.dtype.count == self.width else made.broadcast(self.width)

    def make(self, node: UOp) -> UOp:
        if node is self.lane:
            return UOp(Ops.LANES, dtypes.index.vec(self.width))
        if node.op is Ops.LOAD and node.src[0].op is Ops.INDEX:
            return self.load(node)
        if node.op is Ops.BARRIER:
            return node.replace(src=tuple(s for store in node.src for s in self.stores[store]))
        if node.op is Ops.REDUCE and self.lane in closed_by(node):
            return self.over_lanes(node, node.arg, self.over_loops(node))
        joined = [self.wholes[s][1] for s in node.src if self.wholes.get(s, (None,))[0] is node.op]
        if joined and len(joined) == len(node.src):  # one vector of them, then its lanes
            return self.over_lanes(node, node.op, joined[0].alu(node.op, *joined[1:]))
        if not self.varies(node):
            source = tuple(self.done[s] for s in node.src)
            return node.over(source)
        if node.op is Ops.REDUCE:
            ranges = closed_by(node)
            values = map(self.vector, values_of(node))
            outer = (self.done[r] for r in ranges)
            return UOp(Ops.REDUCE, self.wide(node.dtype), (*values, *outer), node.arg)
        if node.op is Ops.SCAN:
            value, initial, step = node.src
            source = (self.vector(value), self.vector(initial), self.done[step])
            return UOp(Ops.SCAN, self.wide(node.dtype), source, node.arg)
        if node.op in ALU or node.op is Ops.CHECK:
            source = tuple(self.vector(s) for s in node.src)
            return UOp(node.op, self.wide(node.dtype), source, node.arg)
        raise AssertionError(f"{node.op} cannot be made a vector")

    def wide(self, dtype: DType) -> DType:
        return dtype.vec(self.width)

    def over_loops(self, node: UOp) -> UOp:
        """The vector in which a reduction over the lanes too keeps what the loops give."""
        ranges = closed_by(node)
        values = tuple(map(self.vector, values_of(node)))
        kept = tuple(self.done[r] for r in ranges if r is not self.lane)
        if kept:
            return UOp(Ops.REDUCE, self.wide(node.dtype), (*values, *kept), node.arg)
        made = values[0]
        for value in values[1:]:
            made = made.alu(node.arg, value)
        return made

    def over_lanes(self, node: UOp, op: Ops, whole: UOp) -> UOp:
        """A reduction of a vector's lanes, which is what `node` becomes."""
        self.wholes[node] = op, whole
        return in_halves(op, whole)

    # --- memory -----------------------------------------------------------------------------------
    def stride(self, place: UOp) -> int | None:
        """Elements between lanes; None where it is not the same everywhere."""
        return strides_of(place.src[1]).get(self.lane, 0)

    def parts(self, position: UOp) -> tuple[UOp, dict[UOp, int]] | None:
        """A position without the lanes, and how far they are apart."""
        if position not in self.positions:
            self.positions[position] = split_position(position, {self.lane})
        return self.positions[position]

    def position(self, position: UOp, number: int) -> UOp:
        """A position in one lane."""
        parts = self.parts(position)
        if parts is None or self.moved:
            return self.at_lane(position, number)
        return shifted(parts[0], number * parts[1].get(self.lane, 0))

    def at_lane(self, expression: UOp, number: int) -> UOp:
        """An index expression or condition in one lane."""
        below = expression.toposort()
        same = {n: self.done[n] for n in below if n in self.done and not self.varies(n)}
        found = expression.substitute({**same, self.lane: UOp.index_const(number)})
        if any(n.op is Ops.LOAD and self.varies(n) for n in below):  # the lane of the vector
            whole = self.done.get(expression)
            if whole is not None and self.varies(expression):
                return whole.gep(number) if whole.dtype.count > 1 else whole
        return found.simplify()

    def place(self, node: UOp) -> UOp:
        """The INDEX of the first of all lanes."""
        memory, position, *condition = node.src
        first = self.position(position, 0)
        return node.replace(src=(self.done[memory], first, *(self.done[c] for c in condition)))

    def places(self, place: UOp, stride: int | None) -> list[UOp]:
        """The INDEX of each lane; where lanes are `stride` apart, from that of the first."""
        memory, position, *conditions = place.src
        first, found = self.position(position, 0), []
        for number in range(self.width):
            at = shifted(first, number * stride) if stride else self.position(position, number)
            condition = (
                self.at_lane(c, number) if self.varies(c) else self.done[c] for c in conditions
            )
            found.append(place.replace(src=(self.done[memory], at, *condition)))
        return found

    def load(self, node: UOp) -> UOp:
        place = node.src[0]
        rest = tuple(self.done[s] for s in node.src[1:])
        if not self.varies(place):
            source = tuple(self.done[s] for s in place.src)
            scalar = UOp(Ops.INDEX, place.dtype, source)
            return node.replace(src=(scalar, *rest))
        stride = self.stride(place)
        if stride == 1:
            return UOp(Ops.LOAD, self.wide(node.dtype), (self.place(place), *rest))
        if stride == 0:  # only the condition varies
            condition = self.done[place.src[2]]
            memory, position = self.done[place.src[0]], self.position(place.src[1], 0)
            some = in_halves(Ops.OR, condition)
            found = UOp(Ops.INDEX, place.dtype, (memory, position, some))
            whole = UOp(Ops.LOAD, node.dtype, (found, *rest)).broadcast(self.width)
            return condition.where(whole, UOp.const(whole.dtype, 0))
        places = self.places(place, stride)
        lanes = tuple(UOp(Ops.LOAD, node.dtype, (one, *rest)) for one in places)
        return UOp(Ops.VECTORIZE, self.wide(node.dtype), lanes)

    def store(self, node: UOp) -> list[UOp]:
        place, value = node.src[:2]
        ranges = tuple(self.done[r] for r in closed_by(node) if r is not self.lane)
        if self.lane not in closed_by(node):
            source = tuple(self.done[s] for s in place.src)
            scalar = UOp(Ops.INDEX, place.dtype, source)
            return [UOp(Ops.STORE, dtypes.void, (scalar, self.done[value], *ranges), node.arg)]
        stride, made = self.stride(place), self.vector(value)
        lanes = self.known_lanes(place) if stride == 1 else enumerate(self.places(place, stride))
        if lanes is None:
            whole = (self.place(place), made, *ranges)
            return [UOp(Ops.STORE, dtypes.void, whole, node.arg)]
        return [
            UOp(Ops.STORE, dtypes.void, (one, made.gep(n), *ranges), node.arg) for n, one in lanes
        ]

    def known_lanes(self, place: UOp) -> list[tuple[int, UOp]] | None:
        """The places that are stored to and their lanes, where it is known which ones are; None if
        not. Plain stores of neighbours (`interleaved_stores.py`) take less time than one under a
        mask, but where vectors of 64 bytes have registers for masks.
        """
        if len(place.src) < 3 or self.width * place.dtype.itemsize >= MASKED_BYTES:
            return None
        if self.loops.free[place.src[2]] != {self.lane}:
            return None
        places = list(enumerate(self.places(place, 1)))
        if any(one.src[2].op is not Ops.CONST for _, one in places):
            return None
        return [(n, one.replace(src=one.src[:2])) for n, one in places if one.src[2].arg]


def in_halves(op: Ops, whole: UOp) -> UOp:
    """The lanes of a vector combined, halves with halves."""
    width = whole.dtype.count
    while width > 1:
        half = width // 2
        whole = whole.gep(*range(half)).alu(op, whole.gep(*range(half, width)))
        width = half
    return whole


def vectorise(root: UOp, lane: UOp, width: int) -> UOp:
    """The kernel with the axis `lane`, of `width` (a power of two) iterations, as vector lanes."""
    return _Vectoriser(root, lane, width).run(root)


def split_lane(root: UOp, one: UOp, width: int) -> tuple[UOp, UOp]:
    """A written-out axis cut so that its fast part has `width` iterations: that, the kernel."""
    size = size_of(one)
    assert size is not None and size % width == 0
    if size == width:
        return one, root
    fresh = 1 + max(number_of(r) for r in root.ranges())
    lane = UOp.range(width, fresh, kind_of(one))
    outer = UOp.range(size // width, *one.arg)
    root = replace_range(root, one, outer * width + lane, [outer, lane]).simplify()
    return lane, root
