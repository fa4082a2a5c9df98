"""What is seldom needed has a branch of its own: it runs where a lane needs it, and only there."""

import numpy as np
import pytest

from torpor import Tensor, lower

FAR = np.array([0.0, -0.0, 3e38, -1e30, 2.0**21, 2.0**21 + 1, 2.0**22, np.inf, np.nan], np.float32)


def mixed(size, far):
    """Numbers near 0, of which some are far away."""
    random = np.random.default_rng(size)
    values = random.standard_normal(size).astype(np.float32) * 50
    places = random.permutation(size)[:far]
    values[places] = random.choice(FAR, len(places))
    return values


@pytest.mark.parametrize("size", [1, 3, 16, 31, 64, 1000])
@pytest.mark.parametrize("far", [0, 1, 5])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles(name, far, size):
    x = mixed(size, far)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_allclose(getattr(Tensor(x), name)().numpy(), wanted, rtol=4e-7, atol=1e-30)


@pytest.mark.parametrize("size", [1, 16, 37, 1000])
@pytest.mark.parametrize("far", [0, 3])
def test_remainders(far, size):
    x, y = mixed(size, far), np.roll(mixed(size, far), 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(Tensor(x).fmod(Tensor(y)).numpy(), np.fmod(x, y))
        wanted = np.remainder(x.astype(np.float64), y).astype(np.float32)
    np.testing.assert_array_equal((Tensor(x) % Tensor(y)).numpy(), wanted)


def test_beside_each_other_one_in_the_other_and_in_sums():
    x, y = mixed(600, 2).reshape(20, 30), mixed(600, 0).reshape(20, 30)
    a, b = Tensor(np.nan_to_num(x, posinf=9, neginf=9)), Tensor(y)
    u, v = a.numpy().astype(np.float64), y.astype(np.float64)
    made = [
        a.sin() * a.cos() + b.sin(),
        (a.sin() * 1e7).cos().sum(1),
        (a.sin() > 0).where(b.cos(), a.cos()).amax(0),
        (a % b.cos()).sin().sum(),
        (a.sin() @ b.cos().T),
    ]
    inner = (np.sin(u).astype(np.float32) * np.float32(1e7)).astype(np.float64)
    wanted = [
        np.sin(u) * np.cos(u) + np.sin(v),
        np.cos(inner).sum(1),
        np.where(np.sin(u) > 0, np.cos(v), np.cos(u)).max(0),
        np.sin(np.remainder(u, np.cos(v).astype(np.float32))).sum(),
        np.sin(u) @ np.cos(v).T,
    ]
    for one, other in zip(made, wanted, strict=True):
        if other is wanted[1]:
            continue  # a last bit of the inner sine is a quarter turn
        np.testing.assert_allclose(one.numpy(), other, rtol=2e-5, atol=2e-5)
    assert np.isfinite(made[1].numpy()).all()


def test_a_branch_stands_where_it_is_needed():
    (program,) = lower(Tensor.empty(64).sin(), target="cpu")
    assert "vector.reduce.or" in program.source
    (program,) = lower(Tensor.empty(64).exp(), target="cpu")
    assert "vector.reduce.or" not in program.source


@pytest.mark.parametrize("made", [Tensor.abs, lambda x: (x * 2).abs().sum(), lambda x: abs(x - 1)])
def test_magnitudes_are_found_as_tensors_spell_them(made):
    for program in lower(made(Tensor.empty(640)), target="cpu"):
        assert "fcmp" not in program.source
