"""Functions of each element: the tensor's methods, some under other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torpor.tensor import Tensor
from torpor.tensor.creation import as_tensor
from torpor.tensor.operands import choose, promoted


def _unary(name: str, method: str = "") -> Callable[[Any], Tensor]:
    def function(x: Any, /) -> Tensor:
        made: Tensor = getattr(as_tensor(x), method or name)()
        return made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Tensor, method or name).__doc__
    return function


def _binary(name: str, method: str = "") -> Callable[[Any, Any], Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        if not isinstance(x1, Tensor):  # a number takes the other's format
            x2, x1 = promoted(as_tensor(x2), x1)
        made: Tensor = getattr(x1, method or name)(x2)
        return made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Tensor, method or name).__doc__
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
ceil = _unary("ceil")
conj = _unary("conj")
cos = _unary("cos")
cosh = _unary("cosh")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logical_not = _unary("logical_not")
negative = _unary("negative")
positive = _unary("positive")
reciprocal = _unary("reciprocal")
sign = _unary("sign", "sgn")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")
bitwise_invert = _unary("bitwise_invert", "bitwise_not")

add = _binary("add")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide")
floor_divide = _binary("floor_divide")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
hypot = _binary("hypot")
less = _binary("less")
less_equal = _binary("less_equal")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
pow = _binary("pow")
remainder = _binary("remainder")
subtract = _binary("subtract")
equal = _binary("equal", "eq")


def round(x: Any, /) -> Tensor:
    """To the nearest whole number, the even one of two; of complex numbers both parts."""
    made: Tensor = x.by_parts(Tensor.round) if x.is_pair else x.round()
    return made


def real(x: Tensor, /) -> Tensor:
    """The real parts."""
    return x.real


def imag(x: Any, /) -> Tensor:
    """The imaginary parts of complex numbers."""
    made: Tensor = x.imag
    return made


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Raised to `min`, then lowered to `max`, in the format of x."""
    if min is None and max is None:
        return x.clone()
    return x.clamp(min, max).cast(x.dtype)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, else x2."""
    return choose(condition, x1, x2)


__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor",
    "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan",
    "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter",
    "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "where",
]  # fmt: skip
