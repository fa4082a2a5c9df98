"""What recomputing costs against storing, in rough machine steps.

The unit is one vector arithmetic step for one element. Memory moves are counted as MOVE steps: on
current CPUs a core streams about 10 GB/s and computes some tens of simple operations an element in
the time that one float takes to come from memory.
"""

from __future__ import annotations

from typing import Final

from torpor.base.target import PARTS
from torpor.ir.infer import count_of, shape_of
from torpor.ir.ops import ALU, MOVEMENT, TRANSCENDENTAL, Ops
from torpor.ir.uop import UOp

# Where nothing else is said they are choices, of which the order of magnitude matters: what other
# values do to some workloads is in bench/results/constants.md.
MOVE: Final = 4  # moving one element from or to memory, see above
FUNCTION: Final = 16  # one exp, log, ...: a polynomial of about this many steps
# Steps that one is written out in: 33 for exp, 47 for log, 71 for erf, 136 for sine and its range.
FUNCTION_LENGTH: Final = 64
DIVISION: Final = 4  # the order of a vector division's cycles for one of a multiplication
TILE_REUSE: Final = (
    8  # registers let a matrix-like kernel compute an operand once for this many uses
)
SHARED: Final = 64  # results that share an operand and make wide tiles of a product
ROW_LIMIT: Final = 65536  # elements, 256 KiB: a row that is read again should still be in the cache
PARALLEL: Final = 16  # rows that keep every core busy enough
SMALL: Final = 32768  # elements of a reduction so small that one core may do it all
LONG: Final = 16  # terms of a product's sums that make its tiles worth a kernel
# Values as large as a product that its kernel may read and store; twice as many cost a step of Adam
# half its time more (bench/results/constants.md).
STREAMS: Final = 3
NESTED_MOST: Final = 64  # elements of a reduction that may run inside another's loop
PADDING: Final = 4  # how much longer padding may make a sum that merges into another
NARROW: Final = 3  # how much smaller than its result what a value is computed from must be
UNPACKING: Final = 24  # steps that a tile's packing has time for, while memory is read
CEILING: Final = 1e12
_ELEMENTWISE: Final = ALU | {Ops.CHECK}
_STEPWISE: Final = frozenset({Ops.REDUCE_AXIS, Ops.SCATTER, Ops.SCAN_AXIS, Ops.PRIOR})


def steps_of(node: UOp) -> int:
    """Steps that an elementwise operation itself takes."""
    if node.op in TRANSCENDENTAL:
        return FUNCTION
    if node.op in (Ops.FDIV, Ops.SQRT, Ops.IDIV, Ops.MOD):
        return DIVISION
    return 1


def length_of(node: UOp) -> int:
    """Steps that an operation is written out in, all its cases together: what compiling it costs,
    where `steps_of` is what running it costs.
    """
    return FUNCTION_LENGTH if node.op in TRANSCENDENTAL else steps_of(node)


class Weights:
    """Steps and memory reads that computing one element of a node takes, down to what is stored.

    `reads` counts operands that are as large as the node itself: small ones stay in the cache.
    `bytes` is how much memory that takes for each element, all operands counted by their size.
    `takes`: whether computing it, from what is stored in any case, takes a reduction.
    `level` counts the reductions, one after another, on the longest way down: of two nodes of one
    level neither depends on a reduction of that level that the other has. `work_on` is a reduction
    that elementwise work and movements lead down to, for nodes that carry one.
    """

    def __init__(self, order: list[UOp]):
        self.steps: dict[UOp, float] = {}
        self.reads: dict[UOp, float] = {}
        self.bytes: dict[UOp, float] = {}
        self.carries: dict[UOp, bool] = {}
        self.takes: dict[UOp, bool] = {}
        self.level: dict[UOp, int] = {}
        self.work_on: dict[UOp, UOp] = {}
        for node in order:
            self._visit(node)
            self.bytes[node] = self._bytes(node)

    def _bytes(self, node: UOp) -> float:
        if node.op in _ELEMENTWISE:
            return min(sum(self.bytes[s] for s in node.src), CEILING)
        if node.op in MOVEMENT:
            share = count_of(node.src[0]) / max(count_of(node), 1)
            return self.bytes[node.src[0]] * min(share, 1)
        return 0 if node.op in (Ops.CONST, Ops.BIND, Ops.VARIABLE) else node.dtype.itemsize

    def unpacks(self, node: UOp) -> bool:
        """Whether this is computed in a few steps from much less memory than it would take itself:
        numbers in a narrow format, with what scales them; or numbers that a DOT takes as they are.
        """
        if node.op is Ops.CAST and node.src[0].dtype.name in PARTS:
            return True
        narrow = self.bytes[node] * NARROW <= node.dtype.itemsize
        return narrow and self.steps[node] <= UNPACKING

    def _visit(self, node: UOp) -> None:
        if node.op in _ELEMENTWISE or node.op in MOVEMENT:
            self.takes[node] = any(self.takes[s] for s in node.src)
        else:
            self.takes[node] = node.op is Ops.REDUCE_AXIS or (
                node.op is Ops.GATHER and self.takes[node.src[1]]
            )
        below = max((self.level[s] for s in node.src), default=0)
        self.level[node] = below + (node.op in _STEPWISE)
        if node.op is Ops.REDUCE_AXIS:
            self.work_on[node] = node
        elif node.op in _ELEMENTWISE or node.op in MOVEMENT or node.op is Ops.GATHER:
            found = next((self.work_on[s] for s in node.src if s in self.work_on), None)
            if found is not None:
                self.work_on[node] = found
        if node.op in _ELEMENTWISE or node.op is Ops.GATHER:
            self.steps[node] = min(steps_of(node) + sum(self.steps[s] for s in node.src), CEILING)
            self.reads[node] = min(sum(self.reads[s] for s in node.src), CEILING)
            self.carries[node] = any(self.carries[s] for s in node.src)
        elif node.op in MOVEMENT:
            source = node.src[0]
            self.steps[node], self.reads[node] = self.steps[source], self.reads[source]
            grows = node.op is Ops.EXPAND and shape_of(node) != shape_of(source)
            if grows:
                self.reads[node] = 0
            self.carries[node] = self.carries[source] and not grows
        else:
            leaf = node.op in (Ops.CONST, Ops.BIND, Ops.VARIABLE)
            self.steps[node] = 0
            self.reads[node] = 0 if leaf else 1
            self.carries[node] = node.op is Ops.REDUCE_AXIS

    def is_product(self, node: UOp) -> bool:
        """Whether this is a long sum of which every operand serves many results: a matrix product
        or the like, which is fast only as a kernel that computes tiles of it.
        """
        if node.op is not Ops.REDUCE_AXIS or node.arg[0] is not Ops.ADD or self.reads[node.src[0]]:
            return False
        return terms_of(node) >= LONG and self.steps[node.src[0]] > 0


def terms_of(reduction: UOp) -> int:
    """How many elements make one element of the result."""
    return count_of(reduction.src[0]) // max(count_of(reduction), 1)


def may_fail(node: UOp) -> bool:
    """Whether the operation can raise when it runs: an index, or division by an integer."""
    if node.op is Ops.GATHER:
        return True
    if node.op in (Ops.IDIV, Ops.MOD) and node.dtype.is_int:
        divisor = constant_below(node.src[1])
        return divisor is None or divisor == 0
    return False


def constant_below(node: UOp) -> int | float | None:
    """The number that a constant tensor is filled with, or None if it is not constant."""
    node = node.below((Ops.EXPAND, Ops.RESHAPE))
    return node.arg if node.op is Ops.CONST else None


def recompute_is_cheaper(
    steps: float, reads: float, size: int, evaluations: int, uses: int
) -> bool:
    """Whether computing a value at each of its `evaluations` beats storing its `size` elements."""
    recompute = evaluations * (steps + MOVE * reads)
    store = size * (steps + MOVE * reads + MOVE) + MOVE * evaluations
    return uses <= 8 and recompute <= store
