"""Kernels of small floats: the interpreter, which has all, against LLVM's integers."""

import math
from fractions import Fraction
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torpor import Context, Tensor, dtypes, where
from torpor.device.interpreter.arithmetic import cast

QUICK = settings(deadline=None, max_examples=15)
SMALL = [dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2]
OTHERS = [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint16, dtypes.int32, dtypes.int64]
COUNT = 128
UNARY = ("neg", "sqrt", "floor", "trunc", "round", "abs", "exp", "tanh")
BINARY = ("add", "sub", "mul", "div", "remainder")


def random_step(random, nodes):
    """One more value. Of 0 and -0 either may be the greater: adding 0 makes one of both."""
    x, y = random.choice(nodes), random.choice(nodes)
    kind = random.randint(0, 11)
    if kind < 4:
        return getattr(x, random.choice(BINARY))(y)
    if kind < 7:
        return getattr(x, random.choice(UNARY))()
    if kind == 7:
        return where(x < y, x, y * 0.75)
    if kind == 8:
        return (x * random.choice([1e-3, 1.0, 300.0])).cast(random.choice(OTHERS)).cast(x.dtype)
    if kind == 9:
        return x.reshape(8, 16).amax(1, keepdim=True).expand(8, 16).reshape(COUNT) + 0.0 - y
    return (x.maximum(y) if kind == 10 else x.minimum(y)) + 0.0


def computed(seed, arrays, dtype, device):
    """The value of a random expression of the arrays."""
    random, nodes = Random(seed), [Tensor(a.view(dtype.numpy), device=device) for a in arrays]
    for _ in range(random.randint(1, 10)):
        nodes.append(random_step(random, nodes[-4:]))
    return nodes[-1].numpy()


@pytest.mark.parametrize("dtype", SMALL, ids=repr)
def test_random_kernels_agree_to_the_bit(dtype):
    """Any bits at all, but for those of a NaN in the result; a product and a sum stay two."""

    @QUICK
    @example(685374875)
    @given(st.integers(0, 1 << 30))
    def check(seed):
        rng = np.random.default_rng(seed)
        word = f"u{dtype.itemsize}"
        arrays = [rng.integers(0, 1 << dtype.bits, COUNT, word) for _ in range(2)]
        arrays.append(rng.normal(size=COUNT).astype(dtype.numpy).view(word))
        here, there = (computed(seed, arrays, dtype, device) for device in ("CPU", "PYTHON"))
        nan = here != here
        np.testing.assert_array_equal(nan, there != there)
        np.testing.assert_array_equal(here.view(word)[~nan], there.view(word)[~nan])

    with Context(STRICT_FLOAT=1):
        check()


@cache
def finite(dtype):
    """Every finite number of the format in order, and its bits."""
    patterns = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        numbers = patterns.view(dtype.numpy).astype(np.float64)
    patterns, numbers = patterns[np.isfinite(numbers)], numbers[np.isfinite(numbers)]
    order = np.argsort(numbers, kind="stable")
    return numbers[order], patterns[order]


def nearest(number, dtype):
    """The nearest number of the format, found among all of them, exactly; of two the even one."""
    numbers, patterns = finite(dtype)
    above = int(np.searchsorted(numbers, float(number)))
    near = range(max(above - 2, 0), above + 3)
    return numbers[min(near, key=lambda n: (abs(Fraction(numbers[n]) - number), patterns[n] % 2))]


EXACT = [
    1 + 2.0**-8 + 2.0**-40,
    -(1 + 2.0**-8 + 2.0**-40),
    1 + 3 * 2.0**-8 - 2.0**-40,
    2.0**-134 + 2.0**-170,
    2.0**-25 + 2.0**-60,
    1 + 2.0**-11 + 2.0**-45,
    1 + 2.0**-4 + 2.0**-40,
    1 + 2.0**-3 - 2.0**-40,
]


@pytest.mark.parametrize("dtype", SMALL, ids=repr)
def test_doubles_are_rounded_once(dtype):
    for value in EXACT:
        got = cast(np.array([value]), dtypes.float64, dtype)
        assert float(got[0]) == nearest(Fraction(value), dtype)


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float8_e5m2], ids=repr)
def test_integers_are_rounded_once(dtype):
    for value in [
        12345,
        (1 << 14) + (1 << 11) + 1,
        (1 << 40) + (1 << 32) + 1,
        (1 << 62) + (1 << 54) + 1,
        -(1 << 40) - (1 << 32) - 1,
    ]:
        if abs(value) <= dtype.largest:
            got = cast(np.array([value]), dtypes.int64, dtype)
            assert float(got[0]) == nearest(Fraction(value), dtype)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("small", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=repr)
def test_nan_has_the_bits_that_pytorch_gives_it(small, source, device):
    numbers = Tensor([math.nan, -math.nan, 1.0], device=device).cast(source).realize()
    one = 0x3C if small is dtypes.float8_e5m2 else 0x38
    assert numbers.cast(small).view(dtypes.uint8).tolist() == [0x7F, 0xFF, one]
    made = Tensor([math.nan], dtype=small, device=device), Tensor(math.nan, dtype=small)
    assert [x.view(dtypes.uint8).sum().item() for x in made] == [0x7F, 0x7F]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_infinities_of_float8_e5m2(device):
    found = Tensor([math.inf, -math.inf, 1e9], device=device).cast(dtypes.float8_e5m2)
    assert found.view(dtypes.uint8).tolist() == [0x7C, 0xFC, 0x7C]
