"""Symbolic views: chains evaluated at several sizes, and read back as one view."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor.ir import Variable
from torpor.view import ShapeTracker, View
from torpor.view.compose import compose

SIZE = Variable("n", 1, 10)


def walked(tracker, n):
    """Positions of a tracker with size `n`, -1 where invalid, by its expressions."""
    scope = {"__builtins__": {}, "n": n, "min": min, "max": max}
    shape = [s if isinstance(s, int) else eval(s.render(), scope) for s in tracker.shape]
    ranges = [Variable(f"i{axis}", 0, 40) for axis in range(len(shape))]
    position, valid = (e.render() for e in tracker.to_indexed_uops(ranges))
    found = np.full(shape, -1)
    for point in np.ndindex(*shape):
        scope |= {f"i{axis}": i for axis, i in enumerate(point)}
        if eval(valid, scope):
            found[point] = eval(position, scope)
    return found


@st.composite
def chains(draw):
    """A list of functions that move a tracker, or an array whose symbolic size is known."""
    found = []
    rank = 3
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["permute", "flip", "pad", "split", "join"]))
        if kind == "permute":
            found.append((kind, tuple(draw(st.permutations(range(rank))))))
        elif kind == "flip":
            found.append((kind, tuple(a for a in range(rank) if draw(st.booleans()))))
        elif kind == "pad":
            pair = st.tuples(st.integers(0, 1), st.integers(0, 1))
            found.append((kind, tuple(draw(pair) for _ in range(rank))))
        elif kind == "split" and rank < 5:
            found.append((kind, draw(st.integers(0, rank - 1))))
            rank += 1
        elif kind == "join" and rank > 2:
            found.append((kind, draw(st.integers(0, rank - 2))))
            rank -= 1
    return found


def moved(value, kind, argument):
    """The tracker or array after one movement; `split` gives an even known axis a factor of 2."""
    shape = tuple(value.shape)
    array = isinstance(value, np.ndarray)
    if kind == "permute":
        return value.transpose(argument) if array else value.permute(argument)
    if kind == "flip":
        return np.flip(value, argument) if array else value.flip(argument)
    if kind == "pad":
        return np.pad(value, argument, constant_values=-1) if array else value.pad(argument)
    before, after = shape[:argument], shape[argument + 1 :]
    if kind == "join":
        return value.reshape((*before, shape[argument] * shape[argument + 1], *after[1:]))
    return value.reshape((*before, 1, shape[argument], *after))


@settings(max_examples=120, deadline=None)
@given(chains(), st.sampled_from([1, 2, 5]))
def test_symbolic_chains_walk_as_numpy_does(chain, n):
    tracker = ShapeTracker.from_shape((SIZE, 2, 3))
    array = np.arange(n * 6).reshape(n, 2, 3)
    for kind, argument in chain:
        tracker, array = moved(tracker, kind, argument), moved(array, kind, argument)
    np.testing.assert_array_equal(walked(tracker, n), array)


@pytest.mark.parametrize(
    "move",
    [
        lambda t: t.permute((1, 0)).reshape((2, 3, SIZE)).flip((1,)),
        lambda t: t.pad(((1, 2), (0, 0))).reshape((SIZE + 3, 2, 3)),
        lambda t: t.flip((1,)).reshape((SIZE, 2, 3)).flip((0, 2)),
        lambda t: t.pad(((1, 0), (0, 0))).reshape((SIZE + 1, 1, 3, 2)).permute((2, 3, 0, 1)),
        lambda t: t.reshape((SIZE, 1, 6)).expand((SIZE, 4, 6)),
        lambda t: t.shrink(((0, SIZE), (2, 5))).reshape((SIZE, 3, 1)),
    ],
)
def test_one_view_says_symbolic_chains_too(move):
    tracker = move(ShapeTracker.from_shape((SIZE, 6)))
    assert len(tracker.views) == 1
    for n in (1, 4):
        array = np.arange(n * 6).reshape(n, 6)
        assert set(walked(tracker, n).reshape(-1)) <= set(array.reshape(-1)) | {-1}


def test_views_are_read_back_from_expressions():
    inner = View.create((SIZE, 4)).permute((1, 0))
    one = compose(inner, View.create((4, SIZE)).flip((0,)))
    assert one == View.create((4, SIZE), (-1, 4), 3)


def test_symbolic_offsets_and_bounds():
    start = Variable("s", 0, 3)
    view = View.create((8, 2)).shrink(((start, start + 4), (0, 2)))
    assert view.shape == (4, 2)
    position, valid = view.to_indexed_uops()
    scope = {"__builtins__": {}, "s": 2, "ridx0": 1, "ridx1": 1}
    assert eval(position.render(), scope) == 7
    assert eval(valid.render(), scope)
