"""What a kernel knows of its axes, and what it asks of opts."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.kernel.kernels import add, case, multiply, sample
from tests.rules.expressions import value
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel.opts.state import State
from torpor.kernel.ranges import kind_of, size_of

OPT = Opt(OptOps.UPCAST, 0, 4)


def state_of(root, **changes):
    return State(case("a test", root).item("CPU").ast, replace(get_target("cpu"), **changes))


@given(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_split_axis_counts_through_the_same_places(amount, top):
    state = state_of(multiply(sample(24), sample(24, step=3)))
    (axis,) = state.axes
    state.split(axis, amount, AxisType.UPCAST, top)
    (store,), axes = state.ast.src, state.axes
    fresh = axes[-1]
    assert size_of(fresh) == amount and kind_of(fresh) is AxisType.UPCAST
    outer = [axis for axis in axes if axis is not fresh]
    places = [
        value(store.src[0].src[1], {**dict.fromkeys(outer, step), fresh: inner})
        for step in range(24 // amount)
        for inner in range(amount)
    ]
    slow, fast = (24 // amount, 1) if top else (1, amount)
    assert places == [
        step * fast + inner * slow for step in range(24 // amount) for inner in range(amount)
    ]


def test_axes_lie_outermost_first_and_reductions_are_told_apart():
    state = state_of(build.reduce(multiply(sample(6, 8), sample(6, 8, step=3)), Ops.ADD, 1))
    assert [*map(size_of, state.axes)] == [6, 8] and [*map(size_of, state.reduce_axes)] == [8]
    assert state.has_reduce and state.name == "r_6_8"
    state.split(state.axes[0], 3, AxisType.UPCAST)
    numbers = [r.arg[0] for r in state.axes]
    assert len(set(numbers)) == 3 and state.fresh == max(numbers) + 1


@pytest.mark.parametrize(("amount", "expected"), [(4, 4), (0, 24), (24, 24)])
def test_an_amount_divides_its_axis(amount, expected):
    state = state_of(add(sample(24), sample(24)))
    assert state.amount(replace(OPT, arg=amount), state.axes[0]) == expected


def test_what_does_not_fit_is_refused_with_the_axes_of_the_kernel():
    state = state_of(add(sample(24), sample(24)))
    (axis,) = state.axes
    with pytest.raises(
        OptError, match=r"UPCAST of axis 0 by 5.*E_24 .*global 24.*5 does not divide"
    ):
        state.amount(replace(OPT, arg=5), axis)
    with pytest.raises(OptError, match="no axis 3 among 1"):
        state.axis(replace(OPT, axis=3), state.axes)
    with pytest.raises(OptError, match="it is a global axis"):
        state.expect(OPT, axis, (AxisType.LOOP, AxisType.LOCAL))


def test_packed_memory_has_as_much_room_as_the_target_says():
    state = state_of(add(sample(24), sample(24)), stage_bytes=1000)
    state.check_memory(OPT, 1000)
    with pytest.raises(OptError, match="1001 bytes would be staged, and there are 1000"):
        state.check_memory(OPT, 1001)
