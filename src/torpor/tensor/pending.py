"""What waits to be computed though nobody asks for it: values that were written in place, and
losses that `backward` was called on. Whatever is computed next takes them along, since they share
its work; before too many writes to one of them all are computed, so that no graph grows for ever.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final

from torpor.tensor.storage import Storage, is_buffer, recall

# Writes to one value that may wait: a choice. So many are compiled as one where nobody asks.
MOST_WRITES: Final = 4


class _Waiting(threading.local):
    """Storages of this thread, weakly, by identity, and how often each was written to; and those
    whose value cannot be computed, which wait for whoever asks.
    """

    def __init__(self) -> None:
        self.storages: dict[int, tuple[weakref.ref[Storage], int]] = {}
        self.failed: weakref.WeakSet[Storage] = weakref.WeakSet()


_waiting: Final = _Waiting()


def wait(storage: Storage) -> None:
    """Have a storage's value computed along with whatever is computed next."""
    if storage not in _waiting.failed:
        _waiting.storages[id(storage)] = weakref.ref(storage), writes_of(storage) + 1


def writes_of(storage: Storage) -> int:
    """How many writes to a storage wait."""
    known, writes = _waiting.storages.get(id(storage), (None, 0))
    return writes if known is not None and known() is storage else 0


def are_waiting() -> bool:
    """Whether something waits in this thread."""
    return bool(_waiting.storages)


def taken_along() -> list[Storage]:
    """The storages that wait in this thread and that somebody holds; they wait no longer."""
    found, _waiting.storages = _waiting.storages, {}
    held = [storage for known, _ in found.values() if (storage := known()) is not None]
    return [one for one in held if not is_buffer(one.base) and recall(one.base) is None]


def leave(storage: Storage) -> None:
    """Leave a storage, whose value could not be computed, to whoever asks for it."""
    _waiting.failed.add(storage)
