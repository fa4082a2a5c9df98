"""Planned memory: two buffers share bytes only if no command needs both."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.base.dtypes import dtypes
from torpor.capture.plan import arena
from torpor.device import Buffer


def recorded(commands: list[list[Buffer]]) -> Any:
    return [
        SimpleNamespace(item=SimpleNamespace(buffers=[SimpleNamespace(arg=b) for b in command]))
        for command in commands
    ]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_buffers_that_live_at_one_time_are_apart(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    buffers = [Buffer("CPU", size, dtypes.float32) for size in sizes]
    spans = []
    for _ in buffers:
        spans.append(sorted(data.draw(st.tuples(st.integers(0, 7), st.integers(0, 7)))))
    commands = [
        [b for b, span in zip(buffers, spans, strict=True) if number in span] for number in range(8)
    ]
    placed = arena(recorded(commands), buffers)
    for i, (one, span) in enumerate(zip(placed, spans, strict=True)):
        assert (one.size, one.dtype) == (buffers[i].size, buffers[i].dtype)
        for j in range(i):
            if spans[j][0] <= span[1] and span[0] <= spans[j][1]:
                assert one.base is not placed[j].base


def test_memory_is_used_again() -> None:
    chain = [Buffer("CPU", 100, dtypes.float32) for _ in range(10)]
    pairs = [list(pair) for pair in itertools.pairwise(chain)]
    assert len({id(b.base) for b in arena(recorded(pairs), chain)}) == 2
