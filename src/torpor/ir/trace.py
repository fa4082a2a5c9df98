"""Recording of rewrites: who listens hears every application of a rule (name, before, after)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from torpor.ir.uop import UOp


@dataclass(frozen=True)
class Event:
    """One application of a rule. `stage` is the pass that ran."""

    stage: str
    rule: str
    before: UOp
    after: UOp


Listener = Callable[[Event], None]
_listener: Final[ContextVar[Listener | None]] = ContextVar("torpor_trace", default=None)


def listener() -> Listener | None:
    """Who listens here and now."""
    return _listener.get()


@contextmanager
def listening(function: Listener) -> Iterator[None]:
    """Call `function` with each event inside the block."""
    token = _listener.set(function)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def recording() -> Iterator[list[Event]]:
    """Collect the events inside the block into the list that is given."""
    events: list[Event] = []
    with listening(events.append):
        yield events
