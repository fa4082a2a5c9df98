"""Memory of a plan's intermediates: two share bytes only if no command needs both.

Commands in groups that may run at the same time (`Section`) have no order: what several of them
use, or others besides, is there from the first to the last of all groups. What each group keeps for
itself lies in scratch memory, of which every thread that runs groups has a copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.device import Buffer, Device
from torpor.device.executor import Bounds
from torpor.ir.records import ScheduleItem

ALIGNED: Final = 64  # bytes: where buffers in scratch memory begin


class Arena(NamedTuple):
    """Where each intermediate lies: views of memory that they share, some of them of `scratch`."""

    placed: list[Buffer]
    scratch: Buffer | None


class Wanted(NamedTuple):
    """An intermediate, the first and the last command that need it, and whether it is private."""

    buffer: Buffer
    birth: int
    death: int
    private: bool


def arena(
    items: Sequence[ScheduleItem], between: Sequence[Buffer], sections: Sequence[Bounds],
    inherits: Mapping[int, int] = MappingProxyType({}),
) -> Arena:  # fmt: skip
    """Memory for each intermediate, which may be that of others of another time. By `inherits` (of
    `id`s) it may also be that of one that the command reads which makes it.
    """
    wanted = lives(items, between, sections)
    memory = {}
    private = [one for one in wanted if one.private]
    shared = [one for one in wanted if not one.private]
    places, sizes = first_fit(shared, inherits)
    pieces = [Buffer(device, nbytes, dtypes.uint8) for device, nbytes in sizes]
    for one, place in zip(shared, places, strict=True):
        memory[id(one.buffer)] = pieces[place], 0
    scratch, starts = scratch_for(private, inherits)
    if scratch is not None:
        memory |= {key: (scratch, start) for key, start in starts.items()}
    placed = []
    for buffer in between:
        piece, start = memory[id(buffer)]
        placed.append(piece.view(start, buffer.size, buffer.dtype))
    return Arena(placed, scratch)


def scratch_for(
    private: Sequence[Wanted], inherits: Mapping[int, int] = MappingProxyType({})
) -> tuple[Buffer | None, dict[int, int]]:
    """Memory that one thread needs for what groups keep to themselves, if there is such; and where
    in it each lies, by `id`.
    """
    places, sizes = first_fit(private, inherits)
    starts = [*accumulate((rounded(nbytes) for _, nbytes in sizes), initial=0)]
    scratch = Buffer(sizes[0][0], starts[-1], dtypes.uint8) if sizes else None
    pairs = zip(private, places, strict=True)
    return scratch, {id(one.buffer): starts[place] for one, place in pairs}


def rounded(nbytes: int) -> int:
    """So many bytes or a few more, after which another buffer may begin."""
    return -(-nbytes // ALIGNED) * ALIGNED


def sections_of(items: Sequence[ScheduleItem]) -> list[Bounds]:
    """The groups of commands that native code may run at the same time."""
    found: list[Bounds] = []
    numbered = enumerate(items)
    for section, members in groupby(numbered, key=_section):
        some = list(members)
        devices = {node.arg.device for _, item in some for node in item.buffers}
        if section is None or len(devices) != 1 or Device[devices.pop()].kind != "CPU":
            continue
        starts = [next(group)[0] for _, group in groupby(some, key=_group)]
        found.append((*starts, some[-1][0] + 1))
    return found


def _section(numbered: tuple[int, ScheduleItem]) -> Any:
    return numbered[1].group and numbered[1].group[0]


def _group(numbered: tuple[int, ScheduleItem]) -> Any:
    return numbered[1].group and numbered[1].group[1]


def lives(
    items: Sequence[ScheduleItem], between: Iterable[Buffer], sections: Sequence[Bounds]
) -> list[Wanted]:
    """When each intermediate is needed, in order of birth. In a section that is all the time, but
    for what lies in a single group.
    """
    spans: dict[int, tuple[int, int]] = {}
    for number, item in enumerate(items):
        for node in item.buffers:
            first, _ = spans.get(id(node.arg), (number, number))
            spans[id(node.arg)] = first, number
    groups = [item.group for bounds in sections for item in items[bounds[0] : bounds[0] + 1]]
    own = {id(node.arg) for group in groups if group is not None for node in group[0].own}
    found = []
    for buffer in between:
        birth, death = spans[id(buffer)]
        one, other = group_at(birth, sections), group_at(death, sections)
        private = one is not None and one == other
        if not private:
            birth = birth if one is None else one.section[0]
            death = death if other is None else other.section[-1] - 1
        found.append(Wanted(buffer, birth, death, private or id(buffer) in own))
    return sorted(found, key=attrgetter("birth"))


class Place(NamedTuple):
    """A group in a section."""

    section: Bounds
    number: int


def group_at(command: int, sections: Sequence[Bounds]) -> Place | None:
    """The group that a command is in, if any."""
    near = bisect_right(sections, command, key=itemgetter(0)) - 1
    if near < 0 or command >= sections[near][-1]:
        return None
    return Place(sections[near], bisect_right(sections[near], command))


def first_fit(
    wanted: Sequence[Wanted], inherits: Mapping[int, int]
) -> tuple[list[int], list[tuple[str, int]]]:
    """Pieces of memory, by birth: one whose last reader has run, or is making what may take it
    over, is given to the next that it can hold. The number of each one's piece; the pieces' devices
    and bytes.
    """
    number_of = {id(one.buffer): number for number, one in enumerate(wanted)}
    pieces: list[tuple[str, int]] = []
    busy: list[int] = []  # by piece: the last command that uses it
    places: list[int] = []
    for buffer, birth, death, _ in wanted:
        heir_of = number_of.get(inherits.get(id(buffer), 0))
        if heir_of is not None and heir_of < len(places) and wanted[heir_of].death == birth:
            places.append(places[heir_of])
            busy[places[heir_of]] = death
            continue
        fitting = [
            (nbytes, number)
            for number, (device, nbytes) in enumerate(pieces)
            if busy[number] < birth and device == buffer.device and nbytes >= buffer.nbytes
        ]
        if fitting:
            _, place = min(fitting)
            busy[place] = death
        else:
            place = len(pieces)
            pieces.append((buffer.device, buffer.nbytes))
            busy.append(death)
        places.append(place)
    return places, pieces
