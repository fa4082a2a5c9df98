"""Attributes under names that are computed, and which there are.

Where torpor's modules read so, they read through these functions: a jitted function is guarded by
what could have been read, and sees here which object was asked, and for what. Of `getattr` and
`vars` it is told neither, so that after one of those everything counts as read.
"""

from __future__ import annotations

from typing import Any

_NONE: Any = object()


def attribute(owner: Any, name: str, default: Any = _NONE) -> Any:
    """The attribute of this name, or the default where one is given and there is none."""
    return getattr(owner, name) if default is _NONE else getattr(owner, name, default)


def attributes(owner: Any) -> dict[str, Any]:
    """Every attribute that the object itself has, by name: none where it cannot have any."""
    found: dict[str, Any] = getattr(owner, "__dict__", {})
    return found
