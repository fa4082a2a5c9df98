"""Factorisations that say of each matrix whether it has one (`info`), instead of raising."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.tensor import dense
from torpor.tensor.creation import beside
from torpor.tensor.factorisation import HostError
from torpor.tensor.host import known_size
from torpor.tensor.lu import lu_factor_ex
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


def zero_pivot(A: Tensor) -> Any:
    """Of each matrix which pivot is 0, counted from 1, or 0; the last where rounding decides."""
    matrices, found = A.detach().numpy(), lu_factor_ex(A.detach()).info.numpy()
    for place in np.ndindex(found.shape):
        if not found[place] and _fails(np.linalg.inv, matrices[place]):
            found[place] = matrices.shape[-1]
    return found


def failing_minor(A: Tensor) -> Any:
    """Of each matrix the order of the first leading minor that is not positive, or 0."""
    matrices = A.detach().numpy()
    found = np.zeros(matrices.shape[:-2], np.int32)
    for place in np.ndindex(found.shape):
        minors = (n for n in range(1, matrices.shape[-1] + 1)
                  if _fails(np.linalg.cholesky, matrices[place][:n, :n]))  # fmt: skip
        found[place] = next(minors, 0)
    return found


def _fails(function: Callable[[Any], Any], matrix: Any) -> bool:
    try:
        function(matrix)
    except np.linalg.LinAlgError:
        return True
    return False


def checked(function: Callable[..., Any], kind: Any, which: Callable[[Tensor], Any]) -> Any:
    """The function with `check_errors=False`: where it raises, it is computed of the matrices of
    which `which` says 0.
    """

    def method(A: Tensor, *arguments: Any, check_errors: bool = False, **options: Any) -> Any:
        try:
            made = function(A, *arguments, **options)
            return kind(made, A.new_zeros(A.shape[:-2], dtype="int32"))
        except HostError:
            raise
        except ValueRangeError:
            info = which(A)
            if check_errors or not info.any():
                raise
        info = beside(np.asarray(info, np.int32), A)
        broken: Any = info.ne(0)
        one = Tensor.eye(known_size(A.shape[-1]), dtype=A.dtype, device=A.device)
        rest = broken.reshape(*broken.shape, 1, 1).where(one, A)
        made = function(rest, *arguments, **options)
        right = arguments[0] if arguments else options.get("B")
        alone = right is not None and dense.of_vectors(rest, right, options.get("left", True))[2]
        axes = (1,) if alone else (1, 1)
        return kind(broken.reshape(*broken.shape, *axes).where(float("nan"), made), info)

    method.__name__ = f"{function.__name__}_ex"
    method.__doc__ = f"(`{function.__name__}`, info): NaN and which pivot, where there is none."
    return spelled(method)
