"""Fourier transforms against NumPy: lengths, norms, axes, sizes, gradients, precision."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError


def numbers(*shape, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=shape) + 1j * generator.normal(size=shape)


def close(made, expected, bound=1e-13):
    assert made.shape == expected.shape
    assert made.numpy().dtype == expected.dtype
    assert abs(made.numpy() - expected).max() <= bound * max(abs(expected).max(), 1e-300)


@pytest.mark.parametrize("count", [1, 2, 12, 22, 31, 49, 64, 67, 134, 1000])
def test_lengths(count):
    a = numbers(2, count)
    spectrum = np.fft.fft(a)
    close(torpor.fft.fft(Tensor(a)), spectrum)
    close(torpor.fft.ifft(Tensor(a)), np.fft.ifft(a))
    close(torpor.fft.rfft(Tensor(a.real)), np.fft.rfft(a.real))
    close(torpor.fft.irfft(Tensor(spectrum), count), np.fft.irfft(spectrum, count))


@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_a_transform_takes_operations_and_kernels_like_the_logarithm_of_its_length(name):
    def programs(count):
        x = Tensor(np.zeros((4, count), np.float32)).realize()
        made = getattr(torpor.fft, name)(x)
        return torpor.lower(*(made._parts if made.is_pair else (made,)))

    for count in (256, 4096):
        found = programs(count)
        assert sum(one.ops for one in found) < 4 * count * 5 * math.log2(count)
        assert len(found) <= math.log2(count) / 3 + 4


def test_the_gradient_is_a_transform_too():
    x = Tensor(np.zeros((8, 1024), np.float32)).realize()
    made = torpor.fft.rfft(x)
    back = (made.real * made.real + made.imag).sum().gradient(x)[0]
    assert len(torpor.lower(back)) <= 14


NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


@pytest.mark.parametrize("name", NAMES)
@given(
    st.sampled_from([None, "backward", "ortho", "forward"]),
    st.sampled_from([None, 3, 6, 7]),
    st.integers(-2, 1),
)
@settings(max_examples=2, deadline=None)
def test_norms_sizes_and_axes(name, norm, size, axis):
    a = numbers(4, 5)
    a = a.real.copy() if name in ("rfft", "ihfft") else a
    expected = getattr(np.fft, name)(a, size, axis, norm)
    close(getattr(torpor.fft, name)(Tensor(a), size, axis, norm), expected)
    close(getattr(torpor.fft, name)(Tensor(a), n=size, dim=axis, norm=norm), expected)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_several_axes(name):
    a = numbers(2, 3, 4)
    a = a.real.copy() if name == "rfft" else a
    x = Tensor(a)
    for ours, theirs in ((f"{name}2", f"{name}2"), (f"{name}n", f"{name}n")):
        close(getattr(torpor.fft, ours)(x), getattr(np.fft, theirs)(a))
    close(getattr(torpor.fft, f"{name}n")(x, (2, 6), (0, 2), "ortho"),
          getattr(np.fft, f"{name}n")(a, (2, 6), (0, 2), "ortho"))  # fmt: skip


def test_of_conjugate_symmetric_planes():
    a = numbers(3, 4)
    expected = np.fft.hfft(np.fft.fft(a, axis=0), axis=1)
    close(torpor.fft.hfft2(Tensor(a)), expected)
    back = np.fft.ifft(np.fft.ihfft(expected, axis=1), axis=0)
    close(torpor.fft.ihfftn(Tensor(expected)), back)


@pytest.mark.parametrize("count", [1, 4, 5])
def test_frequencies_and_shifts(count):
    a = np.arange(count * 3.0).reshape(count, 3)
    np.testing.assert_allclose(torpor.fft.fftfreq(count, 0.5).numpy(), np.fft.fftfreq(count, 0.5))
    np.testing.assert_allclose(torpor.fft.rfftfreq(count).numpy(), np.fft.rfftfreq(count))
    for name in ("fftshift", "ifftshift"):
        for axis in (None, 0, (0, 1)):
            made = getattr(torpor.fft, name)(Tensor(a), axis).numpy()
            np.testing.assert_array_equal(made, getattr(np.fft, name)(a, axis))


def test_float32_errs_like_a_logarithm():
    for count in (256, 4096, 1009):
        a = numbers(4, count)
        made = torpor.fft.fft(Tensor(a.astype(np.complex64))).numpy()
        assert made.dtype == np.complex64
        expected = np.fft.fft(a.astype(np.complex64).astype(complex))
        error = np.sqrt((abs(made - expected) ** 2).mean() / (abs(expected) ** 2).mean())
        assert error < 6e-8 * np.log2(count)


@pytest.mark.parametrize("name", [*NAMES, "fft2", "rfftn"])
def test_gradients_are_slopes(name):
    a = numbers(3, 6)
    a = a.real.copy() if name in ("rfft", "ihfft", "rfftn") else a
    function = getattr(torpor.fft, name)
    weights = Tensor(numbers(*function(Tensor(a)).shape, seed=2))

    def loss(x):
        return (function(x) * weights).real.sum()

    gradient = torpor.grad(loss)(Tensor(a)).numpy()
    for place in ((0, 0), (2, 3), (1, 5)):
        for direction in (1,) if np.isrealobj(a) else (1, 1j):
            moved = np.zeros_like(a)
            moved[place] = direction
            slope = loss(Tensor(moved)).item()  # it is linear
            part = gradient[place].imag if direction == 1j else gradient[place].real
            assert slope == pytest.approx(part, rel=1e-9, abs=1e-9)


def test_inside_a_jit():
    @torpor.jit
    def power(x):
        return torpor.fft.rfft(x).abs().square()

    for seed in range(3):
        a = numbers(2, 12, seed=seed).real
        np.testing.assert_allclose(power(Tensor(a)).numpy(), abs(np.fft.rfft(a)) ** 2)


def test_errors_are_raised_at_the_call():
    x = Tensor([1.0, 2.0])
    with pytest.raises(DTypeError, match="rfft is for real numbers"):
        torpor.fft.rfft(x + 1j)
    with pytest.raises(ValueRangeError, match="norm is"):
        torpor.fft.fft(x, norm="half")
    with pytest.raises(ShapeError):
        torpor.fft.fft(x, 0)
    with pytest.raises(ShapeError):
        torpor.fft.fft(x, dim=1)
    with pytest.raises(ShapeError):
        torpor.fft.fft(Tensor(1.0))
    with pytest.raises(ShapeError):
        torpor.fft.fftn(x, (2, 2), (0,))
