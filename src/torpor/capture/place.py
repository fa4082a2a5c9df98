"""`Place`: where a value is kept that code can read and bind anew."""

from __future__ import annotations

import types
from typing import Any, Final

from torpor.capture.holding import is_a, own_of

ABSENT: Final = type("Absent", (), {"__repr__": lambda self: "(absent)"})()


class Place:
    """Where a value is kept: an entry of a dict, a closure cell, or a slot of an object.

    value: what was there when the trace first could see it, nothing if it was `lacked`. `read`: it
    counts, whatever names the code has.
    """

    __slots__ = ("owner", "name", "value", "path", "expanded", "slot", "read")

    def __init__(
        self, owner: Any, name: str, path: str, slot: Any = None, lacked: bool = False
    ):  # fmt: skip
        self.owner, self.name, self.path, self.slot = owner, name, path, slot
        self.expanded = self.read = False
        self.value = ABSENT if lacked else self.now()

    def now(self) -> Any:
        """The value that is there now; `ABSENT` if there is none."""
        try:
            if self.slot is not None:
                return self.slot.__get__(self.owner)
            if is_a(self.owner, types.CellType):
                return self.owner.cell_contents
        except (AttributeError, ValueError):
            return ABSENT
        return self.owner.get(self.name, ABSENT)

    def put(self, value: Any) -> None:
        """Make `value` the one that is there."""
        if self.slot is not None and value is ABSENT:
            self.slot.__delete__(self.owner)
        elif self.slot is not None:
            self.slot.__set__(self.owner, value)
        elif is_a(self.owner, types.CellType) and value is ABSENT:
            del self.owner.cell_contents
        elif is_a(self.owner, types.CellType):
            self.owner.cell_contents = value
        elif value is ABSENT:
            self.owner.pop(self.name, None)
        else:
            self.owner[self.name] = value


class Variable(Place):
    """The value of a context variable, which counts as read."""

    __slots__ = ()

    def now(self) -> Any:
        return self.owner.get(ABSENT)

    def put(self, value: Any) -> None:
        self.owner.set(value)


class Inherited(Place):
    """An attribute of a class, which `owner` shows as a mapping."""

    __slots__ = ("kind",)

    def __init__(self, kind: type, name: str, path: str):
        self.kind = kind
        super().__init__(own_of(kind), name, path)

    def put(self, value: Any) -> None:
        if value is ABSENT:
            type.__delattr__(self.kind, self.name)
        else:
            type.__setattr__(self.kind, self.name, value)


class Local(Place):
    """An attribute of a `threading.local`: each thread has its own."""

    __slots__ = ()

    def now(self) -> Any:
        return getattr(self.owner, self.name, ABSENT)

    def put(self, value: Any) -> None:
        if value is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)
