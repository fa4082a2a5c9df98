"""Methods as functions: `f(x)` means what `x.f()` means, in every namespace that has both."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

from torpor.tensor.creation import as_tensor
from torpor.tensor.operands import choose
from torpor.tensor.spelling import spelled, written
from torpor.tensor.tensor import Tensor

# What PyTorch calls the tensor that a function is first of.
_FIRST: Final = (
    "input", "elements", "real", "abs", "x", "y", "self", "tensor", "A", "a", "x1", "query",
    "indices",
)  # fmt: skip


def function_of(name: str) -> Callable[..., Any]:
    """The method `name` as a function of a tensor, or of anything that one can be made of, which
    may be given by name, as `input=` or `x=`; with `out=` the result is written there.
    """
    method = getattr(Tensor, name)
    own = {*inspect.signature(method).parameters} - {"self"}
    first_names = tuple([one for one in _FIRST if one not in own])

    @functools.wraps(method)
    def function(*arguments: Any, **options: Any) -> Any:
        if not arguments:
            named = next((one for one in first_names if one in options), None)
            if named is None:
                raise TypeError(f"{name}() needs a tensor: first, or as input=")
            arguments = (options.pop(named),)
        out = options.pop("out", None)
        first: Any = as_tensor(arguments[0])
        of_its_kind = getattr(type(first), name) if first.is_pair else method
        return written(out, of_its_kind(first, *arguments[1:], **options))

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function


def __getattr__(name: str) -> Any:
    """The function that `torpor` has by a name: pickles look for it where it is made."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(sys.modules["torpor"], name)


@spelled
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`where(condition, input, other)`: `input` where the condition holds, else `other`; the
    condition alone: where it holds, as `nonzero(as_tuple=True)`.
    """
    held = as_tensor(condition)
    if input is None and other is None:
        return held.nonzero(as_tuple=True)
    return choose(held, input, other)
