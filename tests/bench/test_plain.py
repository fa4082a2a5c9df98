"""Programs as they are first written compile in their first passes, and in no later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from bench import plain
from torpor import Tensor, nn

NUMBERS = np.random.default_rng(29)
PASSES = 150
Step = Callable[[int], object]


def drawn(*shape: int) -> Tensor:
    return Tensor(NUMBERS.standard_normal(shape).astype(np.float32)).realize()


def running_mean() -> Step:
    state = [torpor.zeros(48)]

    def step(n: int) -> float:
        state[0] = state[0] + (drawn(48) - state[0]) / (n + 1)
        return state[0].abs().max().item()

    return step


def weights_averaged() -> Step:
    state = [drawn(12, 12)] * 2

    def step(n: int) -> float:
        now, mean = state[0] * 0.99 + 0.01 * drawn(12, 12), state[1]
        share = min(0.99, (1 + n) / (10 + n))
        state[:] = now, mean * share + now * (1 - share)
        return (state[1] - now).abs().mean().item()

    return step


def ring_buffer() -> Step:
    ring = torpor.zeros(16, 24)

    def step(n: int) -> float:
        ring[n % 16] = drawn(24)
        return ring.mean().item()

    return step


def mask_that_grows() -> Step:
    x, places = drawn(PASSES, 12), torpor.arange(PASSES)

    def step(n: int) -> float:
        scores = torpor.where(places <= n, x @ x[n], -1e9)
        return (scores.softmax(0) @ x).max().item()

    return step


def rate_by_hand() -> Step:
    x, y, w = drawn(50, 7), drawn(50), torpor.zeros(7).requires_grad_()

    def step(n: int) -> float:
        rate = 0.1 * min(1, (n + 1) / 10) * (1 + np.cos(np.pi * n / PASSES)) / 2
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torpor.no_grad():
            w.sub_(w.grad * rate)
        w.grad = None
        return loss.item()

    return step


def printed_each_tenth() -> Step:
    x, y, model = drawn(640, 6), drawn(640, 1), nn.Linear(6, 1)
    optimiser = nn.optim.Adam(model.parameters())

    def step(n: int) -> float | None:
        rows = slice(n % 20 * 32, n % 20 * 32 + 32)
        optimiser.zero_grad()
        loss = ((model(x[rows]) - y[rows]) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss.item() if n % 10 == 0 else None

    return step


def length_that_stays() -> Step:
    w = drawn(12, 12)

    def step(n: int) -> float:
        x = drawn(min(n + 2, 17), 12)
        return ((x @ w).tanh() * x).sum(0).max().item()

    return step


OTHERS = (
    running_mean, weights_averaged, ring_buffer, mask_that_grows, rate_by_hand,
    printed_each_tenth, length_that_stays,
)  # fmt: skip


VARIED = "forced", "trees"  # whose graphs hardly ever recur, until their pieces do


def late(step: Callable[[int], Any], compiled: list[str], known: int = 3) -> list[str]:
    """What is compiled after the third pass, or once most is `known`."""
    for n in range(known + PASSES - 3):
        if n == known:
            compiled.clear()
        step(n)
    return compiled


@pytest.mark.parametrize("program", VARIED)
def test_little_is_compiled_once_most_pieces_are_known(program, compiled) -> None:
    assert len(late(plain.PROGRAMS[program](torpor), compiled, 70)) < PASSES / 4


@pytest.mark.parametrize("program", [one for one in plain.PROGRAMS if one not in VARIED])
def test_nothing_is_compiled_after_the_third_pass(program, compiled, monkeypatch) -> None:
    monkeypatch.setattr(plain, "PASSES", PASSES)
    assert late(plain.PROGRAMS[program](torpor), compiled) == []


@pytest.mark.parametrize("program", OTHERS)
def test_nor_of_other_programs(program, compiled) -> None:
    assert late(program(), compiled) == []
