"""What the reference says of each function besides its text: made by calling its example anew."""

from __future__ import annotations

import functools
from typing import NamedTuple

from tools.reference import formats, refusals, shapes
from tools.reference.listing import Entry
from tools.reference.trying import core


class Facts(NamedTuple):
    """Shapes and formats in words, and calls that raise errors, as Markdown; empty if unknown."""

    shapes: str
    formats: str
    errors: str


@functools.cache
def facts(entry: Entry) -> Facts:
    """What calls of an entry's example show."""
    call = core(entry)
    if not call:
        return Facts("", "", refusals.told(entry))
    return Facts(shapes.told(call), formats.told(call), refusals.told(entry))


def shown(entry: Entry) -> str:
    """The facts as Markdown, after the example whose tensors they name."""
    found = facts(entry)
    parts = []
    if found.shapes:
        parts.append(f"**Shapes:** {found.shapes}.")
    if found.formats:
        parts.append(f"**Formats:** {found.formats}.")
    parts.append(found.errors)
    return "\n\n".join(part for part in parts if part)
