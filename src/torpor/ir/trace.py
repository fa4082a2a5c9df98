"""Recording of rewrites: who listens hears every application of a rule (name, before, after), and
what each pass over a kernel leaves behind.
"""

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
PassListener = Callable[[str, UOp], None]
_listener: Final[ContextVar[Listener | None]] = ContextVar("torpor_trace", default=None)
_pass_listener: Final[ContextVar[PassListener | None]] = ContextVar("torpor_passes", default=None)


def listener() -> Listener | None:
    """Who listens here and now."""
    return _listener.get()


def watched() -> bool:
    """Whether somebody is told of passes."""
    return _pass_listener.get() is not None


def passed(name: str, root: UOp) -> None:
    """Tell who listens what a pass has left behind."""
    if (listen := _pass_listener.get()) is not None:
        listen(name, root)


@contextmanager
def listening(function: Listener, passes: PassListener | None = None) -> Iterator[None]:
    """Call `function` with each event inside the block, and `passes` with each pass's name and
    what it left.
    """
    token, other = _listener.set(function), _pass_listener.set(passes)
    try:
        yield
    finally:
        _listener.reset(token)
        _pass_listener.reset(other)


@contextmanager
def recording() -> Iterator[list[Event]]:
    """Collect the events inside the block into the list that is given."""
    events: list[Event] = []
    with listening(events.append):
        yield events
