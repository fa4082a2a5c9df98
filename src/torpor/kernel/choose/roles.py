"""What the axes of a summed product are for: which may run along vectors, which share what is read.

Of the two operands one runs along the vectors (`lane`) and is the same for many `rows`; the other
one is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import Window, windows_along
from torpor.kernel.opts.stage import loads_of, operands
from torpor.kernel.ranges import (
    Loops,
    closed_by,
    find_loops,
    has_known_lengths,
    kind_of,
    nesting,
    number_of,
    size_of,
)
from torpor.rules.affine import strides_of

RESULTS: Final = (AxisType.GLOBAL, AxisType.THREAD)  # axes of what is stored


class Operand:
    """A factor of a summed product: the value, how each of its loads moves with the axes (in
    elements; None: irregularly), and what it is computed from those with.
    """

    def __init__(self, value: UOp):
        self.value = value
        self.slid: list[Window] | None = None

    @cached_property
    def loads(self) -> list[UOp]:
        return loads_of(self.value)

    @cached_property
    def strides(self) -> list[dict[UOp, int | None]]:
        return [strides_of(load.src[0].src[1]) for load in self.loads]

    @cached_property
    def masked(self) -> bool:
        """Whether some of what it loads stands under a condition."""
        return any(n.op is Ops.INDEX and len(n.src) > 2 for n in self.value.toposort())

    @cached_property
    def operations(self) -> int:
        """How many it takes to compute from what is loaded."""
        nodes = self.value.toposort()
        return sum(n.op in ALU and n.dtype.scalar() is not dtypes.index for n in nodes)

    def stride(self, one: UOp) -> int | None:
        """Elements between neighbours along an axis; None where loads differ."""
        found = {strides.get(one, 0) for strides in self.strides}
        return found.pop() if len(found) == 1 else None

    def near(self, axes: Sequence[UOp]) -> list[UOp]:
        """The axes, those along which neighbours are far apart first."""
        return sorted(axes, key=lambda r: -max(abs(s.get(r, 0) or 0) for s in self.strides))

    def windows(self, roles: Roles) -> list[Window]:
        """The windows by which a load is read, if some slide along the lanes, where neighbours lie
        side by side; none where they are all that is summed: such rows are written out as a whole.
        """
        if self.slid is None:
            fresh = 1 + max(number_of(r) for r in (*roles.order(), *roles.sums))
            along = [r for r in roles.order() if r not in roles.rows]
            along.sort(key=nesting)
            is_load = self.value.op is Ops.LOAD
            sums = list(roles.sums)
            self.slid = windows_along(self.value, along, sums, fresh)[0] if is_load else []
        slides = any(w.one is roles.lane and is_in_rows(self, w) for w in self.slid)
        return self.slid if slides and len(self.slid) < len(roles.sums) else []


def is_in_rows(operand: Operand, window: Window) -> bool:
    """Whether there are more windows than places in one, along neighbours in memory."""
    longer = (size_of(window.one) or 1) > (size_of(window.summed) or 1)
    return longer and operand.stride(window.one) == window.step


class Roles(NamedTuple):
    """A summed product with its axes: those that both operands run over (`around`), those of the
    other operand alone (`rows`, of which the last is the one of register tiles), and the one along
    vectors. `lead` runs over it, `other` does not.
    """

    lead: Operand
    other: Operand
    around: tuple[UOp, ...]
    rows: tuple[UOp, ...]
    lane: UOp
    sums: tuple[UOp, ...]

    @property
    def height(self) -> int:
        """How many rows register tiles run over."""
        return size_of(self.rows[-1]) or 1

    @property
    def lanes(self) -> int:
        """How long the axis along the vectors is."""
        return size_of(self.lane) or 1

    def order(self) -> list[UOp]:
        """The axes of the results, outermost first."""
        return [*self.around, *self.rows, self.lane]


def axes_of_results(kernel: Kernel, loops: Loops) -> list[UOp] | None:
    """The axes of what a kernel stores that is one reduction over all its other axes, where every
    length is known; None if it is anything else.
    """
    return axes_stored(kernel, loops) if has_known_lengths(kernel.axes) else None


def axes_stored(kernel: Kernel, loops: Loops) -> list[UOp] | None:
    """The same where their own lengths are known, and those of the sum may not be."""
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    outputs = [r for r in kernel.axes if kind_of(r) in RESULTS]
    if len(reductions) != 1 or len(outputs) + len(kernel.reduce_axes) != len(kernel.axes):
        return None
    if any(set(closed_by(s)) != set(outputs) for s in kernel.ast.src):
        return None
    return outputs if has_known_lengths(outputs) else None


def find_factors(kernel: Kernel) -> tuple[list[UOp], list[UOp]] | None:
    """The axes of the results and the two operands of a kernel that is one sum of products; None
    for any other.
    """
    loops = find_loops(kernel.ast)
    outputs, summed = axes_stored(kernel, loops), frozenset(kernel.reduce_axes)
    values = [v for v in operands(kernel.ast) if summed <= loops.free[v]]
    return (outputs, values) if outputs is not None and len(values) == 2 else None


def find_roles(kernel: Kernel) -> Iterator[Roles]:
    """Every way to see the kernel as one sum of products; none where it is something else."""
    found = find_factors(kernel)
    if found is None or not kernel.reduce_axes:
        return
    (outputs, values), loops = found, find_loops(kernel.ast)
    pair = [Operand(value) for value in values]
    for lead, other in (pair, pair[::-1]):
        along, across = loops.free[lead.value], loops.free[other.value]
        rows = [r for r in outputs if r in across and r not in along]
        rows.sort(key=lambda r: (size_of(r) or 0) * (1 + (other.stride(r) == 1)))
        for lane in [r for r in outputs if r in along and r not in across]:
            around = tuple(r for r in outputs if r not in rows and r is not lane)
            if rows:
                yield Roles(lead, other, around, tuple(rows), lane, tuple(kernel.reduce_axes))


def put_in_order(kernel: Kernel, axes: Sequence[UOp], wanted: Sequence[UOp]) -> None:
    """The first axes of the kernel, none of them split yet, in another order."""
    current = list(axes)
    for place, one in enumerate(wanted):
        for position in range(current.index(one), place, -1):
            kernel.apply_opt(Opt(OptOps.SWAP, position - 1, position))
            current[position - 1 : position + 1] = current[position], current[position - 1]


def position_of(kernel: Kernel, number: int) -> int:
    """Where the axis of a number stands."""
    return next(n for n, r in enumerate(kernel.axes) if number_of(r) == number)
