"""Normal forms are kept, but who listens hears how they came about."""

import numpy as np
import pytest

from torpor import Context, Tensor, lower
from torpor.ir import trace
from torpor.kernel.opts.normalise import normalise


def test_who_listens_hears_every_rewrite_each_time():
    (item,) = Tensor.empty(6, 5, 35).sum(2).sum(1).schedule()
    kept = normalise(item.ast)
    heard = []
    for _ in range(2):
        with trace.recording() as events:
            assert normalise(item.ast) is kept
        heard.append([(event.stage, event.rule) for event in events])
    assert ("join reductions", "join_reductions") in heard[0]
    assert heard[0] == heard[1]


def test_what_lies_backwards_gets_vectors_as_what_lies_forwards():
    """Both turns of a picture by a right angle are copies of blocks, read in rows."""
    numbers = np.arange(48 * 32, dtype="f").reshape(48, 32)
    picture = Tensor(numbers).realize()
    turns = [picture.rot90(1), picture.rot90(3)]
    forwards, backwards = ([p.opts for p in lower(turn)] for turn in turns)
    assert forwards == backwards
    assert turns[0].tolist() == np.rot90(numbers, 1).tolist()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_steps_and_sums_of_what_lies_backwards_keep_their_order(axis):
    numbers = np.random.default_rng(0).integers(-9, 9, (9, 16, 12)).astype("f")
    back = Tensor(numbers).realize().flip(axis)
    turned = np.flip(numbers, axis)
    for other in range(3):
        assert (back.cumsum(other).numpy() == turned.cumsum(other)).all()
        assert (
            back.transpose(0, 2).sum(other).numpy() == turned.transpose(2, 1, 0).sum(other)
        ).all()
        assert (back.argmax(other).numpy() == turned.argmax(other)).all()


def test_what_is_kept_depends_on_the_licence():
    """Two constants are added to each other only where that is licensed."""
    with Context(STRICT_FLOAT=1):
        (item,) = ((Tensor.empty(6) + 1.25) + 2.5).schedule()
        strict = normalise(item.ast)
    free = normalise(item.ast)
    assert strict is not free
    assert normalise(item.ast) is free


@pytest.mark.parametrize("size", [1, 4, 64, 1000])
def test_a_loop_of_a_reduction_that_is_gone_is_an_outputs(size):
    """The largest of equal numbers is known; the numbers are stored in its loop all the same."""
    filled = Tensor.full((size,), 3.0)
    largest, least = filled.amax(), (filled * 2).amin()
    Tensor.realize(filled, largest, least)
    assert (largest.item(), least.item()) == (3.0, 6.0)
    assert filled.tolist() == [3.0] * size
