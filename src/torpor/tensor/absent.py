"""Methods of other libraries that tensors do not have, so that they can say what there is instead.

They are class attributes: a `__getattr__` would slow every look at a tensor's attributes down, an
eighth of what building an operation costs.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from torpor.base.missing import INSTEAD, missing


class Absent:
    """A name that is not there: `hasattr` is False, and the error says what there is instead."""

    def __init__(self, name: str, place: str = "Tensor"):
        self.name, self.place = name, place

    def __get__(self, instance: object, owner: type) -> NoReturn:
        missing(self.place, self.name)


def say_what_is_absent(owner: type) -> None:
    """Give a class those of the names that it does not have."""
    there = set(dir(owner))
    for name in INSTEAD:
        if name not in there:
            setattr(owner, name, Absent(name))


def without_absent(owner: type, names: Any) -> list[str]:
    """The names that are there."""
    absent: Final = {
        name for base in owner.__mro__ for name, v in vars(base).items() if type(v) is Absent
    }
    return [name for name in names if name not in absent]
