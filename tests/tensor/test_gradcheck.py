"""Right gradients are found right, and wrong ones wrong."""

import numpy as np
import pytest

from torpor import Tensor, autograd
from torpor.base.errors import GradientError

A, B = (Tensor(np.random.default_rng(n).normal(size=(2, 2)), requires_grad=True) for n in (0, 1))
Z = Tensor(np.array([0.5 + 1j, -1 + 0.25j]), requires_grad=True)


class Wrong(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.detach() * 2.5


def test_gradients_that_are_right():
    assert autograd.gradcheck(lambda a, b: ((a @ b).tanh(), a.exp()), (A, B))
    assert autograd.gradgradcheck(lambda a, b: (a @ b).tanh(), (A, B))
    assert autograd.gradcheck(lambda z: z * z.exp(), (Z,))
    assert autograd.gradcheck(lambda a, n: a * n, (A, 3.0))


def test_gradients_that_are_wrong():
    with pytest.raises(GradientError, match="output 0 for input 0"):
        autograd.gradcheck(Wrong.apply, A)
    assert not autograd.gradcheck(Wrong.apply, A, raise_exception=False)
    assert not autograd.gradgradcheck(Wrong.apply, A, raise_exception=False)
    with pytest.raises(GradientError, match="requires a gradient"):
        autograd.gradcheck(Tensor.exp, A.detach())
