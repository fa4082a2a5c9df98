"""Large values that two groups read are computed again: training steps keep no scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import torpor
from tests.schedule.test_tile_and_fuse import attention, attention_gradients, chained, numbers
from torpor import Tensor

HEADS, WIDTH = 3, 8


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Iterator[None]:
    with chained(2048):
        yield


def parts(joint, rows: int):
    """Queries, keys and values[head, row, width] of rows that hold all three."""
    cut = [joint[:, n * HEADS * WIDTH : (n + 1) * HEADS * WIDTH] for n in range(3)]
    return [x.reshape(rows, HEADS, WIDTH).swapaxes(0, 1) for x in cut]


def step(x, first, last, causal: bool):
    """The loss of a layer of attention between two products, and the gradients of these."""
    rows = x.shape[0]
    query, key, value = parts(x @ first, rows)
    mixed = query.scaled_dot_product_attention(key, value, is_causal=causal)
    loss = (mixed.swapaxes(0, 1).reshape(rows, HEADS * WIDTH) @ last).square().sum()
    return loss, *torpor.autograd.grad(loss, [first, last])


def expected(x, first, last, causal: bool):
    rows = len(x)
    heads = parts(x @ first, rows)
    mask = np.tril(np.ones((rows, rows), bool)) if causal else None
    joined = attention(*heads, mask).swapaxes(0, 1).reshape(rows, -1)
    above = 2 * (joined @ last)
    given = (above @ last.T).reshape(rows, HEADS, WIDTH).swapaxes(0, 1)
    slopes = attention_gradients(*heads, given, mask)
    joint = np.concatenate([s.swapaxes(0, 1).reshape(rows, -1) for s in slopes], 1)
    return ((joined @ last) ** 2).sum(), x.T @ joint, joined.T @ above


def operands(rows: int):
    return (
        numbers(rows, 16),
        numbers(16, 3 * HEADS * WIDTH, seed=1),
        numbers(HEADS * WIDTH, 16, seed=2),
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [40, 64, 67])
def test_a_step_keeps_no_scores(rows: int, causal: bool) -> None:
    arrays = operands(rows)
    tensors = [Tensor(a).realize().requires_grad_() for a in arrays]
    made = step(*tensors, causal)
    sizes = {b.arg.size for i in made[0].schedule(*made[1:]) for b in i.buffers}
    assert max(sizes) < HEADS * rows * rows
    for found, wanted in zip(made, expected(*arrays, causal), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_in_a_jit_and_again(causal: bool) -> None:
    jitted = torpor.jit(step)
    for seed in range(3):
        arrays = [a + seed for a in operands(48)]
        tensors = [Tensor(a).requires_grad_() for a in arrays]
        for found, wanted in zip(jitted(*tensors, causal), expected(*arrays, causal), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-8, atol=1e-8)


def test_what_is_wanted_is_kept() -> None:
    """Weights that are a result are there anyway, and computed once."""
    x = numbers(48, 48)
    weights = (Tensor(x).realize() * 0.1).softmax(-1)
    first = (weights * 2).contiguous().sum()
    last = (weights * first).contiguous().sum(0)
    Tensor.realize(weights, last)
    powers = np.exp(x * 0.1)
    wanted = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(weights.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(last.numpy(), (wanted * (wanted * 2).sum()).sum(0), rtol=1e-12)


@pytest.mark.parametrize(("terms", "again"), [(8, True), (1024, False)])
def test_long_sums_are_computed_once(terms: int, again: bool) -> None:
    x, weight = numbers(64, terms), numbers(terms, 64, seed=1)
    value = (Tensor(x).realize() @ Tensor(weight).realize() * 0.01).contiguous()
    total = (value * 2).contiguous().exp().contiguous().sum(1).log().contiguous().sum()
    result = (value * total).contiguous().sum(0)
    sizes = {b.arg.size for i in result.schedule() for n in i.outputs for b in [i.buffers[n]]}
    assert (max(sizes) < 64 * 64) is again
    wanted = x @ weight * 0.01
    total = np.log(np.exp(wanted * 2).sum(1)).sum()
    np.testing.assert_allclose(result.numpy(), (wanted * total).sum(0), rtol=1e-9)


def test_a_value_that_all_is_needed_of_is_computed_again() -> None:
    """A norm of all of a value, by which it is divided."""
    x = numbers(64, 32)
    value = (Tensor(x).realize() * 2).contiguous().exp().contiguous()
    result = (value / value.sum().sqrt()).contiguous().sum(0)
    powers = np.exp(x * 2)
    wanted = (powers / np.sqrt(powers.sum())).sum(0)
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-12)
