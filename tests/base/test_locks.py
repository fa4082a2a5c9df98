"""Locks after a fork."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from torpor.base.locks import free_after_fork, recursive_lock

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
