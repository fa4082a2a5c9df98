"""Where random numbers begin and go on."""

import pytest

import torpor


def test_numbers_inside_do_not_count_behind():
    torpor.manual_seed(3)
    expected = torpor.rand(2).tolist()
    torpor.random.manual_seed(3)
    with torpor.random.fork_rng():
        torpor.manual_seed(5)
        assert torpor.random.initial_seed() == 5
        torpor.rand(4).realize()
    assert torpor.initial_seed() == 3 and torpor.rand(2).tolist() == expected
    with torpor.random.fork_rng(enabled=False):
        torpor.rand(1).realize()
    state = torpor.random.get_rng_state()
    assert state.dtype is torpor.uint8 and state.shape == (16,)
    first = torpor.rand(2).tolist()
    torpor.random.set_rng_state(state)
    assert torpor.rand(2).tolist() == first


@pytest.mark.parametrize("given", [5, "x", (3, 4), torpor.ones(16)])
def test_other_things_are_no_state(given):
    for function in (torpor.set_rng_state, torpor.Generator().set_state):
        with pytest.raises(TypeError, match="is uint8"):
            function(given)


def test_seeds_that_nobody_knows_differ():
    one, other = torpor.seed(), torpor.seed()
    assert one != other and torpor.initial_seed() == other
