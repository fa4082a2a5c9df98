import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from torpor.base.dtypes import SMALL_FLOATS, as_dtype, dtypes
from torpor.base.errors import DTypeError
from torpor.base.promotion import promote

FLOATS = [*SMALL_FLOATS, dtypes.float32, dtypes.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_limits_of_floats(dtype):
    known = ml_dtypes.finfo(dtype.numpy)
    assert dtype.largest == float(known.max)
    assert dtype.smallest_normal == float(known.smallest_normal)
    assert 2.0**-dtype.fraction == float(known.eps)
    largest = np.array([dtype.largest]).astype(dtype.numpy)
    beyond = (largest.view(f"u{dtype.itemsize}") + 1).view(dtype.numpy).astype(np.float64)[0]
    assert beyond == math.inf if dtype.infinite else math.isnan(beyond)


def nearest(dtype, value):
    """The nearest number of the format, exactly, by search among all; of two the even one."""
    bits = np.arange(1 << (dtype.bits - 1), dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        numbers = bits.view(dtype.numpy).astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    above = int(np.searchsorted(numbers, abs(value)))
    near = [n for n in (above - 1, above) if 0 <= n < len(numbers)]
    size = min(near, key=lambda n: (abs(Fraction(numbers[n]) - Fraction(abs(value))), n % 2))
    return math.copysign(float(numbers[size]), value)


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_numbers_are_rounded_once(dtype):
    rng = np.random.default_rng(3)
    values = rng.normal(size=150) * 10.0 ** rng.uniform(-9, 4, 150)
    ties = [(1 + 2.0 ** -(dtype.fraction + 1)) * s for s in (1, 1 + 2.0**-50, 1 - 2.0**-50, -1)]
    for value in [*values[abs(values) <= dtype.largest], *ties, dtype.largest, 0.0, -0.0, 1e-30]:
        got, wanted = dtype.cast_scalar(float(value)), nearest(dtype, float(value))
        assert got == wanted and math.copysign(1, got) == math.copysign(1, wanted), value


def test_what_is_beyond():
    inf = math.inf
    assert dtypes.float8_e5m2.cast_scalar(61439.0) == 57344
    assert dtypes.float8_e5m2.cast_scalar(-61440.0) == -inf == dtypes.float8_e5m2.cast_scalar(-inf)
    assert dtypes.float8_e4m3fn.cast_scalar(464.0) == 448
    assert all(math.isnan(dtypes.float8_e4m3fn.cast_scalar(x)) for x in (464.1, -500.0, inf, -inf))
    assert dtypes.float16.cast_scalar(65520.0) == inf


def test_floats_of_8_bits_meet_nothing_else():
    one, other = dtypes.float8_e4m3fn, dtypes.float8_e5m2
    assert promote(one, one) is one
    for another in (other, dtypes.float16, dtypes.float32, dtypes.int8, dtypes.bool):
        with pytest.raises(DTypeError, match="cast one"):
            promote(one, another)
        with pytest.raises(DTypeError, match="cast one"):
            promote(another, one)


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
def test_names(dtype):
    assert as_dtype(dtype.numpy) is as_dtype(dtype.name) is as_dtype(f"torch.{dtype.name}") is dtype


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn"])
def test_nan_of_eight_bits_is_all_ones_as_processors_make_it(name):
    found = as_dtype(name).array([math.nan, -math.nan]).view(np.uint8)
    assert found.tolist() == [0x7F, 0xFF]


def test_formats_of_complex_numbers_and_of_their_parts():
    assert dtypes.float16.to_complex() is dtypes.float32.to_complex() is dtypes.complex64
    assert dtypes.float64.to_complex() is dtypes.complex128.to_complex() is dtypes.complex128
    assert dtypes.complex128.to_real() is dtypes.float64.to_real() is dtypes.float64
