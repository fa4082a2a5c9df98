"""Rules that fold constants, which in a graph are a CONST under a RESHAPE and an EXPAND.

Arithmetic is left to the exact rules of `torpor.rules`: they are shown a node and its operands two
levels deep, with constants as plain numbers and all else as opaque stand-ins.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import DType, Scalar, dtypes
from torpor.graph.elementwise import constant, uniform
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import ALU, MOVEMENT, Ops, identity
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp
from torpor.rules import exact_rules, fold_rules

_ARITHMETIC: Final = fold_rules + exact_rules
_TRUE: Final = UOp.const(dtypes.bool, True)
MayRaise = dict[UOp, bool]


def may_raise(node: UOp, known: MayRaise) -> bool:
    """Whether the node, or one below it, may raise when it runs: divided by 0, gathered outside."""
    if node not in known:
        for below in node.toposort(lambda n: n not in known):
            if below not in known:
                known[below] = _raises(below) or any(known[source] for source in below.src)
    return known[node]


def _raises(node: UOp) -> bool:
    if node.op in (Ops.IDIV, Ops.MOD) and node.dtype.is_int:
        divisor = uniform(node.src[1])
        return divisor is None or divisor.arg == 0
    return node.op in (Ops.GATHER, Ops.SCATTER, Ops.CHECK)


# --- arithmetic -----------------------------------------------------------------------------------
def fold_elementwise(node: UOp, ctx: MayRaise) -> UOp | None:
    """f(x, constants) = its simplified form, by the exact rules on numbers."""
    if node.dtype is dtypes.index or not _is_foldable(node):
        return None
    source = tuple([_shown(operand, ctx) for operand in node.src])
    found = _ARITHMETIC.rewrite(node.replace(src=source))
    return None if found is None else _restored(found[0], shape_of(node))


def _is_foldable(node: UOp) -> bool:
    """Whether some exact rule could fit: a cheap test before the patterns are tried."""
    source = node.src
    if len(source) == 1:
        inner = source[0]
        return inner.op is node.op or uniform(inner) is not None
    return (
        node.op is Ops.WHERE
        or source[0] is source[1]
        or any(uniform(operand) is not None for operand in source)
    )


def _shown(node: UOp, ctx: MayRaise) -> UOp:
    """An operand as the exact rules see it: one level of arithmetic over numbers and stand-ins."""
    if node.op in ALU and not _raises(node):
        return node.replace(src=tuple([_stand_in(operand, ctx) for operand in node.src]))
    return _stand_in(node, ctx)


def _stand_in(node: UOp, ctx: MayRaise) -> UOp:
    """A number, or a leaf that stands for `node`, under a CHECK if it may raise."""
    number = uniform(node)
    if number is not None:
        return number
    leaf = UOp(Ops.BUFFER, node.dtype, (), node)
    if may_raise(node, ctx):
        return UOp(Ops.CHECK, node.dtype, (leaf, _TRUE), 0)
    return leaf


def _restored(shown: UOp, shape: Shape) -> UOp:
    """The graph that `shown` stands for."""
    if shown.op is Ops.CONST:
        return constant(shown.arg, shown.dtype, shape)
    if shown.op is Ops.CHECK:
        shown = shown.src[0]
    if shown.op is Ops.BUFFER:
        node: UOp = shown.arg
        return node
    return shown.replace(src=tuple([_restored(source, shape) for source in shown.src]))


# --- movements and reductions ---------------------------------------------------------------------
def move_constant(node: UOp, x: UOp) -> UOp | None:
    """movement(constant) = constant of the new shape; pad only of zero."""
    number = uniform(x)
    if number is None:
        return None
    if node.op is Ops.PAD and (number.arg != 0 or math.copysign(1, number.arg) < 0):
        return None
    made = constant(number.arg, node.dtype, shape_of(node))
    return None if made is node else made


def compute_nothing(node: UOp) -> UOp | None:
    """f(...) of no elements = a constant of no elements: nothing is read for it."""
    shape = shape_of(node)
    return constant(0, node.dtype, shape) if 0 in shape and uniform(node) is None else None


def reduce_nothing(node: UOp, x: UOp) -> UOp | None:
    """reduce(no elements) = the reduction's identity."""
    if 0 not in shape_of(x):
        return None
    return constant(identity(node.arg[0], node.dtype), node.dtype, shape_of(node))


def reduce_constant(node: UOp, x: UOp) -> UOp | None:
    """sum(c) = n*c, product(c) = c^n, max(c) = c over n elements, where that is exact."""
    number = uniform(x)
    op, axes = node.arg
    sizes = [shape_of(x)[axis] for axis in axes]
    if number is None or node.dtype is dtypes.index:
        return None
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    count = math.prod(sizes)
    value = _reduced(op, number.arg, count, node.dtype)
    return None if value is None else constant(value, node.dtype, shape_of(node))


def _reduced(op: Ops, value: Scalar, count: int, dtype: DType) -> Scalar | None:
    if op in (Ops.MAX, Ops.MIN) or dtype.kind == "bool":
        return value
    if dtype.is_float:
        return _reduced_float(op, float(value), count, dtype)
    if op is Ops.ADD:
        return value * count
    return pow(int(value), count, 1 << dtype.bits)


def _reduced_float(op: Ops, value: float, count: int, dtype: DType) -> float | None:
    """Exact where the sum of any number of them up to `count` is a number of the format."""
    if value == 0 and math.copysign(1, value) < 0:
        return None  # its sign depends on what the reduction starts from
    if op is Ops.MUL:
        return value if value in (0.0, 1.0) else None
    if value == 0 or not math.isfinite(value):
        return value
    significand = abs(value.as_integer_ratio()[0])
    significand //= significand & -significand
    if significand * count >= 2 << dtype.fraction:
        return None
    total = value * count
    return total if math.isfinite(total) and dtype.cast_scalar(total) == total else None


_x: Final = UPat.var("x")
constant_rules: Final = PatternMatcher([
    (UPat(MOVEMENT, src=(_x,), name="node"), move_constant),
    (UPat(Ops.REDUCE_AXIS, src=(_x,), name="node"), reduce_nothing),
    (UPat(Ops.REDUCE_AXIS, src=(_x,), name="node"), reduce_constant),
    (UPat((*ALU, *MOVEMENT, Ops.REDUCE_AXIS, Ops.CHECK), name="node"), compute_nothing),
    (UPat(ALU, name="node"), fold_elementwise),
])  # fmt: skip
