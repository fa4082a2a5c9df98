"""Planned memory: two buffers share bytes only if no command needs both."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.device import Buffer
from torpor.ir.ops import Ops
from torpor.ir.records import Section
from torpor.ir.uop import UOp
from torpor.pipeline.arena import arena, sections_of


def node(buffer: Buffer) -> UOp:
    return UOp(Ops.BUFFER, buffer.dtype, (), buffer)


def item(buffers: list[Buffer], group: Any = None) -> Any:
    return SimpleNamespace(buffers=[node(b) for b in buffers], group=group)


def region(buffer: Buffer) -> tuple[int, range]:
    """The memory that a buffer lies in, and which bytes of it."""
    return id(buffer.base), range(buffer.offset, buffer.offset + buffer.nbytes)


def together(one: Buffer, other: Buffer) -> bool:
    """Whether two buffers have a byte in common."""
    (base, mine), (theirs, its) = region(one), region(other)
    return base == theirs and mine.start < its.stop and its.start < mine.stop


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_buffers_that_live_at_one_time_are_apart(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    buffers = [Buffer("CPU", size, dtypes.float32) for size in sizes]
    spans = []
    for _ in buffers:
        spans.append(sorted(data.draw(st.tuples(st.integers(0, 7), st.integers(0, 7)))))
    commands = [
        item([b for b, span in zip(buffers, spans, strict=True) if number in span])
        for number in range(8)
    ]
    placed = arena(commands, buffers, []).placed
    for i, (one, span) in enumerate(zip(placed, spans, strict=True)):
        assert (one.size, one.dtype) == (buffers[i].size, buffers[i].dtype)
        for j in range(i):
            if spans[j][0] <= span[1] and span[0] <= spans[j][1]:
                assert not together(one, placed[j])


def test_memory_is_used_again() -> None:
    chain = [Buffer("CPU", 100, dtypes.float32) for _ in range(10)]
    pairs = [item(list(pair)) for pair in itertools.pairwise(chain)]
    assert len({id(b.base) for b in arena(pairs, chain, []).placed}) == 2


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_groups_in_any_order_keep_out_of_each_others_way(data: st.DataObject) -> None:
    """What two commands need that may run at one time shares no byte, but in scratch memory, where
    each group has a copy: there only the order within a group counts.
    """
    lengths = data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=8))
    kinds = [data.draw(st.sampled_from([None, 0, 1])) for _ in lengths]
    count = data.draw(st.integers(1, 8))
    buffers = [Buffer("CPU", data.draw(st.integers(1, 9)), dtypes.float32) for _ in range(count)]
    outside = Buffer("CPU", 1, dtypes.float32)
    sections = [Section(frozenset()), Section(frozenset())]
    items, groups = [], []
    for number, (length, kind) in enumerate(zip(lengths, sorted(kinds, key=str), strict=True)):
        for _ in range(length):
            some = [outside, *[b for b in buffers if data.draw(st.booleans())]]
            items.append(item(some, None if kind is None else (sections[kind], number)))
            groups.append((kind, number if kind is not None else len(items)))
    # Kinds do not alternate, so that what a section holds is one run of commands.
    used = [b for b in buffers if any(b is n.arg for i in items for n in i.buffers)]
    found = arena(items, used, bounds := sections_of(items))
    assert len(bounds) == len({kind for kind in kinds if kind is not None})
    uses = [[n for n, i in enumerate(items) if any(x.arg is b for x in i.buffers)] for b in used]
    for i, j in itertools.combinations(range(len(used)), 2):
        if together(found.placed[i], found.placed[j]):
            for one, other in itertools.product(uses[i], uses[j]):
                at_once = groups[one][0] == groups[other][0] is not None
                apart = groups[one] != groups[other]
                private = found.placed[i].base is found.scratch
                assert private or not (at_once and apart)
            assert ordered(uses[i], uses[j])
    for buffer, where in zip(used, found.placed, strict=True):
        if where.base is found.scratch and found.scratch is not None:
            mine = {
                groups[n] for n in range(len(items)) if buffer in [x.arg for x in items[n].buffers]
            }
            assert len(mine) == 1
            assert next(iter(mine))[0] is not None


def ordered(first: list[int], second: list[int]) -> bool:
    """Whether all uses of one come before all of the other."""
    return max(first) < min(second) or max(second) < min(first)


def test_what_each_group_has_for_itself_is_scratch() -> None:
    own, result = (Buffer("CPU", 100, dtypes.float32) for _ in range(2))
    section = Section(frozenset({node(own)}))
    items = [item([own, result], (section, n // 2)) for n in range(8)]
    found = arena(items, [own, result], sections_of(items))
    assert sections_of(items) == [(0, 2, 4, 6, 8)]
    assert found.placed[0].base is found.scratch
    assert found.placed[1].base is not found.scratch


def test_groups_of_other_devices_are_commands_like_others() -> None:
    own = Buffer("PYTHON", 100, dtypes.float32)
    section = Section(frozenset({node(own)}))
    items = [item([own], (section, n)) for n in range(4)]
    assert sections_of(items) == []
    assert arena(items, [own], []).scratch is None


def test_a_result_takes_over_what_its_command_reads_last() -> None:
    first, second, third = (Buffer("CPU", 100, dtypes.float32) for _ in range(3))
    items = [item([first]), item([second, first]), item([third, second, first])]
    inherits = {id(second): id(first), id(third): id(second)}
    placed = arena(items, [first, second, third], [], inherits).placed
    assert not together(placed[0], placed[1])  # it is needed once more
    assert region(placed[2]) == region(placed[1])
