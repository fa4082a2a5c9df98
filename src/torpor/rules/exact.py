"""Identities that hold bit for bit on user integers (which wrap), bools and floats.

Not among them: `x + 0.0 -> x` (wrong for -0.0) and `x*0.0 -> 0.0` (wrong for NaN and infinity).
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes
from torpor.ir.ops import Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp
from torpor.rules.common import checks_below

_x: Final = UPat.var("x")
_c: Final = UPat.cvar("c")
_INTEGERS: Final = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
)  # fmt: skip
_FLOATS: Final = (*SMALL_FLOATS, dtypes.float32, dtypes.float64)


def constant_of(node: UOp) -> bool | int | float | None:
    """The number that the node is, in every lane; None if it is not a constant."""
    if node.op is Ops.VECTORIZE and node.src and all(s is node.src[0] for s in node.src):
        node = node.src[0]
    return node.arg if node.op is Ops.CONST else None


def multiply_by_one(x: UOp, c: UOp) -> UOp | None:
    """`x*1 -> x`, `x/1 -> x`, `x//1 -> x` on numbers."""
    return x if c.arg == 1 and x.dtype.kind != "bool" else None


def multiply_by_zero(x: UOp, c: UOp) -> UOp | None:
    """`x*0 -> 0` on integers."""
    if c.arg != 0 or not c.dtype.is_integral or checks_below(x):
        return None
    return c


def add_zero(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """`x+0 -> x`, x-0 -> x on integers; x + -0.0 -> x, x - 0.0 -> x on floats."""
    if c.arg != 0:
        return None
    makes_positive = c.dtype.is_float and (math.copysign(1.0, c.arg) > 0) is (node.op is Ops.ADD)
    return None if makes_positive else x


def add_constants(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """`(x+c)+d -> x + (c+d)` on integers, which wrap."""
    return x + UOp.const(x.dtype, c.arg + d.arg)


def add_constants_by_licence(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """`(x+c)+d -> x + (c+d)` on floats, for c, d of one sign and c+d exact; not if STRICT_FLOAT.

    A licence: the result may differ by a rounding.
    """
    if settings.number("STRICT_FLOAT") or math.copysign(1.0, c.arg) != math.copysign(1.0, d.arg):
        return None
    total = c.arg + d.arg
    # exact in double (two-sum has no error), then exact in the format
    error = (c.arg - (total - d.arg)) + (d.arg - (total - c.arg))
    if not math.isfinite(total) or error != 0 or x.dtype.cast_scalar(total) != total:
        return None
    return x + UOp.const(x.dtype, total)


def multiply_constants(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """`(x*c)*d -> x*(c*d)` on integers, which wrap."""
    return x * UOp.const(x.dtype, c.arg * d.arg)


def constant_last(node: UOp, c: UOp, x: UOp) -> UOp | None:
    """`c+x -> x+c`, c*x -> x*c, and so on for what commutes; max and min keep which NaN."""
    if x.op is Ops.CONST:
        return None
    return node.replace(src=(x, c))


def where_constant(c: UOp, x: UOp, y: UOp) -> UOp | None:
    """`where(true, x, y) -> x`, where(false, x, y) -> y."""
    value = constant_of(c)
    if value is None:
        return None
    return x if value else y


def where_bool(c: UOp, x: UOp, y: UOp) -> UOp | None:
    """`where(c, true, false) -> c`."""
    return c if constant_of(x) is True and constant_of(y) is False else None


def where_same(c: UOp, x: UOp) -> UOp | None:
    """`where(c, x, x) -> x`."""
    return None if checks_below(c) else x


def where_not(c: UOp, d: UOp, x: UOp, y: UOp) -> UOp | None:
    """`where(not c, x, y) -> where(c, y, x)`."""
    return UOp(Ops.WHERE, x.dtype, (c, y, x)) if constant_of(d) is True else None


def where_where(c: UOp, x: UOp, y: UOp, z: UOp) -> UOp | None:
    """`where(c, where(c, x, y), z) -> where(c, x, z)`."""
    return UOp(Ops.WHERE, x.dtype, (c, x, z)) if not checks_below(y) else None


def negate_twice(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """`(x * -1) * -1 -> x` on floats."""
    return x if c.arg == d.arg == -1 else None


def extremum_same(x: UOp) -> UOp | None:
    """`max(x, x) -> x`, min(x, x) -> x, x and x -> x, x or x -> x."""
    return x


def cast_to_same(node: UOp, x: UOp) -> UOp | None:
    """`cast(x, its own format) -> x`; likewise bitcast."""
    return x if node.dtype is x.dtype else None


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that a cast there loses nothing."""
    wide, narrow = wide.scalar(), narrow.scalar()
    if wide is narrow or narrow.kind == "bool":
        return True
    if wide.kind == "bool" or narrow.kind == "index" or wide.kind == "void":
        return False
    if wide.is_float:
        if narrow.is_float:
            bits = wide.fraction >= narrow.fraction and wide.infinite >= narrow.infinite
            return bits and wide.exponent >= narrow.exponent
        return narrow.bits - (narrow.kind == "int") <= wide.fraction + 1 and (
            narrow.bits < 1 << (wide.exponent - 1)
        )
    if narrow.is_float:
        return False
    return bool(wide.min <= narrow.min and narrow.max <= wide.max)


def cast_cast(node: UOp, inner: UOp, x: UOp) -> UOp | None:
    """`cast(cast(x, wide), narrow) -> cast(x, narrow)` where `wide` holds every value of x."""
    return x.cast(node.dtype) if holds_all(inner.dtype, x.dtype) else None


def bitcast_bitcast(node: UOp, x: UOp) -> UOp | None:
    """`bitcast(bitcast(x)) -> bitcast(x)`."""
    return x.bitcast(node.dtype) if x.dtype.count == node.dtype.count else None


_SYMMETRIC: Final = (Ops.ADD, Ops.MUL, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPEQ, Ops.CMPNE)
_NUMBERS: Final = (dtypes.bool, *_INTEGERS, *_FLOATS)  # index has rules of its own
_d: Final = UPat.cvar("d")
_y: Final = UPat.var("y")
_z: Final = UPat.var("z")

exact_rules: Final = PatternMatcher([
    (UPat(_SYMMETRIC, None, (_c, _x), name="node"), constant_last),
    (UPat((Ops.MUL, Ops.FDIV, Ops.IDIV), _NUMBERS, (_x, _c)), multiply_by_one),
    (UPat(Ops.MUL, _NUMBERS, (_x, _c)), multiply_by_zero),
    (UPat((Ops.ADD, Ops.SUB), _NUMBERS, (_x, _c), name="node"), add_zero),
    (UPat(Ops.ADD, _INTEGERS, (UPat(Ops.ADD, _NUMBERS, (_x, _c)), _d)), add_constants),
    (UPat(Ops.ADD, _FLOATS, (UPat(Ops.ADD, _NUMBERS, (_x, _c)), _d)), add_constants_by_licence),
    (UPat(Ops.MUL, _INTEGERS, (UPat(Ops.MUL, _NUMBERS, (_x, _c)), _d)), multiply_constants),
    (UPat(Ops.MUL, _FLOATS, (UPat(Ops.MUL, _NUMBERS, (_x, _c)), _d)), negate_twice),
    (UPat(Ops.WHERE, None, (UPat.var("c"), _x, _x)), where_same),
    (UPat(Ops.WHERE, None, (UPat.var("c"), _x, _y)), where_constant),
    (UPat(Ops.WHERE, dtypes.bool, (UPat.var("c"), _x, _y)), where_bool),
    (
        UPat(Ops.WHERE, None, (UPat(Ops.XOR, dtypes.bool, (UPat.var("c"), UPat.var("d"))), _x, _y)),
        where_not,
    ),
    (
        UPat(Ops.WHERE, None, (UPat.var("c"), UPat(Ops.WHERE, None, (UPat.var("c"), _x, _y)), _z)),
        where_where,
    ),
    (UPat((Ops.MAX, Ops.MIN, Ops.AND, Ops.OR), None, (_x, _x)), extremum_same),
    (UPat((Ops.CAST, Ops.BITCAST), None, (_x,), name="node"), cast_to_same),
    (UPat(Ops.CAST, None, (UPat(Ops.CAST, None, (_x,), name="inner"),), name="node"), cast_cast),
    (UPat(Ops.BITCAST, None, (UPat(Ops.BITCAST, None, (_x,)),), name="node"), bitcast_bitcast),
])  # fmt: skip
