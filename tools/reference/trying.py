"""Examples called anew: with their tensors in other shapes and formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torpor
from tools.reference import samples
from tools.reference.listing import Entry
from torpor import Tensor

# Tensors of examples that are indices, and those that are no floats.
PLACES: Final = ("w", "n")
NO_FLOATS: Final = (*PLACES, "m", "held")
_VIEWED: Final = re.compile(r"(\.shape|\.tolist\(\)|\[0\]\.shape|\.device|\.data\.shape)$")


def core(entry: Entry) -> str:
    """The call of an entry's example, without what only shows less of its result."""
    call = samples.call_of(entry) or ""
    bare = _VIEWED.sub("", call)
    return bare if entry.name in bare else call


def tensors(call: str) -> list[str]:
    """The example's tensors that it names."""
    other = ("optimiser",)
    return [name for name in samples.setting(call) if name not in other]


def filled(name: str, shape: Iterable[int]) -> Tensor:
    """An example's tensor in another shape: shares, places, or a positive definite matrix."""
    shape = tuple(shape)
    if name == "a":
        return Tensor.eye(shape[-1]).expand(*shape) + 0.25
    if name in PLACES:
        return Tensor.zeros(shape, dtype="int64")
    if name == "m":
        return Tensor.full(shape, 6)
    if name == "held":
        return Tensor.ones(shape, dtype="bool")
    made = Tensor.rand(*shape)
    return torpor.complex(made, made) if name == "c" else made


def results(call: str, **given: Any) -> tuple[Tensor, ...]:
    """The tensors of a call's result; none where something else is in it."""
    parts = tuple(_parts(samples.evaluate(call, **given)))
    return parts if all(isinstance(part, Tensor) for part in parts) else ()


def _parts(made: Any) -> Iterator[Any]:
    for part in made if isinstance(made, tuple | list) else (made,):
        yield from _parts(part) if isinstance(part, tuple | list) else (part,)


def attempted(call: str, given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """`results`, none where it cannot be called so."""
    try:
        return results(call, **given)
    except Exception:
        return ()
