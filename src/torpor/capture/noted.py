"""`Noted`: the names that the code of a trace uses, and what lay under them in what it can reach.

What objects of one class do not have themselves is noted once, for the class: no code of the user
runs between two looks at them.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from torpor.capture.code import is_opaque
from torpor.capture.holding import is_a, line_of, module_of, own_attributes, own_of
from torpor.capture.place import ABSENT, Inherited, Place

NONE: Final[frozenset[str]] = frozenset()


class Lack(NamedTuple):
    """Names that a mapping had nothing under at first. kind: the class whose it is, if any."""

    owner: Any
    names: frozenset[str]
    path: str
    kind: type | None


class FromClass(NamedTuple):
    """Of some names, those that count for objects of a class: it or code of the trace has a use for
    them; and slots that it has under them. `every`: all of them count.
    """

    names: frozenset[str]
    slots: list[tuple[str, Any]]
    every: bool


class Noted:
    """Names and places of a trace.

    loaded, changed, stored, asked: as in `Names`, of all code that has run. `names`: the first
        three. everything: attributes are read by names that the code computes.
    objects: whose attributes count, and their paths, by `id`.
    partial: those of which only `names` do, even if it is everything.
    counting: new places whose values count, which nobody has looked at yet.
    """

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.changed: set[str] = set()
        self.stored: set[str] = set()
        self.asked: set[str] = set()
        self.names: frozenset[str] = NONE
        self.everything = False
        self.objects: dict[int, tuple[Any, str]] = {}
        self.partial: set[int] = set()
        self.counting: list[Place] = []
        self._at: dict[int, dict[str, Place]] = {}  # by what they are of, and by name
        self._lacks: dict[type, Lack] = {}  # of classes
        self._counted: dict[type, frozenset[str]] = {}  # for their objects
        self._earlier: dict[type, frozenset[str]] = {}  # as `_counted` was before this sweep
        self._looks: dict[tuple[type, frozenset[str]], FromClass] = {}  # since code ran last

    def learn(self, **used: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Code uses names in these ways: those that none has used so before, and that none has
        loaded.
        """
        fresh = loaded = NONE
        for way, names in used.items():
            known: set[str] = getattr(self, way)
            if way == "loaded":
                loaded = names - known
            fresh |= names - known
            known |= names
        self.names |= fresh
        self.forget_looks()
        return fresh, loaded

    def forget_looks(self) -> None:
        """Code is about to run, or asks for other names: classes have to be looked at again."""
        self._looks.clear()

    # --- what is there ----------------------------------------------------------------------------
    def of(self, key: int, name: str) -> Place | None:
        """The place of something (by `id`) with a name."""
        return self._at.get(key, {}).get(name)

    def first(self, value: Any, own: Any) -> dict[str, Any]:
        """What an object itself had, as far as is known."""
        known, lacked = self._at.get(id(value), {}), self._lacked_by(value, self._counted)
        had = {x: known[x].value if x in known else own[x] for x in own if x not in lacked}
        return {name: part for name, part in had.items() if part is not ABSENT}

    def put(self, place: Place, key: int) -> Place:
        """Note a place of something (by `id`)."""
        self._at.setdefault(key, {})[place.name] = place
        if place.name in self.loaded or self.everything:
            self.counting.append(place)
        return place

    def places(self) -> list[Place]:
        """All that something was found in, or that was looked at by itself."""
        return [place for some in self._at.values() for place in some.values()]

    def inherited(self, base: type, name: str, path: str) -> Place:
        """The place of what a class itself has under a name."""
        known = self.of(id(base), name)
        if known is not None:
            return known
        place = Inherited(base, name, path)
        lack = self._lacks.get(base)
        if lack is not None and name in lack.names:
            place.value = ABSENT  # at first
        return self.put(place, id(base))

    def sweep(self) -> Iterator[tuple[Any, str]]:
        """All objects that were looked at, and their paths, to be looked at for other names."""
        self._earlier = dict(self._counted)
        yield from list(self.objects.values())

    def count(self, kind: type, names: frozenset[str]) -> None:
        """Objects of a class are asked for these names."""
        self._counted[kind] = self._counted.get(kind, NONE) | names

    def from_class(
        self, kind: type, names: frozenset[str], path: str, every: bool = False
    ) -> FromClass:
        """Note what a class and those that it inherits from have under names, and where they could
        come to have it. `every`: also what none of them has, though no code asks whether it is
        there, since an object has it itself.
        """
        known = self._looks.get((kind, names))
        if known is not None and (known.every or not every):
            return known
        line = line_of(kind)
        owns = [own_of(base) for base in line]
        there = names.intersection(NONE.union(*owns))
        counted = there | (names & (self.stored | self.asked))
        if every or any("__getattr__" in own for own in owns):
            counted = names
        nowhere, below, slots = counted - there, NONE, []
        for base, own in zip(reversed(line), reversed(owns), strict=True):
            has = counted.intersection(own)
            below |= has
            slots += [(x, own[x]) for x in has if is_a(own[x], types.MemberDescriptorType)]
            if not is_opaque(module_of(base)):
                for name in has:
                    self.inherited(base, name, f"{path}.{name} (of its class)")
                self._lack(
                    base, (below | nowhere).difference(has, self._at.get(id(base), ())), path
                )
        found = self._looks[kind, names] = FromClass(counted, slots[::-1], every)
        return found

    def _lack(self, base: type, names: frozenset[str], path: str) -> None:
        names = names.difference(self._at.get(id(base), ()))
        if names:
            lack = self._lacks.get(base) or Lack(own_of(base), NONE, path, base)
            self._lacks[base] = lack._replace(names=lack.names | names)

    # --- what became of it ------------------------------------------------------------------------
    def lacks(self) -> Iterator[Lack]:
        """All names that what was looked at had nothing under at first, and has no place for: an
        object, of what counts for its class, since what it had is in a place.
        """
        yield from self._lacks.values()
        for value, path in self.objects.values():
            own, names = own_attributes(value), self._lacked_by(value, self._counted)
            if names and type(own) is dict:
                yield Lack(own, names, path, None)

    def lacked_of(self, value: Any, names: Collection[str]) -> Iterator[tuple[str, bool]]:
        """Which of these an object had nothing under at first, of those that counted before this
        sweep: what it has there now the trace has bound.
        """
        lacked = self._lacked_by(value, self._earlier)
        yield from [(name, name in lacked) for name in names]

    def _lacked_by(self, value: Any, counted: Mapping[type, frozenset[str]]) -> frozenset[str]:
        names = counted.get(type(value), NONE) if id(value) in self.objects else NONE
        if id(value) in self.partial:
            names &= self.names
        return names.difference(self._at.get(id(value), ()))

    def rebound(self) -> Iterator[tuple[Place, Any]]:
        """Places that are bound anew by a name in the code, and what is there now."""
        for owner, names, path, kind in [*self.lacks()]:
            for name in names & self.stored & owner.keys():
                made = f"{path}.{name}"
                place = Inherited(kind, name, made) if kind else Place(owner, name, made)
                place.value = ABSENT
                yield place, owner[name]
        for place in self.places():
            if place.name in self.stored and (now := place.now()) is not place.value:
                yield place, now

    def is_read(self, place: Place) -> bool:
        """Whether what is in a place decides what the function does."""
        named = place.name in self.loaded or place.name in self.changed
        # A descriptor of a class decides what binding its name in an object does.
        sets = is_a(place, Inherited) and hasattr(type(place.value), "__set__")
        return self.everything or named or place.read or (sets and place.name in self.stored)

    def read_of(self, lack: Lack) -> frozenset[str]:
        """The names whose lack decides what the function does."""
        return lack.names if self.everything else lack.names & (self.loaded | self.changed)
