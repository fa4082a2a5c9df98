"""What is known of a graph while it is parted."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.kernel.kernels import add, multiply, sample
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.schedule.fusion_state import FusionState

NODES = 6


@given(st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))))
@settings(max_examples=60, deadline=None)
def test_a_kernel_runs_before_those_that_read_it_however_indirectly(pairs):
    root = sample(4)
    state = FusionState([(root, "CPU")])
    regions = [state.new_region(root, "a test") for _ in range(NODES)]
    edges = {(a, b) for a, b in pairs if a < b}
    for first, later in edges:
        state.note_readers(regions[first], [regions[later]])
    reached = set(edges)
    for middle in range(NODES):  # Warshall's algorithm
        reached |= {(a, b) for a, m in reached for n, b in reached if m == n == middle}
    found = {
        (a, b)
        for a in range(NODES)
        for b in range(NODES)
        if state.runs_before(regions[a], regions[b])
    }
    assert found == reached


def test_nodes_come_after_their_operands_and_know_their_readers():
    x = sample(4, 6)
    summed = build.reduce(multiply(x, x), Ops.ADD, 1)
    roots = [add(summed, summed), build.elementwise(Ops.MAX, x, multiply(x, x))]
    state = FusionState([(root, "CPU") for root in roots])
    place = {node: number for number, node in enumerate(state.order)}
    assert all(place[s] < place[node] for node in state.order for s in node.src)
    for node, readers in state.children.items():
        assert len(readers) == len(set(readers))
        assert set(readers) == {one for one in state.order if node in one.src}
    reduced, plain = roots
    assert place[plain] < place[reduced]  # visited from the end: what reduces comes first


def test_what_lies_below_movements_is_forced_once_and_leaves_never():
    x = sample(4, 6)
    doubled = add(x, x)
    turned = build.permute(doubled, (1, 0))
    state = FusionState([(turned, "CPU")])
    first, other = (state.new_region(turned, "a test") for _ in range(2))
    state.force(turned, "one reason", first, (Ops.PERMUTE,))
    state.force(doubled, "another", other, ())
    state.force(build.permute(x, (1, 0)), "none", first, (Ops.PERMUTE, Ops.RESHAPE))
    assert state.forced == {doubled: "one reason"}
    assert state.readers_of(doubled) == {first, other}
