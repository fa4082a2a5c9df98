"""Locks that are free in a forked child, where the threads that held them are not; and how to take
one without waiting long so that Ctrl-C cannot leave it locked.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final, TypeVar

Lock = TypeVar("Lock")

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def free_after_fork(lock: Lock) -> Lock:
    """The lock, which a forked child finds free unless the forking thread itself holds it."""
    _locks.add(lock)
    return lock


def recursive_lock() -> Any:
    """A `threading.RLock` that is free after a fork."""
    return free_after_fork(threading.RLock())


def taken(lock: Any, patience: float = 0.0, *, at_once: tuple[bool] = (False,)) -> bool:
    """Whether the lock could be taken within so many seconds, without waiting by default.

    To be asked right before the `try` that gives it back. `lock.acquire(...)` would not do: Python
    looks for signals after each call, so that Ctrl-C may raise when it has just been taken. It does
    not look while it goes over an iterator, nor when a function returns. `at_once` has a name here
    since those of the module are gone when the interpreter ends.
    """
    (found,) = (
        map(lock.acquire, (True,), (patience,)) if patience > 0 else map(lock.acquire, at_once)
    )
    return found  # type: ignore[no-any-return] # by no call: `bool` is one


def _after_fork() -> None:
    for lock in _locks:
        owned = getattr(lock, "_is_owned", None)
        renew = getattr(lock, "_at_fork_reinit", None)  # the standard library's way with its own
        if renew is not None and (owned is None or not owned()):
            renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
