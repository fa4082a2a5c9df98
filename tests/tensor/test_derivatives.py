"""Derivatives at a place against formulas."""

import numpy as np
import pytest
from torpor.autograd import functional

import torpor
from torpor import Tensor
from torpor.base.errors import GradientError

X, Y = (Tensor(np.random.default_rng(n).normal(size=3)) for n in (0, 1))
V, W = (Tensor(np.random.default_rng(n).normal(size=3)) for n in (2, 3))
x, y, v, w = (one.numpy() for one in (X, Y, V, W))


def close(found, expected):
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians(strategy):
    close(functional.jacobian(Tensor.exp, X, strategy=strategy), np.diag(np.exp(x)))
    first, second = functional.jacobian(lambda a, b: a * b, (X, Y), strategy=strategy)
    close(first, np.diag(y)), close(second, np.diag(x))
    ((one, none),) = functional.jacobian(lambda a, b: (a.sin(),), (X, Y), strategy=strategy)
    close(one, np.diag(np.cos(x))), close(none, np.zeros((3, 3)))


def test_second_derivatives():
    def cubes(a):
        return (a**3).sum()

    def product(a, b):
        return (a * a * b).sum()

    close(functional.hessian(cubes, X), np.diag(6 * x))
    ((aa, ab), (ba, bb)) = functional.hessian(product, (X, Y))
    close(aa, np.diag(2 * y)), close(ab, np.diag(2 * x)), close(ba, np.diag(2 * x))
    close(bb, np.zeros((3, 3)))
    for which in (functional.hvp, functional.vhp):
        value, found = which(cubes, X, V)
        close(value, (x**3).sum()), close(found, 6 * x * v)
        first, second = which(product, (X, Y), (V, W))[1]
        close(first, 2 * y * v + 2 * x * w), close(second, 2 * x * v)


def test_products_with_jacobians():
    made, found = functional.vjp(lambda a, b: a * b.exp(), (X, Y), V)
    close(made, x * np.exp(y))
    close(found[0], v * np.exp(y)), close(found[1], v * x * np.exp(y))
    close(functional.vjp(Tensor.sum, X)[1], np.ones(3))
    close(functional.jvp(lambda a, b: a * b, (X, Y), (V, W))[1], v * y + x * w)
    assert not found[0].requires_grad
    given = X.detach().requires_grad_()
    slope = functional.vjp(lambda a: a**3, given, V, create_graph=True)[1]
    close(slope.sum().gradient(given)[0], 6 * x * v)
    with pytest.raises(GradientError, match="needs v"):
        functional.vjp(Tensor.exp, X)


def test_strict_refuses_what_depends_on_nothing():
    x, v = Tensor([1.0, 2.0]), Tensor([1.0, 1.0])
    constant, linear = (lambda x: Tensor([1.0, 1.0])), (lambda x: (x * 3).sum())
    for run in (
        lambda: functional.jacobian(constant, x, strict=True),
        lambda: functional.vjp(constant, x, v, strict=True),
        lambda: functional.jvp(constant, x, v, strict=True),
        lambda: functional.hvp(linear, x, v, strict=True),
        lambda: functional.vhp(linear, x, v, strict=True),
        lambda: functional.hessian(linear, x, strict=True),
    ):
        with pytest.raises(GradientError, match="does not depend on input 0"):
            run()
    assert functional.jacobian(Tensor.square, x, strict=True).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert functional.hessian(lambda x: (x**3).sum(), x, strict=True).diagonal().tolist() == [6, 12]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_strict_refuses_what_has_no_gradient(strategy):
    def run(library, tensor, function, input):
        place = library.autograd.functional
        try:
            found = place.jacobian(function, tensor(input), strict=True, strategy=strategy)
        except (GradientError, RuntimeError):
            return "refused"
        return found.tolist()

    cases = [lambda x: (x > 0) * 1.0, lambda x: x.detach() * 2, lambda x: x > 0,
             lambda x: x * 0, lambda x: x * x.detach(), lambda x: x.square()]  # fmt: skip
    found = [run(torpor, Tensor, one, [1.0, 2.0]) for one in cases]
    zero, once, twice = [[0.0, 0.0]] * 2, [[1.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 4.0]]
    assert found == ["refused"] * 3 + [zero, once, twice]
    if strategy == "reverse-mode":  # PyTorch's forward mode knows no strict
        torch = pytest.importorskip("torch")
        assert found == [run(torch, torch.tensor, one, [1.0, 2.0]) for one in cases]


def test_strict_refuses_slopes_that_have_no_gradient():
    def run(library, tensor, function):
        try:
            return library.autograd.functional.hessian(function, tensor([1.0, 2.0]), strict=True)
        except (GradientError, RuntimeError):
            return None

    cases = [lambda x: (x * x.detach()).sum(), lambda x: ((x > 0) * x).sum()]
    assert [run(torpor, Tensor, one) for one in cases] == [None, None]
    assert run(torpor, Tensor, lambda x: (x * x).sum()).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    torch = pytest.importorskip("torch")
    assert [run(torch, torch.tensor, one) for one in cases] == [None, None]


def test_strict_calls_a_function_once_and_draws_what_others_draw():
    called = []

    def dropped(x):
        called.append(x)
        return x.dropout(0.5, training=True) * x

    x, found = Tensor([1.0, 2.0, 3.0, 4.0]), []
    for strict in (False, True):
        torpor.manual_seed(3)
        slopes = functional.jacobian(dropped, x, strict=strict)
        found.append((slopes.tolist(), torpor.rand(1).item()))
    assert found[0] == found[1] and len(called) == 2
    torpor.manual_seed(3)
    functional.hessian(lambda x: (dropped(x) * x).sum(), x)
    state = torpor.rand(1).item()
    torpor.manual_seed(3)
    functional.hessian(lambda x: (dropped(x) * x).sum(), x, strict=True)
    assert torpor.rand(1).item() == state
