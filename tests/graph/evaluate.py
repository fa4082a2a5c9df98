"""The meaning of graph nodes in NumPy, one function an op: the oracle of the tests of this room."""

import itertools
import math

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.ir.infer import shape_of
from torpor.ir.ops import ALU, COMPARE, Ops
from torpor.ir.uop import UOp


class Array:
    """Stands for a Buffer: memory that holds a NumPy array, flat."""

    def __init__(self, values, device="CPU"):
        self.values = np.asarray(values).reshape(-1)
        self.size, self.device = self.values.size, device


def tensor(values, dtype=None):
    """A graph node whose value is the array: a BUFFER under a RESHAPE to its shape."""
    values = np.asarray(values)
    dtype = dtypes.from_numpy(values.dtype) if dtype is None else dtype
    node = UOp(Ops.BUFFER, dtype, (), Array(values))
    if values.shape == node.arg.values.shape:
        return node
    return UOp(Ops.RESHAPE, dtype, (node,), values.shape)


def number(size):
    """A size or position as an int; a BIND is the value it is bound to."""
    if isinstance(size, int):
        return size
    return int(evaluate(size))


def numbers(shape):
    return tuple(number(size) for size in shape)


def cast(values, dtype):
    """To `dtype`: float to integer truncates, saturates, NaN is 0."""
    if dtype.is_int and values.dtype.kind == "f":
        whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
        low, high = int(dtype.min), int(dtype.max)
        clipped = [min(max(int(v), low), high) if math.isfinite(v) else (low if v < 0 else high)
                   for v in whole.reshape(-1)]  # fmt: skip
        return np.array(clipped, dtype=dtype.numpy).reshape(values.shape)
    return values.astype(dtype.numpy)


def scatter(base, index, values, op, axis, distinct):
    """One update after the other."""
    found = base.copy()
    for place in np.ndindex(index.shape):
        at = (*place[:axis], index[place], *place[axis + 1 :])
        found[at] = values[place] if op is Ops.STORE else _BINARY[op](found[at], values[place])
    return found


def floor_divide(a, b):
    return np.floor(a / b) if a.dtype.kind == "f" else np.floor_divide(a, b)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_BINARY = {
    Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply, Ops.FDIV: np.true_divide,
    Ops.IDIV: floor_divide, Ops.MOD: np.mod, Ops.POW: np.power, Ops.MAX: np.maximum,
    Ops.MIN: np.minimum, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or, Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift, Ops.SHR: np.right_shift, Ops.CMPLT: np.less, Ops.CMPNE: np.not_equal,
    Ops.CMPEQ: np.equal,
}  # fmt: skip
_UNARY = {
    Ops.EXP: np.exp, Ops.EXP2: np.exp2, Ops.LOG: np.log, Ops.LOG2: np.log2, Ops.SIN: np.sin,
    Ops.COS: np.cos, Ops.TANH: np.tanh, Ops.ERF: _erf, Ops.SQRT: np.sqrt, Ops.FLOOR: np.floor,
    Ops.TRUNC: np.trunc, Ops.RINT: np.rint,
}  # fmt: skip
_REDUCE = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum}


def shear(values, arg):
    axis, by_axis, length, stride, step, offset = arg
    shape = list(values.shape)
    shape[axis] = number(length)
    out = np.zeros(shape, values.dtype)
    for place in itertools.product(*map(range, shape)):
        source = list(place)
        source[axis] = place[axis] * stride + place[by_axis] * step + number(offset)
        assert 0 <= source[axis] < values.shape[axis], "a shear reads outside its operand"
        out[place] = values[tuple(source)]
    return out


def one(node, source):
    """The value of one node, given those of its operands."""
    op, arg, dtype = node.op, node.arg, node.dtype
    if op is Ops.CONST:
        return np.array(arg, dtype=dtype.numpy)
    if op is Ops.BUFFER:
        return arg.values.astype(dtype.numpy)
    if op is Ops.BIND:
        return source[1]
    if op is Ops.SINK:
        return tuple(source)
    value = source[0]
    if op is Ops.RESHAPE:
        return value.reshape(numbers(arg))
    if op is Ops.EXPAND:
        return np.broadcast_to(value, numbers(arg))
    if op is Ops.PERMUTE:
        return value.transpose(arg)
    if op is Ops.PAD:
        return np.pad(value, [numbers(pair) for pair in arg])
    if op is Ops.SHRINK:
        return value[tuple(slice(*numbers(pair)) for pair in arg)]
    if op is Ops.FLIP:
        return np.flip(value, [axis for axis, turned in enumerate(arg) if turned])
    if op is Ops.SHEAR:
        return shear(value, arg)
    if op is Ops.REDUCE_AXIS:
        start = {Ops.ADD: 0, Ops.MUL: 1}.get(arg[0])
        extra = {} if start is None else {"initial": start}
        return _REDUCE[arg[0]].reduce(value, axis=arg[1], keepdims=True, dtype=value.dtype, **extra)
    if op in (Ops.CONTIGUOUS, Ops.COPY, Ops.LEAF, Ops.DETACH, Ops.FUNCTION):
        return value
    if op is Ops.CHECK:
        assert np.all(source[1])
        return value
    if op is Ops.GATHER:
        return np.take_along_axis(value, source[1], arg)
    if op is Ops.SCAN_AXIS:
        whole = np.concatenate((source[1], value), axis=arg[1])
        found = _REDUCE[arg[0]].accumulate(whole, axis=arg[1], dtype=value.dtype)
        return np.delete(found, 0, arg[1])
    if op is Ops.SCATTER:
        return scatter(*source, *arg)
    if op is Ops.CAST:
        return cast(value, dtype)
    if op is Ops.BITCAST:
        return np.ascontiguousarray(value).view(dtype.numpy)
    if op is Ops.WHERE:
        return np.where(*source)
    function = _UNARY.get(op) or _BINARY[op]
    return np.asarray(function(*source)).astype(dtype.numpy, copy=False)


def evaluate(root: UOp):
    """The value of a graph as a NumPy array (a SINK's as a tuple), each shape and dtype checked."""
    values = {}
    with np.errstate(all="ignore"):
        for node in root.toposort(lambda n: n.op is not Ops.VARIABLE):
            if node.op is Ops.VARIABLE:
                continue
            source = [values.get(s) for s in node.src]
            if node.op in ALU:
                counts = {np.shape(value) for value in source}
                assert len(counts) == 1, f"{node.op} on shapes {counts}"
                kinds = {s.dtype for s in node.src[node.op is Ops.WHERE :]}
                assert len(kinds) == 1, f"{node.op} on {kinds}"
                assert node.dtype in (dtypes.bool, *kinds) or node.op in (Ops.CAST, Ops.BITCAST)
                assert node.op not in COMPARE or node.dtype is dtypes.bool
            value = values[node] = one(node, source)
            if node.op is not Ops.SINK:
                assert value.dtype == node.dtype.numpy, node.op
                assert value.shape == numbers(shape_of(node)), node.op
    return values[root]
