"""Jitted functions, and first calls of anything, from several Python threads at once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Generator, Tensor
from torpor.device.cpu import CpuExecutable
from torpor.pipeline import measuring
from torpor.pipeline.recipe import forget

THREADS = 4
SHAPES = ((4,), (3, 5), (2, 3, 4), (17, 2))
LONGEST = 60.0  # seconds: who has not come back by then waits for ever


@pytest.fixture(autouse=True)
def often_interrupted() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Call `work(number)` in as many threads at once; raise what the first of them raised."""
    start = threading.Barrier(threads)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(LONGEST)
    assert not any(thread.is_alive() for thread in running), "threads wait for each other"
    if errors:
        raise errors[0]


def array_of(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def test_each_shape_is_traced_once() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, y: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        calls.write(".")
        return (x * y).sum(-1), x * factor - y

    def work(number: int) -> None:
        for turn in range(5):
            for place in range(len(SHAPES)):
                shape = SHAPES[(place + number) % len(SHAPES)]
                x, y = array_of(shape, 10 * turn + number), array_of(shape, 50 + turn)
                total, rest = f(Tensor(x), Tensor(y), 0.5 + number)
                np.testing.assert_allclose(total.numpy(), (x * y).sum(-1), rtol=1e-5, atol=1e-6)
                wanted = x * np.float32(0.5 + number) - y
                np.testing.assert_allclose(rest.numpy(), wanted, rtol=1e-5, atol=1e-6)

    together(work)
    assert len(calls.getvalue()) == len(SHAPES)


def test_no_write_is_lost() -> None:
    total, turns = Tensor(np.zeros(3, np.float32)).realize(), 25

    @torpor.jit
    def add(x: Tensor) -> Tensor:
        total.add_(x.sum())
        return total * 1

    def work(number: int) -> None:
        for turn in range(turns):
            add(Tensor(np.ones(SHAPES[(turn + number) % 2][0], np.float32)))

    together(work)
    per_pair = SHAPES[0][0] + SHAPES[1][0]
    assert total.tolist() == [THREADS * turns * per_pair / 2] * 3


def test_every_call_appends_what_it_gives() -> None:
    history: list[Tensor] = []

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        history.append(x * 2)
        return x + 1

    def work(number: int) -> None:
        for turn in range(10):
            step(Tensor(np.array([100 * number + turn], np.int64)))

    together(work)
    wanted = [2 * (100 * number + turn) for number in range(THREADS) for turn in range(10)]
    assert sorted(x.item() for x in history) == wanted


def test_no_draw_is_used_twice() -> None:
    generator = Generator(5)

    @torpor.jit
    def draw() -> Tensor:
        return torpor.randint(0, 1 << 60, (2,), generator=generator)

    seen: list[tuple[int, ...]] = []

    def work(number: int) -> None:
        for _ in range(15):
            seen.append(tuple(draw().tolist()))

    together(work)
    other = Generator(5)
    wanted = [
        tuple(torpor.randint(0, 1 << 60, (2,), generator=other).tolist()) for _ in range(len(seen))
    ]
    assert sorted(seen) == sorted(wanted)


def test_plain_draws_are_numbered_once() -> None:
    generator = Generator(5)

    def work(number: int) -> None:
        for _ in range(50):
            torpor.rand(2, generator=generator)

    together(work)
    assert generator.get_state().numpy().view(np.uint64).tolist() == [5, 50 * THREADS]


def test_training_in_several_threads() -> None:
    """A model of each thread's own, one jitted step for all of them."""

    @torpor.jit
    def step(weight: Tensor, x: Tensor, y: Tensor) -> Tensor:
        weight.grad = None
        loss = ((x @ weight - y) ** 2).mean()
        loss.backward()
        with torpor.no_grad():
            weight.sub_(weight.grad * 0.1)
        return loss

    results: dict[int, Any] = {}

    def work(number: int) -> None:
        x, y = array_of((8, 3 + number % 2), number), array_of((8, 1), 9 + number)
        weight = torpor.zeros(x.shape[1], 1).contiguous().requires_grad_(True)
        for _ in range(6):
            step(weight, Tensor(x), Tensor(y))
        results[number] = x, y, weight.numpy()

    together(work)
    for x, y, found in results.values():
        weight = np.zeros((x.shape[1], 1))
        for _ in range(6):
            weight -= 0.1 * 2 * x.T @ (x @ weight - y) / y.size
        np.testing.assert_allclose(found, weight, rtol=1e-4, atol=1e-6)


def test_jitted_functions_that_call_each_other() -> None:
    @torpor.jit
    def inner(x: Tensor) -> Tensor:
        return x * 2

    @torpor.jit
    def outer(x: Tensor) -> Tensor:
        return inner(x) + 1

    def work(number: int) -> None:
        for turn in range(8):
            x = array_of(SHAPES[(turn + number) % len(SHAPES)], turn)
            function, wanted = (inner, x * 2) if number % 2 else (outer, x * 2 + 1)
            np.testing.assert_allclose(function(Tensor(x)).numpy(), wanted, rtol=1e-6)

    together(work)


def test_a_traced_function_may_wait_for_another_thread_that_calls_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torpor.capture.jitted.PATIENCE", 0.1)

    @torpor.jit
    def f(x: Tensor, others: int) -> Tensor:
        if others:
            together(inside, 1)
        return x + 1

    results = []

    def inside(number: int) -> None:
        results.append(f(Tensor(np.zeros(2, np.float32)), 0).tolist())

    def outside(number: int) -> None:
        results.append(f(Tensor(np.ones(2, np.float32)), 1).tolist())

    together(outside, 1)
    assert sorted(results) == [[1.0, 1.0], [2.0, 2.0]]


def test_an_error_in_one_thread_is_no_other_threads() -> None:
    @torpor.jit
    def pick(table: Tensor, index: Tensor) -> Tensor:
        return table[index] * 2

    table = array_of((6,), 1)

    def work(number: int) -> None:
        for turn in range(20):
            place = (turn + number) % 8
            index = Tensor(np.array([place], np.int64))
            try:
                found = pick(Tensor(table), index)
            except IndexError:
                assert place >= 6
                continue
            assert place < 6 and found.item() == table[place] * 2

    pick(Tensor(table), Tensor(np.array([0], np.int64)))
    together(work)


@pytest.mark.parametrize("again", range(2))
def test_first_calls_of_plain_functions(again: int) -> None:
    forget()

    def work(number: int) -> None:
        for place in range(len(SHAPES)):
            shape = SHAPES[(place + number) % len(SHAPES)]
            x, y = array_of(shape, number), array_of(shape, 7)
            a, b = Tensor(x), Tensor(y)
            found = ((a * (3 + again) + b).exp().sum(-1), (a - b).amax(0))
            torpor.Tensor.realize(*found)
            wanted = np.exp(x.astype(np.float64) * (3 + again) + y).sum(-1)
            np.testing.assert_allclose(found[0].numpy(), wanted, rtol=1e-5)
            np.testing.assert_array_equal(found[1].numpy(), (x - y).max(0))

    together(work)


def test_what_runs_a_graph_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sizes vary, what they are comes behind other words, in the order of commands."""

    def total(x: Tensor) -> Tensor:
        return ((x * 2).contiguous() + 1).sum(-1)

    native = CpuExecutable.native

    def slowly(self: Any, variables: Any) -> Any:
        time.sleep(0.01)  # so that all threads are at it
        return native(self, variables)

    inputs = [Tensor(array_of((3, size), size)).realize() for size in range(4, 12)]
    with measuring():  # command by command: nothing native is made of it yet
        for x in inputs[:4]:
            total(x).realize()
    monkeypatch.setattr(CpuExecutable, "native", slowly)

    def work(number: int) -> None:
        x = inputs[4 + number]
        wanted = (x.numpy() * 2 + 1).sum(-1)
        np.testing.assert_allclose(total(x).numpy(), wanted, rtol=1e-5)

    together(work)


def test_one_lazy_tensor_realised_by_all() -> None:
    x = array_of((5, 7), 3)
    shared = (Tensor(x) * 2).cos()

    def work(number: int) -> None:
        np.testing.assert_allclose((shared + number).numpy(), np.cos(x * 2) + number, rtol=1e-5)
        np.testing.assert_allclose(shared.numpy(), np.cos(x * 2), rtol=1e-5, atol=1e-6)

    together(work)


def test_a_reader_loses_no_writers_write() -> None:
    shared, done = Tensor(np.zeros(4, np.float32)), threading.Event()

    def work(number: int) -> None:
        if number:
            while not done.is_set():
                shared.realize()
            return
        for _ in range(200):
            shared.add_(1)
        done.set()

    together(work, 3)
    assert shared.tolist() == [200.0] * 4
