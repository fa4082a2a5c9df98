"""Multi-output fusion: values that one kernel computes side by side, and reductions in one loop.

A value that has to be stored is stored by a kernel that computes each of its elements once on its
way to something else (`computing_kernel`). A root that no kernel computes joins one that reads the
same elements in the same order (`sibling_kernel`: sibling fusion). Reductions that run over the
same elements and do not depend on each other share a loop (`loops`).

    (y, y.sum(1))              y is stored inside the loop of the sum
    (x.sum(1), x.amax(1))      one loop with two accumulators
    (x.softmax(1), x.amax(1))  the largest is stored between loops over a row
    (x.sum(0), x.sum(1))       two kernels: they read x in different orders
    (x.amin(), x.amax())       parts of both come from one pass over x
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from typing import Any, Final

from torpor.ir.infer import Shape, count, count_of, shape_of
from torpor.ir.ops import ALU, MOVEMENT, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import is_dense, strides_of
from torpor.rules.movement import ZERO, Indices, flat, map_indices
from torpor.schedule import cost
from torpor.schedule.fusion_state import FusionState
from torpor.schedule.reasons import NEAR, Reasons, reductions_near
from torpor.schedule.region import ALONE, STORED, Region, Use

# Choices, of which only the order of magnitude matters (bench/results/constants.md).
MOST_OUTPUTS: Final = 8  # that join a kernel uncalled for; targets limit parameters
SHORT_ROW: Final = 64  # elements between steps of a loop that may still store on its way

Place = tuple[Region, Indices]  # where a further output is stored: by which kernel, at what indices
Read = tuple[UOp, Indices]  # what is read, and where: at indices in terms of `probe`
Order = tuple[Shape, tuple[int, ...]]  # of a reduction: what it runs over, and the reduced axes


class MultiOutput:
    """Finds kernels that may store more, and loops that may reduce more."""

    def __init__(self, state: FusionState, reasons: Reasons):
        self.state, self.reasons = state, reasons
        self.reads: dict[UOp, KeysView[Read]] = {}
        # For roots that come later, by what they read: elementwise roots, work on reductions, and
        # reductions that have been fused.
        self.by_read: dict[Read, list[tuple[Region, UOp]]] = {}
        self.working: dict[tuple[Order, Read], list[tuple[Region, UOp]]] = {}
        self.reducing: dict[tuple[Order, Read], list[tuple[Region, UOp, Use]]] = {}
        self.orders: dict[Shape, dict[tuple[int, ...], None]] = {}  # reduced axes by shape
        self.running: dict[tuple[Use, int, Order], list[tuple[UOp, Indices]]] = {}
        self.has_parts = sum(map(is_part, state.order)) > 1

    # --- kernels that compute the value anyway ----------------------------------------------------
    def computing_kernel(self, node: UOp) -> Place | None:
        """A kernel that computes every element of `node` once, if it may also store it."""
        if node.op in STORED:
            return None
        for use in self.state.uses[node]:
            region = use.region
            if not self.has_room(region, node) or not self.in_time(node, region):
                continue
            if self.reasons.disturbs_product(node, region) or self.reasons.is_crowded(region, node):
                continue
            first = next(iter(region.outputs))
            plain = shape_of(first) == shape_of(node) and use.indices == region.outputs[first]
            here = [one for one in self.state.uses[node] if one.region is region]
            if not plain and not self.stores_whole(node, use):
                continue
            alone = plain and len({one.indices for one in here}) == 1
            if alone or self.reasons.to_part(node, here, commit=False) is None:
                return region, use.indices
        return None

    def has_room(self, region: Region, node: UOp) -> bool:
        """Whether the kernel runs where the value is wanted, and is not too large yet."""
        first = next(iter(region.outputs))
        alone = first.op in ALONE or first in self.state.apart
        fits = region.size < self.state.limit and not alone
        return fits and region.device == self.state.device(node)

    def in_time(self, node: UOp, region: Region) -> bool:
        """Whether no kernel that needs the value has to run before this one."""
        others = self.state.readers_of(node) - {region}
        return not any(self.state.runs_before(other, region) for other in others)

    def stores_whole(self, node: UOp, use: Use) -> bool:
        """Whether the use computes every element once, where a store costs the kernel nothing: on
        the way of a reduction, or outside of inner loops where a reduction is anyway.
        """
        region, indices = use
        around, outputs = region.closure(indices), frozenset(region.axes)
        digits = digits_of(region, node, indices)
        if digits is None:
            return False
        if around <= outputs:
            reduced = self.state.weights.carries[node] or node.op is Ops.REDUCE_AXIS
            return around == outputs or (bool(around) and reduced)
        if any(region.inside[r] - around for r in around - outputs):
            return False
        rows = region.evaluations(tuple(region.axes))
        in_a_row = min(digits[r] for r in around - outputs)
        busy = rows >= cost.PARALLEL or count_of(node) <= cost.SMALL
        return busy and in_a_row <= SHORT_ROW

    # --- kernels that read the same ---------------------------------------------------------------
    def sibling_kernel(self, node: UOp) -> Place | None:
        """For a root, or parts of a long reduction: a kernel that reads elements that this reads
        too, in the same order, so that one pass over them serves both.
        """
        if not is_part(node) and (node not in self.state.roots or node.op in STORED):
            return None
        level = self.state.weights.level[node]
        places = self.along_reduction(node) if level or is_part(node) else self.along(node)
        for region, indices in places:
            readers = self.state.readers_of(node)
            first = next(iter(region.outputs))
            if first.dtype.itemsize != node.dtype.itemsize:
                continue  # vectors have as many lanes as the widest format leaves
            room = self.has_room(region, node) and region not in readers
            if room and self.in_time(node, region):
                return region, indices
        return None

    def along(self, node: UOp) -> Iterator[Place]:
        """For elementwise work: beside elementwise roots of its shape, or in a reduction's loop."""
        for read in self.reads_of(node):
            for region, other in with_room(self.by_read.get(read)):
                if shape_of(other) == shape_of(node):
                    yield region, region.outputs[other]
            for axes in self.orders.get(shape_of(node), ()):
                key = (shape_of(node), axes), read
                for region, other, use in with_room(self.reducing.get(key)):
                    below = self.state.reduce_ranges[region, other, use.indices]
                    if self.stores_whole(node, Use(region, below)):
                        yield region, below

    def along_reduction(self, node: UOp) -> Iterator[Place]:
        """For work on reductions: where one over the same elements is, or beside other work on one
        that has this shape.
        """
        near = reductions_near(node.src[0] if is_part(node) else node)
        if any(self.state.weights.is_product(one) for one in near):
            return  # a product's tiles take a kernel of their own
        for own in near:
            for read in self.reads_of(own.src[0]):
                key = order_of(own), read
                for region, _, use in with_room(self.reducing.get(key)):
                    indices = spread(use.indices, own, node)
                    fits = indices and self.stores_whole(node, Use(region, indices))
                    if indices and fits and self.reasons.refusal(own, use, commit=False) is None:
                        yield region, indices
                for region, other in with_room(self.working.get(key)):
                    indices = region.outputs[other]
                    # Not inside a loop that reduces: what this needs may only be known after it.
                    outside = region.closure(indices) <= frozenset(region.axes)
                    if shape_of(other) == shape_of(node) and outside:
                        yield region, indices

    def note_root(self, node: UOp) -> None:
        """A root has been stored: others may join it."""
        place = self.state.home[node], node
        if not self.state.weights.level[node]:
            for read in self.reads_of(node):
                self.by_read.setdefault(read, []).append(place)
        for own in reductions_near(node):
            for read in self.reads_of(own.src[0]):
                self.working.setdefault((order_of(own), read), []).append(place)

    def note_reduction(self, node: UOp, use: Use) -> None:
        """A reduction has been fused into a kernel: roots may join it."""
        if len(self.state.roots) > 1 or self.has_parts:
            shape, axes = order_of(node)
            self.orders.setdefault(shape, {})[axes] = None
            for read in self.reads_of(node.src[0]):
                self.reducing.setdefault(((shape, axes), read), []).append((use.region, node, use))

    def reads_of(self, node: UOp) -> KeysView[Read]:
        """What the value reads, as far as a look at its nearest operations tells."""
        found = self.reads.get(node)
        if found is None:
            found = self.reads[node] = reads_near(node)
        return found

    # --- loops ------------------------------------------------------------------------------------
    def loops(self, node: UOp, use: Use) -> Indices | None:
        """Indices of a reduction's operand in the loop of another that runs over the same elements,
        if neither depends on the other; else None, and others may run along with this one.

        Not for products like a matrix's, whose accumulators fill the registers.
        """
        weights = self.state.weights
        key = (use, weights.level[node], order_of(node))
        others = self.running.setdefault(key, [])
        for other, below in others:
            streams = weights.reads[node.src[0]] and weights.reads[other.src[0]]
            if streams and self.reads_of(node.src[0]) & self.reads_of(other.src[0]):
                return below
        return None

    def note_loops(self, node: UOp, use: Use, below: Indices) -> None:
        """A reduction has loops of its own."""
        key = (use, self.state.weights.level[node], order_of(node))
        self.running[key].append((node, below))


def is_part(node: UOp) -> bool:
    """Whether it is what parts of a long reduction come to."""
    return node.op is Ops.CONTIGUOUS and node.arg is not None and node.arg.parts


def with_room(known: list[Any] | None) -> list[Any]:
    """Those whose kernels, which stand first, may store one more value; others are forgotten."""
    if known:
        known[:] = [one for one in known if len(one[0].outputs) < MOST_OUTPUTS]
    return list(known or ())


def order_of(reduction: UOp) -> Order:
    """What a reduction runs over, and along which axes."""
    return shape_of(reduction.src[0]), reduction.arg[1]


def digits_of(region: Region, node: UOp, indices: Indices) -> dict[UOp, int] | None:
    """The stride of each loop around a use, if these meet every element of the node exactly once:
    the element's position is a number whose digits are the loops' counters. Else None.
    """
    shape = shape_of(node)
    if not all(isinstance(size, int) and size for size in shape):
        return None
    if any(i.vmin < 0 or i.vmax >= n for i, n in zip(indices, shape, strict=True)):
        return None  # a use under padding meets only some of the elements
    strides = strides_of(flat(list(zip(indices, shape, strict=True))))
    if not is_dense(strides, count(shape)) or strides.keys() != region.closure(indices):
        return None
    return strides  # type: ignore[return-value]


def probe(shape: Shape) -> Indices:
    """Indices that only serve to compare where values are read."""
    return tuple(
        ZERO if size == 1 else UOp.range(size, axis, AxisType.GLOBAL)
        for axis, size in enumerate(shape)
    )


def reads_near(node: UOp) -> KeysView[Read]:
    """What the value at `probe` indices reads: buffers and whatever is no elementwise work."""
    found: dict[Read, None] = {}
    looked = 0
    stack = [(node, probe(shape_of(node)))]
    while stack and looked < NEAR:
        one, indices = stack.pop()
        looked += 1
        if one.op in MOVEMENT:
            stack.append((one.src[0], map_indices(one, indices)[0]))
        elif one.op in ALU:
            stack.extend((s, indices if shape_of(s) else ()) for s in one.src)
        elif one.op is not Ops.CONST:
            found[one, indices] = None
    return found.keys()


def spread(indices: Indices, reduction: UOp, node: UOp) -> Indices | None:
    """A reduction's indices for a node of its shape but for sizes of 1; None for other shapes."""
    sizes = [size for size in shape_of(reduction) if size != 1]
    if sizes != [size for size in shape_of(node) if size != 1]:
        return None
    both = zip(shape_of(reduction), indices, strict=True)
    left = iter([index for size, index in both if size != 1])
    return tuple(ZERO if size == 1 else next(left) for size in shape_of(node))
