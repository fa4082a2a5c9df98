"""Gradients that users write, hooks and rules of functions, in what is traced for a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
import torpor.nn.functional as F
from torpor import Tensor, nn
from torpor.base.errors import GradientError
from torpor.pipeline import measuring


class Cubed(torpor.autograd.Function):
    """x³, whose gradient is ten times as large as it should be: seen wherever it is used."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 30 * x * x


class Swapped(torpor.autograd.Function):
    """(x y, x + y), whose gradients are exchanged; that of the second operand is given none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx: Any, product: Tensor, total: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        return product * x + total * y, None


def hooked(row: Tensor) -> Tensor:
    twice = row * 2
    twice.register_hook(lambda gradient: gradient * 3)
    return twice.square().sum()


def looked_at(row: Tensor) -> Tensor:
    twice = row * 2
    twice.register_hook(lambda gradient: None)
    return twice.square().sum()


def by_module(row: Tensor) -> Tensor:
    layer = nn.Linear(4, 3)
    with torpor.no_grad():
        layer.weight.copy_(Tensor.arange(12).reshape(3, 4) / 10)
        layer.bias.copy_(Tensor([1.0, 2.0, 3.0]))
    layer.register_full_backward_hook(lambda module, given, made: tuple(g * 5 for g in given))
    return layer(row).square().sum()


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "function": lambda row: Cubed.apply(row).sum(),
    "function of a function": lambda row: Cubed.apply(Cubed.apply(row) * 0.5).sum(),
    "two results": lambda row: sum((m * m).sum() for m in Swapped.apply(row, row.sin())),
    "hook": hooked,
    "hook that looks": looked_at,
    "hook of a module": by_module,
    "often": lambda row: F.embedding(
        Tensor([0, 1, 1, 2]), row.reshape(4, 1), scale_grad_by_freq=True
    ).square().sum(),
    "normalize": lambda row: F.normalize(row, dim=0).square()[0],
    "cosine": lambda row: F.cosine_similarity(row, Tensor([1.0, 2.0, 3.0, 4.0]), dim=0),
    "ctc": lambda row: F.ctc_loss(
        Tensor.stack(row, row * 2, row).log_softmax(-1).reshape(3, 1, 4),
        Tensor([[1]]), Tensor([3]), Tensor([1]),
    ),
    "cumprod": lambda row: row.cumprod(0).sum(),
    "steps": lambda row: torpor.scan(lambda c, a: (c * a, c), Tensor(1.0), row)[0],
    "branch": lambda row: torpor.cond(
        row.sum() > 0, lambda a: (a * a).sum(), lambda a: (a * a * a).sum(), row
    ),
    "checkpoint": lambda row: torpor.checkpoint(lambda a: a.sin() * a, row).sum(),
}  # fmt: skip
ROWS = np.random.default_rng(5).uniform(0.3, 2.0, (3, 4)).astype(np.float32)


def row_by_row(f: Callable[[Tensor], Tensor]) -> np.ndarray:
    return np.stack([torpor.grad(f)(Tensor(row)).numpy() for row in ROWS])


def by_scan(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torpor.scan(lambda total, row: (total + f(row), total), Tensor(0.0), x)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_through_a_loop_is_that_of_each_step(name: str) -> None:
    f, x = FUNCTIONS[name], Tensor(ROWS)
    wanted = row_by_row(f)
    assert np.abs(wanted).max() > 0
    found = {
        "grad of vmap": torpor.grad(lambda x: torpor.vmap(f)(x).sum())(x),
        "vmap of grad": torpor.vmap(torpor.grad(f))(x),
        "grad of scan": torpor.grad(lambda x: by_scan(f, x))(x),
        "jit": torpor.jit(torpor.grad(lambda x: by_scan(f, x)))(x),
    }
    for way, gradient in found.items():
        np.testing.assert_allclose(gradient.numpy(), wanted, rtol=2e-5, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_second_gradient_through_a_loop_is_that_of_each_step(name: str) -> None:
    f, x = FUNCTIONS[name], Tensor(ROWS)

    def length(row: Tensor) -> Tensor:
        return torpor.grad(f)(row).square().sum()

    wanted = row_by_row(length)
    found = torpor.grad(lambda x: torpor.vmap(torpor.grad(f))(x).square().sum())(x)
    scale = 1 + np.abs(wanted).max()
    np.testing.assert_allclose(found.numpy() / scale, wanted / scale, rtol=1e-4, atol=1e-5)


def test_a_leaf_gets_the_gradient_of_a_function_in_a_loop() -> None:
    x = Tensor(ROWS, requires_grad=True)
    torpor.vmap(Cubed.apply)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 30 * ROWS**2, rtol=1e-5)


def test_a_function_in_a_loop_may_use_what_is_outside() -> None:
    class Scaled(torpor.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
            ctx.save_for_backward(scale)
            return x * scale

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            (scale,) = ctx.saved_tensors
            return gradient * scale.exp(), gradient.sum()

    scale = Tensor(0.5, requires_grad=True)
    x = Tensor(ROWS, requires_grad=True)
    torpor.vmap(lambda row: Scaled.apply(row, scale).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full_like(ROWS, np.exp(0.5)), rtol=1e-6)
    assert scale.grad.item() == pytest.approx(ROWS.size)


def test_a_backward_that_fails_does_so_where_the_gradient_is_asked_for() -> None:
    class Unfinished(torpor.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

    x = Tensor(ROWS, requires_grad=True)
    made = torpor.vmap(Unfinished.apply)(x)
    np.testing.assert_allclose(made.numpy(), ROWS * 2)
    with pytest.raises(NotImplementedError, match="needs backward"):
        made.sum().backward()


# --- loops and branches for many examples ---------------------------------------------------------
def recurrent(row: Tensor) -> Tensor:
    weight = Tensor(np.linspace(-0.5, 0.5, 16, dtype=np.float32).reshape(4, 4))
    after, each = torpor.scan(
        lambda state, a: ((state @ weight + a).tanh(), state * 2), row * 0.1, row
    )
    return after.sum() + each.square().sum()


def backwards(row: Tensor) -> Tensor:
    last, each = torpor.scan(lambda c, a: (c * 0.5 + a, c), row[0], row, reverse=True)
    return last + (each * Tensor.arange(4)).sum()


def nested(row: Tensor) -> Tensor:
    def outer(total: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        made, _ = torpor.scan(lambda c, b: ((c + a * b).sin(), c), total, row)
        return made, total

    return torpor.scan(outer, Tensor(0.5), row)[0]


def heavy(row: Tensor) -> Tensor:
    return torpor.cond(
        row[0] > 1, lambda a: (a.reshape(2, 2) @ a.reshape(2, 2)).sum(), lambda a: a.prod(), row
    )


def solved(row: Tensor) -> Tensor:
    matrix = row.reshape(4, 1) * row.reshape(1, 4) + torpor.eye(4) * 2
    return torpor.linalg.solve(matrix, row).sum() + torpor.linalg.eigvalsh(matrix)[0]


LOOPS = {
    "recurrent": recurrent,
    "backwards": backwards,
    "nested": nested,
    "heavy": heavy,
    "solved": solved,
}
LOOPS |= {"checkpoint": FUNCTIONS["checkpoint"]}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_done_for_all_examples_at_once(name: str) -> None:
    f = LOOPS[name]

    def launches(count: int) -> int:
        rows = np.random.default_rng(3).uniform(0.3, 2.0, (count, 4)).astype(np.float32)
        each = np.stack([torpor.grad(f)(Tensor(row)).numpy() for row in rows])
        values = np.stack([f(Tensor(row)).numpy() for row in rows])
        with measuring() as seen:
            made = torpor.vmap(f)(Tensor(rows)).numpy()
            slopes = torpor.vmap(torpor.grad(f))(Tensor(rows)).numpy()
        np.testing.assert_allclose(made, values, rtol=1e-5)
        np.testing.assert_allclose(slopes, each, rtol=1e-4, atol=1e-5)
        return len(seen.runs)

    assert launches(24) == launches(6)


# --- errors ---------------------------------------------------------------------------------------
def test_examples_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ValueError, match="vmap: some arguments have 3 examples, others 4"):
        torpor.vmap(lambda a, b: a + b)(Tensor.ones(3), Tensor.ones(4))
    with pytest.raises(
        ValueError, match=r"vmap: examples cannot lie along axis 0 of a tensor \(\)"
    ):
        torpor.vmap(lambda a: a)(Tensor(1.0))
    with pytest.raises(ValueError, match="axis 2"):
        torpor.vmap(lambda a: a, in_dims=2)(Tensor.ones(3, 4))


@pytest.mark.parametrize(
    "count", [lambda row: row[row > 1], lambda row: row.nonzero(), lambda row: row.unique()]
)
def test_a_choice_of_unknown_length_says_what_to_write(count: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match=r"how many elements .* masked_select\(size=\)"):
        torpor.vmap(count)(Tensor(ROWS))
    with pytest.raises(ValueError, match=r"how many elements .* masked_select\(size=\)"):
        torpor.scan(lambda total, row: (total, count(row)), Tensor(0.0), Tensor(ROWS))


class Exponential(torpor.autograd.Function):
    """exp(x), whose gradient is made of itself, as functions with gradients of any order are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * Exponential.apply(ctx.saved_tensors[0])


def test_a_function_whose_gradient_is_made_of_itself_may_be_in_a_loop() -> None:
    def f(x: Tensor) -> Tensor:
        return torpor.vmap(Exponential.apply)(x).sum()

    def slope(of: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: torpor.grad(of)(x).sum()

    x = Tensor([0.0, 1.0])
    for of in (f, slope(f), slope(slope(f))):
        np.testing.assert_allclose(torpor.grad(of)(x).numpy(), np.exp([0, 1]), rtol=1e-6)


class Times(torpor.autograd.Function):
    """x y, both of whose gradients are products of the same kind."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return Times.apply(gradient, y), Times.apply(gradient, x)


@pytest.mark.parametrize("loop", ["vmap", "scan"])
def test_gradients_made_of_gradients_know_what_stands_for_those(loop: str) -> None:
    x, y = (Tensor(np.random.default_rng(n).standard_normal((3, 4))) for n in range(2))

    def whole(a: Tensor, b: Tensor) -> Tensor:
        if loop == "vmap":
            return (torpor.vmap(Times.apply)(a, b) ** 3).sum()
        return (torpor.scan(lambda c, r: (c, Times.apply(*r)), Tensor(0.0), (a, b))[1] ** 3).sum()

    first = torpor.func.grad(whole)(x, y)
    np.testing.assert_allclose(first.numpy(), (3 * x**2 * y**3).numpy(), rtol=1e-5)
    second = torpor.func.grad(lambda a: (torpor.func.grad(whole)(a, y) * a).sum())(x)
    np.testing.assert_allclose(second.numpy(), (9 * x**2 * y**3).numpy(), rtol=1e-5)


def test_a_hook_in_a_loop_is_taken_back_and_gradients_are_not_kept() -> None:
    def taken_back(total: Tensor, row: Tensor) -> tuple[Tensor, None]:
        twice = row * 2
        twice.register_hook(lambda gradient: gradient * 100).remove()
        return total + twice.sum(), None

    def kept(total: Tensor, row: Tensor) -> tuple[Tensor, None]:
        twice = row * 2
        twice.retain_grad()
        return total + twice.sum(), None

    x = Tensor(ROWS)
    found = torpor.grad(lambda x: torpor.scan(taken_back, Tensor(0.0), x)[0])(x)
    assert (found.numpy() == 2).all()
    with pytest.raises(GradientError, match="keeps no gradient"):
        torpor.scan(kept, Tensor(0.0), Tensor(ROWS, requires_grad=True))


def test_a_hook_of_a_leaf_from_outside_a_loop_stays_with_the_leaf() -> None:
    weight = Tensor([3.0], requires_grad=True)

    def body(total: Tensor, row: Tensor) -> tuple[Tensor, None]:
        weight.register_hook(lambda gradient: gradient * 2)
        return total + (row * weight).sum(), None

    made = torpor.scan(body, Tensor(0.0), Tensor([[1.0], [2.0]]))[0]
    assert made.gradient(weight)[0].tolist() == [6.0]
