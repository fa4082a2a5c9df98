"""Reads and writes of kernels as views."""

import itertools

import pytest

from torpor.base.dtypes import dtypes
from torpor.explore.accesses import accesses, view_of
from torpor.explore.grammar import value
from torpor.explore.trace import Node, Trace
from torpor.explore.views import shown, trackers_of
from torpor.ir.ops import AxisType, Ops
from torpor.ir.text import show_node
from torpor.ir.uop import UOp


def traced(*roots):
    """The nodes as a trace has them, and the numbers of these."""
    trace, numbers = Trace(), {}
    for node in UOp.sink(*roots).toposort():
        numbers[node] = len(numbers)
        arg = "" if node.arg is None else show_node(node, numbers).partition(" = ")[2]
        source = tuple(numbers[s] for s in node.src)
        trace.nodes[numbers[node]] = Node(node.op.name, node.dtype.name, source, arg)
    return trace, [numbers[root] for root in roots], numbers


SIZES = (3, 4)
X, Y = (
    UOp(Ops.RANGE, dtypes.index, (UOp.const(dtypes.index, n),), (axis, AxisType.LOOP))
    for axis, n in enumerate(SIZES)
)


def const(number):
    return UOp.const(dtypes.index, number)


@pytest.mark.parametrize(
    ("index", "valid", "meaning"),
    [
        (X * 4 + Y, None, lambda x, y: x * 4 + y),
        (X * 2 + (Y * 5 + 1) * 3, None, lambda x, y: x * 2 + y * 15 + 3),
        (X * 4 + Y, Y < 2, lambda x, y: x * 4 + y if y < 2 else None),
        (X * 4 + Y, (const(0) < X) & (Y * 2 < 5), lambda x, y: x * 4 + y if x and y < 3 else None),
        (X + Y + -2, (const(1) < Y + 0), lambda x, y: x + y - 2 if y > 1 else None),
        (X * 4 + Y, (X * 4 + Y) < 7, lambda x, y: x * 4 + y if x * 4 + y < 7 else None),
        (
            Y * 3 + X,
            ((X + Y) < 4) & (const(0) < X + Y * -1 + 2) & (Y < 3),
            lambda x, y: y * 3 + x if x + y < 4 and x - y > -2 and y < 3 else None,
        ),
        (
            X + Y,
            (X + Y < 3).ne(UOp.const(dtypes.bool, True)),
            lambda x, y: x + y if x + y >= 3 else None,
        ),
        (
            (X * 4 + Y) // 3 + (X * 4 + Y) % 3 * 4,
            None,
            lambda x, y: (x * 4 + y) // 3 + (x * 4 + y) % 3 * 4,
        ),
        (
            (X * 4 + Y) // 2 % 3 * 7 + Y,
            (X * 4 + Y) // 6 < 1,
            lambda x, y: (x * 4 + y) // 2 % 3 * 7 + y if x * 4 + y < 6 else None,
        ),
        (
            (X + Y + -4) % 3,
            const(-1) < (X + Y + -4) // 3,
            lambda x, y: (x + y - 4) % 3 if x + y >= 4 else None,
        ),
    ],
)
def test_a_view_says_what_the_index_says(index, valid, meaning):
    roots = [index] if valid is None else [index, valid]
    trace, found, numbers = traced(*roots)
    shape = {numbers[axis]: size for axis, size in zip((X, Y), SIZES, strict=True)}
    page = shown(trackers_of(view_of(trace, found, shape))[-1][1])
    for number, point in enumerate(itertools.product(*map(range, SIZES))):
        place = page["cells"][number] if page["valids"][number] else None
        assert place == meaning(*point)


@pytest.mark.parametrize("index", [X * Y, X % 2 + X % 3, (X % 3 + Y) // 2])
def test_what_no_view_says_has_none(index):
    trace, found, numbers = traced(index)
    assert view_of(trace, found, {numbers[n]: 3 for n in (X, Y) if n in numbers}) is None


def test_the_fusion_example_reads_and_writes_in_a_row(trace):
    for one in accesses(trace, trace.kernels[0]):
        assert value(one["view"]).name == "View.create"
        assert one["variables"][0][1:] == [0, 3]
