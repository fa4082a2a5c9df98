"""A tiny evaluator: a graph of scalar arithmetic on NumPy arrays, each operation rounded once."""

import numpy as np
import pytest

from torpor.base.target import get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for

_BINARY = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.divide,
    Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal, Ops.CMPEQ: np.equal,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.IDIV: np.floor_divide, Ops.MOD: np.mod,
}  # fmt: skip
_UNARY = {Ops.SQRT: np.sqrt, Ops.FLOOR: np.floor, Ops.TRUNC: np.trunc, Ops.RINT: np.rint}


def variable(dtype, name="x"):
    """A leaf that `evaluate` is given the values of."""
    return UOp(Ops.VARIABLE, dtype, (), (name, dtype.min, dtype.max))


def decomposed(op, dtype, count=1, target="cpu"):
    """`op` on the leaves x, y, ... written out for `target`."""
    leaves = [variable(dtype, "xyz"[k]) for k in range(count)]
    return graph_rewrite(leaves[0].alu(op, *leaves[1:]), rules_for(get_target(target)))


def _one(node, source):
    if node.op is Ops.CONST:
        return np.asarray(node.arg).astype(node.dtype.numpy)
    if node.op is Ops.VECTORIZE:  # of equal lanes: the same array stands for each of them
        assert len(set(node.src)) == 1
        return source[0]
    if node.op is Ops.WHERE:
        return np.where(*source)
    if node.op is Ops.CAST:
        return source[0].astype(node.dtype.numpy)
    if node.op is Ops.BITCAST:
        return source[0].view(node.dtype.numpy)
    if node.op in _UNARY:
        return _UNARY[node.op](source[0])
    return _BINARY[node.op](*source)


def evaluate(root, under="ignore", **values):
    """The value of `root`; leaves are arrays given by their names. `under`: what an underflow
    does.
    """
    done = {}
    with np.errstate(all="ignore", under=under):
        for node in root.toposort():
            if node.op is Ops.VARIABLE:
                done[node] = np.asarray(values[node.arg[0]], node.dtype.numpy)
            else:
                done[node] = _one(node, [done[s] for s in node.src])
            expected = node.dtype.numpy
            assert done[node].dtype == expected, (node.op, done[node].dtype, expected)
    return done[root]


def error_in_ulps(found, exact):
    """|found - exact| in units of the last place of `exact` in `found`'s format.

    `exact` has a wider format. Where both are NaN, or equal (infinities and signs of zero
    included), it is 0; where one is special and the other not it is infinite.
    """
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        same = (np.isnan(found) & np.isnan(exact)) | (
            (found == rounded) & (np.signbit(found) == np.signbit(rounded)) & ~np.isfinite(rounded)
        )
        _, exponent = np.frexp(np.abs(exact))
        least = info.minexp - info.nmant
        last = np.ldexp(np.ones_like(exact), np.maximum(exponent - 1 - info.nmant, least))
        error = np.abs(found.astype(exact.dtype) - exact) / last
        # Overflow: infinity stands for the first number beyond the format.
        beyond = np.ldexp(np.ones_like(exact), info.maxexp)
        overflow = np.isinf(found) & np.isfinite(exact) & (np.sign(found) == np.sign(exact))
        error = np.where(overflow, np.abs(beyond - np.abs(exact)) / last, error)
        wrong = np.isnan(found) != np.isnan(exact)
        error = np.where(same, 0.0, np.where(wrong, np.inf, error))
    return np.where(np.isnan(error), np.inf, error)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 1.5, -2.5]


def samples(dtype, count, *intervals):
    """Random bits (so every exponent), uniform numbers from each interval, and special numbers."""
    kind = dtype.numpy.type
    random = np.random.default_rng(20260101)
    info = np.finfo(kind)
    bits = random.integers(0, 2**dtype.bits, count, dtype=f"uint{dtype.bits}").view(kind)
    parts = [random.uniform(low, high, count).astype(kind) for low, high in intervals]
    limits = np.array([info.max, info.tiny, info.smallest_subnormal, 1 - info.epsneg], kind)
    special = np.array(SPECIAL, kind)
    return np.concatenate([bits, *parts, limits, -limits, special])


def wider(dtype):
    """A format wide enough to serve as reference, or a skipped test where NumPy has none."""
    if dtype.bits == 32:
        return np.float64
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("NumPy's long double is no wider than float64 here")
    return np.longdouble


def worst_error(op, dtype, reference, values, target="cpu"):
    """(largest error in ulps, where) of the written-out `op` against a wider NumPy function."""
    wide = wider(dtype)
    found = evaluate(decomposed(op, dtype, target=target), x=values)
    with np.errstate(all="ignore"):
        exact = reference(values.astype(wide))
    errors = error_in_ulps(found, exact)
    place = int(np.argmax(errors))
    return float(errors[place]), (values[place], found[place], exact[place])
