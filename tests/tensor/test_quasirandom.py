"""Sobol's points: PyTorch's, and how evenly they lie."""

import numpy as np
import pytest
from torpor.quasirandom import SobolEngine

import torpor


def test_points_are_pytorchs():
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(SobolEngine.MAXDIM), torch.quasirandom.SobolEngine(128)
    for n in (1, 5, 300):
        np.testing.assert_array_equal(ours.draw(n).numpy(), theirs.draw(n).numpy())
    ours.fast_forward(100000)
    theirs.fast_forward(100000)
    assert ours.draw(2).tolist() == theirs.draw(2).tolist()
    assert ours.reset().num_generated == 0
    assert repr(SobolEngine(3, True, 4)) == repr(torch.quasirandom.SobolEngine(3, True, 4))


@pytest.mark.parametrize("scramble", [False, True])
def test_as_many_points_lie_in_each_part_of_each_axis(scramble):
    points = SobolEngine(20, scramble, seed=3).draw_base2(7, dtype=torpor.float64).numpy()
    parts = np.floor(points * 128).astype(int)
    assert (np.sort(parts, axis=0) == np.arange(128)[:, None]).all()
    quarters = np.floor(points[:, :2] * [8, 16]).astype(int) @ [16, 1]
    assert len(np.unique(quarters)) == 128, "and in each part of the first square"
    assert (points[0] == 0).all() is np.bool_(not scramble)


def test_scrambled_points_follow_their_seed():
    one, other, third = (SobolEngine(3, True, seed).draw(4).tolist() for seed in (1, 1, 2))
    assert one == other and one != third
    torpor.manual_seed(5)
    first = SobolEngine(3, True).draw(2).tolist()
    assert first != SobolEngine(3, True).draw(2).tolist()
    torpor.manual_seed(5)
    assert first == SobolEngine(3, True).draw(2).tolist()


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"1 to 128 dimensions, not 129; scipy"):
        SobolEngine(129)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="use draw"):
        engine.draw_base2(3)
    out = torpor.empty(2, 2)
    assert engine.draw(2, out=out) is out and out.tolist() == [[0.25, 0.75], [0.375, 0.375]]


def test_a_jitted_engine_goes_on():
    engine = SobolEngine(1)
    draw = torpor.jit(lambda: engine.draw(1))
    assert [draw().item() for _ in range(4)] == [0, 0.5, 0.75, 0.25]
    assert engine.num_generated == 4


def test_points_are_left_out_as_far_as_there_are_some():
    with pytest.raises(ValueError, match="left out"):
        SobolEngine(1).fast_forward(2**31)
