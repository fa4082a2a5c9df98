"""What waits to be computed though nobody asks for it: values that were written in place, and
losses that `backward` was called on. Whatever is computed next takes them along, since they share
its work; before too many writes to one of them all are computed, so that no graph grows for ever.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from typing import Final

from torpor.tensor.handle import Handle
from torpor.tensor.storage import Storage, is_buffer, recall

# Writes to one value that may wait: a choice. So many are compiled as one where nobody asks.
MOST_WRITES: Final = 4
MOST_DETACHED: Final = 256  # tensors that are looked at, the latest


def _count_of_one_holder() -> int:
    """What `sys.getrefcount` says of a thing that one other thing and a name here hold: whether its
    own argument counts depends on the Python.
    """
    holder = [object()]
    thing = holder[0]
    return sys.getrefcount(thing)


ALONE: Final = _count_of_one_holder()  # of a storage that only its handle holds


class _Waiting(threading.local):
    """Storages of this thread, weakly, by identity, and how often each was written to; those whose
    value cannot be computed, which wait for whoever asks; and detached views of what has gradients.
    """

    def __init__(self) -> None:
        self.storages: dict[int, tuple[weakref.ref[Storage], int]] = {}
        self.failed: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.detached: deque[weakref.ref[Handle]] = deque(maxlen=MOST_DETACHED)


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


# --- what is detached and kept --------------------------------------------------------------------
def note_detached(view: Handle) -> None:
    """Look later whether nothing but detached views is left of a tensor."""
    if view._storage.requires:
        _waiting.detached.append(weakref.ref(view))


def let_graphs_go() -> None:
    """Storages that have been computed and that only detached views hold keep their values alone:
    no gradient can be asked for through them.
    """
    views: dict[int, list[Handle]] = {}
    for reference in _waiting.detached:
        if (view := reference()) is not None:
            views.setdefault(id(view._storage), []).append(view)
    if not views:
        return
    for group in views.values():
        _let_go(group)
    left = [view for group in views.values() for view in group if view._storage.requires]
    _waiting.detached = deque(map(weakref.ref, left), MOST_DETACHED)


def _let_go(group: list[Handle]) -> None:
    storage = group[0]._storage
    value = recall(storage.base)
    if value is None or sys.getrefcount(storage) != ALONE + len(group) - 1:
        return
    storage.requires = False
    if storage.would_share(value):
        storage.requires = True
        return
    storage.settle(storage.base, value)
    for view in group:
        view._current()
