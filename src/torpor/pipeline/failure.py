"""What a program that records failed with, for who reads the recording."""

from __future__ import annotations

import sys
from typing import Any

from torpor.pipeline.journal import journal, recording


def note(error: BaseException | None) -> None:
    """Write down an error that nobody caught, where something is recorded."""
    if recording() and isinstance(error, Exception):
        journal().failed(error)


def listen() -> None:
    """From here on note what nobody catches, before Python prints it."""
    before = sys.excepthook

    def heard(kind: Any, error: BaseException, trace: Any) -> None:
        note(error)
        before(kind, error, trace)

    sys.excepthook = heard
