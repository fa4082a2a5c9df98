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
# Reductions, by the array API's names, whose meanings are NumPy's.
_REDUCTIONS: Final = {
    "sum": "sum", "prod": "prod", "mean": "mean", "std": "std", "var": "var", "max": "max",
    "min": "min", "amax": "max", "amin": "min", "any": "any", "all": "all", "argmax": "argmax",
    "argmin": "argmin",
}  # fmt: skip


class Universal(Handle):
    """NumPy's protocols: its functions of numbers, and its reductions, give tensors."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        plain = _OPERATORS.get(name)
        named = getattr(sys.modules["torpor"], name, None) if plain is None else plain
        out, *more = options.pop("out", (None,))
        to_tensor = not more and (out is None or isinstance(out, Handle))
        if method != "__call__" or options or not callable(named) or not to_tensor:
            return NotImplemented
        numbers = [one.item() if isinstance(one, np.generic) else one for one in inputs]
        given = [as_tensor(one) if isinstance(one, np.ndarray) else one for one in numbers]
        if plain is None and not isinstance(given[0], Handle):
            given[0] = as_tensor(given[0])
        made = named(*given)
        return made if out is None else out.copy_(made)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        name = _REDUCTIONS.get(function.__name__)
        known = {"keepdims", "axis", "ddof", "dtype"}.issuperset(options) and len(given) in (1, 2)
        if name is None or not known or not isinstance(given[0], Handle):
            return function(*_on_host(given), **_on_host(options))
        made = dict(zip(("axis",), given[1:], strict=False)) | options
        if "ddof" in made:
            made["correction"] = made.pop("ddof")
        return getattr(sys.modules["torpor"].array_api, name)(given[0], **made)


def _on_host(given: Any) -> Any:
    """Tensors as arrays, in tuples, lists and dicts too."""
    if isinstance(given, Handle):
        return np.asarray(given)
    if isinstance(given, dict):
        return {name: _on_host(value) for name, value in given.items()}
    return type(given)(map(_on_host, given)) if type(given) in (list, tuple) else given
