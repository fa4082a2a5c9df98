"""Locks after a fork."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Any

import pytest

from torpor.base.locks import free_after_fork, recursive_lock, taken

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(asked: Any) -> bool:
    """Whether what is asked is true in a forked child."""
    child = os.fork()
    if child == 0:
        os._exit(0 if asked() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("make", [recursive_lock, lambda: free_after_fork(threading.Lock())])
def test_a_lock_that_another_thread_held_is_free_in_a_child(make: Any) -> None:
    lock, taken, over = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert in_child(lambda: lock.acquire(blocking=False))
        assert not lock.acquire(blocking=False)
    finally:
        over.set()
        thread.join()


def test_a_lock_of_the_forking_thread_is_still_its_own_in_a_child() -> None:
    lock = recursive_lock()

    def released() -> bool:
        lock.release()
        return not lock._is_owned()

    with lock:
        assert in_child(released)


class Interrupted:
    """A lock that Ctrl-C meets while it is taken."""

    acquire = ctypes.pythonapi.PyErr_SetInterrupt

    def __init__(self) -> None:
        self.acquire.restype = ctypes.c_int


def test_ctrl_c_does_not_come_before_the_try() -> None:
    """What takes the lock is C, after which Python would look for signals."""
    lock, reached = Interrupted(), []

    def plainly() -> None:
        lock.acquire(False, -1)
        reached.append("plainly")

    def rightly() -> None:
        taken(lock)
        reached.append("rightly")

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for way in (plainly, rightly):
            with pytest.raises(KeyboardInterrupt):
                way()
        assert reached == ["rightly"]
    finally:
        signal.signal(signal.SIGINT, old)


def test_a_lock_is_taken_once() -> None:
    lock, found = threading.Lock(), []
    assert taken(lock) and not taken(lock) and not taken(lock, 0.01)
    waiting = threading.Thread(target=lambda: found.append(taken(lock, 10)))
    waiting.start()
    lock.release()
    waiting.join()
    assert found == [True] and lock.locked()
