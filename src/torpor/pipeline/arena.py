"""Who lies where: memory of what lies between a graph's commands, and what takes over what.

Two values share bytes only if no command needs both. All that lies between commands is in one arena
for each device, or in the memory of a result that is not made yet.

Commands in groups that may run at the same time (`Section`) have no order: what several of them
use, or others besides, is there from the first to the last of all groups. What each group keeps for
itself lies in scratch memory, of which every thread that runs groups has a copy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from torpor.device import Device
from torpor.device.executor import Bounds
from torpor.ir.records import Program, ScheduleItem

# Bytes between which values in an arena begin: drivers of OpenCL ask for up to so many.
ALIGNED: Final = 512
# Bytes of a value that may lie where a result will: looking for one takes a while.
HOSTED_FROM: Final = 1 << 16
SCRATCH: Final = "scratch"  # in place of a device: the arena of which each thread has a copy
Slot = int  # which memory
Kernels = Sequence[tuple[Program | None, Sequence[Slot]]]  # None: a copy; memory by parameter


class Value(NamedTuple):
    """Memory that commands need: where it is, how much, and from which command to which."""

    device: str
    nbytes: int
    birth: int
    death: int
    private: bool = False  # a single group's


class Place(NamedTuple):
    """So many bytes into an arena (a device, or `SCRATCH`), or into a result (its slot)."""

    base: str | Slot
    offset: int


# --- what takes over what -------------------------------------------------------------------------
def heirs(kernels: Kernels, dying: Collection[Slot]) -> dict[Slot, Slot]:
    """By result: the memory that it may lie in from its first moment on. `dying` is memory that
    nobody needs after the last of the kernels, in order, that has it.
    """
    first, last = uses([places for _, places in kernels])
    found: dict[Slot, Slot] = {}
    for number, (program, places) in enumerate(kernels):
        taken: set[Slot] = set()
        for output, slot in program.shared if program is not None else ():
            new, old = places[output], places[slot]
            alone = places.count(new) == places.count(old) == 1
            if alone and old in dying and first[new] == number == last[old]:
                if not taken & {new, old}:
                    taken |= {new, old}
                    found[new] = old
    return found


def donations(
    kernels: Kernels, changes: Iterable[tuple[Slot, Slot]], sections: Sequence[Bounds] = ()
) -> dict[Slot, Slot]:
    """Of `changes` (an input, the result that is its next value) those whose result may lie in the
    input's memory, by result: no other command reads the input, which may also be only replaced;
    none runs at the same time; and none from then on has a check, so that nothing has changed where
    one fails.
    """
    first, last = uses([places for _, places in kernels])
    unchecked = len(kernels)
    while unchecked and (program := kernels[unchecked - 1][0]) is not None and not program.checks:
        unchecked -= 1
    found = {}
    for old, new in changes:
        made = first.get(new, -1)
        if made < unchecked or last.get(old, made) != made or _group_at(made, sections):
            continue
        program, places = kernels[made]
        assert program is not None, "copies come before"
        alone = places.count(new) == places.count(old) == 1
        if old not in last or (alone and (places.index(new), places.index(old)) in program.shared):
            found[new] = old
    return found


def uses(places: Sequence[Iterable[Slot]]) -> tuple[dict[Slot, int], dict[Slot, int]]:
    """By memory: the first and the last of the commands that have it."""
    first: dict[Slot, int] = {}
    last: dict[Slot, int] = {}
    for number, some in enumerate(places):
        for slot in some:
            first.setdefault(slot, number)
            last[slot] = number
    return first, last


def most_at_once(places: Sequence[Iterable[Slot]], nbytes: Mapping[Slot, int]) -> int:
    """The most bytes at a time of memory that several commands have, of that in `nbytes`."""
    first, last = uses(places)
    change = [0] * (len(places) + 1)
    for slot, size in nbytes.items():
        if last[slot] > first[slot]:
            change[first[slot]] += size
            change[last[slot] + 1] -= size
    return max(accumulate(change), default=0)


# --- groups ---------------------------------------------------------------------------------------
def sections_of(items: Sequence[ScheduleItem]) -> list[Bounds]:
    """The groups of commands that native code may run at the same time."""
    found: list[Bounds] = []
    for section, members in groupby(enumerate(items), key=_section):
        if section is None:
            continue
        some = list(members)
        devices = {node.arg.device for _, item in some for node in item.buffers}
        if len(devices) == 1 and Device[devices.pop()].kind == "CPU":
            starts = [next(group)[0] for _, group in groupby(some, key=_group)]
            found.append((*starts, some[-1][0] + 1))
    return found


def _section(numbered: tuple[int, ScheduleItem]) -> Any:
    return numbered[1].group and numbered[1].group[0]


def _group(numbered: tuple[int, ScheduleItem]) -> Any:
    return numbered[1].group and numbered[1].group[1]


class _Group(NamedTuple):
    """A group in a section."""

    section: Bounds
    number: int


def _group_at(command: int, sections: Sequence[Bounds]) -> _Group | None:
    """The group that a command is in, if any."""
    near = bisect_right(sections, command, key=itemgetter(0)) - 1
    if near < 0 or command >= sections[near][-1]:
        return None
    return _Group(sections[near], bisect_right(sections[near], command))


def values_of(
    places: Sequence[Sequence[Slot]], kinds: Mapping[Slot, Any],
    sections: Sequence[Bounds], own: Collection[Slot],
) -> dict[Slot, Value]:  # fmt: skip
    """When memory of these kinds is needed. In a section that is all the time, but
    for what lies in a single group, or is each group's `own`.
    """
    first, last = uses(places)
    found = {}
    for slot, kind in kinds.items():
        birth, death = first[slot], last[slot]
        one, other = _group_at(birth, sections), _group_at(death, sections)
        private = slot in own or (one is not None and one == other)
        if not private:
            birth = birth if one is None else one.section[0]
            death = death if other is None else other.section[-1] - 1
        found[slot] = Value(kind.device, kind.nbytes, birth, death, private)
    return found


# --- rounds ---------------------------------------------------------------------------------------
def rounds_of(items: Sequence[ScheduleItem]) -> list[tuple[int, int]]:
    """The first and the last of commands that may run again and again, inner ones first."""
    backwards = [(n + i.jump.by, n) for n, i in enumerate(items) if i.jump and i.jump.by < 0]
    return sorted(backwards, key=lambda ends: ends[1] - ends[0])


def throughout(
    values: Mapping[Slot, Value], rounds: Iterable[tuple[int, int]]
) -> dict[Slot, Value]:
    """When memory is needed where commands come again: what is used in a round and outside of it
    is there in all of them.
    """
    found = dict(values)
    for first, last in rounds:
        for slot, value in found.items():
            inside = first <= value.birth and value.death <= last
            if not inside and value.birth <= last and value.death >= first:
                birth, death = min(value.birth, first), max(value.death, last)
                found[slot] = value._replace(birth=birth, death=death)
    return found


# --- places ---------------------------------------------------------------------------------------
class Arena:
    """Bytes that are taken and given back in the order of a run; `size`: how many it needs."""

    def __init__(self) -> None:
        self.size = 0
        self._holes: list[tuple[int, int]] = []  # where they begin and end, in order

    def take(self, nbytes: int) -> int:
        """Where so many bytes are free: the smallest hole, or behind all others."""
        fitting = [(end - start, start) for start, end in self._holes if end - start >= nbytes]
        if fitting:
            length, start = min(fitting)
            self._holes.remove((start, start + length))
            if length > nbytes:
                insort(self._holes, (start + nbytes, start + length))
            return start
        start = self.size
        if self._holes and self._holes[-1][1] == start:
            start, _ = self._holes.pop()
        self.size = start + nbytes
        return start

    def give_back(self, start: int, nbytes: int) -> None:
        """Have these bytes free again."""
        end, place = start + nbytes, bisect_left(self._holes, (start, 0))
        if place < len(self._holes) and self._holes[place][0] == end:
            end = self._holes.pop(place)[1]
        if place and self._holes[place - 1][1] == start:
            place -= 1
            start = self._holes.pop(place)[0]
        self._holes.insert(place, (start, end))


def rounded(nbytes: int) -> int:
    """So many bytes or a few more, after which another value may begin."""
    return -(-max(nbytes, 1) // ALIGNED) * ALIGNED


class Layout(NamedTuple):
    """Where each value lies, and how large the arenas are, by device (or `SCRATCH`)."""

    places: dict[Slot, Place]
    sizes: dict[str, int]


def laid_out(
    between: Mapping[Slot, Value], results: Mapping[Slot, Value], inherits: Mapping[Slot, Slot]
) -> Layout:
    """Places for what lies `between`. By `inherits` a value or a result may lie where another one
    does, which the command reads that makes it. Into `results` others may be put before these are
    made.
    """
    places = _hosted(between, results, inherits)
    arenas: dict[str, Arena] = {}
    taken: dict[Slot, int] = {}  # bytes of what lies in an arena
    dying: list[tuple[int, Slot]] = []  # by death
    for slot, value in sorted(between.items(), key=lambda pair: pair[1].birth):
        if slot in places:
            continue
        arena = arenas.setdefault(SCRATCH if value.private else value.device, Arena())
        old = inherits.get(slot)
        if old in taken and between[old].death == value.birth and taken[old] >= value.nbytes:
            if between[old].private == value.private:
                dying.remove((between[old].death, old))
                places[slot], taken[slot] = places[old], taken.pop(old)
                insort(dying, (value.death, slot))
                continue
        while dying and dying[0][0] < value.birth:
            _, gone = dying.pop(0)
            arenas[str(places[gone].base)].give_back(places[gone].offset, taken.pop(gone))
        taken[slot] = rounded(value.nbytes)
        base = SCRATCH if value.private else value.device
        places[slot] = Place(base, arena.take(taken[slot]))
        insort(dying, (value.death, slot))
    return Layout(places, {name: arena.size for name, arena in arenas.items() if arena.size})


def _hosted(
    between: Mapping[Slot, Value], results: Mapping[Slot, Value], inherits: Mapping[Slot, Slot]
) -> dict[Slot, Place]:
    """Places in results that are not made yet: the last values are put there first, and those
    before them where they are not there yet.
    """
    places: dict[Slot, Place] = {}
    free_until = {slot: result.birth for slot, result in results.items()}
    large = [slot for slot, v in between.items() if v.nbytes >= HOSTED_FROM and not v.private]
    for slot in sorted(large, key=lambda slot: between[slot].death, reverse=True):
        value = between[slot]
        fitting = [
            (results[host].nbytes, number, host)
            for number, (host, until) in enumerate(free_until.items())
            if results[host].nbytes >= value.nbytes
            and results[host].device == value.device
            and value.death < until + (inherits.get(host) == slot and until == results[host].birth)
        ]
        if fitting:
            *_, host = min(fitting)
            places[slot], free_until[host] = Place(host, 0), value.birth
    return places
