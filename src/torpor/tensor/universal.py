"""NumPy's functions of tensors: what `np.exp(x)`, `array + x` and `np.sum(x, axis=0)` give."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle

# NumPy's functions of two operands that are Python's operators.
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "power": operator.pow, "matmul": operator.matmul, "equal": operator.eq,
    "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}  # fmt: skip
# Its functions that are torpor's own, of arrays by the names of arguments behind the first: those
# in front of a "/" are given by place.
_SAME: Final = {
    name: (place, keywords.split())
    for line in """
    sum prod mean std var max min any all argmax argmin|array_api|axis
    stack flip sort argsort|array_api|axis
    tril triu|array_api|k
    roll|array_api|shift axis
    take|array_api|indices / axis
    diff|array_api|n axis
    concatenate|array_api.concat|axis
    expand_dims|array_api|axis
    squeeze||axis
    broadcast_to reshape||shape
    swapaxes||axis1 axis2 /
    moveaxis||source destination
    clip||a_min a_max min max
    outer kron||b
    tensordot||b axes
    isclose||b rtol atol equal_nan
    hstack vstack dstack column_stack ravel||
    where einsum||...
    norm|linalg|ord axis
    inv det slogdet cholesky|linalg|
    solve|linalg|B
    matrix_power|linalg|n
    eigh eigvalsh|linalg|UPLO
    fft ifft rfft irfft hfft ihfft|fft|n axis norm
    fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn|fft|s axes norm
    fftshift ifftshift|fft|axes
    """.strip().splitlines()
    for names, place, keywords in [line.strip().split("|")]
    for name in names.split()
}
_TOO: Final = {"axis", "ddof", "dtype", "keepdims"}
_REDUCED: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
    "logical_or": "any",
}  # fmt: skip
# What writes into its first argument.
_INTO: Final = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "at"}


class Universal(Handle):
    """NumPy's protocols: its functions give tensors. Those that torpor has are torpor's, lazy and
    differentiable; others are NumPy's of the values at the call, through which no gradient flows.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        out, *more = options.pop("out", (None,))
        if more or not (out is None or isinstance(out, Handle | np.ndarray)):
            return NotImplemented
        if isinstance(out, np.ndarray):
            plain = _each((inputs, options), Handle, np.asarray)
            return getattr(ufunc, method)(*plain[0], out=out, **plain[1])
        if out is not None:
            function = getattr(ufunc, method)
            if "where" not in options:
                return out.copy_(function(*inputs, **options))
            kept = {"out": np.array(out)}  # where nothing is written
            return out.copy_(self._of_numpy(function, inputs, options | kept))
        if method == "reduce" and name in _REDUCED:
            return getattr(np, _REDUCED[name])(*inputs, **({"axis": 0} | options))
        plain = _OPERATORS.get(name)
        named = getattr(sys.modules["torpor"], name, None) if plain is None else plain
        if method != "__call__" or options or not callable(named):
            return self._of_numpy(getattr(ufunc, method), inputs, options)
        numbers = [one.item() if isinstance(one, np.generic) else one for one in inputs]
        given = _each(numbers, np.ndarray, self._here)
        if plain is None and not isinstance(given[0], Handle):
            given[0] = as_tensor(given[0])
        return named(*given)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        out = options.get("out")
        if isinstance(out, Handle):
            rest = {name: value for name, value in options.items() if name != "out"}
            return out.copy_(function(*given, **rest))
        own = _own(function, given, options)
        if own is None:
            return self._of_numpy(function, given, options)
        given, options = _each((given, options), np.ndarray, self._here)
        return own(*given, **options)

    def _here(self, array: Any) -> Any:
        """An array of numbers as a tensor beside this one."""
        return as_tensor(array, device=self.device) if array.dtype.kind in "biufc" else array

    def _of_numpy(self, function: Any, given: Any, options: Any) -> Any:
        """What NumPy's function makes of the values."""
        plain = _each(given, Handle, np.array)
        made = function(*plain, **_each(options, Handle, np.asarray))
        if function.__name__ in _INTO and isinstance(given[0], Handle):
            given[0].copy_(as_tensor(plain[0]))
        return _each(made, np.ndarray | np.generic, self._here)


def _own(function: Any, given: Any, options: Any) -> Any:
    """Torpor's function for NumPy's; None if it has none, or not with these arguments."""
    room = function.__module__.removeprefix("numpy").lstrip(".")
    place, names = _SAME.get(function.__name__, (None, []))
    if place is None or room != (place if place in ("linalg", "fft") else ""):
        return None
    module, _, other = place.partition(".")
    namespace = getattr(sys.modules["torpor"], module) if module else sys.modules["torpor"]
    made = getattr(namespace, other or function.__name__)
    if names == ["..."]:
        return made
    by_place = names[: names.index("/")] if "/" in names else []
    names = [name for name in names if name != "/"]
    if not 1 <= len(given) <= len(names) + 1 or not {*names, *_TOO}.issuperset(options):
        return None

    def called(first: Any, *more: Any, **options: Any) -> Any:
        named = dict(zip(names, more, strict=False)) | options
        if "ddof" in named:
            named["correction"] = named.pop("ddof")
        return made(first, *[named.pop(name) for name in by_place], **named)

    return called


def _each(given: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    """Everything of a kind changed, in tuples, lists and dicts too."""
    if isinstance(given, kind):
        return change(given)
    if isinstance(given, dict):
        return {name: _each(value, kind, change) for name, value in given.items()}
    if not isinstance(given, list | tuple):
        return given
    parts = [_each(one, kind, change) for one in given]
    return type(given)(*parts) if hasattr(given, "_fields") else type(given)(parts)
