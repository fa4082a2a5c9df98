"""Complex tensors as arguments and results of jitted functions, and outside of them."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, jit


def drawn(seed, *shape):
    random = np.random.default_rng(seed)
    return random.normal(size=shape) + 1j * random.normal(size=shape)


def whole(array):
    """A tensor whose parts are memory of their own."""
    return (Tensor(array) * 1).realize()


@pytest.mark.parametrize("made", [Tensor, whole])
def test_arguments_and_results(made):
    @jit
    def function(x, options):
        y = x * x + options["y"]
        return y, [x, y.abs()], {"y": options["y"]}

    for seed in range(12):
        x, y = drawn(seed, 3), drawn(seed + 100, 3)
        one, other = made(x), made(y)
        first, (same, size), named = function(one, {"y": other})
        assert same is one and named["y"] is other
        np.testing.assert_allclose(first.numpy(), x * x + y)
        np.testing.assert_allclose(size.numpy(), abs(x * x + y))
    assert "runs as it is" not in function.explain() and "replayed" in function.explain()


def test_formats_and_kinds_are_told_apart():
    function = jit(lambda x: x * 2)
    for _ in range(4):
        assert function(Tensor([1j])).tolist() == [2j]
        assert function(Tensor([1.0])).tolist() == [2.0]
        assert function(Tensor([1j], dtype="complex128")).dtype.name == "complex128"


def test_tensors_that_are_read_are_inputs():
    z, holder = whole(drawn(1, 2)), {"w": Tensor([1j, 2])}
    function = jit(lambda x: (x * z + holder["w"]).real)
    for seed in range(6):
        x = drawn(seed, 2)
        if seed == 3:
            z.assign(Tensor(drawn(7, 2)))
        if seed == 4:
            holder["w"] = Tensor([3j, 4])
        expected = (x * z.numpy() + holder["w"].numpy()).real
        np.testing.assert_allclose(function(Tensor(x)).numpy(), expected, 1e-6)


@pytest.mark.parametrize("made", [Tensor, whole])
def test_writes_are_seen(made):
    @jit
    def grow(z, x):
        z += x
        z.imag *= 2

    z, expected = made(drawn(0, 2)), drawn(0, 2)
    for seed in range(6):
        x = drawn(seed, 2)
        grow(z, made(x))
        expected = expected + x
        expected.imag *= 2
        np.testing.assert_allclose(z.numpy(), expected)


def test_gradients_inside():
    z = Tensor([3 + 4j, 1j]).requires_grad_()

    @jit
    def step(z, rate):
        z.grad = None
        (z.abs() ** 2).sum().backward()
        with torpor.no_grad():
            z -= z.grad * rate

    expected = z.detach().numpy()
    for _ in range(5):
        step(z, 0.1)
        expected = expected * 0.8
        np.testing.assert_allclose(z.detach().numpy(), expected, 1e-6)


def test_a_jitted_function_in_a_jitted_function():
    inner = jit(lambda x: x * 1j)
    outer = jit(lambda x: inner(x) + x)
    for _ in range(4):
        assert outer(Tensor([1 + 1j])).tolist() == [2j]


def test_numbers_beside_complex_tensors():
    function = jit(lambda x, k: (x * k, k + 1))
    for k in (1.0, 2.0, 3.0, 4.0, 5.0):
        made, more = function(whole(np.array([1j])), k)
        assert made.tolist() == [1j * k] and more == k + 1
