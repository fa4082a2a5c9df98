"""A kernel in the making: the ranges it loops over, and how they nest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from torpor.ir.infer import Shape, Size, shape_of
from torpor.ir.ops import LOOPED, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import free_ranges, iterations
from torpor.rules.movement import ZERO, Indices, is_one

Ranges = frozenset[UOp]

STEPWISE: Final = frozenset({Ops.SCATTER, Ops.PRIOR, Ops.SCAN_AXIS})
# Kernels that compute nothing else beside it.
ALONE: Final = frozenset({Ops.COPY, Ops.KERNEL, Ops.AFTER}) | STEPWISE | LOOPED
STORED: Final = frozenset({Ops.CONTIGUOUS}) | ALONE
NONE: Final[Ranges] = frozenset()


@dataclass(eq=False)
class Region:
    """One kernel: what it stores over which ranges.

    outputs:  stored node -> the ranges (0 for axes of size 1) that it is stored over.
    axes:     the output ranges, in order of the first output's shape.
    inside:   reduce range -> every range that its loop runs within.
    hoisted:  sets of output ranges, each containing the one before, that values computed outside
              the innermost output loops depend on.
    steps:    of a SCATTER, the indices of one update: over the axis it counts the updates.
    size:     how many operations it has.
    """

    number: int
    device: str
    reason: str
    outputs: dict[UOp, Indices] = field(default_factory=dict)
    axes: tuple[UOp, ...] = ()
    inside: dict[UOp, Ranges] = field(default_factory=dict)
    hoisted: list[Ranges] = field(default_factory=list)
    steps: Indices = ()
    size: int = 0
    next_axis: int = 0

    def new_range(self, size: Size, kind: AxisType) -> UOp:
        """A fresh range."""
        self.next_axis += 1
        return UOp.range(size, self.next_axis - 1, kind)

    def new_ranges(self, shape: Shape, kind: AxisType) -> Indices:
        """A fresh range for every size of `shape` that is not 1 (0 for those)."""
        return tuple(ZERO if is_one(size) else self.new_range(size, kind) for size in shape)

    def start(self, node: UOp) -> Indices:
        """Make `node` the first output, over ranges of its own."""
        indices = self.new_ranges(shape_of(node), AxisType.GLOBAL)
        if node.op is Ops.SCAN_AXIS:
            axis = node.arg[1]
            step = self.new_range(shape_of(node)[axis], AxisType.SERIAL)
            indices = (*indices[:axis], step, *indices[axis + 1 :])
        self.outputs[node] = indices
        self.axes = tuple(r for r in indices if r.op is Ops.RANGE)
        return indices

    def scatter(self, node: UOp) -> Indices:
        """The indices of one update of a SCATTER that this stores: in order, unless the order does
        not matter.
        """
        _, axis, distinct = node.arg
        kind = AxisType.GLOBAL if distinct else AxisType.SERIAL
        step = self.new_range(shape_of(node.src[1])[axis], kind)
        indices = self.outputs[node]
        self.steps = (*indices[:axis], step, *indices[axis + 1 :])
        return self.steps

    def ranges_of(self, indices: Indices) -> Ranges:
        """The ranges in `indices`."""
        return NONE.union(*map(free_ranges, indices))

    def closure(self, indices: Indices) -> Ranges:
        """The loops that a value at `indices` is computed inside of."""
        found = self.ranges_of(indices)
        for one in tuple(found):
            found |= self.inside.get(one, NONE)
        return found

    def evaluations(self, indices: Indices) -> int:
        """How many times a value at `indices` is computed."""
        return iterations([*self.closure(indices)])


class Use(NamedTuple):
    """One place where a value is needed: the kernel and the indices (a condition comes later)."""

    region: Region
    indices: Indices
