"""Programs whose graphs hardly ever recur: from some passes on nothing is compiled."""

from __future__ import annotations

import random

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import OutOfBoundsError
from torpor.pipeline import planning, recipe
from torpor.pipeline.pieces import WHOLE, Graph

NUMBERS = np.random.default_rng(93)


@pytest.fixture
def planned(monkeypatch) -> list[int]:
    """How many nodes each graph has that is planned."""
    found: list[int] = []
    plan = planning.planned

    def counted(roots, target_of):
        found.append(len({node for root, _ in roots for node in root.toposort()}))
        return plan(roots, target_of)

    monkeypatch.setattr(planning, "planned", counted)
    return found


KINDS = (  # functions, and their slopes
    (lambda x: x.tanh(), np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    (lambda x: x.sin() + 1, lambda x: np.sin(x) + 1, np.cos),
    (lambda x: x * x / 2, lambda x: x * x / 2, lambda x: x),
    (lambda x: (-x * x).exp(), lambda x: np.exp(-x * x), lambda x: -2 * x * np.exp(-x * x)),
)


class Chain:
    """h = f(h w) + h / 2, for layers that are chosen; the sum of squares and its gradients."""

    def __init__(self, depth: int = 8, size: int = 6):
        self.arrays = [NUMBERS.normal(size=(size, size)) / 3 for _ in range(depth)]
        self.weights = [Tensor(one).requires_grad_() for one in self.arrays]
        Tensor.realize(*self.weights)

    def passes(self, chosen: list[int], given: np.ndarray) -> None:
        for weight in self.weights:
            weight.grad = None
        h = Tensor(given)
        for number in chosen:
            h = KINDS[number % 4][0](h @ self.weights[number]) + h / 2
        loss = (h * h).sum()
        loss.backward()
        used = sorted(set(chosen))
        grads = [self.weights[number].grad for number in used]
        Tensor.realize(loss, *grads)
        wanted, slopes = self.wanted(chosen, given)
        np.testing.assert_allclose(loss.numpy(), wanted, rtol=1e-10)
        for number, grad in zip(used, grads, strict=True):
            np.testing.assert_allclose(grad.numpy(), slopes[number], rtol=1e-9, atol=1e-9)

    def wanted(self, chosen: list[int], h: np.ndarray) -> tuple[float, dict[int, np.ndarray]]:
        before = []
        for number in chosen:
            before.append((h, h @ self.arrays[number]))
            h = KINDS[number % 4][1](before[-1][1]) + h / 2
        back, slopes = 2 * h, {}
        for number, (at, value) in zip(reversed(chosen), reversed(before), strict=True):
            slope = back * KINDS[number % 4][2](value)
            slopes[number] = slopes.get(number, 0) + at.T @ slope
            back = back / 2 + slope @ self.arrays[number].T
        return (h**2).sum(), slopes


def test_layers_that_are_chosen_by_a_coin(compiled, planned) -> None:
    chain, coin, given = Chain(), random.Random(3), NUMBERS.normal(size=(4, 6))
    for number in range(80):
        if number == 60:
            compiled.clear()
            planned.clear()
        chain.passes(coin.choices(range(8), k=6), given)
    assert len(compiled) < 4
    assert len(planned) < 4


def test_functions_of_each_element_in_ever_other_orders(compiled) -> None:
    """Nothing in them is a place where graphs are cut."""
    draw = random.Random(4)
    for number in range(80):
        if number == 60:
            compiled.clear()
        given = NUMBERS.normal(size=(5, 7))
        x, wanted = Tensor(given), given
        for kind in draw.choices(KINDS, k=12):
            x, wanted = kind[0](x), kind[1](wanted)
        np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-9, atol=1e-12)
    assert len(compiled) < 10  # of 20 graphs, each of its own


def test_trees_of_ever_other_forms(compiled) -> None:
    array = NUMBERS.normal(size=(10, 5)) / 3
    weight = Tensor(array).requires_grad_()
    leaves = NUMBERS.normal(size=(12, 1, 5))
    coin = random.Random(11)

    def tree(first: int, last: int):
        if last - first == 1:
            return first
        middle = coin.randint(first + 1, last - 1)
        return tree(first, middle), tree(middle, last)

    def value(node, kind, join, w):
        if isinstance(node, int):
            return kind(leaves[node])
        return join([value(one, kind, join, w) for one in node], w)

    for number in range(40):
        if number == 30:
            compiled.clear()
        shape = tree(0, coin.randint(5, 12))
        found = value(shape, Tensor, lambda two, w: (torpor.cat(two, 1) @ w).tanh(), weight)
        wanted = value(shape, lambda x: x, lambda two, w: np.tanh(np.hstack(two) @ w), array)
        (grad,) = found.sum().gradient(weight)
        Tensor.realize(found, grad)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-12)
        for row, column in ((0, 0), (7, 3)):
            step = np.zeros_like(array)
            step[row, column] = 1e-6
            sides = [
                value(shape, lambda x: x, lambda two, w: np.tanh(np.hstack(two) @ w), array + d)
                for d in (step, -step)
            ]
            slope = (sides[0].sum() - sides[1].sum()) / 2e-6
            np.testing.assert_allclose(grad.numpy()[row, column], slope, rtol=1e-6, atol=1e-8)
    assert compiled == []


Arrays = dict[str, np.ndarray]


def gru(arrays: Arrays, rows: np.ndarray) -> np.ndarray:
    """The states of a GRU of 4, as PyTorch defines it."""
    h, states = np.zeros((1, 4)), []
    for row in rows:
        own = np.split(row @ arrays["weight_ih_l0"].T + arrays["bias_ih_l0"], 3, 1)
        from_before = np.split(h @ arrays["weight_hh_l0"].T + arrays["bias_hh_l0"], 3, 1)
        r, z = (1 / (1 + np.exp(-a - b)) for a, b in zip(own[:2], from_before[:2], strict=True))
        h = (1 - z) * np.tanh(own[2] + r * from_before[2]) + z * h
        states.append(h)
    return np.stack(states)


def loss_of(arrays: list[Arrays], chosen: tuple[int, ...], x: np.ndarray) -> float:
    total = 0.0
    for one in chosen:
        x = gru(arrays[one], x)
        total += x[-1].sum()
    return total + (x * x).sum()


def test_loops_are_done_once_in_graphs_that_do_not_recur(compiled) -> None:
    """All that a loop gives, its states and its last one, is of one piece."""
    torpor.manual_seed(5)
    layers = [nn.GRU(4, 4).double() for _ in range(2)]
    arrays = [{name: one.numpy() for name, one in layer.named_parameters()} for layer in layers]
    coin = random.Random(5)
    rows = Tensor.rand(3, 1, 4, dtype="float64").realize()
    for number in range(30):
        if number == 22:
            compiled.clear()
        chosen = tuple(coin.randrange(2) for _ in range(6))
        x, total = rows, 0
        for one in chosen:
            x, last = layers[one](x)
            total = total + last.sum()
        loss = total + (x * x).sum()
        names = [name for name, _ in layers[chosen[0]].named_parameters()]
        grads = loss.gradient(*layers[chosen[0]].parameters())
        Tensor.realize(loss, *grads)
        np.testing.assert_allclose(loss.numpy(), loss_of(arrays, chosen, rows.numpy()), rtol=1e-9)
        for name, grad in zip(names, grads, strict=True):
            place = (5,) if "bias" in name else (5, 2)
            sides = []
            for step in (1e-6, -1e-6):
                moved = [dict(one) for one in arrays]
                moved[chosen[0]][name] = arrays[chosen[0]][name].copy()
                moved[chosen[0]][name][place] += step
                sides.append(loss_of(moved, chosen, rows.numpy()))
            slope = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose(grad.numpy()[place], slope, rtol=1e-5, atol=1e-8)
    assert len(compiled) < 10


def test_an_index_that_is_outside_is_told_as_ever(compiled) -> None:
    table = Tensor(np.arange(12.0).reshape(6, 2)).realize()
    coin = random.Random(8)

    def total(places: list[int]) -> Tensor:
        h = Tensor([1.0, 1.0])
        for place in places:
            row = table[Tensor([place])][0]
            h = (h * row).tanh() if coin.random() < 0.5 else h.sin() + row.exp()
        return h.sum()

    for _ in range(20):
        total([coin.randrange(6) for _ in range(5)]).item()
    with pytest.raises(OutOfBoundsError, match="axis 0 of length 6: 17"):
        total([1, 2, 17, 3, 4]).item()
    total([1, 2, 5, 3, 4]).item()


def test_a_graph_that_comes_often_is_planned_as_a_whole_once_at_most(planned) -> None:
    """It is one launch of the kernels of its pieces first, and known from then on."""
    recipe.forget()  # those of other tests, which may leave no room for these
    chain, coin, given = Chain(), random.Random(17), NUMBERS.normal(size=(4, 6))
    for _ in range(20):
        chain.passes(coin.choices(range(8), k=6), given)
    before = len(planned)
    for _ in range(WHOLE + 3):
        chain.passes([0, 1, 3, 0, 5, 2], given)
    assert sum(size > 50 for size in planned[before:]) <= 1


def test_a_sum_has_pieces_that_do_not_say_of_what() -> None:
    """Terms of a long sum are pieces of their own, so that sums differ in their lengths alone."""
    memory = [Tensor.rand(3).realize() for _ in range(4)]
    total = memory[0].exp()
    for one in (memory[1].sin(), memory[2] * memory[0], memory[3].tanh()):
        total = total + one
    root = total._storage.base
    found = Graph([(root, "CPU")]).pieces()
    assert [len(piece.outputs) for piece in found] == [1] * 5
    assert found[-1].outputs == [root]


def test_what_a_piece_alone_uses_is_part_of_it() -> None:
    x = Tensor.rand(3, 5).realize()
    roots = [(x.softmax(1)._storage.base, "CPU")]
    (piece,) = Graph(roots).pieces()
    assert piece.outputs == [roots[0][0]]
