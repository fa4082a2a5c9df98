"""Nested lists that tensors are made of: what they hold, where that is not numbers alone."""

from __future__ import annotations

from typing import Any

from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle


def holds_complex(data: Any) -> bool:
    """Whether data are, or hold, complex numbers."""
    if isinstance(data, list | tuple):
        return not _are_plain(data) and any(map(holds_complex, data))
    if isinstance(data, Handle):
        return data.is_pair
    kind = getattr(getattr(data, "dtype", None), "kind", None)
    return kind == "c" or isinstance(data, complex)


def stacked(data: Any) -> Tensor | None:
    """A nested list in which there are tensors, stacked; None of anything else."""
    return Handle._type.stack(list(map(_made, data))) if _holds_tensors(data) else None


def _made(part: Any) -> Any:
    if isinstance(part, Handle):
        return part
    found = stacked(part)
    return Handle._type(part) if found is None else found


def _holds_tensors(data: Any) -> bool:
    if isinstance(data, Handle):
        return True
    is_list = isinstance(data, list | tuple) and not _are_plain(data)
    return is_list and any(map(_holds_tensors, data))


def _are_plain(data: Any) -> bool:
    """Whether all are real numbers of Python's: said at once of long lists."""
    return not set(map(type, data)) - {int, float, bool}


__all__ = ["holds_complex", "stacked"]
