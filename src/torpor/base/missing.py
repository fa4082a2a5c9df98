"""A name that a namespace does not have: an error that says what it has instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from torpor.base.errors import TorporError

# The namespaces of users' names, as far as they have been imported.
_places: Final[dict[str, Callable[[], Iterable[str]]]] = {}


class MissingNameError(TorporError, AttributeError):
    """A name that is not there. `hasattr` asks often and reads nothing, so what is to be said is
    worked out when it is read.
    """

    def __str__(self) -> str:
        place, name = self.args
        near = _near(place, name)
        instead = f"; there is {', '.join(near)}" if near else ""
        return f"{place} has no {name!r}: if PyTorch or NumPy has, it is not there yet{instead}"


def missing(place: str, name: str) -> NoReturn:
    """Say that the namespace `place` has no `name`; Python's own protocols want no more words."""
    if name.startswith("_"):
        raise AttributeError(f"{place} has no attribute {name!r}")
    raise MissingNameError(place, name)


def names_of(place: str, names: Callable[[], Iterable[str]]) -> Callable[[str], Any]:
    """Make the names of the namespace `place` known; gives its `__getattr__`, which is asked for
    what it lacks.
    """
    _places[place] = names

    def lookup(name: str) -> Any:
        missing(place, name)

    return lookup


def _near(place: str, name: str) -> list[str]:
    """What a user could write: the same name elsewhere, else near ones here."""
    import difflib  # slow to import, and rarely needed

    same = [f"{other}.{known}" for other in _places for known in _known(other)
            if other != place and known.casefold() == name.casefold()]  # fmt: skip
    same.sort(key=lambda known: not known.endswith(name))
    return same or difflib.get_close_matches(name, _known(place), 3)


def _known(place: str) -> list[str]:
    return [name for name in _places[place]() if not name.startswith("_")]
