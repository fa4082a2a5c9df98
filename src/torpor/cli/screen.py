"""What the commands print to."""

from __future__ import annotations

from rich.console import Console


def screen(stderr: bool = False) -> Console:
    """A console for texts that may come from users and systems: a name in brackets or colons is no
    markup, and a line is broken by the terminal, not here, so that it can be searched and copied.
    """
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)
