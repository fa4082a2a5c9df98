"""What waits to be computed though nobody asks for it: values that were written in place, and
losses that `backward` was called on. Whatever is computed next takes them along, since they share
its work; after many writes they are computed by themselves, so that no graph grows for ever.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final

from torpor.tensor.storage import Storage, is_buffer, recall

# Writes to one value that may wait: a choice. So many steps that nobody asks about are compiled as
# one, and each keeps the graph of what it wrote.
MOST_WRITES: Final = 16


class _Waiting(threading.local):
    """Storages of this thread, weakly, by identity, and how often each was written to."""

    def __init__(self) -> None:
        self.storages: dict[int, tuple[weakref.ref[Storage], int]] = {}


_waiting: Final = _Waiting()


def wait(storage: Storage) -> bool:
    """Have a storage's value computed along with whatever is computed next; whether it has waited
    for as many writes as may wait.
    """
    known, writes = _waiting.storages.get(id(storage), (None, 0))
    if known is None or known() is not storage:
        known, writes = weakref.ref(storage), 0
    _waiting.storages[id(storage)] = known, writes + 1
    return writes + 1 >= MOST_WRITES


def taken_along() -> list[Storage]:
    """The storages that wait in this thread and that somebody holds; they wait no longer."""
    found, _waiting.storages = _waiting.storages, {}
    held = [storage for known, _ in found.values() if (storage := known()) is not None]
    return [one for one in held if not is_buffer(one.base) and recall(one.base) is None]
