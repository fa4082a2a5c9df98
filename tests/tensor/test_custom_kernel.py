"""Kernels that users write: any index expression, lazy, compiled and differentiated as asked."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, custom_kernel, explain, jit, lower
from torpor.base.errors import (
    DivisionByZeroError,
    DTypeError,
    GradientError,
    ShapeError,
    ValueRangeError,
)


def smoothed(loops, result, x):
    (i,) = loops.axes(*result.shape)
    (k,) = loops.over(3)
    return result.store(loops.sum(x[i + k - 1], k) / 3.0, i)


def product(loops, result, a, b):
    i, j = loops.axes(*result.shape)
    (k,) = loops.over(a.shape[1])
    return result.store(loops.sum(a[i, k] * b[k, j], k), i, j)


def rows(loops, result, table, index):
    i, j = loops.axes(*result.shape)
    return result.store(table[index[i], j], i, j)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def test_a_kernel_is_one_item_between_what_it_reads_and_what_reads_it():
    x = numbers(101)
    made = custom_kernel(smoothed, Tensor(x) * 2, shape=101) + 1
    assert [item.reason for item in made.schedule()][1:] == ["custom kernel", "output"]
    expected = np.convolve(x.astype(np.float64) * 2, np.ones(3) / 3, "same") + 1
    assert np.allclose(made.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_outside_of_memory_there_is_nothing(device):
    table = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    index = Tensor([1, 2, 0, -1], device=device)
    made = custom_kernel(rows, table, index, shape=(4, 2))
    assert made.tolist() == [[3, 4], [0, 0], [1, 2], [0, 0]]

    def moved(loops, result, x):
        (i,) = loops.axes(*x.shape)
        return [result.store(x[i], i + 1), result.store(-1.0, 0)]

    assert custom_kernel(moved, table.reshape(-1), shape=(4,)).tolist() == [-1, 1, 2, 3]


def test_the_compiler_chooses_opts_as_for_its_own_products():
    a, b = numbers(64, 48), numbers(48, 80)
    made = custom_kernel(product, Tensor(a), Tensor(b), shape=(64, 80))
    (program,) = lower(made)
    assert program.opts == lower(Tensor(a) @ Tensor(b))[0].opts != []
    assert np.allclose(made.numpy(), a.astype(np.float64) @ b, atol=1e-5)
    for target in ("c", "cuda", "opencl", "metal", "wgsl"):
        assert lower(made + 0, target=target)[0].source


def test_views_and_several_formats_are_read_as_they_are():
    x = Tensor(numbers(6, 4)).T[::2, 1:]
    half = custom_kernel(
        lambda loops, result, x: result.store(
            x[(i := loops.axes(2, 5))].cast(torpor.float16), *i
        ), x, shape=(2, 5), dtype=torpor.float16,
    )  # fmt: skip
    assert half.dtype is torpor.float16
    assert (half.numpy() == numbers(6, 4).T[::2, 1:].astype(np.float16)).all()


def test_gradients_are_what_backward_gives():
    a, b = Tensor(numbers(3, 4), requires_grad=True), Tensor(numbers(4, 2), requires_grad=True)
    made = custom_kernel(
        product, a, b, shape=(3, 2), backward=lambda g: (g @ b.T, a.detach().T @ g)
    )
    (made * made).sum().backward()
    both = numbers(3, 4).astype(np.float64) @ numbers(4, 2)
    assert np.allclose(a.grad.numpy(), 2 * both @ numbers(4, 2).T, atol=1e-5)
    assert np.allclose(b.grad.numpy(), 2 * numbers(3, 4).T @ both, atol=1e-5)
    with pytest.raises(GradientError, match="backward="):
        custom_kernel(product, a, b, shape=(3, 2)).sum().backward()


def test_jitted_and_mapped_over_examples():
    @jit
    def f(x):
        return custom_kernel(smoothed, x * 2, shape=x.shape).sum()

    for size in (50, 50, 50, 7, 8, 9, 10):
        x = numbers(size)
        expected = np.convolve(x.astype(np.float64) * 2, np.ones(3) / 3, "same").sum()
        assert abs(f(Tensor(x)).item() - expected) < 1e-5
    assert "replayed 2 times" in explain(f)
    many = torpor.vmap(lambda x: custom_kernel(smoothed, x, shape=3))(Tensor(numbers(4, 3)))
    expected = [np.convolve(row, np.ones(3) / 3, "same") for row in numbers(4, 3)]
    assert np.allclose(many.numpy(), expected, atol=1e-6)


def test_integers_are_divided_as_elsewhere():
    def divided(loops, result, a, b):
        (i,) = loops.axes(*result.shape)
        return result.store(a[i] // b[i], i)

    a = Tensor([7, -7])
    assert custom_kernel(divided, a, Tensor([2, 2]), shape=2).tolist() == [3, -4]
    with pytest.raises(DivisionByZeroError, match="custom_kernel\\(divided"):
        custom_kernel(divided, a, Tensor([2, 0]), shape=2).realize()


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (lambda k, out, x: out.store(x[0].cast(torpor.int32), 0), DTypeError, "say .cast"),
        (lambda k, out, x: out.store(x[0, 0], 0), ShapeError, "2 indices for memory"),
        (lambda k, out, x: out.store(out[0], 0), ValueRangeError, "cannot be read"),
        (lambda k, out, x: x.store(out[0], 0), ValueRangeError, "cannot be read"),
        (lambda k, out, x: x.store(1.0, 0), ValueRangeError, "only the result"),
        (lambda k, out, x: out.store(1.0, 0), ValueRangeError, "reads none"),
        (lambda k, out, x: x[0], ValueRangeError, "result.store"),
        (lambda k, out, x: None, ValueRangeError, "result.store"),
    ],
)
def test_what_is_no_kernel_is_refused_at_the_call(body, error, words):
    with pytest.raises(error, match=words):
        custom_kernel(body, Tensor([1.0, 2.0]), shape=2)
    with pytest.raises(DTypeError, match="one at least"):
        custom_kernel(body, shape=2)
