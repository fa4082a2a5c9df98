"""What is known of a graph while it is parted."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.kernel.kernels import add, multiply, sample
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.schedule.parting import Parting

NODES = 6


@given(st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))))
@settings(max_examples=60, deadline=None)
def test_a_kernel_runs_before_those_that_read_it_however_indirectly(pairs):
    root = sample(4)
    parting = Parting([(root, "CPU")])
    regions = [parting.new_region(root, "a test") for _ in range(NODES)]
    edges = {(a, b) for a, b in pairs if a < b}
    for first, later in edges:
        parting.readers.setdefault(regions[first], set()).add(regions[later])
    reached = {(n, n) for n in range(NODES)} | edges
    for middle in range(NODES):  # Warshall's algorithm
        reached |= {(a, b) for a, m in reached for n, b in reached if m == n == middle}
    found = {
        (a, b)
        for a in range(NODES)
        for b in range(NODES)
        if parting.runs_before(regions[a], regions[b])
    }
    assert found == reached


def test_nodes_come_after_their_operands_and_know_their_readers():
    x = sample(4, 6)
    summed = build.reduce(multiply(x, x), Ops.ADD, 1)
    roots = [add(summed, summed), build.elementwise(Ops.MAX, x, multiply(x, x))]
    parting = Parting([(root, "CPU") for root in roots])
    place = {node: number for number, node in enumerate(parting.order)}
    assert all(place[s] < place[node] for node in parting.order for s in node.src)
    for node, readers in parting.children.items():
        assert len(readers) == len(set(readers))
        assert set(readers) == {one for one in parting.order if node in one.src}
    reduced, plain = roots
    assert place[plain] < place[reduced]  # visited from the end: what reduces comes first


def test_what_lies_below_movements_is_forced_once_and_leaves_never():
    x = sample(4, 6)
    doubled = add(x, x)
    turned = build.permute(doubled, (1, 0))
    parting = Parting([(turned, "CPU")])
    first, other = (parting.new_region(turned, "a test") for _ in range(2))
    parting.force(turned, "one reason", first, (Ops.PERMUTE,))
    parting.force(doubled, "another", other, ())
    parting.force(build.permute(x, (1, 0)), "none", first, (Ops.PERMUTE, Ops.RESHAPE))
    assert parting.forced == {doubled: "one reason"}
    assert parting.readers_of(doubled) == {first, other}
