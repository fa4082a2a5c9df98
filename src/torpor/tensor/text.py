"""Tensors as text: their numbers as NumPy's arrays show them, computed then."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import SMALL_FLOATS
from torpor.base.errors import ShapeError
from torpor.tensor.handle import render_shape
from torpor.tensor.host import known_shape
from torpor.tensor.watch import is_watched

_options: Final[dict[str, Any]] = {}
_PROFILES: Final[dict[str | None, dict[str, Any]]] = {
    None: {},
    "default": dict.fromkeys(("precision", "threshold", "edgeitems", "max_line_width")),
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
    "full": {"threshold": sys.maxsize},
}


def set_printoptions(
    precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """How tensors are shown from now on: digits, up to how many elements in full, how many at each
    end of an axis otherwise, characters of a line, and whether floats have exponents. What is not
    given is as it was; at first, and after profile="default", as `numpy.set_printoptions` says.
    """
    if profile not in _PROFILES:
        raise ValueError(f"a profile is default, short or full, not {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems,
             "max_line_width": linewidth}  # fmt: skip
    _options.update(_PROFILES[profile])
    _options.update({name: value for name, value in given.items() if value is not None})
    if profile == "default" or sci_mode is not None:
        _options["suppress_small"] = None if sci_mode is None else not sci_mode
        _options["formatter"] = {"float_kind": _scientific} if sci_mode else None


def _scientific(number: Any) -> str:
    digits = _options.get("precision")
    return np.format_float_scientific(number, digits, min_digits=digits)


def text_of(tensor: Any) -> str:
    """The numbers; shape and format alone inside a jit, where there are none yet, and where a size
    is a variable without a value.
    """
    extra = ", requires_grad=True" if tensor.requires_grad else ""
    if is_watched() or not _is_known(tensor.shape):
        shape = render_shape(tensor.shape)
        return f"<Tensor {shape} {tensor.dtype.name} on {tensor.device}{extra}>"
    numbers = tensor.numpy()
    values = numbers.astype(np.float32) if tensor.dtype in SMALL_FLOATS else numbers
    text = np.array2string(values, separator=", ", prefix="tensor(", **_options)
    plain = tensor.dtype.name in ("float32", "int64", "bool", "complex64")
    kind = "" if plain else f", dtype={tensor.dtype.name}"
    where = "" if tensor.device == "CPU" else f", device={tensor.device!r}"
    sizes = f", shape={values.shape}" if not values.size and values.ndim > 1 else ""
    return f"tensor({text}{sizes}{kind}{where}{extra})"


def _is_known(shape: Any) -> bool:
    try:
        known_shape(shape)
    except ShapeError:
        return False
    return True


def formatted(tensor: Any, specification: str) -> str:
    """The number of a 0-d tensor in a format of Python's; other tensors have none but a width."""
    if not tensor.ndim and (specification or not is_watched()):
        return format(tensor.item(), specification)
    try:
        return format(str(tensor), specification)
    except ValueError:
        what = f"the format {specification!r} is for one number, not for a tensor of shape"
        shape = render_shape(tensor.shape)
        raise TypeError(f"{what} {shape}; see torpor.set_printoptions") from None
