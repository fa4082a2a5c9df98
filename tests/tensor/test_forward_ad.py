"""Tangents against derivatives written out with NumPy."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.tensor import forward_ad

X, V = np.array([1.0, 2.0, 3.0], np.float32), np.array([0.5, -1.0, 2.0], np.float32)


def test_tangents_go_through_operations_and_writes_and_have_gradients():
    weight = torpor.ones(3, requires_grad=True)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(Tensor(X), Tensor(V))
        value, change = forward_ad.unpack_dual((x * weight).sin())
        np.testing.assert_allclose(value.detach(), np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(change.detach(), np.cos(X) * V, rtol=1e-5)
        change.sum().backward()
        np.testing.assert_allclose(weight.grad, V * (np.cos(X) - X * np.sin(X)), rtol=1e-5)
        written = x.clone()
        written += x * x
        written[0] = 7
        assert forward_ad.unpack_dual(written).tangent.tolist() == [0.0, -5.0, 14.0]
        assert forward_ad.unpack_dual(x).tangent.tolist() == V.tolist()
        other = forward_ad.make_dual(Tensor(2.0), Tensor(3.0))
        both = forward_ad.unpack_dual(x.sum() * other).tangent
        assert both.item() == pytest.approx(V.sum() * 2 + X.sum() * 3)
        of_complex = forward_ad.make_dual(Tensor([1 + 2j]), Tensor([2j]))
        assert forward_ad.unpack_dual(of_complex * of_complex).tangent.tolist() == [-8 + 4j]


def test_what_carries_no_tangent_has_none_and_misuse_is_told():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(Tensor(X), Tensor(V))
        assert forward_ad.unpack_dual(x > 1).tangent is None
        assert forward_ad.unpack_dual(Tensor(X)).tangent is None
        with pytest.raises(ValueError, match="tangent"):
            forward_ad.make_dual(Tensor(X), Tensor(1.0))
        with pytest.raises(RuntimeError, match="inside of another"), forward_ad.dual_level():
            pass
    assert forward_ad.unpack_dual(x * 2).tangent is None
    with pytest.raises(RuntimeError, match="needs a level"):
        forward_ad.make_dual(Tensor(X), Tensor(V))


def test_tangents_go_through_no_grad_and_gradients_do_not():
    weight = torpor.ones(3, requires_grad=True)
    with torpor.no_grad(), forward_ad.dual_level():
        x = forward_ad.make_dual(Tensor(X), Tensor(V))
        value, change = forward_ad.unpack_dual(x * x * weight)
        assert (value.requires_grad, change.requires_grad) == (False, False)
        np.testing.assert_allclose(change, 2 * X * V)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(Tensor(X), Tensor(V))
        with torpor.no_grad():
            y = (x * weight)[:2].exp()
            z = torpor.zeros(2)
            z.copy_(y)
        np.testing.assert_allclose(
            forward_ad.unpack_dual(z).tangent, (np.exp(X) * V)[:2], rtol=1e-6
        )
        assert forward_ad.unpack_dual(x.detach() * 2).tangent is None
    (z.sum() + weight.sum()).backward()
    assert weight.grad.tolist() == [1.0, 1.0, 1.0]


def test_what_carries_a_tangent_may_be_written_to():
    given = Tensor(X)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(given, Tensor(V))
        first = x[0]
        first *= 3
        x[1:] *= x[1:]
        value, change = forward_ad.unpack_dual(x)
        np.testing.assert_allclose(value, [3 * X[0], *X[1:] ** 2])
        np.testing.assert_allclose(change, [3 * V[0], *(2 * X * V)[1:]])
    assert given.tolist() == X.tolist()


def test_tangents_in_a_jitted_function():
    @torpor.jit
    def change(x, v):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(x, v).exp()).tangent

    for factor in (1.0, 2.0, 3.0):
        found = change(Tensor(X), Tensor(V * factor))
        np.testing.assert_allclose(found, np.exp(X) * V * factor, rtol=1e-5)


def test_tangents_of_what_is_computed_and_written_under_no_grad():
    """As often as is computed early, and where values are looked at on the way."""
    with forward_ad.dual_level(), torpor.no_grad():
        x = forward_ad.make_dual(Tensor(X), Tensor(V))
        y = x * x
        y.tolist()
        np.testing.assert_allclose(forward_ad.unpack_dual(y).tangent, 2 * X * V)
        np.testing.assert_allclose(forward_ad.unpack_dual(y * x).tangent, 3 * X**2 * V)
        total = torpor.zeros(3)
        for _ in range(20):
            total.add_(x)
        np.testing.assert_allclose(forward_ad.unpack_dual(total).tangent, 20 * V)
        x.mul_(3.0)
        np.testing.assert_allclose(forward_ad.unpack_dual(x).tangent, 3 * V)


@pytest.mark.parametrize("look", [False, True])
def test_derivatives_of_functions_that_write_under_no_grad(look):
    def descended(rate):
        weight = Tensor(X).clone()
        for _ in range(6):
            slope = 2 * weight
            with torpor.no_grad():
                weight.sub_(slope * rate)
                if look:
                    weight.tolist()
        return weight

    rate = 0.1
    _, change = torpor.func.jvp(descended, (Tensor(rate),), (Tensor(1.0),))
    np.testing.assert_allclose(change, -12 * X * (1 - 2 * rate) ** 5, rtol=1e-5)
    found = torpor.func.jacfwd(descended)(Tensor(rate))
    np.testing.assert_allclose(found, -12 * X * (1 - 2 * rate) ** 5, rtol=1e-5)
