"""Gradients and steps that stay calls until a graph is planned: values are those of the formula,
whatever numbers change, meet by chance, or are asked for in between.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.ir.ops import Ops
from torpor.pipeline import calls, measuring

RANDOM = np.random.default_rng(5)
DATA = RANDOM.standard_normal((40, 6))


def loss_of(x: Tensor, weight: Tensor, scale: float) -> Tensor:
    """A loss whose gradient is made of many nodes, with constants 1 and 2 among them."""
    hidden = (x @ weight * scale).tanh()
    return ((hidden * 2 + (-hidden * hidden).exp()) ** 2).mean()


def gradient_of(x: np.ndarray, weight: np.ndarray, scale: float) -> np.ndarray:
    """The same gradient, by hand."""
    hidden = np.tanh(x @ weight * scale)
    inner = hidden * 2 + np.exp(-hidden * hidden)
    by_hidden = 2 * inner / inner.size * (2 - 2 * hidden * np.exp(-hidden * hidden))
    return x.T @ (by_hidden * (1 - hidden**2) * scale)


def leaf(array: np.ndarray) -> Tensor:
    return Tensor(array, dtype=torpor.float64, requires_grad=True)


WEIGHT = RANDOM.standard_normal((6, 3))
ROWS = Tensor(DATA, dtype=torpor.float64).realize()


def test_places_of_boxes_may_change():
    weight = leaf(WEIGHT)
    for start in (0, 8, 16, 3, 3, 30, 0):
        weight.grad = None
        loss_of(ROWS[start : start + 8], weight, 0.5).backward()
        np.testing.assert_allclose(
            weight.grad.numpy(), gradient_of(DATA[start : start + 8], WEIGHT, 0.5), rtol=1e-12
        )


def test_lengths_of_boxes_may_change():
    weight = leaf(WEIGHT)
    for number in range(24):
        size = (8, 5, 8, 7)[number % 4]
        weight.grad = None
        loss_of(ROWS[number : number + size], weight, 0.5).backward()
        expected = gradient_of(DATA[number : number + size], WEIGHT, 0.5)
        np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12)


def test_constants_that_meet_those_of_a_gradient_by_chance():
    weight = leaf(WEIGHT)
    for scale in (2.0, 2.0, 3.0, 1.0, 0.5, 2.0, -1.0, 0.0, -2.0, 2.5, 1.0, 3.0):
        weight.grad = None
        loss_of(ROWS[:8], weight, scale).backward()
        expected = gradient_of(DATA[:8], WEIGHT, scale)
        np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("pairs", [
    [(0, 0), (0, 0), (0, 8), (8, 0), (5, 5), (1, 2), (2, 2)],
    [(0, 8), (3, 9), (3, 3), (9, 3), (7, 7), (0, 8)],
])  # fmt: skip
def test_two_boxes_that_are_one_by_chance(pairs):
    weight = leaf(WEIGHT)
    for first, second in pairs:
        weight.grad = None
        loss_of(ROWS[first : first + 8], weight, 0.5).backward()
        loss_of(ROWS[second : second + 8], weight, 0.5).backward()
        expected = sum(gradient_of(DATA[i : i + 8], WEIGHT, 0.5) for i in (first, second))
        np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12)


def test_two_constants_that_are_one_by_chance():
    weight = leaf(WEIGHT)
    for first, second in ((0.5, 0.5), (0.5, 0.25), (2.0, 0.5), (1.0, 1.0), (2.0, 2.0), (0.1, 2.0)):
        weight.grad = None
        (loss_of(ROWS[:8], weight, first) + loss_of(ROWS[:8], weight, second) * second).backward()
        parts = (gradient_of(DATA[:8], WEIGHT, scale) for scale in (first, second))
        expected = sum(part * by for part, by in zip(parts, (1, second), strict=True))
        np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12)


def test_a_value_outside_is_one_inside_by_chance():
    """What the program computes beside is now and then what the gradient computes as well."""
    weight = leaf(WEIGHT)
    for scale in (2.0, 2.0, 3.0, 1.0, 2.0, 4.0, 3.0):
        weight.grad = None
        hidden = (ROWS[:8] @ weight).tanh()
        inner = hidden * 2 + (-hidden * hidden).exp()
        beside = (inner * scale).detach()
        (inner**2).mean().backward()
        total = weight.grad.sum() + beside.sum()
        values = np.tanh(DATA[:8] @ WEIGHT)
        within = values * 2 + np.exp(-values * values)
        expected = gradient_of(DATA[:8], WEIGHT, 1.0).sum() + (within * scale).sum()
        np.testing.assert_allclose(total.item(), expected, rtol=1e-12)


def test_a_gradient_looked_at_alone_first():
    one, other = leaf(WEIGHT), leaf(WEIGHT * 0.3)
    for start in (0, 4, 8, 12, 16):
        one.grad = other.grad = None
        rows = ROWS[start : start + 8]
        (loss_of(rows, one, 0.5) * loss_of(rows, other, 0.5)).backward()
        data = DATA[start : start + 8]
        values = [loss_of(rows, Tensor(w, dtype=torpor.float64), 0.5).item()
                  for w in (WEIGHT, WEIGHT * 0.3)]  # fmt: skip
        if start % 8:
            one.grad.realize()
        for weight, factor, array in ((one, values[1], WEIGHT), (other, values[0], WEIGHT * 0.3)):
            expected = gradient_of(data, array, 0.5) * factor
            np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12)


def test_gradients_of_gradients_that_were_calls():
    """Nothing is lost where somebody asks for what a gradient depends on."""
    for _ in range(6):
        x = leaf(DATA[:4])
        (x.tanh() * x + (-x * x).exp() * x.sin()).sum().backward()
        (second,) = x.grad.sum().gradient(x)
        t, s, c, e = np.tanh(DATA[:4]), np.sin(DATA[:4]), np.cos(DATA[:4]), np.exp(-(DATA[:4] ** 2))
        d, x_ = 1 - t**2, DATA[:4]
        expected = 2 * d - 2 * t * d * x_ + e * (-s - 4 * x_ * c + (4 * x_**2 - 2) * s)
        np.testing.assert_allclose(second.numpy(), expected, rtol=1e-10)


def test_equal_gradients_are_targets_of_their_own():
    x = leaf(DATA[:4])
    for _ in range(4):
        made = []
        for _ in range(2):
            x.grad = None
            (x.tanh() * x + (-x * x).exp() * x.sin()).sum().backward()
            made.append(x.grad)
        first, second = made
        by_first, by_second = (first * first * second).sum().gradient(first, second)
        value = first.numpy()
        np.testing.assert_allclose(by_first.numpy(), 2 * value**2, rtol=1e-12)
        np.testing.assert_allclose(by_second.numpy(), value**2, rtol=1e-12)


def adam_by_hand(weight, gradients, rate=0.1, betas=(0.9, 0.999), epsilon=1e-8):
    first = second = 0.0
    for number, gradient in enumerate(gradients(), 1):
        first = betas[0] * first + (1 - betas[0]) * gradient(weight)
        second = betas[1] * second + (1 - betas[1]) * gradient(weight) ** 2
        sizes = np.sqrt(second / (1 - betas[1] ** number)) + epsilon
        weight = weight - rate * first / (1 - betas[0] ** number) / sizes
    return weight


def test_steps_of_an_optimiser_on_boxes_that_move_and_change_size():
    starts = [(n * 7 % 30, 8 if n % 5 else 6) for n in range(25)]
    weight = leaf(WEIGHT)
    optimiser = nn.optim.Adam([weight], lr=0.1)
    for start, size in starts:
        optimiser.zero_grad()
        loss_of(ROWS[start : start + size], weight, 0.5).backward()
        optimiser.step()

    def gradients():
        for start, size in starts:
            yield lambda w, at=slice(start, start + size): gradient_of(DATA[at], w, 0.5)

    np.testing.assert_allclose(weight.numpy(), adam_by_hand(WEIGHT, gradients), rtol=1e-9)


def test_what_is_kept_of_a_step_is_computed_with_it():
    """A norm that is looked at after the step costs no second pass through the network."""
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    optimiser = nn.optim.Adam(model.parameters(), lr=0.01)
    launches = []
    rows = ROWS.float().realize()
    for number in range(12):
        optimiser.zero_grad()
        (model(rows[number : number + 8]) ** 2).mean().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        with measuring() as measured:
            value = norm.item()
        launches.append(len(measured.runs))
        clipped = sum(float((p.grad.numpy() ** 2).sum()) for p in model.parameters()) ** 0.5
        assert min(value, 0.5) == pytest.approx(clipped, rel=1e-3)
    assert launches[-4:] == [0] * 4


def test_a_step_inside_a_jitted_function_of_gradients_from_outside():
    weight = leaf(WEIGHT)

    @torpor.jit
    def norm_of(gradient: Tensor) -> Tensor:
        return (gradient * gradient).sum()

    for start in range(8):
        weight.grad = None
        loss_of(ROWS[start : start + 8], weight, 0.5).backward()
        expected = (gradient_of(DATA[start : start + 8], WEIGHT, 0.5) ** 2).sum()
        assert norm_of(weight.grad).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("start", range(6))
def test_loops_and_branches_of_gradients_from_outside(start):
    weight = leaf(WEIGHT)
    loss_of(ROWS[start : start + 8], weight, 0.5).backward()
    gradient, twice = weight.grad, weight.grad * 2
    expected = gradient_of(DATA[start : start + 8], WEIGHT, 0.5)

    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return carry + row * twice.sum(), row

    total, _ = torpor.scan(step, gradient[0] * 0, gradient)
    summed = expected.sum(0) * expected.sum() * 2
    np.testing.assert_allclose(total.numpy(), summed, rtol=1e-9, atol=1e-12)
    chosen = torpor.cond(gradient.sum() > 0, lambda: twice, lambda: gradient)
    side = expected * (2 if expected.sum() > 0 else 1)
    np.testing.assert_allclose(chosen.numpy(), side, rtol=1e-12)
    mapped = torpor.vmap(lambda row: (row * twice[0]).sum())(gradient)
    np.testing.assert_allclose(mapped.numpy(), expected @ expected[0] * 2, rtol=1e-9)


def picked_loss(table: Tensor, places: list[int]) -> Tensor:
    picked = table[Tensor(np.array(places))]
    return ((picked.tanh() * 2 + picked.exp()) ** 2).sum()


def test_bad_indices_in_a_gradient_are_told():
    table = leaf(DATA)
    for _ in range(5):
        table.grad = None
        picked_loss(table, [1, 2, 3]).backward()
        table.grad.realize()
    table.grad = None
    picked_loss(table, [1, 2, 99]).backward()
    with pytest.raises(IndexError, match="99"):
        table.grad.realize()


def gelu(x: np.ndarray) -> np.ndarray:
    """Hendrycks and Gimpel, 2016, arXiv:1606.08415, by tanh."""
    return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def test_a_constant_beside_a_function_that_has_it_inside():
    rows = ROWS[:8].realize()
    for scale in (0.5, 0.5, 0.5, 0.25, 1.0, 0.5, 2.0, 3.0, 0.5, 1.0):
        found = rows.gelu("tanh") + rows * scale + scale
        np.testing.assert_allclose(
            found.numpy(), gelu(DATA[:8]) + DATA[:8] * scale + scale, rtol=1e-6
        )


def test_functions_of_two_boxes_that_are_one_by_chance():
    for first, second in ((2, 2), (2, 2), (4, 4), (0, 8), (8, 0), (5, 5), (1, 2)):
        one, other = ROWS[first : first + 8], ROWS[second : second + 8]
        found = one.gelu("tanh") * 3 - other.gelu("tanh")
        expected = gelu(DATA[first : first + 8]) * 3 - gelu(DATA[second : second + 8])
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-9)


def test_constants_that_functions_share_are_not_computed_by_themselves():
    """A mask that attention has inside is no tensor that somebody waits for."""
    x = ROWS[:4].float().reshape(1, 4, 6).realize()
    for _ in range(3):
        x.scaled_dot_product_attention(x, x, is_causal=True).numpy()
    counts = []
    for _ in range(4):
        with measuring() as seen:
            mask = Tensor.ones(4, 4, dtype="bool").tril()
            (mask.where(x @ x.mT, 0.0).sum(-1) * 2).realize()
        counts.append(len(seen.runs))
    assert counts == [counts[0]] * 4


def test_what_a_function_has_inside_may_have_been_computed_before():
    """The shares above and below ask for much the same, which is kept from the first on."""
    x = Tensor(np.linspace(0.2, 3.0, 8), dtype=torpor.float32).realize()
    for _ in range(6):
        (x + 1).numpy()
        lower = torpor.special.gammainc(x, x).numpy()
        upper = torpor.special.gammaincc(x, x).numpy()
        np.testing.assert_allclose(lower + upper, np.ones(8), rtol=1e-6)


def test_tensors_of_one_value_by_chance():
    """Two tensors may stand for one value, and what is made of each for another one."""
    pairs = ((2, 2), (2, 2), (0, 8), (3, 3), (8, 0), (2, 2), (5, 5), (1, 2), (1, 1))
    for first, second in pairs:
        for scale in (2.0, 3.0, 2.0):
            one, other = ROWS[first : first + 8].exp(), ROWS[second : second + 8].exp()
            lower, upper = (one * 2).tanh(), (other * scale).tanh()
            if second % 2:
                other.realize()
            one_by_hand, other_by_hand = (
                np.exp(DATA[first : first + 8]),
                np.exp(DATA[second : second + 8]),
            )
            expected = np.tanh(one_by_hand * 2) - np.tanh(other_by_hand * scale) * other_by_hand
            np.testing.assert_allclose((lower - upper * other).numpy(), expected, rtol=1e-12)
            np.testing.assert_allclose(upper.numpy(), np.tanh(other_by_hand * scale), rtol=1e-12)


def test_a_sequence_that_grows_through_layers_of_attention():
    """Queries, keys and values of a sequence are one node of three tensors."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    table = Tensor(RANDOM.standard_normal((5, 8)), dtype=torpor.float32)
    with torpor.no_grad():
        ids, kept = torpor.tensor([[1]]), [1]
        for _ in range(40):
            found = layer(table[ids])[:, -1].sum(-1, keepdim=True)
            ids = torpor.cat([ids, (found.abs() * 100).long() % 5], 1)
            kept.append(ids[0, -1].item())
        alone = layer(table[torpor.tensor([kept])]).numpy()
        for length in range(1, 40, 6):
            part = layer(table[torpor.tensor([kept[:length]])])[:, -1].sum(-1)
            assert (part.abs() * 100).long().item() % 5 == kept[length]
        np.testing.assert_allclose(layer(table[ids]).numpy(), alone, rtol=1e-5, atol=1e-6)


def slopes(function, *given):
    """The function's value, asked for first, and its slope for each of what it is given."""
    leaves = [leaf(np.array(one)) for one in given]
    made = function(*leaves)
    made.backward(torpor.ones_like(made), create_graph=len(given) == 1)
    looked = [made.detach().numpy(), *(one.grad.detach().numpy() for one in leaves)]
    return looked[1:]


def test_a_value_that_a_gradient_meets_by_chance_is_not_expected_again():
    """-1/x * y is -y * y where y is 1/x and has been computed: that of a / x with y is not."""
    x, a = np.array([2.0, -1.0, 0.5, 4.0]), np.array([-2.0, 3.0, 1.0, 0.25])
    np.testing.assert_allclose(slopes(torpor.rad2deg, x)[0], np.full(4, 180 / np.pi))
    for _ in range(3):
        np.testing.assert_allclose(slopes(torpor.reciprocal, x)[0], -1 / x**2)
        by_a, by_x = slopes(torpor.div, a, x)
        np.testing.assert_allclose(by_a, 1 / x)
        np.testing.assert_allclose(by_x, -a / x**2)


def lengths(seed: int) -> list[int]:
    """Lengths that grow, come again, and are those of other axes by chance."""
    random = np.random.default_rng(seed)
    return [*range(2, 30), 6, 6, *random.integers(2, 40, 30).tolist()]


def exponentials(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_functions_of_sizes_that_grow_stay_calls():
    for rows in lengths(0):
        x = Tensor(DATA[:rows])
        found = x.softmax(-1)
        called = found._current().op is Ops.CALL
        np.testing.assert_allclose(found.numpy(), exponentials(DATA[:rows]), rtol=1e-6)
    assert called


def test_what_is_beside_a_function_of_any_size_may_be_what_it_has_inside():
    """The shifted rows, a constant, and a product of the same two."""
    for rows in lengths(1):
        x, data = ROWS[:rows].realize(), DATA[:rows]
        shifted = x - x.amax(-1, keepdim=True)
        whole = x.softmax(-1) + shifted.exp() * (0.5 if rows % 3 else 1.0)
        product = torpor.cat([x, x[:1]], 0) @ x.mT
        wide, inside = np.concatenate([data, data[:1]]), data - data.max(-1, keepdims=True)
        expected = exponentials(data) + np.exp(inside) * (0.5 if rows % 3 else 1.0)
        np.testing.assert_allclose(whole.numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(product.numpy(), wide @ data.T, rtol=1e-6)


def test_two_sequences_of_sizes_that_are_one_by_chance():
    for one, other in zip(lengths(2), reversed(lengths(3)), strict=True):
        left, right = (ROWS[:n].realize() for n in (one, other))
        scores = (left @ right.mT).softmax(-1) @ torpor.cat([right[1:], right[:1]], 0)
        turned = np.concatenate([DATA[1:other], DATA[:1]])
        expected = exponentials(DATA[:one] @ DATA[:other].T) @ turned
        np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-6)


def test_a_gradient_through_functions_of_sizes_that_grow():
    for rows in lengths(4):
        x, data = leaf(DATA[:rows]), DATA[:rows]
        if rows % 4 == 0:
            x.softmax(-1).numpy()
        (x.softmax(-1) * ROWS[:rows]).sum().backward()
        share = exponentials(data)
        expected = share * (data - (share * data).sum(-1, keepdims=True))
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-12)


def test_a_gradient_is_asked_for_after_a_function_of_any_size_was_computed():
    for rows in lengths(5):
        x, data = Tensor(DATA[:rows]), DATA[:rows]
        share = x.softmax(-1)
        (by_x,) = (share * ROWS[:rows]).sum().gradient(x)
        inside = exponentials(data)
        expected = inside * (data - (inside * data).sum(-1, keepdims=True))
        np.testing.assert_allclose(by_x.numpy(), expected, rtol=1e-6, atol=1e-12)


def test_what_is_known_of_ever_other_graphs_is_bounded_by_their_size(monkeypatch) -> None:
    """Steps of networks of many depths, of which a form has 142 to 500 words."""
    monkeypatch.setattr(calls, "MOST_WORDS", 1000)
    monkeypatch.setattr(calls, "_written", {})
    monkeypatch.setattr(calls, "_words", 0)
    for depth in 3 * (1, 2, 3, 4, 5, 6):
        layers = [leaf(np.eye(3) / (n + 1)) for n in range(depth)]
        optimiser = nn.optim.SGD(layers, lr=0.5)
        x = Tensor(DATA[:4, :3])
        for layer in layers:
            x = (x @ layer).tanh()
        x.sum().backward()
        optimiser.step()
        words = sum(len(name[-1]) for name in calls._written)
        assert words == calls._words <= 1000
    assert calls._written
