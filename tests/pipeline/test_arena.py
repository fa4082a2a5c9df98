"""Planned memory: two values share bytes only if no command needs both."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.device import Buffer
from torpor.ir.ops import Ops
from torpor.ir.records import Jump, Program, Section
from torpor.ir.uop import UOp
from torpor.pipeline.arena import (
    HOSTED_FROM,
    SCRATCH,
    Arena,
    Value,
    donations,
    heirs,
    laid_out,
    rounds_of,
    sections_of,
    throughout,
    values_of,
)


# --- rounds ---------------------------------------------------------------------------------------
def test_what_rounds_read_is_there_in_all_of_them() -> None:
    jumps = {4: Jump(-1, True), 6: Jump(-4, True), 7: Jump(2, False)}
    items: Any = [SimpleNamespace(jump=jumps.get(n)) for n in range(9)]
    spans = {"before": (0, 1), "into": (0, 3), "inside": (3, 4), "inner": (2, 3), "out": (5, 8)}
    values = {name: Value("CPU", 1, *span) for name, span in spans.items()}
    found = throughout(values, rounds_of(items))  # type: ignore[arg-type]
    needed: Any = {name: (v.birth, v.death) for name, v in found.items()}
    assert needed == {
        "before": (0, 1), "into": (0, 6), "inside": (3, 4), "inner": (2, 4), "out": (2, 8),
    }  # fmt: skip


# --- what takes over what -------------------------------------------------------------------------
def kernel(*shared):
    return Program("k", "", "cpu", shared=shared)


def test_what_is_read_for_the_last_time_is_taken_over():
    steps = [(kernel(), "ax"), (kernel((0, 1)), "ba"), (kernel((0, 1)), "cb")]
    assert heirs(steps, set("ab")) == {"b": "a", "c": "b"}


@pytest.mark.parametrize(
    ("steps", "dying"),
    [
        ([(kernel((0, 1)), "ba")], ""),  # somebody keeps it
        ([(kernel((0, 1)), "ba"), (kernel(), "ca")], "ab"),  # it is read again
        ([(kernel((0, 1)), "baa")], "a"),  # it is another parameter too
        ([(kernel(), "bx"), (kernel((0, 1)), "ba")], "a"),  # the result has a part already
        ([(None, "ba")], "a"),  # a copy
        ([(kernel(), "ba")], "a"),  # the kernel does not allow it
    ],
)
def test_what_is_needed_otherwise_is_not(steps, dying):
    assert heirs(steps, set(dying)) == {}


def test_each_is_in_one_pair_only():
    both = kernel((0, 2), (0, 3), (1, 2), (1, 3))
    assert heirs([(both, "abxy")], set("xy")) == {"a": "x", "b": "y"}


CHECKED = Program("k", "", "cpu", shared=((0, 1),), checks=1)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([(kernel((0, 1)), "nox")], {"n": "o"}),
        ([(kernel(), "nx")], {"n": "o"}),  # the old value is only replaced
        ([(kernel(), "yx"), (kernel((0, 1)), "no"), (kernel(), "zy")], {"n": "o"}),
        ([(kernel(), "no")], {}),  # the kernel does not allow it
        ([(kernel((0, 1)), "noo")], {}),  # it is another parameter too
        ([(kernel((0, 1)), "no"), (kernel(), "yo")], {}),  # it is read again
        ([(kernel(), "yo"), (kernel(), "nx")], {}),  # it is read by another
        ([(kernel((0, 1)), "no"), (CHECKED, "yx")], {}),  # a check may fail later
        ([(CHECKED, "yx"), (kernel((0, 1)), "no")], {"n": "o"}),  # or has before
        ([(kernel((0, 1)), "no"), (None, "yx")], {}),  # a copy may fail
    ],
)
def test_inputs_that_may_be_written_over(steps: Any, found: Any) -> None:
    assert donations(steps, [("o", "n")]) == found


# --- places ---------------------------------------------------------------------------------------
def node(buffer: Buffer) -> UOp:
    return UOp(Ops.BUFFER, buffer.dtype, (), buffer)


def item(buffers: list[Buffer], group: Any = None) -> Any:
    return SimpleNamespace(buffers=[node(b) for b in buffers], group=group)


def overlap(one: Any, other: Any) -> bool:
    """Whether two places, with sizes, have a byte in common."""
    (mine, mine_size), (theirs, their_size) = one, other
    return (
        mine.base == theirs.base
        and mine.offset < theirs.offset + their_size
        and theirs.offset < mine.offset + mine_size
    )


spans = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 6), spans), max_size=9),
    st.lists(st.tuples(st.integers(1, 6), spans), max_size=3),
)
def test_values_that_are_needed_at_one_time_are_apart(some: Any, others: Any) -> None:
    between = {n: Value("CPU", size * HOSTED_FROM, *span) for n, (size, span) in enumerate(some)}
    results = {-1 - n: Value("CPU", size * HOSTED_FROM, *span)
               for n, (size, span) in enumerate(others)}  # fmt: skip
    found = laid_out(between, results, {})
    for one, other in itertools.combinations(between, 2):
        if overlap(
            (found.places[one], between[one].nbytes), (found.places[other], between[other].nbytes)
        ):
            assert (
                between[one].death < between[other].birth
                or between[other].death < between[one].birth
            )
    for slot, place in found.places.items():
        if place.base == "CPU":
            assert place.offset + between[slot].nbytes <= found.sizes["CPU"]
        else:  # in the memory of a result that is not made yet
            assert between[slot].nbytes <= results[place.base].nbytes
            assert between[slot].death < results[place.base].birth


def test_memory_is_used_again() -> None:
    chain = {n: Value("CPU", 512, n, n + 1) for n in range(10)}
    assert laid_out(chain, {}, {}).sizes == {"CPU": 1024}


def test_a_heir_lies_where_its_operand_does() -> None:
    chain = {n: Value("CPU", 512, n, n + 1) for n in range(10)}
    found = laid_out(chain, {}, {n + 1: n for n in range(9)})
    assert found.sizes == {"CPU": 512}
    large = Value("CPU", HOSTED_FROM, 0, 1)
    result = {"r": Value("CPU", HOSTED_FROM, 1, 9)}
    assert laid_out({"x": large}, result, {}).sizes == {"CPU": HOSTED_FROM}
    assert laid_out({"x": large}, result, {"r": "x"}).places["x"].base == "r"


def test_holes_are_joined() -> None:
    arena = Arena()
    starts = [arena.take(10) for _ in range(4)]
    for start in (starts[0], starts[2], starts[1]):
        arena.give_back(start, 10)
    assert arena.take(30) == 0
    arena.give_back(starts[3], 10)
    assert arena.take(20) == 30
    assert arena.size == 50


# --- groups ---------------------------------------------------------------------------------------
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
    uses = {
        id(b): found
        for b in buffers
        if (found := [n for n, i in enumerate(items) if any(x.arg is b for x in i.buffers)])
    }
    touched = [[id(x.arg) for x in i.buffers] for i in items]
    known = {id(b): b for b in buffers if id(b) in uses}
    values = values_of(touched, known, bounds := sections_of(items), ())
    assert len(bounds) == len({kind for kind in kinds if kind is not None})
    places = laid_out(values, {}, {}).places
    for i, j in itertools.combinations(uses, 2):
        if overlap((places[i], values[i].nbytes), (places[j], values[j].nbytes)):
            for one, other in itertools.product(uses[i], uses[j]):
                at_once = groups[one][0] == groups[other][0] is not None
                apart = groups[one] != groups[other]
                assert places[i].base == SCRATCH or not (at_once and apart)
            assert max(uses[i]) < min(uses[j]) or max(uses[j]) < min(uses[i])
    for slot, place in places.items():
        if place.base == SCRATCH:
            assert len({groups[n] for n in uses[slot]}) == 1
            assert groups[uses[slot][0]][0] is not None


def test_what_each_group_has_for_itself_is_scratch() -> None:
    own, result = (Buffer("CPU", 100, dtypes.float32) for _ in range(2))
    section = Section(frozenset({node(own)}))
    items = [item([own, result], (section, n // 2)) for n in range(8)]
    bounds = sections_of(items)
    assert bounds == [(0, 2, 4, 6, 8)]
    touched = [[id(x.arg) for x in i.buffers] for i in items]
    values = values_of(touched, {id(b): b for b in (own, result)}, bounds, {id(own)})
    places = laid_out(values, {}, {}).places
    assert (places[id(own)].base, places[id(result)].base) == (SCRATCH, "CPU")


def test_groups_of_other_devices_are_commands_like_others() -> None:
    own = Buffer("PYTHON", 100, dtypes.float32)
    section = Section(frozenset({node(own)}))
    assert sections_of([item([own], (section, n)) for n in range(4)]) == []
