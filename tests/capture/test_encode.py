"""Numbers as integers: the bits that NumPy has for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.base.dtypes import DType, dtypes
from torpor.capture.encode import ENCODERS, integers_of

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
WHOLE = [dtype for dtype in ENCODERS if dtype.is_int]


@given(st.floats() | st.integers(-(10**40), 10**40), st.sampled_from(FLOATS))
def test_bits_of_floats(value: float, dtype: DType) -> None:
    code = ENCODERS[dtype](value)
    low, high = integers_of(dtype)
    assert low <= code <= high
    got = np.array([code], f"{'i' if low < 0 else 'u'}{dtype.itemsize}").view(dtype.numpy)[0]
    with np.errstate(over="ignore"):
        expected = np.float64(value).astype(dtype.numpy)
    assert float(got) == float(expected) or math.isnan(value)
    assert np.signbit(got) == np.signbit(expected) or math.isnan(value)


@given(st.integers(-(2**65), 2**65), st.sampled_from(WHOLE))
def test_integers_are_themselves_or_refused(value: int, dtype: DType) -> None:
    if dtype.min <= value <= dtype.max:
        assert ENCODERS[dtype](value) == value
    else:
        with pytest.raises(OverflowError):
            ENCODERS[dtype](value)
