"""What is remembered of what came last."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def forget_oldest(known: dict[Any, Any], most: int) -> None:
    """Forget what was put in first, while there is more than so much; other threads may put in, and
    forget, meanwhile.
    """
    while len(known) > most:
        with suppress(KeyError, RuntimeError, StopIteration):
            del known[next(iter(known))]
