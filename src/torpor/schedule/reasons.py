"""Why a value is stored, or why it cannot be computed in a kernel that uses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.ir.infer import count_of, largest, shape_of
from torpor.ir.ops import ALU, MOVEMENT, Ops
from torpor.ir.records import Stored
from torpor.ir.uop import UOp
from torpor.schedule import cost
from torpor.schedule.fusion_state import LEAVES, FusionState
from torpor.schedule.region import STORED, Region, Use

NEAR: Final = 64  # operations of a value that are looked at for what it reads: bounds time only


class Reasons:
    """Judges by what is known of a state. None for a reason: there is none."""

    def __init__(self, state: FusionState):
        self.state = state
        self.weights = state.weights

    def to_store(self, node: UOp) -> str | None:
        """Why `node` has to be stored; None if it is computed where it is used."""
        if node in self.state.roots:
            return node.arg.reason if node.op is Ops.CONTIGUOUS and node.arg else "output"
        if node in self.state.forced:
            return self.state.forced[node]
        if node.op is Ops.CONTIGUOUS:
            return (node.arg or Stored()).reason
        if node.op in STORED:
            return node.op.name.lower()
        uses = self.state.uses[node]
        if not uses or node.op in MOVEMENT or widens(node):
            return None
        if any(use.region.size >= self.state.limit for use in uses):
            return "kernel size"
        return self.to_part(node, list(uses))

    def to_part(self, node: UOp, uses: Sequence[Use], commit: bool = True) -> str | None:
        """Why these uses cannot each have the value computed on the spot."""
        if node.op is Ops.REDUCE_AXIS:
            return self.for_reduction(node, uses, commit)
        if self.weights.carries[node]:
            return self.for_epilogue(node, uses)
        return self.for_elementwise(node, uses)

    def for_reduction(self, node: UOp, uses: Sequence[Use], commit: bool) -> str | None:
        """For a reduction: it runs once, in the loops of the one use that it has."""
        if len({use.region for use in uses}) > 1:
            return "used by several kernels"
        if len(uses) > 1:
            return "used at several indices"
        if self.is_crowded(uses[0].region, node):
            return "product beside many streams"
        return self.refusal(node, uses[0], commit)

    def for_epilogue(self, node: UOp, uses: Sequence[Use]) -> str | None:
        """For elementwise work on a reduction: store it here if the reduction cannot move on."""
        if len({use.region for use in uses}) > 1:
            return "used by several kernels"
        refusals = [self.refusal(node, use, commit=False) for use in uses]
        if any(refusals):
            levels = [self.weights.level[one] for one in reductions_near(node)]
            if min(levels, default=0) < self.weights.level[node]:
                # A row is reduced and read again, and so stored: this is work on memory.
                return self.for_elementwise(node, uses)
        if len(uses) == 1:
            return refusals[0]
        if any(refusals):
            return "used at several indices"
        region = uses[0].region
        local = all(region.closure(use.indices) < frozenset(region.axes) for use in uses)
        return None if local else "used at several indices"

    def for_elementwise(self, node: UOp, uses: Sequence[Use]) -> str | None:
        """For elementwise work: by what doing it several times costs."""
        steps, reads = self.weights.steps[node], self.weights.reads[node]
        size = max(count_of(node), 1)
        regions = {use.region for use in uses}
        evaluations = sum(use.region.evaluations(use.indices) for use in uses)
        if len(regions) > 1:
            cheaper = cost.recompute_is_cheaper(steps, reads, size, evaluations, len(uses))
            return None if cheaper else "used by several kernels"
        reduced = any(use.region.closure(use.indices) - set(use.region.axes) for use in uses)
        again = evaluations / size
        if len(uses) > 8 and steps > 4:
            return "used at many indices"
        if reduced and again > cost.TILE_REUSE and reads and not self.is_unpacked(node):
            if steps * again / cost.TILE_REUSE > steps + cost.MOVE * reads:
                return "recompute"
        if again > 4 and steps >= cost.FUNCTION and size > 64:
            return "recompute"
        return None

    def refusal(self, node: UOp, use: Use, commit: bool = True) -> str | None:
        """Why a reduction (or work on one) cannot be computed inside the kernel of `use`; with
        `commit` the kernel takes note that it is, outside of which loops.
        """
        region = use.region
        around = region.closure(use.indices)
        outputs = frozenset(region.axes)
        size = count_of(node)
        evaluations = region.evaluations(use.indices)
        if around - outputs:
            if self.loses_tiles(node, use):
                return "sum of a product"
            return self.nested_refusal(node, around - outputs, evaluations / max(size, 1))
        if evaluations > size:
            return "recompute"
        if around == outputs:
            return "beside a product" if self.disturbs_product(node, region) else None
        if self.products_of(region):
            return "beside a product"
        if any(not (around <= other or other <= around) for other in region.hoisted):
            return "loops do not nest"
        rows = max(evaluations, 1)
        reduction = self.weights.work_on[node]
        work = count_of(reduction.src[0])
        if work > cost.SMALL and self.weights.is_product(self.sum_below(reduction)):
            return "product in an outer loop"  # where its tiles would have other loops beside them
        shared = max(work, count_of(next(iter(region.outputs))))
        if rows < cost.PARALLEL and shared > cost.SMALL:  # all of the kernel would run on one core
            return "too few rows to keep the cores busy"
        if work > cost.SMALL and work // rows > cost.ROW_LIMIT:
            return "too few rows to keep the cores busy"
        if commit:
            region.hoisted.append(around)
        return None

    def loses_tiles(self, node: UOp, use: Use) -> bool:
        """Whether a product that becomes part of a sum of it has too few results left that share
        one of its operands: its tiles would be narrow, and registers sum far too many terms. And
        whether that sum runs along axes that an operand has not (a mean pool of a convolution): it
        is no sum of products of two matrices then.
        """
        work = count_of(node.src[0]) if node.op is Ops.REDUCE_AXIS else 0
        if work <= cost.SMALL or not self.weights.is_product(node):
            return False
        outputs = frozenset(use.region.axes)
        ranges = [use.region.ranges_of((index,)) for index in use.indices]
        if any(found & outputs and found - outputs for found in ranges):  # it sums over windows
            inner = frozenset[UOp]().union(*ranges) - outputs
            for repeated in map(sizes_repeated, node.src[0].src):
                own = [found for axis, found in enumerate(ranges) if axis not in repeated]
                if not inner <= frozenset[UOp]().union(*own):
                    return True
            return False
        kept = {axis for axis, found in enumerate(ranges) if found <= outputs}
        for repeated in map(sizes_repeated, node.src[0].src):
            left = math.prod(size for axis, size in repeated.items() if axis in kept)
            if left < min(cost.SHARED, math.prod(repeated.values())):
                return True
        return False

    def nested_refusal(self, node: UOp, loops: frozenset[UOp], again: float) -> str | None:
        """A reduction inside another's loop: only small ones, or sums that merge into the outer
        (padding makes them run over more than there is: `again` times as often).
        """
        if node.op is not Ops.REDUCE_AXIS:
            return "recompute"
        inner = count_of(node.src[0]) // max(count_of(node), 1)
        if node.arg[0] is Ops.ADD and again <= cost.PADDING and self.only_feeds_sum(node):
            return None
        small = inner <= cost.NESTED_MOST and len(loops) == 1 and again <= 1
        return None if small else "nested reduction"

    def disturbs_product(self, node: UOp, region: Region) -> bool:
        """Whether a kernel for the tiles of a product would have another reduction beside it."""
        products = self.products_of(region) if node.op is Ops.REDUCE_AXIS else []
        return bool(products) and node is not max(products, key=self.terms_summed)

    def products_of(self, region: Region) -> list[UOp]:
        """The products whose tiles a kernel is for: it should have no other loops."""
        first = next(iter(region.outputs))
        near = reductions_near(first)
        level, whole = self.weights.level, count_of(first)
        last = [r for r in near if level[r] == level[first] and count_of(r) >= whole]
        return [r for r in last if self.weights.is_product(self.sum_below(r))]

    def terms_summed(self, reduction: UOp) -> int:
        """How many terms the innermost of sums that merge into one has."""
        return cost.terms_of(self.sum_below(reduction))

    def sum_below(self, reduction: UOp) -> UOp:
        """The innermost of sums that merge into one: each only feeds the next."""
        while True:
            below = reduction.src[0].below(MOVEMENT)
            if below.op is not Ops.REDUCE_AXIS or below.arg[0] is not Ops.ADD:
                return reduction
            if not self.only_feeds_sum(below):
                return reduction
            reduction = below

    def only_feeds_sum(self, node: UOp) -> bool:
        """Whether nothing but movement lies between this sum and the next."""
        readers = self.state.children.get(node, [])
        while len(readers) == 1 and readers[0].op in MOVEMENT:
            readers = self.state.children.get(readers[0], [])
        return (
            len(readers) == 1 and readers[0].op is Ops.REDUCE_AXIS and readers[0].arg[0] is Ops.ADD
        )

    def is_unpacked(self, node: UOp) -> bool:
        """Whether this is a narrow value made wide, or only scales such ones."""
        readers = self.state.children.get(node, [])
        if any(reader.op is Ops.REDUCE_AXIS for reader in readers):
            return False  # what is summed, which shares nothing
        if node.op in ALU and self.weights.unpacks(node):
            return True
        if node.op not in ALU | MOVEMENT or self.weights.steps[node] > cost.UNPACKING:
            return False
        return bool(readers) and all(self.is_unpacked(reader) for reader in readers)

    def is_crowded(self, region: Region, node: UOp) -> bool:
        """Whether a product's tiles would meet more memory in this kernel than they can stream: all
        that it stores and reads as large as the product, row by row of a tile, a few elements each.
        """
        if not self.weights.is_product(node):
            return False
        size = count_of(node)
        stack = [one for one in region.outputs if count_of(one) == size]
        met, seen = set(stack), {node}
        while stack and len(met) <= cost.STREAMS:
            one = stack.pop()
            inside = one in region.outputs or one not in self.state.home
            if not inside or not (one.op in ALU or one.op in MOVEMENT):
                met.add(one)
                continue
            fresh = {s for s in one.src if count_of(s) == size} - seen
            seen |= fresh
            stack.extend(fresh)
        return len(met) > cost.STREAMS


def widens(node: UOp) -> bool:
    """Whether it is a computed value in a wider format: what is stored of it is the narrow one,
    which its readers make wide again.
    """
    source = node.src[0] if node.op is Ops.CAST else node
    return source.dtype.itemsize < node.dtype.itemsize and source.op not in LEAVES


def reductions_near(node: UOp) -> list[UOp]:
    """The reductions that elementwise work and movements lead down to."""
    found: dict[UOp, None] = {}
    stack, looked = [node], 0
    while stack and looked < NEAR:
        one = stack.pop()
        looked += 1
        if one.op is Ops.REDUCE_AXIS:
            found[one] = None
        elif one.op in ALU or one.op in MOVEMENT:
            stack.extend(one.src)
    return list(found)


def sizes_repeated(operand: UOp) -> dict[int, int]:
    """The axes along which an operand repeats what it has, as far as its last operation says, and
    how often.
    """
    if operand.op is not Ops.EXPAND:
        return {}
    both = zip(shape_of(operand.src[0]), shape_of(operand), strict=True)
    return {axis: largest(after) for axis, (before, after) in enumerate(both) if before != after}
