"""Guards in the words of the program, for who reads a recording."""

from __future__ import annotations

import types
from typing import Any, Final

from torpor.capture.guards import Guards
from torpor.capture.holding import is_a
from torpor.capture.place import ABSENT, Inherited, Place
from torpor.capture.tree import is_plain

_OWN: Final = "torpor"
FEW: Final = 8  # names that are read without a pause
REST: Final = "of torpor and other libraries, and names that are not there"


def told(guards: Guards) -> list[list[str]]:
    """For each guard: what kind of thing it is about, what it is called, and its value if that is
    a plain one.
    """
    found = []
    lacks = {test.path for test in guards.tests if test.entry and test.entry[0] == "lacks"}
    for path in guards.paths():
        place = guards.places.get(path)
        kind = REST if path in lacks else "what objects hold"
        found.append([kind if place is None else kind_of(place), path, plain_value_of(place)])
    return found


def listed(guards: Guards) -> list[str]:
    """What is guarded, for a person: what is neither the program's own nor there is counted, where
    it is more than a few.
    """
    by_kind = told(guards)
    rest = [path for kind, path, _ in by_kind if kind == REST]
    if len(rest) <= FEW:
        return guards.paths()
    own = [path for kind, path, _ in by_kind if kind != REST]
    return [*own, f"{len(rest)} names {REST}"]


def plain_value_of(place: Place | None) -> str:
    """The value that was seen, if it is a plain one."""
    return repr(place.value) if place is not None and is_plain(place.value) else ""


def kind_of(place: Place) -> str:
    """What kind of thing a place is."""
    owner, value = place.owner, place.value
    if value is ABSENT or _is_own(place):
        return REST
    if is_a(value, types.FunctionType) or is_a(value, type) or is_a(value, types.ModuleType):
        return "functions, classes and modules"
    if is_a(owner, types.CellType):
        return "closure variables"
    if _module_of(owner):
        return "globals"
    return "attributes of classes" if is_a(place, Inherited) else "attributes"


def _module_of(owner: Any) -> str:
    """The name of the module whose globals these are, if they are some."""
    name = owner.get("__name__") if type(owner) is dict and "__spec__" in owner else None
    return name if type(name) is str else ""


def _is_own(place: Place) -> bool:
    kind = place.kind if isinstance(place, Inherited) else None
    name = _module_of(place.owner) if kind is None else type.__getattribute__(kind, "__module__")
    return type(name) is str and name.partition(".")[0] in (_OWN, "builtins", "numpy")


def change(why: str, old: Guards, new: Guards) -> str:
    """What the value was that a call missed by, and what it became; empty where that is no text."""
    was, now = plain_value_of(old.places.get(why)), plain_value_of(new.places.get(why))
    return changed(was, now) if was and now else ""


def changed(was: Any, now: Any) -> str:
    """From what to what something changed that tells kinds of calls apart."""
    return f"it was {_called(was)}, and then {_called(now)}"


def _called(part: Any) -> str:
    """A part of a kind of call as text: what is not by value is called by its type."""
    kind = part[0] if type(part) is tuple and part and is_a(part[0], type) else part
    return kind.__name__ if is_a(kind, type) else str(getattr(kind, "name", kind))
