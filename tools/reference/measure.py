"""How many public functions say shapes, say errors, and have an example that runs."""

from __future__ import annotations

import importlib
import re
from typing import Final

from tools.reference import samples
from tools.reference.listing import NAMESPACES, Entry, homes

_SHAPES: Final = re.compile(
    r"\b(shape|axis|axes|0-d|vectors?|matri(x|ces)|element|sizes?|length|window|row|column)\b"
    r"|\((\.\.\.|n\b|batch|count|height)|\w\[[\w, .*]+\]",
)
_ERRORS: Final = re.compile(r"\w+Error\b|\braises?\b|\bNaN\b|\binf(inite)?\b")


def _told(entry: Entry) -> str:
    """An entry's own text, what stands above it on its page, and that of what a class is of."""
    bases = entry.value.__mro__[1:3] if isinstance(entry.value, type) else ()
    above = entry.family or importlib.import_module(NAMESPACES[entry.space])
    return " ".join([entry.text, above.__doc__ or "", *(base.__doc__ or "" for base in bases)])


def has_example(entry: Entry) -> bool:
    """Whether there is an example, in the text or made from the table."""
    return ">>>" in entry.text or samples.call_of(entry) is not None


def row(there: list[Entry]) -> tuple[int, ...]:
    """How many there are, and how many of them say shapes, errors, and have an example."""
    return (
        len(there),
        sum(bool(_SHAPES.search(_told(entry))) for entry in there),
        sum(bool(_ERRORS.search(_told(entry))) for entry in there),
        sum(map(has_example, there)),
    )


def table() -> str:
    """The counts as Markdown, by namespace; other names of one thing count once."""
    spaces: dict[str, list[Entry]] = {}
    for entry in homes().values():
        spaces.setdefault(entry.space, []).append(entry)
    every = [entry for there in spaces.values() for entry in there]
    rows = [(f"`{space}`", *row(there)) for space, there in spaces.items()] + [("all", *row(every))]
    head = "| | names | say shapes | say errors or NaN | have an example |\n|---|--:|--:|--:|--:|\n"
    return head + "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in rows)
