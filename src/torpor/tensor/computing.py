"""Computing nodes of graphs: what was computed before stands for itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final

from torpor.base.collecting import uncollected
from torpor.base.errors import TorporError
from torpor.graph.call import is_result
from torpor.graph.known import shown
from torpor.graph.template import note_computation
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.again_needed import mark_held, needed_again, needed_elsewhere
from torpor.tensor.pending import note_along
from torpor.tensor.storage import (
    age_of,
    is_buffer,
    is_name,
    reads_memory,
    remember,
    settle,
    values_below,
)
from torpor.tensor.watch import active, watcher

# An enumeration is slow to ask for its members.
_MEMORY: Final = frozenset({Ops.BUFFER, Ops.RESHAPE, Ops.MULTI})


@cache
def pipeline() -> Any:
    """The compiler, which is imported when the first value is wanted: it takes a while."""
    from torpor import pipeline

    return pipeline


def compute(roots: Sequence[tuple[UOp, str]]) -> list[UOp]:
    """The values of graph nodes on devices; what was computed before is not computed again."""
    while True:
        nodes = shown_now(roots)
        places = [place for place, node in enumerate(nodes) if not is_buffer(node)]
        made = _run([roots[place] for place in places]) if places else []
        if made is not None:
            break
    for place, value in zip(places, made, strict=True):
        remember(roots[place][0], value)
        nodes[place] = value
    return nodes


def compute_later(roots: Sequence[tuple[UOp, str]]) -> Any:
    """As `compute` while a trace watches, but for what runs: a `Later` of all roots. Nobody else
    knows of the values.
    """
    note_computation()
    nodes = shown_now(roots)
    places = [place for place, node in enumerate(nodes) if not is_buffer(node)]
    later = pipeline().realize_later([(nodes[place], roots[place][1]) for place in places])
    for place, value in zip(places, later.values, strict=True):
        nodes[place] = value
    return later._replace(values=nodes)


def computed(root: UOp, device: str) -> UOp:
    """As `compute`, of one node; nobody is told that it has been computed."""
    node = shown_now(((root, device),))[0] if active else shown(root)
    if node.op in _MEMORY and is_buffer(node):
        return node
    made = _run(((root, device),))
    return compute(((root, device),))[0] if made is None else made[0]


def shown_now(roots: Sequence[tuple[UOp, str]]) -> list[UOp]:
    """What stands for nodes here and now: a trace has a say in it."""
    if not active:
        return [shown(node) for node, _ in roots]
    values = values_below([node for node, _ in roots])
    return [values.get(node, node) for node, _ in roots]


def _run(roots: Sequence[tuple[UOp, str]]) -> list[UOp] | None:
    """The values of nodes; None where something below has been computed by itself, so that there is
    less to do.
    """
    note_computation()
    if not active:
        again = pipeline().realize_again(roots)
        if again is not None:
            if again[1]:
                note_along()
            for node, value, age in again[1]:
                settle(node, value, age)
            return again[0]
    return _run_anew(roots)


@uncollected()
def _run_anew(roots: Sequence[tuple[UOp, str]]) -> list[UOp] | None:
    """As `_run`, of graphs that are not recognised as they are."""
    values = values_below([node for node, _ in roots])
    wanted = [(values.get(node, node), device) for node, device in roots]
    if active:
        with unwatched_calls():
            values_of: list[UOp] = pipeline().realize(wanted)
        return values_of
    if any(is_result(node) or is_name(node) for node in values):
        pipeline().know_written(roots, wanted, values)
    found = pipeline().realize_along(wanted, partial(new_graph, roots, values))
    if found is None:
        return None
    made, along = found
    if along:
        note_along()
        _remember_all(along, values)
    return made


def _remember_all(along: Sequence[tuple[UOp, UOp]], values: Mapping[UOp, UOp]) -> None:
    """Note values of nodes, also for the nodes that these stand for."""
    stands: dict[UOp, list[UOp]] = {}
    for node, other in values.items():
        stands.setdefault(other, []).append(node)
    ages: dict[UOp, int] = {}
    for node, value in along:
        for one in (*stands.get(node, ()), node):
            settle(one, value, 1 + age_of(one, ages))


def new_graph(asked: Sequence[tuple[UOp, str]], values: Mapping[UOp, UOp], form: Any) -> bool:
    """Compute what earlier graphs had, and this one needs, by itself: whether there was such."""
    again = needed_again(asked)
    for _, mark in again:
        if mark is not None:
            pipeline().take_along(mark)
    roots = {node for node, _ in asked}
    # what reads no memory is nowhere noted: computing it by itself would change nothing
    alone = [node for node, _ in again if node not in roots and reads_memory(node)]
    if alone:
        for node, mark in needed_elsewhere(alone, values, form):
            pipeline().take_along(mark)
            alone.append(node)
        nodes = [values.get(node, node) for node in alone]
        try:
            made = pipeline().realize([(node, asked[0][1]) for node in nodes])
        except (TorporError, MemoryError):  # it may be that it is not needed after all
            return False
        ages: dict[UOp, int] = {}
        for node, value in zip(alone, made, strict=True):
            settle(node, value, 1 + age_of(node, ages))
        return True
    mark_held(asked, values, form)
    return False


@contextmanager
def unwatched_calls() -> Iterator[None]:
    """While a trace watches this thread, spare it the compiler's own calls: they are many."""
    watching = watcher() if active else None
    profiler = sys.getprofile()
    if watching is None or getattr(profiler, "__self__", None) is not watching:
        yield  # nobody profiles, or the user does
        return
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profiler)
