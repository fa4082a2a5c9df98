"""Every operation on every format and layout: the CPU, the interpreter and NumPy agree."""

import zlib

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import SCALARS, SMALL_FLOATS, dtypes

LAYOUTS = {
    "contiguous": (lambda x: x, lambda x: x),
    "transposed": (lambda x: x.permute(1, 0), lambda x: x.T),
    "sliced": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    "flipped": (lambda x: x.flip(0, 1), lambda x: x[::-1, ::-1]),
    "broadcast": (
        lambda x: x[:, :1].expand(4, 9), lambda x: np.broadcast_to(x[:, :1], (4, 9))
    ),
    "padded": (lambda x: x.pad((1, 2, 0, 1)), lambda x: np.pad(x, ((0, 1), (1, 2)))),
    "empty": (lambda x: x[:0], lambda x: x[:0]),
    "0-d": (lambda x: x[1, 2], lambda x: x[1, 2]),
}  # fmt: skip

ARITHMETIC = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "less": lambda x, y: x < y,
    "equal": lambda x, y: x == y,
}
EXTREMES = {"maximum": ("maximum", np.maximum), "minimum": ("minimum", np.minimum)}
REDUCTIONS = {"sum": np.sum, "amax": np.max, "amin": np.min}
FLOATS = [d for d in SCALARS if d.is_float]
FUNCTIONS = {
    "exp": np.exp, "sqrt": np.sqrt, "sin": np.sin, "tanh": np.tanh, "floor": np.floor,
    "log1p": np.log1p, "reciprocal": np.reciprocal,
}  # fmt: skip


def numbers(dtype, seed):
    generator = np.random.default_rng(zlib.crc32(f"{dtype}{seed}".encode()))
    if dtype is dtypes.bool:
        return generator.integers(0, 2, (4, 9)).astype(np.bool_)
    if dtype.is_float:
        return generator.uniform(0.25, 3, (4, 9)).astype(dtype.numpy)
    return generator.integers(max(dtype.min, -50), 50, (4, 9)).astype(dtype.numpy)


def operands(dtype, layout):
    """The same operands on the CPU, on the interpreter and for NumPy."""
    move, expected = LAYOUTS[layout]
    for seed in (1, 2):
        array = numbers(dtype, seed)
        yield move(Tensor(array)), move(Tensor(array, device="PYTHON")), expected(array)


def check(cpu, interpreter, expected, dtype, same=True):
    """The CPU's result is the interpreter's (bit for bit if `same`) and close to NumPy's."""
    got, again = cpu.numpy(), interpreter.numpy()
    assert got.shape == again.shape == np.shape(expected)
    assert got.dtype == again.dtype
    if same:
        np.testing.assert_array_equal(got, again)
    wide = np.asarray(expected).astype(np.float64 if dtype.is_float else got.dtype)
    if dtype.is_float and got.dtype != np.bool_:
        step = 2.0 ** -(dtype.fraction + (dtype.bits < 16 or dtype is dtypes.bfloat16))
        tolerance = 2 * {32: 1e-6, 64: 1e-14}.get(dtype.bits, step)
        for values in (got, again):
            np.testing.assert_allclose(values.astype(np.float64), wide, tolerance, tolerance)
    else:
        np.testing.assert_array_equal(got, wide)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_arithmetic(dtype, layout):
    (a, a_interpreted, left), (b, b_interpreted, right) = operands(dtype, layout)
    for name, function in ARITHMETIC.items():
        if dtype is dtypes.bool and name == "sub":
            continue  # an error on bool, as in NumPy
        with np.errstate(all="ignore"):
            expected = function(left, right)
        check(function(a, b), function(a_interpreted, b_interpreted), expected, dtype)
    for method, oracle in EXTREMES.values():
        made = (getattr(x, method)(y) for x, y in ((a, b), (a_interpreted, b_interpreted)))
        check(*made, oracle(left, right), dtype)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "broadcast", "padded"])
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_reductions(dtype, layout):
    (a, interpreted, array), _ = operands(dtype, layout)
    for name, oracle in REDUCTIONS.items():
        for axis in (0, 1, None):
            arguments = () if axis is None else (axis,)
            made = [getattr(x, name)(*arguments) for x in (a, interpreted)]
            wide = array.astype(np.float64) if dtype.is_float else array
            if name == "sum" and not dtype.is_float:
                wide = array.astype(np.int64)
            check(*made, oracle(wide, axis=axis), dtype, same=name != "sum")


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "empty", "0-d"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions(dtype, layout):
    (a, interpreted, array), _ = operands(dtype, layout)
    for name, oracle in FUNCTIONS.items():
        made = [getattr(x, name)() for x in (a, interpreted)]
        check(*made, oracle(np.asarray(array).astype(np.float64)), dtype, same=False)


@pytest.mark.parametrize("target", FLOATS + [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64])
@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_casts(dtype, target):
    (a, interpreted, array), _ = operands(dtype, "contiguous")
    made = [x.cast(target) for x in (a, interpreted)]
    with np.errstate(all="ignore"):
        if {dtype, target} & set(SMALL_FLOATS):
            expected = array.astype(np.float64).astype(target.numpy)
        else:
            expected = array.astype(target.numpy)
    if dtype.is_float and target.is_int and float(np.asarray(array).min()) < target.min:
        expected = np.maximum(array.astype(np.float64), target.min).astype(target.numpy)
    check(*made, expected, target)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "flipped", "padded"])
def test_gradients_agree_with_differences_and_the_interpreter(layout):
    move, moved = LAYOUTS[layout]
    array = numbers(dtypes.float64, 3)

    def loss(x):
        y = move(x)
        return (y * y.sin() + (y * y + 1).sqrt().sum(0) * y.exp()).sum()

    def oracle(x):
        y = moved(x)
        return (y * np.sin(y) + np.sqrt(y * y + 1).sum(0) * np.exp(y)).sum()

    grads = []
    for device in ("CPU", "PYTHON"):
        x = Tensor(array, device=device, requires_grad=True)
        loss(x).backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[0], grads[1], 1e-12, 1e-12)
    step = 1e-6
    expected = np.zeros_like(array)
    for place in np.ndindex(*array.shape):
        for sign in (1, -1):
            shifted = array.copy()
            shifted[place] += sign * step
            expected[place] += sign * oracle(shifted) / (2 * step)
    np.testing.assert_allclose(grads[0], expected, 1e-5, 1e-6)
