"""What a traced function is given in the place of views, and of tensors whose sizes vary.

A view is a part of memory that others look at too. A function that only computes with it is traced
with a tensor of its own that has the view's value, so that another part can be given the next time.
As soon as it writes to that memory, or keeps a part of the view, all that has been made of such
tensors becomes what it would be without them; nothing has been written there until then.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

from torpor.tensor.handle import Handle, viewed
from torpor.tensor.tensor import steps_of


class StandIns:
    """`viewed`: the storages of which the function was given views, and those in their place."""

    def __init__(self) -> None:
        self.viewed: set[int] = set()
        self._given: dict[int, tuple[Handle, Handle]] = {}  # by storage: it, and what it stands for
        self._made: weakref.WeakSet[Handle] = weakref.WeakSet()  # views of them
        self._stand = True  # until they are put back

    def put(self, given: Handle, tensor: Handle, sized: bool) -> None:
        """The function is given a tensor in the place of another: with the value of a view, or of a
        size that varies.
        """
        self.viewed |= {id(given._storage), id(tensor._storage)}
        if not sized:
            self._given[id(given._storage)] = given, tensor

    def note(self, view: Handle) -> None:
        """A view has been made."""
        if self._stand and id(view._storage) in self._given:
            self._made.add(view)

    def are_kept(self) -> bool:
        """Whether there are views of them still; those that nobody can reach are no matter."""
        if self._made:
            gc.collect()
        return bool(self._made)

    def put_back(self) -> None:
        """Let them, and views of them, be of what the function was called with."""
        views = [(view, self._given[id(view._storage)][1]) for view in self._made]
        for handle, tensor in (*self._given.values(), *views) if self._stand else ():
            handle._become(viewed(tensor, steps_of(handle._path)))
        self._made.clear()
        self._stand = False

    def close(self, turned: Iterable[Handle]) -> None:
        """The run is over; what became another view in place is one for the caller too."""
        self.put_back()
        changed = {id(handle) for handle in turned}
        for given, tensor in self._given.values():
            if id(given) in changed:
                tensor._become(given)
        self._given.clear()
