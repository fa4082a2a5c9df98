"""What waits to be computed is taken along by what is computed next: no graph grows for ever."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from torpor import Tensor, autograd, jit, nn, no_grad
from torpor.base.errors import GradientError, OutOfBoundsError
from torpor.device import Buffer
from torpor.tensor.storage import recall, without_known

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.standard_normal((50, 3))
TARGETS = INPUTS @ np.array([1.0, -2.0, 0.5])


def nodes_of(tensor: Tensor) -> int:
    return len(tensor._current().toposort())


def descend(steps: int, look: bool, kept: list[Tensor] | None = None) -> Tensor:
    """Gradient descent written by hand."""
    x, y = Tensor(INPUTS), Tensor(TARGETS)
    w = Tensor(np.zeros(3)).requires_grad_()
    largest = 0
    for _ in range(steps):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        if kept is not None:
            kept.append(loss.detach())
        if look:
            loss.item()
        largest = max(largest, nodes_of(w))
    assert largest < 2000
    return w


def expected(steps: int) -> tuple[np.ndarray, list[float]]:
    w, losses = np.zeros(3), []
    for _ in range(steps):
        away = INPUTS @ w - TARGETS
        losses.append(float((away**2).mean()))
        w = w - 0.1 * 2 * INPUTS.T @ away / len(away)
    return w, losses


@pytest.mark.parametrize("look", [True, False])
def test_descent_by_hand_does_not_grow(look: bool) -> None:
    w = descend(60, look)
    np.testing.assert_allclose(w.detach().numpy(), expected(60)[0], rtol=1e-10)


def test_losses_in_a_list_are_computed_with_the_steps() -> None:
    losses: list[Tensor] = []
    descend(40, look=False, kept=losses)
    assert sum(bool(loss.schedule()) for loss in losses) <= 20  # the last ones wait
    np.testing.assert_allclose([loss.item() for loss in losses], expected(40)[1], rtol=1e-10)


def test_a_value_that_is_written_to_is_computed_along() -> None:
    total = Tensor(np.zeros(2)).realize()
    for n in range(3):
        total += n
    (Tensor(np.ones(2)) * 2).realize()
    assert not total.schedule()
    assert total.tolist() == [3.0, 3.0]


def test_reading_elements_of_a_value_computes_it_once() -> None:
    table = Tensor(np.zeros(4)).realize()
    table += 1
    assert table[2].item() == 1.0
    assert not table.schedule()


def test_what_fails_is_left_for_whoever_asks_for_it() -> None:
    wrong = Tensor([1.0, 2.0]).realize()
    wrong += Tensor([5.0, 6.0])[Tensor([0, 7])]
    assert (Tensor([1.0]) + 1).item() == 2.0
    assert (Tensor([1.0]) + 2).item() == 3.0
    with pytest.raises(OutOfBoundsError):
        wrong.numpy()


def test_what_nobody_holds_is_not_computed() -> None:
    gone = Tensor([1.0]).realize()
    gone += Tensor([5.0])[Tensor([7])]  # would fail
    del gone
    gc.collect()
    assert (Tensor([1.0]) + 1).item() == 2.0


def test_one_that_fails_keeps_no_other_from_being_computed() -> None:
    bad, good = Tensor(np.zeros(1)).realize(), Tensor(np.ones(2)).realize()
    bad += Tensor(np.ones(3))[Tensor([9])]
    for step in range(30):
        bad += 1
        good *= 0.5
        assert (Tensor(np.ones(2)) * step).sum().item() == 2 * step
        assert nodes_of(good) < 30
    assert good.tolist() == [0.5**30] * 2
    with pytest.raises(OutOfBoundsError):
        bad.numpy()


def test_writes_raise_no_error_of_others() -> None:
    quotient = Tensor([0, 0]).realize()
    for _ in range(20):
        quotient += Tensor([1, 2]) // Tensor([1, 0])
    with pytest.raises(ZeroDivisionError):
        quotient.numpy()


def test_what_many_write_to_in_turn_is_computed_in_rounds() -> None:
    """Each time all of them as often, so that the same kernels compute them."""
    several = [Tensor(np.zeros(3)).realize() for _ in range(4)]
    seen = set()
    for step in range(40):
        for one in several:
            one += step
        seen.add(tuple(nodes_of(one) for one in several))
    assert len(seen) <= 8
    assert [one.tolist() for one in several] == [[780.0] * 3] * 4


def test_a_detached_loss_that_is_kept_keeps_no_weights() -> None:
    x = Tensor(np.ones((3, 317))).realize()
    w = Tensor(np.ones((317, 11)), requires_grad=True)
    optimiser = nn.optim.SGD([w], lr=1e-3)
    kept, wanted = [], []

    def step() -> None:
        optimiser.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimiser.step()
        kept.append(loss.detach())
        wanted.append(loss.item())

    def weights() -> int:
        gc.collect()
        return sum(isinstance(one, Buffer) and one.size == 317 * 11 for one in gc.get_objects())

    for _ in range(4):
        step()
    before = weights()
    for _ in range(10):
        step()
    assert weights() == before
    assert [one.item() for one in kept] == wanted
    assert wanted[-1] < wanted[0]


def test_what_goes_on_from_detached_leaves_does_not_grow() -> None:
    """A chain as in Hamiltonian Monte Carlo: gradients at places that are made of each other."""
    place, wanted, sizes = Tensor([1.0, -2.0]), np.array([1.0, -2.0]), []
    for _ in range(6):
        for _ in range(3):
            leaf = place.clone().requires_grad_(True)
            (slope,) = autograd.grad((leaf**2).sum(), leaf)
            place = (leaf - 0.1 * slope).detach().requires_grad_(True)
        wanted = wanted * 0.8**3
        place = place.detach()
        np.testing.assert_allclose(place.sum().item(), wanted.sum(), rtol=1e-5)
        sizes.append(nodes_of(place))
    assert sizes[-1] <= sizes[1]
    np.testing.assert_allclose(place.numpy(), wanted, rtol=1e-5)


def test_a_write_to_a_detached_view_is_still_seen() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    doubled = w * 2
    view = doubled.detach()
    doubled.sum().item()
    with no_grad():
        view += 5
    assert doubled.tolist() == [7, 9]
    other = (w * 3).detach()
    (other + 1).sum().item()
    other += 1
    assert other.tolist() == [4, 7]


# --- graphs that grow -----------------------------------------------------------------------------
def largest_while(loop: Iterator[Tensor]) -> tuple[int, Tensor]:
    """The largest graph in a loop of which nothing is asked for, and the last tensor."""
    largest = 0
    for latest in loop:
        largest = max(largest, nodes_to_compute(latest))
    return largest, latest


def nodes_to_compute(tensor: Tensor) -> int:
    (node,) = without_known([tensor._current()])
    return len(node.toposort())


MATRIX = RANDOM.standard_normal((7, 7)) / 4


def powers(count: int) -> Iterator[Tensor]:
    matrix, v = Tensor(MATRIX).realize(), Tensor(np.ones(7)).realize()
    for _ in range(count):
        v = matrix @ v
        v = v / v.square().sum().sqrt()
        yield v


def test_a_loop_of_new_tensors_does_not_grow() -> None:
    largest, v = largest_while(powers(200))
    assert largest < 1500
    wanted = np.ones(7)
    for _ in range(200):
        wanted = MATRIX @ wanted
        wanted = wanted / np.sqrt((wanted**2).sum())
    np.testing.assert_allclose(v.numpy(), wanted, rtol=1e-9)


def test_such_a_loop_compiles_nothing_after_its_first_rounds(compiled: list[str]) -> None:
    def run() -> Tensor:
        v = Tensor(np.arange(7.0)).realize()
        for n in range(200):
            if n == 45:
                compiled.clear()
            v = v.roll(1, 0) * 0.9
            v = v + 0.1 * v.mean()
        return v

    v = run()
    assert compiled == []
    assert np.isfinite(v.numpy()).all()


def test_what_a_loop_collects_is_computed_with_it() -> None:
    collected: list[Tensor] = []

    def loop() -> Iterator[Tensor]:
        for v in powers(100):
            collected.append((v * 2).sum())
            yield v

    largest_while(loop())
    assert sum(bool(one.schedule()) for one in collected) < 30
    known, wanted = np.ones(7), []
    for _ in range(100):
        known = MATRIX @ known
        known = known / np.sqrt((known**2).sum())
        wanted.append(2 * known.sum())
    np.testing.assert_allclose(Tensor.stack(collected).numpy(), wanted, rtol=1e-9)


def test_a_sequence_that_grows_by_what_is_drawn_from_it() -> None:
    """Tokens are drawn, put behind the others, and looked at only at the end."""

    def sample() -> Iterator[Tensor]:
        table = Tensor(np.linspace(-1, 1, 25).reshape(5, 5)).realize()
        tokens = Tensor(np.zeros((1, 1), np.int64))
        for _ in range(12):
            hidden = table[tokens].cumsum(1)
            scores = (hidden @ table).softmax(-1)[:, -1]
            tokens = Tensor.cat(tokens, scores.multinomial(1), dim=1)
            yield tokens

    Tensor.manual_seed(3)
    with no_grad():
        largest, tokens = largest_while(sample())
    assert largest < 2500
    Tensor.manual_seed(3)
    with no_grad():
        looked_at = [one.tolist() for one in sample()]  # each of them, at once
    assert tokens.tolist() == looked_at[-1]


def test_a_check_in_a_loop_raises_when_it_is_asked_for() -> None:
    x = Tensor(np.ones(3)).realize()
    bad = x + Tensor([5.0])[Tensor([7])].cast("float64")
    for _ in range(60):
        x = (x * 0.5).clip(0, 3) + 1
        bad = bad * 0.5 + x
    assert np.isfinite(x.numpy()).all()
    with pytest.raises(OutOfBoundsError):
        bad.numpy()


def test_a_loop_that_fails_fails_only_when_it_is_asked_for() -> None:
    divisor = Tensor([4]).realize()
    value = Tensor([1000]).realize()
    for _ in range(40):
        value = value // divisor + 1
        divisor = (divisor - 1).abs()  # 0 in the fifth round
    with pytest.raises(ZeroDivisionError):
        value.tolist()
    assert divisor.tolist() == [0]


def test_gradients_flow_through_long_chains() -> None:
    w = Tensor([0.5], requires_grad=True)
    x = w * 1
    for _ in range(300):
        x = 1.5 * x * (1 - x)
    x.sum().backward()
    value, slope = 0.5, 1.0
    for _ in range(300):
        value, slope = 1.5 * value * (1 - value), slope * 1.5 * (1 - 2 * value)
    np.testing.assert_allclose(w.grad.item(), slope, rtol=1e-2)
    np.testing.assert_allclose(x.item(), value, rtol=1e-4)


def test_a_gradient_is_right_or_refused_where_no_leaf_was_marked() -> None:
    """`gradient` of tensors without `requires_grad`, through a loop longer than what is kept."""
    refused = 0
    for rounds in (20, 60, 1000):
        x = Tensor([0.3]).realize()
        y = x
        for _ in range(rounds):
            y = y * 1.001 + 0.001
        try:
            (slope,) = y.sum().gradient(x)
        except GradientError:
            refused += 1
        else:
            np.testing.assert_allclose(slope.item(), 1.001**rounds, rtol=1e-3)
    assert refused <= 1


def test_a_value_larger_than_what_it_is_made_of_is_not_stored_early() -> None:
    x = Tensor(np.ones(3)).realize()
    huge = x.reshape(3, 1, 1).expand(3, 10**6, 10**6)  # 24 terabytes
    for _ in range(150):
        huge = huge * 0.5 + 1
    assert huge[:, 5, 7].tolist() == [2.0] * 3


def test_writes_seen_through_views_in_a_loop_that_is_cut() -> None:
    x, known = Tensor(np.arange(4.0)).realize(), np.arange(4.0)
    for n in range(120):
        y, mine = x * 1.01 - 0.5, known * 1.01 - 0.5
        y[n % 4 : n % 4 + 1] += x[0]
        mine[n % 4] += known[0]
        x, known = y, mine
    np.testing.assert_allclose(x.numpy(), known, rtol=1e-9)


def test_numbers_are_drawn_in_the_order_in_which_they_were_asked_for() -> None:
    def walk(look: bool) -> list[float]:
        Tensor.manual_seed(5)
        x = Tensor(np.zeros(2, np.float32)).realize()
        for _ in range(50):
            x = (x + Tensor.rand(2) - 0.5) * 0.9
            if look:
                x.realize()
        numbers: list[float] = x.tolist()
        return numbers

    assert walk(look=False) == pytest.approx(walk(look=True), abs=1e-6)


def test_a_loop_of_constants_alone_does_not_grow() -> None:
    x, known, largest = Tensor.full((3,), 2.0, dtype="float64"), np.full(3, 2.0), 0
    for _ in range(200):
        x, known = (x * 0.5 + x.mean()).sqrt(), np.sqrt(known * 0.5 + known.mean())
        largest = max(largest, nodes_to_compute(x))
    assert largest < 1500
    np.testing.assert_allclose(x.numpy(), known, rtol=1e-9)


def test_a_jitted_loop_computes_nothing_on_the_way() -> None:
    @jit  # type: ignore[untyped-decorator]
    def run(x: Tensor) -> Tensor:
        for _ in range(100):
            x = (x * 0.9).clip(0, 5) + 0.1
        return x

    known = np.ones(3)
    for _ in range(100):
        known = known * 0.9 + 0.1
    for _ in range(3):
        np.testing.assert_allclose(run(Tensor(np.ones(3))).numpy(), known, rtol=1e-9)


def test_a_loop_that_begins_late_is_seen() -> None:
    v = Tensor(np.arange(7.0)).realize()
    line = "v = (v * 0.99 + 0.01).tanh()\n"
    scope: dict[str, Any] = {"v": v}
    exec(compile(line * 60, "straight on", "exec"), scope)  # nothing comes round in it

    def doubled() -> Iterator[Tensor]:
        v = Tensor(np.ones(7)).realize()
        for _ in range(200):
            v = v.roll(2, 0) * 2
            yield (v := v / v.max())

    assert largest_while(doubled())[0] < 1500


def test_a_view_that_is_carried_on_and_computed_along_is_not_deep(compiled: list[str]) -> None:
    kept, wanted = Tensor(np.ones((1, 5))), np.ones((1, 5))
    for n in range(80):
        if n == 20:
            compiled.clear()
        row = np.full((1, 5), float(n))
        kept, wanted = Tensor.cat(kept, Tensor(row))[-7:], np.concatenate([wanted, row])[-7:]
        np.testing.assert_allclose((kept * row).sum().item(), (wanted * row).sum())
    assert compiled == []


def layers(count: int) -> tuple[list[Tensor], Tensor]:
    """Weights of a network by hand, and its loss."""
    random = np.random.default_rng(3)
    weights = [Tensor(random.normal(size=(3, 3)), requires_grad=True) for _ in range(count)]
    x = Tensor(INPUTS)
    for weight in weights:
        x = (x @ weight).tanh()
    return weights, x.square().sum()


def test_gradients_that_are_read_one_by_one_are_computed_together() -> None:
    """With the second one that is asked for come the others: that others follow is known then."""
    weights, loss = layers(6)
    together = [one.numpy() for one in loss.gradient(*weights)]
    weights, loss = layers(6)
    loss.backward()
    for gradients in ([one.grad for one in weights], loss.gradient(*weights)):
        left = []
        for one, other in zip(gradients, together, strict=True):
            assert one is not None and one.norm().item() == pytest.approx(np.linalg.norm(other))
            left.append(sum(bool(one is not None and one.schedule()) for one in gradients))
        assert left[1:] == [0] * 5


def test_gradients_that_nobody_holds_are_not_computed_along() -> None:
    weights, loss = layers(4)
    gradients = loss.gradient(*weights)
    gone = gradients.pop()._current()
    for one in gradients:
        one.norm().item()
    assert recall(gone) is None and not any(one.schedule() for one in gradients)


def test_gradients_that_steps_are_made_of_are_not_stored() -> None:
    """Neither where all of them are needed together, nor where some are first and some then."""
    weights, loss = layers(4)
    loss.backward()
    for some in (weights[:2], weights[2:]):
        with no_grad():
            for weight in some:
                weight -= 0.1 * weight.grad
        (loss * 2).item()  # along with the weights
        assert all(weight.grad.schedule() for weight in weights)


def test_counting_at_ever_other_places_compiles_nothing_after_its_first_rounds(
    compiled: list[str],
) -> None:
    """A table of how often each class was taken for each, in the first and the last ones too."""
    table, wanted = Tensor.zeros(5, 5, dtype="int64"), np.zeros((5, 5), np.int64)
    for n, (i, j) in enumerate(RANDOM.integers(0, 5, (400, 2)).tolist()):
        if n == 200:
            compiled.clear()
        table[i, j] += 1
        wanted[i, j] += 1
        if n % 50 == 49:
            assert table.diag().sum().item() == np.trace(wanted)
    assert compiled == []
    np.testing.assert_array_equal(table.numpy(), wanted)
