"""Transforms of windows, by their definition, and back."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(2, 23))
WINDOW = RANDOM.uniform(0.5, 1.5, size=6)


def by_definition(x, size, hop, window=None, center=True, mode="reflect", whole=False):
    weights = np.zeros(size)
    window = np.ones(size) if window is None else window
    start = (size - len(window)) // 2
    weights[start : start + len(window)] = window
    if center:
        x = np.pad(x, ((0, 0), (size // 2, size // 2)), mode)
    starts = range(0, x.shape[-1] - size + 1, hop)
    frames = np.stack([x[:, n : n + size] * weights for n in starts], -1)
    return np.fft.fft(frames, axis=1)[:, : size if whole else size // 2 + 1]


@pytest.mark.parametrize("options", [
    {}, {"center": False}, {"pad_mode": "constant"}, {"hop_length": 3}, {"onesided": False},
    {"normalized": True}, {"win_length": 6, "window": WINDOW},
    {"win_length": 6, "window": WINDOW, "n_fft": 7, "hop_length": 2},
])  # fmt: skip
def test_there_and_back(options):
    options = dict(options)
    size, hop = options.pop("n_fft", 8), options.pop("hop_length", 2)
    center, onesided = options.get("center", True), options.get("onesided")
    window = options.pop("window", None)
    expected = by_definition(X, size, hop, window, center, options.get("pad_mode", "reflect"),
                             onesided is False)  # fmt: skip
    if options.get("normalized"):
        expected = expected / np.sqrt(size)
    given = None if window is None else Tensor(window)
    x = Tensor(X).requires_grad_()
    made = torpor.stft(x, size, hop, window=given, return_complex=True, **options)
    np.testing.assert_allclose(made.numpy(), expected, 1e-10, 1e-12)
    options.pop("pad_mode", None)
    again = made.istft(size, hop, window=given, length=20, **options)
    np.testing.assert_allclose(again.numpy(), X[:, :20], 1e-9, 1e-11)
    (slope,) = (again * Tensor(X[:, :20])).sum().gradient(x)  # of what gives x again
    np.testing.assert_allclose(slope.numpy(), np.pad(X[:, :20], ((0, 0), (0, 3))), 1e-9, 1e-9)


def test_complex_signals_and_windows():
    z = X + 1j * X[::-1]
    window = Tensor(np.exp(1j * np.arange(8)))
    made = torpor.stft(Tensor(z), 8, 2, window=window)
    weights = np.exp(1j * np.arange(8))
    padded = np.pad(z, ((0, 0), (4, 4)), "reflect")
    frames = np.stack([padded[:, n : n + 8] * weights for n in range(0, 24, 2)], -1)
    np.testing.assert_allclose(made.numpy(), np.fft.fft(frames, axis=1), 1e-10, 1e-12)
    plain = torpor.stft(Tensor(z), 8, 2)
    again = plain.istft(8, 2, return_complex=True)
    np.testing.assert_allclose(again.numpy(), z[:, :22], 1e-9, 1e-11)


def test_shapes():
    x = Tensor(X[0])
    assert x.stft(8, return_complex=True).shape == (5, 12)
    assert x.stft(8, return_complex=False).shape == (5, 12, 2)
    made = x.stft(8, return_complex=True)
    assert made.istft(8).shape == (22,) and not made.istft(8).requires_grad
    with pytest.warns(UserWarning, match="longer"):
        longer = made.istft(8, length=40)
    assert longer.shape == (40,) and longer[30:].tolist() == [0] * 10


def test_errors():
    x = Tensor(X)
    with pytest.raises(ValueRangeError, match="return_complex"):
        x.stft(8)
    with pytest.raises(ShapeError, match="exceeds the signal"):
        x.stft(30, center=False, return_complex=True)
    with pytest.raises(ShapeError, match="win_length=8"):
        x.stft(8, window=Tensor(WINDOW), return_complex=True)
    with pytest.raises(ValueRangeError, match="win_length"):
        x.stft(8, win_length=9, return_complex=True)
    with pytest.raises(DTypeError, match="onesided"):
        (x * 1j).stft(8, onesided=True)
    with pytest.raises(ShapeError, match="complex"):
        x.istft(8)
    with pytest.raises(ShapeError, match="frequencies"):
        x.stft(8, return_complex=True).istft(6)
    window = Tensor(np.array([0.0, 0, 1, 1]))
    made = x.stft(4, 4, window=window, return_complex=True)
    with pytest.raises(ValueRangeError, match="squares' sum"):
        made.istft(4, 4, window=window)


def test_there_and_back_has_a_gradient_whether_it_is_required_or_not():
    plain = Tensor(X)
    asked = Tensor(X, requires_grad=True)
    window = Tensor(WINDOW)
    made = [
        x.stft(6, 2, window=window, return_complex=True).istft(6, 2, window=window).square().sum()
        for x in (plain, asked)
    ]
    found, wanted = made[0].gradient(plain)[0].numpy(), made[1].gradient(asked)[0].numpy()
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-12)
