"""What optimisers keep is set as dictionaries are, and steps go on from there."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from torpor import Tensor, jit, nn
from torpor.base.errors import ShapeError, StateError
from torpor.nn.optim import LBFGS, SGD, Adam, NAdam, Optimizer

START = np.random.default_rng(0).standard_normal((10, 3))


def descend(optimiser: Any, steps: int, jitted: bool = False) -> None:
    def step() -> Tensor:
        optimiser.zero_grad()
        (loss,) = [sum((one**4).sum() for one in group["params"]) for group in groups]
        loss.backward()
        optimiser.step()
        return loss

    groups = optimiser.param_groups
    function = jit(step) if jitted else step
    for _ in range(steps):
        function()


def values_of(optimiser: Any) -> list[np.ndarray]:
    return [one.detach().numpy() for one in optimiser.param_groups[0]["params"]]


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(Tensor(START)), nn.Parameter(Tensor(START[:4] + 1))]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("kind", [Adam, NAdam, SGD])
def test_what_is_cleared_begins_anew(kind: Any, jitted: bool) -> None:
    options = {"momentum": 0.9} if kind is SGD else {}
    optimiser = kind(parameters(), lr=0.01, **options)
    for forget in (optimiser.state.clear, lambda: setattr(optimiser, "state", defaultdict(dict))):
        descend(optimiser, 3, jitted)
        copies = [nn.Parameter(Tensor(one)) for one in values_of(optimiser)]
        other = kind(copies, lr=0.01, **options)
        forget()
        assert len(optimiser.state) == 0
        descend(optimiser, 3, jitted)
        descend(other, 3)
        for mine, wanted in zip(values_of(optimiser), values_of(other)):
            np.testing.assert_allclose(mine, wanted, rtol=1e-6)


@pytest.mark.parametrize("jitted", [False, True])
def test_steps_go_on_from_what_is_set(jitted: bool) -> None:
    """Of one parameter alone; the rule by hand."""
    optimiser = Adam(parameters(), lr=0.01)
    first, other = optimiser.params
    descend(optimiser, 2, jitted)
    optimiser.state[first]["step"] = 7.0
    optimiser.state[first]["exp_avg"] = np.full((10, 3), 0.5)
    optimiser.state[first]["exp_avg_sq"].fill_(0.25)
    x, y = first.detach().numpy().copy(), other.detach().numpy().copy()
    kept = {name: value.numpy().copy() for name, value in optimiser.state[other].items()}
    descend(optimiser, 1, jitted)
    for before, after, mean, square, step in (
        (x, first, 0.5, 0.25, 8),
        (y, other, kept["exp_avg"], kept["exp_avg_sq"], kept["step"] + 1),
    ):
        slope = 4 * before**3
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        size = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        wanted = before - 0.01 * mean / (1 - 0.9**step) / size
        np.testing.assert_allclose(after.detach().numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("new_first", [False, True])
def test_rows_of_a_parameter_are_left_out_with_what_is_kept_of_them(new_first: bool) -> None:
    """As where points are pruned: each row goes on as if it had been alone."""
    optimiser = Adam([{"params": [nn.Parameter(Tensor(START))], "name": "points"}], lr=0.01)
    alone = Adam([nn.Parameter(Tensor(START[:6]))], lr=0.01)
    descend(optimiser, 3)
    old = optimiser.param_groups[0]["params"][0]
    new, kept = nn.Parameter(old.detach()[:6]), optimiser.state[old]
    kept["exp_avg"], kept["exp_avg_sq"] = kept["exp_avg"][:6], kept["exp_avg_sq"][:6]
    del optimiser.state[old]
    if new_first:
        optimiser.param_groups[0]["params"][0] = new
    optimiser.state[new] = kept
    optimiser.param_groups[0]["params"] = [new]
    descend(optimiser, 3)
    descend(alone, 6)
    np.testing.assert_allclose(values_of(optimiser)[0], values_of(alone)[0], rtol=1e-6)
    assert [*optimiser.state] == [new]
    assert optimiser.state_dict()["state"][0]["exp_avg"].shape == (6, 3)


def test_memory_that_does_not_fit_is_refused() -> None:
    optimiser = Adam(parameters(), lr=0.01)
    first, _ = optimiser.params
    optimiser.state[first]["exp_avg"] = np.zeros((1, 3))
    with pytest.raises(ShapeError, match="exp_avg"):
        descend(optimiser, 1)
    with pytest.raises(StateError, match="exp_avg_sq"):
        del optimiser.state[first]["exp_avg_sq"]
    with pytest.raises(KeyError):
        optimiser.state[Tensor(START)]
    assert optimiser.state.get(Tensor(START)) is None


def test_what_others_keep_beside_it_is_saved() -> None:
    """As a wrapper that averages does."""
    optimiser = SGD(parameters(), lr=0.01)
    first, second = optimiser.params
    optimiser.state[first]["slow"] = first.detach().clone()
    descend(optimiser, 2)
    np.testing.assert_array_equal(optimiser.state[first]["slow"].numpy(), START)
    assert [*optimiser.state_dict()["state"][0]] == ["slow"]
    assert "slow" not in optimiser.state[second]
    del optimiser.state[first]["slow"]
    assert len(optimiser.state[first]) == 0


def test_lbfgs_forgets() -> None:
    def run(optimiser: LBFGS) -> None:
        def loss() -> Tensor:
            optimiser.zero_grad()
            made = sum((one**4).sum() for one in optimiser.params)
            made.backward()
            return made

        optimiser.step(loss)

    optimiser = LBFGS(parameters(), lr=0.1, max_iter=4)
    run(optimiser)
    other = LBFGS([nn.Parameter(Tensor(one)) for one in values_of(optimiser)], lr=0.1, max_iter=4)
    assert len(optimiser.state) == 1
    optimiser.state.clear()
    run(optimiser)
    run(other)
    for mine, wanted in zip(values_of(optimiser), values_of(other)):
        np.testing.assert_allclose(mine, wanted, rtol=1e-6)


def test_a_written_optimiser_may_be_given_another_state() -> None:
    class Heavy(Optimizer):
        def __init__(self, params: Any, lr: float):
            super().__init__(params, {"lr": lr})

        def step(self) -> None:
            for group in self.param_groups:
                for one in group["params"]:
                    kept = self.state[one]
                    kept["steps"] = kept.get("steps", 0) + 1
                    one.data.sub_(one.grad * group["lr"])

    optimiser = Heavy(parameters(), 0.01)
    descend(optimiser, 2)
    optimiser.state = defaultdict(dict)
    descend(optimiser, 1)
    assert [one["steps"] for one in optimiser.state.values()] == [1, 1]


@pytest.mark.parametrize("made", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
@pytest.mark.parametrize("kind", [Adam, SGD])
def test_copies_go_on_with_copies_of_what_is_kept(kind: Any, made: Any) -> None:
    optimiser = kind(parameters(), lr=0.01, **({"momentum": 0.9} if kind is SGD else {}))
    descend(optimiser, 3)
    layers, other = made((optimiser.params, optimiser))
    assert other.params[0] is layers[0] and other.params[0] is not optimiser.params[0]
    descend(other, 3)
    moved = values_of(other)
    descend(optimiser, 3)
    for mine, wanted in zip(moved, values_of(optimiser)):
        np.testing.assert_allclose(mine, wanted, rtol=1e-6)


def test_groups_may_be_set_added_and_taken_away() -> None:
    first, second = parameters()
    optimiser = SGD([first], lr=0.25)
    optimiser.param_groups = [{**optimiser.param_groups[0], "lr": 0.5}]
    first.grad = Tensor.ones(10, 3)
    optimiser.step()
    np.testing.assert_allclose(first.detach().numpy(), START - 0.5, rtol=1e-6)
    optimiser.param_groups.append({"params": [second]})
    second.grad = Tensor.ones(4, 3)
    optimiser.step()
    np.testing.assert_allclose(second.detach().numpy(), START[:4] + 1 - 0.25, rtol=1e-6)
    optimiser.param_groups.pop()
    optimiser.step()
    np.testing.assert_allclose(first.detach().numpy(), START - 1.5, rtol=1e-6)
    np.testing.assert_allclose(second.detach().numpy(), START[:4] + 1 - 0.25, rtol=1e-6)
    optimiser.param_groups[0]["params"] = []
    optimiser.param_groups[0]["lr"] = 0.1
    assert optimiser.tensors() == []


def test_a_count_that_is_written_to_is_of_one_parameter() -> None:
    optimiser = Adam(parameters(), lr=0.01)
    first, second = optimiser.params
    descend(optimiser, 2)
    optimiser.state[first]["step"].zero_()
    assert [optimiser.state[one]["step"].item() for one in (first, second)] == [0, 2]
    descend(optimiser, 1)
    assert [optimiser.state[one]["step"].item() for one in (first, second)] == [1, 3]


def test_what_others_keep_is_loaded() -> None:
    optimiser, other = Adam(parameters()), Adam(parameters())
    optimiser.state[optimiser.params[1]]["slow"] = 3
    other.load_state_dict(optimiser.state_dict())
    assert other.state[other.params[1]]["slow"] == 3
    assert "slow" not in other.state[other.params[0]]
