"""Fourier transforms of the windows of a signal, and back: `stft` and `istft`."""

from __future__ import annotations

import warnings
from typing import Any, Final

from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.tensor.creation import as_tensor
from torpor.tensor.fft import fft, ifft, irfft, rfft
from torpor.tensor.handle import located, make
from torpor.tensor.host import known_shape
from torpor.tensor.mode import enable_grad
from torpor.tensor.tensor import Tensor

LEAST: Final = 1e-11  # of the squares of windows, added up, that a signal is divided by


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """Transforms of the windows of a signal (batch, time), or (time,), that begin `hop_length`
    (n_fft // 4) apart: (batch, frequencies, windows), complex; without `return_complex` with a last
    axis of both parts.

    window:     what each is multiplied with, `win_length` (n_fft) numbers in the middle of it.
    center:     the signal is padded by `pad_mode`, so that windows are around their places.
    normalized: divided by sqrt(n_fft).
    onesided:   the first n_fft // 2 + 1 frequencies, which is meant unless something is complex.

    >>> wave = Tensor([0.0, 1.0, 0.0, -1.0] * 4)
    >>> stft(wave, 4, center=False, return_complex=True).abs()[:, 0].round().tolist()
    [0.0, 2.0, 0.0]
    """
    x: Any = as_tensor(input)
    if x.ndim not in (1, 2):
        raise located(ShapeError("stft is of a signal (batch, time) or (time,)"), (x,))
    hop, shape = _hop(n_fft, hop_length), _window(n_fft, win_length, window, x)
    whole = x.is_pair or shape.is_pair
    if return_complex is None and not whole:
        raise located(ValueRangeError("stft needs return_complex=True, or False for the parts in a "
                                      "last axis"), (x,))  # fmt: skip
    x = x.unsqueeze(0) if (alone := x.ndim == 1) else x
    if center:
        x = x.pad((n_fft // 2, n_fft // 2), pad_mode)
    if x.shape[-1] < n_fft:
        raise located(ShapeError(f"stft: a window of {n_fft} exceeds the signal"), (x,))
    frames = x.unfold(-1, n_fft, hop) * shape
    half = not whole if onesided is None else onesided
    if half and whole:
        raise located(DTypeError("stft: complex numbers have no onesided transform"), (x,))
    made = (rfft if half else fft)(frames, norm="ortho" if normalized else None).mT
    made = made.squeeze(0) if alone else made
    return made.view_as_real() if return_complex is False else made


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which `stft` gave (batch, frequencies, windows): the windows, transformed back
    and weighed, are added up and divided by their squares' sum. `ValueRangeError` where that is 0.

    length: of the signal; what lies beyond the windows is 0.

    >>> window, x = Tensor([0.5, 1.0, 1.0, 0.5]), Tensor([1.0, 2.0, 3.0, 4.0])
    >>> parts = stft(x, 4, 1, window=window, return_complex=True)
    >>> istft(parts, 4, 1, window=window).round().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    x: Any = as_tensor(input)
    if not x.is_pair or x.ndim not in (2, 3):
        raise located(ShapeError("istft is of complex (batch, frequencies, windows)"), (x,))
    hop, shape = _hop(n_fft, hop_length), _window(n_fft, win_length, window, x.real)
    x = (x.unsqueeze(0) if (alone := x.ndim == 2) else x).mT
    _, count, found = known_shape(x.shape)
    half = found != n_fft if onesided is None else onesided
    if found != (n_fft // 2 + 1 if half else n_fft):
        raise located(
            ShapeError(f"istft: {found} frequencies are not those of n_fft={n_fft}"), (x,)
        )
    if return_complex and half:
        raise located(ValueRangeError("istft: what is onesided is of real signals"), (x,))
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ifft(x, norm=norm)
    else:
        if shape.is_pair:
            raise located(DTypeError("istft: a complex window needs return_complex=True"), (x,))
        frames = irfft(x.narrow(-1, 0, n_fft // 2 + 1), n_fft, norm=norm)
    signal = _added_up(frames * shape, hop)
    weight = _added_up((shape * shape).reshape(1, 1, -1).expand(1, count, n_fft), hop)
    first = n_fft // 2 if center else 0
    last = n_fft + hop * (count - 1)
    wanted = first + length if length is not None else last - first
    kept = slice(first, min(wanted, last))
    signal, weight = signal[:, kept], weight[:, kept]
    if not bool((weight.abs() > LEAST).all()):
        raise located(ValueRangeError("istft: the windows leave places out: their squares' sum is "
                                      "0 there"), (x,))  # fmt: skip
    made: Any = signal / weight
    if wanted > last:
        warnings.warn("istft: the signal is longer than the windows; 0 beyond them", stacklevel=2)
        made = made.pad((0, wanted - last))
    return made.squeeze(0) if alone else made


def _hop(n_fft: int, hop_length: int | None) -> int:
    hop = n_fft // 4 if hop_length is None else hop_length
    if n_fft < 1 or hop < 1:
        raise ValueRangeError(f"n_fft and hop_length are 1 or more, not {n_fft} and {hop}")
    return hop


def _window(n_fft: int, win_length: int | None, window: Any, like: Any) -> Any:
    """(n_fft,), with zeros on both sides of what is given."""
    count = n_fft if win_length is None else win_length
    if not 0 < count <= n_fft:
        raise ValueRangeError(f"win_length is from 1 to n_fft={n_fft}, not {count}")
    made: Any = like.new_ones((count,)) if window is None else as_tensor(window)
    if known_shape(made.shape) != (count,):
        raise located(ShapeError(f"the window has win_length={count} numbers"), (made,))
    before = (n_fft - count) // 2
    return made.pad((before, n_fft - count - before)) if count < n_fft else made


def _added_up(frames: Any, hop: int) -> Any:
    """(batch, windows, n) to (batch, time), added where they overlap, as `unfold`'s gradient is."""
    if frames.is_pair:
        return frames.by_parts(lambda part: _added_up(part, hop))
    batch, count, size = known_shape(frames.shape)
    with enable_grad():
        nothing = frames.new_zeros((batch, size + hop * (count - 1))).requires_grad_()
        (made,) = nothing.unfold(-1, size, hop).gradient(nothing, gradient=frames)
    return made if frames.requires_grad else make(made._current(), made.device)


Tensor.stft, Tensor.istft = stft, istft
