"""A jitted training step leaves the same weights behind as the plain one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.pipeline import measuring

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.standard_normal((6, 8, 4)).astype(np.float32)
TARGETS = RANDOM.standard_normal((6, 8, 1)).astype(np.float32)


class Net(nn.Module):
    """Two layers, dropout between them."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        if self.training:
            hidden = hidden * (Tensor.rand(8) > 0.25)
        return self.second(hidden)


def train(make: Callable[..., Any], wrap: Callable[..., Any]) -> list[Any]:
    """Weights and losses after some steps; a jitted step may be traced twice."""
    torpor.manual_seed(1)
    net = Net()
    optimiser = make(net.parameters())
    calls = StringIO()

    def step(x: Tensor, y: Tensor) -> Tensor:
        calls.write(".")
        optimiser.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss

    run = wrap(step)
    losses = []
    for x, y in zip(INPUTS, TARGETS, strict=True):
        losses.append(run(Tensor(x), Tensor(y)).numpy())
    net.eval()
    losses.append(net(Tensor(INPUTS[0])).numpy())
    if run is not step:
        assert len(calls.getvalue()) <= 2, torpor.explain(run)
    return [p.numpy() for p in net.parameters()] + losses


def momentum(parameters: Any) -> Any:
    return nn.optim.SGD(parameters, lr=0.05, momentum=0.9)


@pytest.mark.parametrize("make", [momentum, nn.optim.Adam])
def test_training_gives_the_same_weights(make: Callable[..., Any]) -> None:
    plain = train(make, lambda step: step)
    jitted = train(make, torpor.jit)
    for got, expected in zip(jitted, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_train_and_eval_are_told_apart() -> None:
    torpor.manual_seed(2)
    net = Net()
    f = torpor.jit(net)
    x = Tensor(INPUTS[0])
    net.eval()
    expected = net(x).numpy()
    for _ in range(2):
        np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5)
    net.train()
    first, second = f(x).numpy(), f(x).numpy()
    assert not np.array_equal(first, second)
    net.eval()
    np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-5)


def test_a_learning_rate_that_changes() -> None:
    torpor.manual_seed(3)
    weight = Tensor(np.ones(2, np.float32)).requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=1.0)

    @torpor.jit
    def step() -> None:
        optimiser.zero_grad()
        weight.sum().backward()
        optimiser.step()

    expected = 1.0
    for rate in (1.0, 0.5, 0.25, 0.25):
        optimiser.lr = rate
        step()
        expected -= rate
        assert weight.tolist() == [expected, expected]


class Images(nn.Module):
    """A convolution with statistics, and dropout."""

    def __init__(self) -> None:
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.last = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(self.first(x.reshape(-1, 1, 2, 2))).relu()
        return self.last(hidden.dropout(0.3).reshape(-1, 16))


def one_loss(net: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    return [((net(x) - y) ** 2).mean().backward()]


def two_losses(net: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    found = net(x)
    return [((found - y) ** 2).mean().backward(), (found.abs().mean() * 0.1).backward()]


def accumulated(net: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    return [one_loss(net, x[n::2], y[n::2])[0] for n in range(2)]


def clipped(net: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    losses = one_loss(net, x, y)
    parameters = [*net.parameters()]
    total = sum((p.grad.square().sum() for p in parameters), Tensor(0.0)).sqrt()
    for p in parameters:
        p.grad = p.grad * (0.1 / (total + 1e-6)).clamp(max=1.0)
    return losses


def stepped(
    make: Any, optimise: Any, losses_of: Any, jitted: bool, cleared: bool, realized: bool = False
) -> Any:
    """(weights, losses and gradients left behind; kernels of a call) after some steps."""
    torpor.manual_seed(4)
    net = make()
    optimiser = optimise(net.parameters())

    def step(x: Tensor, y: Tensor) -> list[Tensor]:
        optimiser.zero_grad()
        losses = losses_of(net, x, y)
        if realized:
            losses[0].realize(*losses[1:], *optimiser.schedule_step())
        else:
            optimiser.step()
        if cleared:
            optimiser.zero_grad()
        return losses

    run = torpor.jit(step) if jitted else step
    with Tensor.train():
        losses = [loss.item() for x, y in zip(INPUTS[:3], TARGETS[:3], strict=True)
                  for loss in run(Tensor(x), Tensor(y))]  # fmt: skip
    weights = [p.numpy() for p in net.parameters()]
    gradients = [p.grad.numpy() for p in net.parameters() if p.grad is not None]
    count = int(torpor.explain(run).split(" kernels")[0].split()[-1]) if jitted else 0
    return [*weights, losses, *gradients], count


@pytest.mark.parametrize(
    ("make", "optimise", "losses_of"),
    [
        (Net, momentum, one_loss),
        (Net, momentum, two_losses),
        (Net, nn.optim.Adam, accumulated),
        (Net, nn.optim.Adam, clipped),
        (Images, nn.optim.Adam, one_loss),
        (Images, momentum, accumulated),
    ],
)
def test_nothing_is_computed_twice_for_gradients_that_outlive_the_step(
    make: Any, optimise: Any, losses_of: Any
) -> None:
    """They cost at most a kernel each that keeps them."""
    plain, _ = stepped(make, optimise, losses_of, jitted=False, cleared=False)
    kept, kernels = stepped(make, optimise, losses_of, jitted=True, cleared=False)
    for got, expected in zip(kept, plain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    _, least = stepped(make, optimise, losses_of, jitted=True, cleared=True)
    assert kernels <= least + len([*make().parameters()])


@pytest.mark.parametrize("make", [Net, Images])
def test_what_a_step_realizes_takes_along_what_it_has_written(make: Any) -> None:
    """Statistics of batches too, so that nothing is computed twice."""
    kinds = [make, momentum, one_loss]
    whole, least = stepped(*kinds, jitted=True, cleared=True)
    parts, kernels = stepped(*kinds, jitted=True, cleared=True, realized=True)
    for got, expected in zip(parts, whole, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert kernels <= least + 2


def test_a_call_is_traced_once_though_the_first_finds_no_gradients() -> None:
    calls = StringIO()
    weight = Tensor(np.ones(2, np.float32)).requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=1.0, momentum=0.5)

    @torpor.jit
    def step() -> None:
        calls.write(".")
        optimiser.zero_grad()
        (weight * weight).sum().backward()
        optimiser.step()

    for _ in range(4):
        step()
    assert calls.getvalue() == "."


@pytest.mark.parametrize("who", ["optimiser", "model"])
def test_who_forgets_the_gradients_does_not_matter(who: str) -> None:
    model, calls = nn.Linear(3, 2), StringIO()
    forgetting = {"optimiser": nn.optim.SGD(model.parameters(), lr=0.1), "model": model}[who]

    @torpor.jit
    def step(x: Tensor) -> None:
        calls.write(".")
        forgetting.zero_grad()
        model(x).square().sum().backward()

    x = Tensor(np.ones((4, 3), np.float32))
    for _ in range(4):
        step(x)
        once = model.weight.grad
        model.zero_grad()
        model(x).square().sum().backward()
        np.testing.assert_array_equal(once.numpy(), model.weight.grad.numpy())
    assert calls.getvalue() == "."


def test_gradients_that_are_forgotten_are_gone_after_a_replay_too() -> None:
    weight = Tensor(np.ones(2, np.float32)).requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=1.0)

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        optimiser.zero_grad()
        return x * weight.detach()

    for kept in (None, Tensor([5.0, 5.0]), None, Tensor([6.0, 6.0])):
        weight.grad = kept
        step(Tensor([1.0, 2.0]))
        assert weight.grad is None


def test_gradients_that_are_looked_at_before_they_are_forgotten() -> None:
    weight = Tensor(np.ones(2, np.float32)).requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=1.0)

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        had = weight.grad is not None
        optimiser.zero_grad()
        return x * 2 if had else x

    for kept in (None, Tensor([5.0, 5.0]), None, Tensor([6.0, 6.0])):
        weight.grad = kept
        assert step(Tensor([1.0])).item() == (1.0 if kept is None else 2.0)


def test_a_result_with_a_graph_is_in_memory_already() -> None:
    """What a jitted function gives back needs no kernel to be realised, gradient or none."""
    weight = Tensor(TARGETS[0]).requires_grad_()

    @torpor.jit
    def loss_of(x: Tensor) -> Tensor:
        return (x * weight).sum(0)

    x = Tensor(INPUTS[0, :, :1]).realize()
    for _ in range(4):
        found = loss_of(x)
    assert found.requires_grad
    with measuring() as measured:
        found.realize()
        again = found + 0
    assert not measured.runs
    wanted = (INPUTS[0, :, :1] * TARGETS[0]).sum(0)
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(again.detach().numpy(), wanted, rtol=1e-5)


def test_leaves_that_a_step_makes_are_its_own() -> None:
    weight = Tensor([1.0, 2.0], requires_grad=True)
    calls = StringIO()

    @torpor.jit
    def moved(x: Tensor) -> Tensor:
        calls.write(".")
        weight.grad = None
        x, other = x.detach().requires_grad_(), x.clone().requires_grad_()
        (x * weight + other * other * 3).sum().backward()
        assert x.grad is not None and other.grad is not None
        return x + x.grad + other.grad

    for number in range(4):
        assert moved(Tensor([1.0, number])).tolist() == [8.0, 7.0 * number + 2]
        assert weight.grad is not None and weight.grad.tolist() == [1.0, number]
    assert calls.getvalue() == ".."  # the second finds the weight with a gradient


def test_leaves_that_a_step_makes_and_gives_back_keep_their_gradients() -> None:
    @torpor.jit
    def squared(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (x * x).sum().backward()
        return x

    for number in range(4):
        leaf = squared(Tensor([1.0, number]))
        assert leaf.grad is not None and leaf.grad.tolist() == [2.0, 2.0 * number]


def test_freezing_and_letting_go_each_time_is_traced_once() -> None:
    critic, maker = nn.Linear(2, 1), nn.Linear(2, 2)
    optimiser = nn.optim.SGD(maker.parameters(), lr=0.5)
    before = [p.tolist() for p in critic.parameters()]
    calls = StringIO()

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        calls.write(".")
        critic.requires_grad_(False)
        optimiser.zero_grad()
        loss = critic(maker(x)).mean()
        loss.backward()
        optimiser.step()
        critic.requires_grad_(True)
        return loss

    losses = [step(Tensor(INPUTS[0, :, :2])).item() for _ in range(6)]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert [p.tolist() for p in critic.parameters()] == before
    assert all(p.requires_grad and p.grad is None for p in critic.parameters())
    assert calls.getvalue() == "."


def test_gradients_that_one_function_adds_up_and_another_takes_away() -> None:
    def trained(wrap: Callable[..., Any]) -> tuple[list[Any], int]:
        weight = Tensor([1.0, 2.0], requires_grad=True)
        optimiser = nn.optim.SGD([weight], lr=0.25)
        calls = StringIO()

        def part(x: Tensor) -> Tensor:
            calls.write(".")
            loss = (weight * x).square().sum()
            loss.backward()
            return loss

        def update() -> Tensor:
            calls.write(".")
            norm = nn.utils.clip_grad_norm_([weight], 1.0)
            optimiser.step()
            optimiser.zero_grad()
            return norm

        part, update, found = wrap(part), wrap(update), []
        for number in range(12):
            found.append(part(Tensor([0.5, number / 8])).item())
            if number % 3 == 2:
                found += [update().item(), *weight.tolist()]
        return found, len(calls.getvalue())

    plain, _ = trained(lambda function: function)
    jitted, calls = trained(torpor.jit)
    np.testing.assert_allclose(jitted, plain, rtol=1e-6)
    assert calls == 3  # the first part finds no gradient, the second one


def test_an_argument_that_is_made_a_leaf_is_one_after_each_call() -> None:
    weight = Tensor([1.0, 2.0], requires_grad=True)

    @torpor.jit
    def slope(x: Tensor) -> Tensor:
        weight.grad = None
        x.requires_grad_()
        (x * weight).sum().backward()
        assert x.grad is not None
        return x.grad * 1

    for _ in range(5):
        x = Tensor([3.0, 4.0])
        assert slope(x).tolist() == [1.0, 2.0]
        assert x.requires_grad and x.grad is not None
        (x * 2).sum().backward()
        assert x.grad.tolist() == [3.0, 4.0]
    assert "requires a gradient" in torpor.explain(slope)


def test_training_that_a_step_turns_on_and_an_evaluation_off_is_replayed() -> None:
    torpor.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimiser = nn.optim.SGD(net.parameters(), lr=0.1)
    x = Tensor(np.random.default_rng(0).normal(size=(5, 3)).astype("f4"))

    def step() -> Tensor:
        net.train()
        optimiser.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    def evaluated() -> Tensor:
        net.eval()
        return net(x).sum()

    state = {name: one.clone() for name, one in net.state_dict().items()}
    plain = [(step().item(), evaluated().item()) for _ in range(6)]
    net.load_state_dict(state)
    jitted, looked = torpor.jit(step), torpor.jit(evaluated)
    found = []
    for _ in range(6):
        found.append((jitted().item(), looked().item()))
        assert not net.training and not net[1].training
    np.testing.assert_allclose(found, plain, rtol=1e-5)
    assert int(net[1].num_batches_tracked.item()) == 6
    for one in jitted, looked:
        assert "as it is" not in torpor.explain(one) and "trace 3" not in torpor.explain(one)


def test_what_a_function_changes_in_a_list_that_it_reads_is_changed_at_each_call() -> None:
    state = [0]

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        state[0] += 1
        return x * state[0]

    for _ in range(6):
        state[0] = 4
        assert (f(Tensor([2.0])).item(), state) == (10.0, [5])


def test_a_model_goes_with_its_jitted_step_without_a_collection() -> None:
    def trained() -> list[Any]:
        net = nn.Linear(3, 4)
        optimiser = nn.optim.Adam(net.parameters(), lr=0.1)

        def step(x: Tensor, rate: float) -> Tensor:
            optimiser.zero_grad()
            loss = net(x).square().mean() * rate
            loss.backward()
            optimiser.step()
            return loss

        jitted = torpor.jit(step)
        for number in range(5):
            jitted(Tensor.ones(2, 3), 0.5 * number).item()
        return [weakref.ref(one) for one in (net, optimiser, net.weight, jitted)]

    gc.collect()
    gc.disable()
    try:
        assert [one() for one in trained()] == [None] * 4
    finally:
        gc.enable()
