"""Normal forms are kept, but who listens hears how they came about."""

import pytest

from torpor import Context, Tensor
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
