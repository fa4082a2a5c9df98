"""Loops whose steps multiply by a matrix that stays the same, in each order of its axes."""

import numpy as np
import pytest

import torpor


def stored(result):
    """How many values are stored before a loop since it reads them."""
    return [item.reason for item in result.schedule()].count("read by a loop")


def states(product, weight, steps, rows):
    """What `steps` steps of tanh(product(h, weight)) give, from as many rows of ones."""
    start = torpor.ones(rows, weight.shape[0]) / 4
    return torpor.scan(
        lambda h, x: ((h := product(h, weight).tanh()), h), start, torpor.zeros(steps)
    )[1]


def expected(matrix, steps, rows):
    state, found = np.ones((rows, len(matrix))) / 4, []
    for _ in range(steps):
        found.append(state := np.tanh(state @ matrix))
    return np.array(found)


PRODUCTS = {
    "plain": (lambda h, w: h @ w, lambda w: w),
    "of the transpose": (lambda h, w: h @ w.T, lambda w: w.T),
    "from the left": (lambda h, w: (w @ h.T).T, lambda w: w.T),
    "by einsum": (lambda h, w: torpor.einsum("rk,nk->rn", h, w), lambda w: w.T),
    "linear": (torpor.nn.functional.linear, lambda w: w.T),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(("steps", "rows"), [(9, 3), (9, 1), (2, 3)])
def test_steps_are_right_whatever_the_order_of_the_matrix(name, steps, rows):
    product, matrix = PRODUCTS[name]
    values = np.random.default_rng(0).standard_normal((37, 37)).astype(np.float32) / 6
    found = states(product, torpor.from_numpy(values), steps, rows)
    np.testing.assert_allclose(
        found.numpy(), expected(matrix(values.astype(float)), steps, rows), atol=1e-5
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_what_layers_read_across_at_each_step_is_transposed_once(kind):
    layer = getattr(torpor.nn, kind)(20, 24)
    for parameter in layer.parameters():
        parameter.realize()

    def count(*shape):
        return stored(layer(torpor.ones(*shape).realize())[0])

    few = count(12, 1, 20)  # one row reads the matrix as quickly as it is
    assert count(12, 3, 20) == few + 1
    assert count(2, 3, 20) == few


def test_gradients_of_a_matrix_that_is_read_transposed():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(1).standard_normal((24, 24)).astype(np.float32) / 5
    weight = torpor.from_numpy(values).requires_grad_()
    states(lambda h, w: h @ w.T, weight, 12, 5).square().sum().backward()
    other = torch.tensor(values, requires_grad=True)
    state, total = torch.ones(5, 24) / 4, 0
    for _ in range(12):
        state = (state @ other.T).tanh()
        total = total + state.square().sum()
    total.backward()
    np.testing.assert_allclose(weight.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-5)
