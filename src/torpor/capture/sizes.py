"""Kinds of call that differ in sizes alone, and are computed by kernels for any of them.

What is called with ever other sizes is not traced for each: from the third on the function is
called, and what it gives is computed by kernels that take its sizes as numbers (see
`pipeline/vary.py`). A size that stays is traced after all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

from torpor.base.errors import CaptureError
from torpor.capture.kind import TensorKey, without_sizes
from torpor.capture.tree import flatten
from torpor.tensor.handle import Handle

TRACED: Final = 2  # sizes that are, before kernels for any are used
Dynamic = str | Iterable[str] | Mapping[str, Any] | None


class Sizes:
    """Which sizes of a function's tensors may vary: those of the arguments that are `dynamic`, a
    name, names, or names with axes; None: all of them, once they have.
    """

    def __init__(self, function: Callable[..., Any], dynamic: Dynamic = None):
        self._axes: dict[str, Any] | None = None
        if dynamic is not None:
            names = [dynamic] if isinstance(dynamic, str) else dynamic
            self._axes = {n: names[n] if isinstance(names, Mapping) else None for n in names}
            self._signature = inspect.signature(function)
            unknown = [name for name in self._axes if name not in self._signature.parameters]
            if unknown:
                known = ", ".join(self._signature.parameters)
                raise CaptureError(f"jit(dynamic=...) names {unknown[0]!r}; there are {known}")

    def vary(self, key: tuple[Any, ...], known: Iterable[tuple[Any, ...]], call: Any) -> bool:
        """Whether a call of a new kind has come with enough other sizes to be one of any size."""
        axes = None if self._axes is None else self._named(call)
        rest = without_sizes(key, axes)
        others = sum(without_sizes(other, axes) == rest for other in known)
        return bool(others >= (TRACED if axes is None else 1))

    def _named(self, call: Any) -> dict[int, Container[int]]:
        """By the number of a tensor in a call, its axes that may vary."""
        assert self._axes is not None, "there are names"
        found: dict[int, Container[int]] = {}
        bound = self._signature.bind(*call.arguments, **call.options)
        for name, value in bound.arguments.items():
            if name in self._axes:
                axes = self._axes[name]
                for tensor in tensors_of(value):
                    rank = tensor.ndim
                    named = range(rank) if axes is None else axes
                    chosen = [named] if isinstance(named, int) else named
                    number = next(n for n, one in enumerate(call.tensors) if one is tensor)
                    found[number] = {axis % rank for axis in chosen}
        return found


def tensors_of(tree: Any) -> list[Handle]:
    """The tensors in tuples, lists and dicts."""
    tensors: list[Handle] = []
    flatten(tree, tensors, [], [])
    return tensors


def computed(result: Any) -> Any:
    """What a function has given, its tensors computed together."""
    tensors = tensors_of(result)
    if tensors:
        tensors[0].realize(*tensors[1:])  # type: ignore[attr-defined]
    return result


def shown(keys: Iterable[tuple[Any, ...]]) -> str:
    """The shapes that calls came with."""
    shapes = [tuple(part.shape for part in key if isinstance(part, TensorKey)) for key in keys]
    sizes = [", ".join(map(str, one)) for one in shapes]
    return "; ".join(sizes[:4]) + ("; ..." if len(sizes) > 4 else "")
