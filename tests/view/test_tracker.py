"""Chains of movements against NumPy, and their laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.view.oracle import fits_one_view, movements, offsets
from torpor.base.errors import ShapeError
from torpor.ir import Variable
from torpor.view import ShapeTracker, View


@settings(max_examples=250, deadline=None)
@given(movements())
def test_any_chain_of_movements_walks_as_numpy_does(case):
    tracker, array = case
    assert tracker.shape == array.shape
    np.testing.assert_array_equal(offsets(tracker), array)


@settings(max_examples=250, deadline=None)
@given(movements())
def test_what_one_view_can_say_never_takes_two(case):
    tracker, array = case
    if fits_one_view(array):
        assert len(tracker.views) == 1


@settings(max_examples=80, deadline=None)
@given(movements(steps=4, most=48), st.data())
def test_composition_is_one_after_the_other(case, data):
    first, array = case
    if array.size == 0:
        return
    second, picked = data.draw(movements(steps=3, most=48))
    base = ShapeTracker.from_shape(picked.shape if picked.size else (1,))
    if array.size != base.size or second.shape != picked.shape:
        second, picked = ShapeTracker.from_shape(array.shape), np.arange(array.size)
        picked = picked.reshape(array.shape)
    if picked.max(initial=-1) >= array.size:
        return
    expected = np.where(picked >= 0, array.reshape(-1)[np.maximum(picked, 0)], -1)
    np.testing.assert_array_equal(offsets(first + second), expected)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_inversion_leads_back(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    tracker = ShapeTracker.from_shape(shape)
    for _ in range(data.draw(st.integers(0, 4))):
        order = data.draw(st.permutations(range(len(tracker.shape))))
        axes = [a for a in range(len(order)) if data.draw(st.booleans())]
        tracker = tracker.permute(order).flip(axes)
    back = tracker.invert(shape)
    assert back is not None
    assert (tracker + back).contiguous


def test_a_pad_is_inverted_by_a_shrink():
    padded = ShapeTracker.from_shape((2, 3)).pad(((1, 0), (0, 2))).permute((1, 0)).flip((0,))
    back = padded.invert((2, 3))
    assert back is not None
    assert (padded + back).contiguous
    assert (padded + back).shape == (2, 3)


def test_several_views_are_inverted():
    two = ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((3, 2)).flip((1,))
    assert len(two.views) == 2
    back = two.invert((3, 2))
    assert back is not None
    assert (two + back).contiguous


def test_what_loses_elements_has_no_inverse():
    assert ShapeTracker.from_shape((4,)).shrink(((0, 2),)).invert((4,)) is None
    assert ShapeTracker.from_shape((1,)).expand((3,)).invert((1,)) is None


def test_two_views_only_where_one_cannot_say_it():
    two = ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((3, 2))
    assert len(two.views) == 2
    assert len(two.reshape((2, 3)).permute((1, 0)).views) == 1


def test_large_chains_stay_short_too():
    big = ShapeTracker.from_shape((1024, 512)).permute((1, 0)).reshape((512, 1, 1024))
    assert len(big.reshape((512, 32, 32)).permute((1, 2, 0)).views) == 1
    assert big.reshape((512, 1024)).permute((1, 0)).contiguous


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (
            lambda t: t.permute((1, 0)).reshape((1 << 20,)).flip((0,)).reshape((1024, 1024)),
            View.create((1024, 1024), (-1, -1024), (1 << 20) - 1),
        ),
        (
            lambda t: t.pad(((0, 0), (1, 1))).reshape((32, 32, 1026)),
            View.create((32, 32, 1026), (32768, 1024, 1), -1, ((0, 32), (0, 32), (1, 1025))),
        ),
        (
            lambda t: t.permute((1, 0)).reshape((1 << 20,)).shrink(((1024, 2048),)),
            View.create((1024,), (1024,), 1),
        ),
        (
            lambda t: t.shrink(((5, 6), (0, 1024))).pad(((2, 3), (0, 0))).reshape((6144,)),
            View.create((6144,), (1,), 3 * 1024, ((2048, 3072),)),
        ),
    ],
)
def test_size_is_no_hindrance(move, expected):
    assert move(ShapeTracker.from_shape((1024, 1024))).views == (expected,)


def test_a_view_without_axes_may_show_nothing():
    nothing = ShapeTracker.from_shape((1,)).pad(((1, 0),)).shrink(((0, 1),)).reshape(())
    assert offsets(nothing) == -1


def test_an_axis_of_two_parts_has_no_stride():
    tracker = ShapeTracker((View.create((3, 4), (1, 5)), View.create((6,), (2,))))
    assert tracker.real_strides() == (None,)


def test_strides_of_several_views():
    assert ShapeTracker.from_shape((4, 3)).permute((1, 0)).real_strides() == (1, 3)
    assert ShapeTracker.from_shape((4, 3)).permute((1, 0)).unit_stride_axes() == [0]
    two = ShapeTracker.from_shape((4, 6)).permute((1, 0)).reshape((2, 3, 4)).reshape((6, 4))
    assert two.real_strides() == (1, 6)
    assert ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((6,)).real_strides() == (None,)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_symbolic_sizes_walk_as_their_values(n):
    size = Variable("n", 1, 10)
    tracker = ShapeTracker.from_shape((size, 3)).permute((1, 0)).flip((0,))
    position, valid = tracker.expr_idxs([Variable("i", 0, 2), Variable("j", 0, 9)])
    array = np.flip(np.arange(n * 3).reshape(n, 3).T, 0)
    for i, j in np.ndindex(3, n):
        env = {"i": i, "j": j, "n": n, "__builtins__": {}}
        assert eval(valid.render(), env)
        assert eval(position.render(), env) == array[i, j]


def test_symbolic_reshape_and_pad():
    size = Variable("n", 1, 10)
    tracker = ShapeTracker.from_shape((size, 4)).reshape((size, 2, 2)).pad(((0, 0), (1, 0), (0, 0)))
    assert len(tracker.views) == 1
    assert tracker.shape == (size, 3, 2)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_nothing_to_walk(shape):
    tracker = ShapeTracker.from_shape(shape).permute(tuple(reversed(range(len(shape)))))
    assert offsets(tracker).size == 0


def test_wrong_movements_are_refused():
    view = View.create((2, 3))
    for wrong in (
        lambda: view.permute((0, 0)),
        lambda: view.expand((4, 3)),
        lambda: view.pad(((0, 0),)),
        lambda: view.shrink(((0, 1),)),
        lambda: view.reshape((4, 2)),
        lambda: ShapeTracker(()),
    ):
        with pytest.raises(ShapeError):
            wrong()
