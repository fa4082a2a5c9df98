"""MMA: a register tile of DOTs as instructions that multiply whole matrices.

before  out[r, l] = f(sum(K, k, dot(x[r, K, k], y[K, k, l]))), r, k and l written out
after   sums[R, L] = sum(K, mma(x[R, K], y[K, L])) for each matrix of sums, stored beside;
        out[r, l] = f(sums[r, l]), r a loop

The operands are read where they lie, by rows: those of x run along k, those of y along l.
"""

from __future__ import annotations

from typing import NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Fragment, Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg, Rows
from torpor.ir.uop import UOp
from torpor.kernel.access import place
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    rename_ranges,
    size_of,
)
from torpor.rules.affine import strides_of


class Matrices(NamedTuple):
    """A sum of DOTs as one of products of matrices: what is read for those, the axes of their rows
    and columns, of which so many matrices are written out, and the axis of their words.
    """

    total: UOp
    left: UOp
    right: UOp
    row: UOp
    column: UOp
    one: UOp
    fragment: Fragment

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the sums that are stored beside."""
        return size_of(self.row) or 1, size_of(self.column) or 1

    @property
    def counts(self) -> tuple[int, int]:
        """How many matrices of sums there are along the rows and along the columns."""
        rows, columns = self.shape
        return rows // self.fragment.rows, columns // self.fragment.columns


def find_matrices(root: UOp, one: UOp, target: Target) -> Matrices | str:
    """The only sum over the axis `one` as products of matrices; or why it is none."""
    sums = [n for n in find_loops(root).reductions if one in closed_by(n)]
    found = [n for n in sums if n.arg is Ops.ADD and n.src[0].op is Ops.DOT]
    if len(sums) != 1 or not found:
        return "it needs one sum of DOTs"
    (total,) = found
    (left, right), (first, second) = total.src[0].src, total.src[0].arg
    for factors, kinds in (((left, right), (first, second)), ((right, left), (second, first))):
        fragment, axes = target.fragment(kinds), sides(root, *factors)
        if fragment is None or axes is None:
            continue
        made = Matrices(total, *factors, *axes, one, fragment)
        if fits(made):
            return made
    return "there is no instruction for matrices of these operands, as they lie in memory"


def sides(root: UOp, left: UOp, right: UOp) -> tuple[UOp, UOp] | None:
    """The written-out axes that only one of two factors depends on, one of each."""
    free = find_loops(root).free
    own = [
        [r for r in free[a] - free[b] if kind_of(r) is AxisType.UPCAST]
        for a, b in ((left, right), (right, left))
    ]
    return (own[0][0], own[1][0]) if len(own[0]) == len(own[1]) == 1 else None


def fits(found: Matrices) -> bool:
    """Whether whole matrices lie in memory by rows, and there are registers for them all."""
    fragment, (rows, columns) = found.fragment, found.shape
    if rows % fragment.rows or columns % fragment.columns:
        return False
    if size_of(found.one) != fragment.words:
        return False
    high, wide = found.counts
    if high * wide + high + wide > fragment.registers:
        return False
    left = apart(found.left, found.row, found.one)
    return left is not None and apart(found.right, found.one, found.column) is not None


def apart(load: UOp, row: UOp, along: UOp) -> int | None:
    """How far the rows of a matrix are apart that run along an axis; None where they are none, or
    some of it may not be there.
    """
    if load.op is not Ops.LOAD or len(load.src[0].src) > 2:
        return None
    strides = strides_of(load.src[0].src[1])
    return strides.get(row, 0) if strides.get(along, 0) == 1 else None


def in_matrices(root: UOp, found: Matrices, memory: int, fresh: int) -> UOp:
    """The kernel with the sum by products of matrices, stored in packed memory of that number; new
    axes are numbered from `fresh`.
    """
    fragment, (rows, columns), (high, wide) = found.fragment, found.shape, found.counts
    down, across = (UOp.range(n, fresh + p, AxisType.UPCAST) for p, n in enumerate((high, wide)))
    row, column = down * fragment.rows, across * fragment.columns
    at = {found.row: row, found.column: column, found.one: UOp.index_const(0)}
    dtype = found.total.dtype.vec(fragment.rows * fragment.columns)
    product = UOp(
        Ops.MMA,
        dtype,
        (
            matrix(found.left, at, found.row, fragment.rows, fragment.words),
            matrix(found.right, at, found.one, fragment.words, fragment.columns),
        ),
        fragment,
    )
    ranges = tuple(r for r in closed_by(found.total) if r is not found.one)
    total = UOp(Ops.REDUCE, dtype, (product, *ranges), Ops.ADD) if ranges else product
    sums = UOp(Ops.DEFINE_LOCAL, found.total.dtype, (), ParamArg(memory, rows * columns))
    axes = found.row, found.column
    there = place(sums, axes, (row, column))
    stored = UOp(Ops.STORE, dtypes.void, (there, total, down, across), Rows(fragment.rows, columns))
    filled = UOp(Ops.BARRIER, dtypes.void, (stored,))
    result = UOp(Ops.LOAD, found.total.dtype, (place(sums, axes), filled))
    looped = UOp.range(rows, fresh + 2, AxisType.LOOP)
    return rename_ranges(root.substitute({found.total: result}), {found.row: looped}).simplify()


def matrix(load: UOp, at: dict[UOp, UOp], row: UOp, rows: int, columns: int) -> UOp:
    """The matrix whose first element lies where these axes are so far."""
    memory, position = load.src[0].src
    first = UOp(Ops.INDEX, load.src[0].dtype, (memory, position.substitute(at).simplify()))
    far = strides_of(position).get(row, 0) or 0
    return load.replace(
        dtype=load.dtype.vec(rows * columns), src=(first, *load.src[1:]), arg=Rows(rows, far)
    )
