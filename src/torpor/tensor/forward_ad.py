"""Derivatives along a direction, by PyTorch's names: tensors that carry a tangent, in a level."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from torpor.base.errors import GradientError
from torpor.base.missing import names_of
from torpor.tensor.differentiate import depends_on, recorded, released
from torpor.tensor.looping import filled
from torpor.tensor.mode import carrying_tangents, held
from torpor.tensor.transforms import directions, followed, parts_in, pushed, through_no_grad
from torpor.tensor.write import as_it_is

__all__ = ["UnpackedDualTensor", "dual_level", "make_dual", "unpack_dual"]
__getattr__ = names_of("torpor.autograd.forward_ad", lambda: __all__)

# The tensors that carry tangents, with those, in the level that there is.
_level: Final[ContextVar[list[tuple[Any, list[Any]]] | None]] = ContextVar(
    "dual_level", default=None
)


class UnpackedDualTensor(NamedTuple):
    """A value, and its change when what carries tangents changes by those; None for no change."""

    primal: Any
    tangent: Any


@contextmanager
def dual_level() -> Iterator[int]:
    """Where tensors may carry tangents: they lose them at the end. One level holds no other one."""
    if _level.get() is not None:
        raise GradientError("a dual_level inside of another; torpor.jvp may be in a jvp")
    with held(_level, []), carrying_tangents():
        yield 0


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor, which carries a tangent of its shape in this level.

    >>> forward = torpor.autograd.forward_ad
    >>> with forward.dual_level():
    ...     x = forward.make_dual(Tensor(3.0), Tensor(1.0))
    ...     forward.unpack_dual(x * x).tangent.item()
    6.0
    """
    duals = _level.get()
    if duals is None:
        raise GradientError("make_dual needs a level: with forward_ad.dual_level():")
    dual = followed(tensor)
    duals.append((dual, directions("make_dual", "tangent", dual, tangent)))
    return as_it_is(dual)


@recorded
def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor, by the tensors of this level that it depends on, also
    of what is computed under `no_grad`.
    """
    with through_no_grad():
        duals = [(dual, parts) for dual, parts in _level.get() or () if depends_on(tensor, dual)]
    if not duals or not (tensor.dtype.is_float or tensor.is_pair):
        return UnpackedDualTensor(tensor, None)
    inside, tangents = [dual for dual, _ in duals], [part for _, parts in duals for part in parts]
    push = pushed(parts_in(tensor), parts_in(inside))
    change = filled(tensor, iter(push(tangents)))
    return UnpackedDualTensor(*released((tensor, change), inside))
