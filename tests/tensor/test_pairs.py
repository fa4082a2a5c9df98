"""Complex tensors in loops and branches."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, jit
from torpor.base.errors import ShapeError


def test_complex_numbers_are_carried_on_and_given():
    steps = Tensor([1 + 1j, 2j, 3 - 1j]).requires_grad_()
    last, seen = torpor.scan(lambda carry, x: (carry * x, (carry, x.abs())), 1j, steps)
    expected = 1j * (1 + 1j) * 2j * (3 - 1j)
    np.testing.assert_allclose(last.item(), expected)
    np.testing.assert_allclose(seen[0].numpy(), [1j, -1 + 1j, -2 - 2j])
    np.testing.assert_allclose(seen[1].numpy(), np.sqrt([2, 4, 10]), 1e-6)
    (slope,) = last.real.gradient(steps)
    np.testing.assert_allclose(slope.numpy(), np.conj(expected / steps.numpy()), 1e-6)
    grown = torpor.while_loop(lambda z: z.abs() < 100, lambda z: z * (1 + 1j), Tensor(1 + 0j))
    assert grown.item() == (1 + 1j) ** 14


def test_branches_give_complex_numbers():
    @jit
    def turned(x, z):
        return torpor.cond(x.sum() > 0, lambda a: a * 1j, lambda a: (a @ a) * a, z)

    z = Tensor([1 + 2j, 3j])
    for _ in range(3):
        assert turned(Tensor([1.0]), z).tolist() == [-2 + 1j, -3]
        assert turned(Tensor([-1.0]), z).tolist() == ((z * z).sum() * z).tolist()


def test_a_carry_that_becomes_complex_is_refused():
    with pytest.raises(ShapeError, match="the carry"):
        torpor.scan(lambda carry, x: (carry * 1j, x), Tensor(1.0), Tensor([1.0]))
