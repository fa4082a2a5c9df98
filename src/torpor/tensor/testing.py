"""`torpor.testing`: whether results are as expected, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle

__all__ = ["assert_close"]

# Relative and absolute differences that are allowed, by format: PyTorch's. Others are exact.
TOLERANCE: Final = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
    check_layout: bool = True, check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Fail, as an `assert` does, unless |actual - expected| <= atol + rtol |expected| for all
    elements of tensors, arrays, numbers, and of sequences and mappings of them. Tolerances are both
    given, or those of the formats: of float32 1.3e-6 and 1e-5, of integers none. Shapes are equal,
    and formats and devices where they are checked; NaN is near NaN with `equal_nan`. `msg` is the
    error's text, or makes one of it. Memory has no layout and no strides here.

    >>> assert_close(Tensor([1.0, 2.0]), Tensor([1.0, 2.000001]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol are given together, or neither")
    limits = None if rtol is None or atol is None else (rtol, atol)
    wrong = _difference(actual, expected, limits, equal_nan, check_device, check_dtype)
    if wrong:
        raise AssertionError(msg(wrong) if callable(msg) else msg or wrong)


def _difference(actual: Any, expected: Any, *options: Any) -> str:
    """What differs, or nothing."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"the keys are {sorted(actual)} and {sorted(expected)}"
        pairs = [(f"[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"there are {len(actual)} of {len(expected)}"
        both = enumerate(zip(actual, expected, strict=True))
        pairs = [(f"[{number}]", one, other) for number, (one, other) in both]
    else:
        return _of_tensors(actual, expected, *options)
    found = ((place, _difference(one, other, *options)) for place, one, other in pairs)
    return next((f"{place}: {text}" for place, text in found if text), "")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _of_tensors(
    actual: Any, expected: Any, limits: Any, equal_nan: bool, device: bool, dtype: bool
) -> str:
    one, other = as_tensor(actual), as_tensor(expected)
    if one.shape != other.shape:
        return f"the shapes are {tuple(one.shape)} and {tuple(other.shape)}"
    are_tensors = isinstance(actual, Handle) and isinstance(expected, Handle)
    if dtype and one.dtype is not other.dtype and are_tensors:
        return f"the formats are {one.dtype} and {other.dtype}"
    if device and one.device != other.device:
        return f"the devices are {one.device} and {other.device}"
    formats = [TOLERANCE.get(kind.name, (0.0, 0.0)) for kind in (one.dtype, other.dtype)]
    rtol, atol = limits or tuple(map(max, *formats))
    x, y = (np.asarray(value.detach().numpy()) for value in (one, other))
    kind = np.result_type(x, y, np.float64) if rtol or atol else np.result_type(x, y)
    x, y = x.astype(kind), y.astype(kind)
    with np.errstate(all="ignore"):
        apart = np.abs(x - y) if kind != np.bool_ else (x != y).astype(int)
        near = (x == y) | (np.isfinite(y) & (apart <= atol + rtol * np.abs(y)))
        if equal_nan:
            near |= np.isnan(x) & np.isnan(y)
        if near.all():
            return ""
        far = np.where(near, 0.0, np.where(np.isnan(apart), np.inf, apart))
    place = tuple(map(int, np.unravel_index(np.argmax(far), far.shape)))
    count = f"{int((~near).sum())} of {near.size} elements differ"
    most = f"most at {place}: {x[place]} is not {y[place]}"
    return f"{count} by more than {atol:g} + {rtol:g} |expected|, {most}"
