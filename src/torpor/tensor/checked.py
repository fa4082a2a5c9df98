"""Factorisations that say of each matrix whether it has one (`info`), instead of raising."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torpor.base.errors import LinAlgError
from torpor.tensor.host_call import telling
from torpor.tensor.spelling import spelled
from torpor.tensor.tensor import Tensor


class Checked(NamedTuple):
    """What `solve_ex` gives: NaN where a matrix is singular, and info (int32): 0, or which pivot,
    counted from 1, is 0.
    """

    result: Any
    info: Any


class CheckedInverse(NamedTuple):
    """What `inv_ex` gives, as `Checked`."""

    inverse: Any
    info: Any


class CheckedTriangle(NamedTuple):
    """What `cholesky_ex` gives, as `Checked`; info is the order of the first leading minor that is
    not positive.
    """

    L: Any
    info: Any


def checked(function: Callable[..., Any], kind: Any) -> Any:
    """The function with `check_errors=False`: where it raises, it gives NaN and says why."""

    def method(A: Tensor, *arguments: Any, check_errors: bool = False, **options: Any) -> Any:
        with telling() as told:
            made = function(A, *arguments, **options)
        info, words = told[0]
        if check_errors and info.any():
            raise LinAlgError(words)
        return kind(made, info.int())

    method.__name__ = f"{function.__name__}_ex"
    method.__doc__ = f"(`{function.__name__}`, info): NaN and which pivot, where there is none."
    return spelled(method)
