"""Windows against NumPy's, which are the symmetric ones in float64."""

import numpy as np
import pytest

import torpor

NUMPYS = {
    "hann_window": np.hanning, "hamming_window": np.hamming, "blackman_window": np.blackman,
    "bartlett_window": np.bartlett, "kaiser_window": lambda n: np.kaiser(n, 12.0),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
def test_windows_are_numpys_and_periodic_ones_leave_the_end_out(name, length):
    window = getattr(torpor, name)
    symmetric = window(length, False, dtype=torpor.float64).numpy()
    np.testing.assert_allclose(symmetric, NUMPYS[name](length), rtol=1e-12, atol=1e-15)
    periodic = window(length, dtype="float64").numpy()
    longer = NUMPYS[name](length + 1)[:length] if length > 1 else np.ones(length)
    np.testing.assert_allclose(periodic, longer, rtol=1e-12, atol=1e-15)


def test_windows_take_what_makers_take():
    window = torpor.hamming_window(5, True, 0.6, 0.3, requires_grad=True)
    expected = 0.6 - 0.3 * np.cos(2 * np.pi * np.arange(5) / 5)
    np.testing.assert_allclose(window.numpy(), expected, rtol=1e-6)
    assert window.requires_grad and window.dtype is torpor.float32
    assert torpor.kaiser_window(4, dtype="float16").dtype is torpor.float16


def test_a_window_has_a_float_format_and_no_negative_length():
    with pytest.raises(TypeError, match="float format"):
        torpor.hann_window(4, dtype="int32")
    with pytest.raises(ValueError, match="0 numbers or more"):
        torpor.hann_window(-1)
