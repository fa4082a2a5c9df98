"""Functions of each element: the tensor's methods, some under other names."""

from __future__ import annotations

from typing import Any, Final

from torpor.tensor import Tensor
from torpor.tensor.creation import as_tensor
from torpor.tensor.formats import imag, real
from torpor.tensor.operands import choose, promoted

_UNARY: Final = """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite isinf isnan
    log log10 log1p log2 logical_not negative positive reciprocal sign signbit sin sinh sqrt
    square tan tanh trunc bitwise_invert
    """.split()  # noqa: SIM905 (a table that is read)
_BINARY: Final = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    equal
    """.split()  # noqa: SIM905 (as above)
_NAMES: Final = {"sign": "sgn", "bitwise_invert": "bitwise_not", "equal": "eq"}  # of the methods


def _of_elements(name: str, binary: bool) -> Any:
    method = _NAMES.get(name, name)

    def of_one(x: Any, /) -> Tensor:
        made: Tensor = getattr(as_tensor(x), method)()
        return made

    def of_two(x1: Any, x2: Any, /) -> Tensor:
        if not isinstance(x1, Tensor):  # a number takes the other's format
            x2, x1 = promoted(as_tensor(x2), x1)
        made: Tensor = getattr(x1, method)(x2)
        return made

    function: Any = of_two if binary else of_one
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Tensor, method).__doc__
    return function


globals().update({name: _of_elements(name, False) for name in _UNARY})
globals().update({name: _of_elements(name, True) for name in _BINARY})


def round(x: Any, /) -> Tensor:
    """To the nearest whole number, the even one of two; of complex numbers both parts."""
    made: Tensor = x.by_parts(Tensor.round) if x.is_pair else x.round()
    return made


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Raised to `min`, then lowered to `max`, in the format of x."""
    return x.clone() if min is None and max is None else x.clamp(min, max).cast(x.dtype)


def where(condition: Tensor, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where the condition holds, else x2; alone, `nonzero` of it, as in NumPy."""
    if (x1 is None) != (x2 is None):
        raise TypeError("where() takes a condition alone, or with both x1 and x2")
    return condition.nonzero(as_tuple=True) if x1 is None else choose(condition, x1, x2)


__all__ = [*_UNARY, *_BINARY, "clip", "imag", "real", "round", "where"]
