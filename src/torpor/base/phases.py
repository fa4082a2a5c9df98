"""Phases: what the time between a line of the user's program and its result goes to.

What takes time says so with `phase`, or with `note` once it is over; who listens (`torpor.profile`,
`measuring`, the journal of VIZ) is told of it as an `Event`. Where nobody does, a phase costs a
look. Who listens is context-local: threads do not hear each other's work.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

from torpor.base import settings
from torpor.base.site import Site, here

# In the order of a first call. What is left of a program's time is its own Python.
PHASES: Final = ("import", "trace", "graph", "schedule", "search", "compile", "load", "launch",
                 "kernel")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time, told when it is over.

    phase:      one of `PHASES`.
    start:      by `time.perf_counter`.
    own:        of its seconds, those that no other event tells of.
    asked:      the user's line that had to wait for it.
    built:      the line whose work it is, where that is known.
    why:        why it had to be done.
    operations, bytes: of a kernel, estimated.
    subject:    what it was done to, for who listens in this very moment.
    """

    phase: str
    name: str
    start: float
    seconds: float
    own: float
    asked: Site | None
    built: Site | None = None
    why: str = ""
    operations: int = 0
    bytes: int = 0
    device: str = ""
    subject: Any = None
    thread: int = field(default_factory=get_ident)


class Listener(ABC):
    """Who wants to know."""

    @abstractmethod
    def hear(self, event: Event) -> None:
        """An event is over."""


_listeners: Final[ContextVar[tuple[Listener, ...] | None]] = ContextVar(
    "torpor_listeners", default=None
)
listeners: Final = _listeners.get  # None, or all of them
writers: Final[list[Callable[[Event], None]]] = []  # told of everything as long as VIZ is set


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` what happens in the block, beside those who listen already."""
    token = _listeners.set((*(listeners() or ()), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def heard() -> bool:
    """Whether anybody listens here and now."""
    return listeners() is not None or settings.number("VIZ") > 0


class _Open(threading.local):
    """Seconds of events that are over, inside each phase of this thread that is not."""

    def __init__(self) -> None:
        self.inside: list[float] = []


_open: Final = _Open()
_unheard: Final = nullcontext()


def phase(name: str, what: str = "", why: str = "") -> AbstractContextManager[None]:
    """Tell of what the block does: which phase it is, of what, and why it had to be."""
    return _Phase(name, what, why) if heard() else _unheard


class _Phase(AbstractContextManager[None]):
    def __init__(self, name: str, what: str, why: str):
        self._name, self._what, self._why = name, what, why

    def __enter__(self) -> None:
        self._asked = here(2)
        _open.inside.append(0.0)
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._start
        own = seconds - _open.inside.pop()
        tell(Event(self._name, self._what, self._start, seconds, own, self._asked, why=self._why))


def note(phase: str, name: str, start: float, seconds: float, **facts: Any) -> None:
    """Tell of something that is over, and inside of which nothing is told."""
    if heard():
        tell(Event(phase, name, start, seconds, seconds, here(2), **facts))


def tell(event: Event) -> None:
    """Have everybody hear of it. Its time is none that the phase around it took by itself."""
    if _open.inside:
        _open.inside[-1] += event.seconds
    for listener in listeners() or ():
        listener.hear(event)
    if settings.number("VIZ"):
        for write in writers:
            write(event)
