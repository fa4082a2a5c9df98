"""Replays without Python that change tensors: every value and every view as without the jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torpor
from tests.capture.test_native import RUNS, computed, is_native, pytestmark, runs_of, warm
from torpor import Tensor, nn
from torpor.base.errors import DivisionByZeroError, OutOfBoundsError
from torpor.capture import successor

__all__ = ["pytestmark"]
LARGE = 1 << 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has values of this size written over the last ones."""
    monkeypatch.setattr(successor, "LEAST", 1)


def test_views_of_what_it_changes() -> None:
    state = computed(1, 2, 3)

    def function(x: Tensor) -> Any:
        state.add_(x)
        made = x * 2
        return state[1:], state.detach(), made.reshape(3, 1), made[::2]

    f = warm(function, computed(0, 0, 0))
    tail, same, column, ends = f(computed(1, 1, 1))
    assert tail.tolist() == [3, 4] and same.tolist() == [2, 3, 4] and ends.tolist() == [2, 2]
    assert is_native(f, computed(1, 1, 1))
    assert tail.tolist() == [4, 5] and same.tolist() == [3, 4, 5]  # views see every change
    tail += 10
    column[0] = 7
    assert state.tolist() == [3, 14, 15] and same.tolist() == [3, 14, 15]
    assert ends.tolist() == [7, 2]
    assert f(computed(0, 0, 0))[0].tolist() == [14, 15]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("hold", "factor"),
    [
        (lambda w: w * 2, 2),
        (lambda w: w.clone(), 1),
        (lambda w: w.numpy(copy=False), 1),
        (np.from_dlpack, 1),
        (lambda w: w.data(), 1),
    ],
    ids=["graph", "clone", "array", "dlpack", "memory"],
)
def test_what_is_held_is_not_written_over(hold: Any, factor: int) -> None:
    weight = Tensor(np.zeros(LARGE, np.float32)).realize()
    step = warm(lambda x: (weight.assign(weight + x), None)[1], computed(1))
    before = weight.numpy()[7]
    held = hold(weight)
    assert is_native(step, computed(1)) and is_native(step, computed(1))
    values = held.numpy() if isinstance(held, Tensor) else np.asarray(held)
    assert values.ravel()[7] == factor * before
    assert weight.tolist() == [before + 2] * LARGE


@pytest.mark.usefixtures("small")
def test_arguments_are_written_over_one_by_one() -> None:
    weights = [Tensor(np.full(LARGE, i, np.float32)).realize() for i in range(2)]
    step = warm(lambda w, x: w.assign(w + x), weights[0], computed(1))
    start = [w.numpy()[0] for w in weights]
    for number in range(10):
        step(weights[number % 2], computed(1))
    assert [w.numpy()[5] for w in weights] == [start[0] + 5, start[1] + 5]
    twice = weights[0].clone().realize()
    step(twice, twice)
    assert twice.numpy()[5] == 2 * (start[0] + 5) and weights[0].numpy()[5] == start[0] + 5


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("optimiser", [nn.optim.SGD, nn.optim.Adam])
def test_training_is_native_and_the_same(optimiser: Any) -> None:
    """Parameters, the optimiser's state and running statistics, after as many steps."""

    def trained(jit: Any) -> tuple[list[Any], Any]:
        torpor.manual_seed(0)
        first = nn.Linear(8, 128, bias=False)  # whose gradient would be rounding errors alone
        model = nn.Sequential(first, nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 4))
        chosen = optimiser(model.parameters(), lr=0.01)

        def step(x: Tensor, y: Tensor) -> Any:
            chosen.zero_grad()
            loss = model(x).cross_entropy(y)
            loss.backward()
            loss.realize(*chosen.schedule_step())
            chosen.zero_grad()
            return loss.detach(), chosen.params[0].detach()

        run, generator, losses = jit(step), np.random.default_rng(0), []
        for _ in range(RUNS + 6):
            x = Tensor(generator.standard_normal((16, 8), np.float32)).realize()
            loss, weight = run(x, Tensor(generator.integers(0, 4, 16)).realize())
            losses.append(loss.item())
        assert weight.tolist() == chosen.params[0].tolist()
        return [losses, *[value.numpy() for value in model.state_dict().values()]], run

    plain, _ = trained(lambda step: step)
    jitted, run = trained(torpor.jit)
    assert runs_of(run) >= 6
    for one, other in zip(plain, jitted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("error", [OutOfBoundsError, DivisionByZeroError])
def test_nothing_has_changed_where_a_check_fails_at_first(error: type[Exception]) -> None:
    state, kept = Tensor([0]).realize(), [1]

    @torpor.jit
    def f(index: Tensor, divisor: Tensor, values: list[Any]) -> Tensor:
        state.add_(1)
        values.append(state * 2)
        return Tensor([10, 20])[index] // divisor

    bad = (5, 1) if error is OutOfBoundsError else (1, 0)
    for good in range(4):
        with pytest.raises(error):
            f(*[Tensor([i]).realize() for i in bad], kept)
        assert state.item() == good and len(kept) == 1 + good
        f(Tensor([1]).realize(), Tensor([2]).realize(), kept)
        assert [x.item() for x in kept[1:]] == [2 * i + 2 for i in range(good + 1)]


def test_what_turns_a_tensor_from_outside_runs_at_each_call() -> None:
    held = Tensor([[1.0, 2.0, 3.0]]).realize()

    @torpor.jit
    def turned(x: Tensor) -> Tensor:
        held.t_()
        return x.t_() + held.numel()

    x = Tensor([[1.0, 2.0]]).realize()
    for count in range(1, 6):
        shapes = ((2, 1), (3, 1)) if count % 2 else ((1, 2), (1, 3))
        assert (turned(x).shape, held.shape) == shapes and x.shape == shapes[0]
    assert "another view" in str(torpor.explain(turned))


def test_what_turns_a_view_of_its_own_is_replayed() -> None:
    @torpor.jit
    def own(x: Tensor) -> Tensor:
        row = x[0]
        row.unsqueeze_(1)
        return row * 2

    for start in range(4):
        x = Tensor([[start + 1.0, 2.0]]).realize()
        assert own(x).tolist() == [[2 * start + 2.0], [4.0]] and x.shape == (1, 2)
    assert "runs as it is" not in str(torpor.explain(own))


def test_what_was_written_outside_is_no_part_of_a_function_that_realizes():
    outside = Tensor([1.0, 2.0]).realize()
    kept = Tensor([0.0]).realize()

    @torpor.jit
    def f(x):
        kept.add_(1)
        return (x * 2).realize()

    for call in range(1, 4):
        outside.add_(1)  # waits for whatever is computed next
        assert f(Tensor([3.0])).tolist() == [6.0]
        assert outside.tolist() == [1.0 + call, 2.0 + call] and kept.tolist() == [float(call)]
