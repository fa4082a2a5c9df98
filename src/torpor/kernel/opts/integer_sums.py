"""Sums of products of 8-bit integers in float32, which multiplies and adds in one instruction."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.pattern import UPat
from torpor.ir.uop import UOp
from torpor.kernel.ranges import closed_by, iterations

EXACT: Final = 1 << 24  # float32 holds every integer up to here
BYTES: Final = (dtypes.int8, dtypes.uint8)


def sum_in_single(total: UOp, a: UOp, b: UOp) -> UOp | None:
    """sum(int(a) * int(b)) = int(sum(float(a) * float(b))) where no sum of absolutes passes 2**24:
    every partial sum, in any order, is an integer that float32 holds.
    """
    ranges = closed_by(total)
    terms = [one.src[0] for one in ranges]
    if total.arg is not Ops.ADD or any(term.op is not Ops.CONST for term in terms):
        return None
    most = [max(-int(x.dtype.min), int(x.dtype.max)) for x in (a, b)]
    if most[0] * most[1] * iterations(ranges) > EXACT:
        return None
    product = a.cast(dtypes.float32) * b.cast(dtypes.float32)
    return UOp(Ops.REDUCE, dtypes.float32, (product, *ranges), Ops.ADD).cast(total.dtype)


_factors: Final = tuple(UPat(Ops.CAST, None, (UPat.var(name, BYTES),)) for name in "ab")
SUM_IN_SINGLE: Final = (
    UPat(
        Ops.REDUCE,
        (dtypes.int32, dtypes.int64),
        (UPat(Ops.MUL, None, _factors),),
        name="total",
        more=True,
    ),
    sum_in_single,
)
