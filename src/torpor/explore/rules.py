"""What rules and passes mean: the first paragraph of their docstrings, and where they stand.

Read from torpor's own sources as text; nothing is imported or run for it.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_PACKAGE: Final = Path(__file__).resolve().parent.parent
_ROOMS: Final = ("rules", "graph", "kernel", "view", "schedule", "ir")  # that have rules and passes


class Meaning(NamedTuple):
    """What a rule's docstring says, its place in torpor's sources, and its text."""

    says: str
    place: str
    source: str


@cache
def meanings() -> dict[str, list[Meaning]]:
    """By the name of a function with a docstring, those that state an equation first."""
    found: dict[str, list[Meaning]] = {}
    for room in _ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and (told := ast.get_docstring(node)):
                    says = " ".join(told.partition("\n\n")[0].split())
                    place = f"torpor/{path.relative_to(_PACKAGE).as_posix()}:{node.lineno}"
                    source = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
                    found.setdefault(node.name, []).append(Meaning(says, place, source))
    return {
        name: sorted(all_, key=lambda one: "->" not in one.says) for name, all_ in found.items()
    }


def meaning(name: str, file: str = "") -> Meaning:
    """Of one rule or pass, that in the file if any; empty where nothing is known of it."""
    known = meanings().get(name, [])
    return next((one for one in known if file in one.place), Meaning("", "", ""))
