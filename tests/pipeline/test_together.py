"""Threads share the groups of a graph that recurs, with the same bits as one thread alone."""

import threading

import numpy as np
import pytest

from torpor import Context, Tensor
from torpor.nn.functional import scaled_dot_product_attention
from torpor.pipeline import recipe
from torpor.pipeline.together import AtOnce, Together

SHAPE = (1, 2, 2048, 4)  # heads and rows enough for blocks


def operands(seed):
    generator = np.random.default_rng(seed)
    return [Tensor(generator.standard_normal(SHAPE, np.float32)).realize() for _ in range(3)]


def attention(q, k, v):
    return scaled_dot_product_attention(q, k, v).realize().numpy()


def expected(q, k, v):
    scores = q.numpy().astype(np.float64) @ k.numpy().swapaxes(-1, -2) / SHAPE[-1] ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.numpy()


@pytest.fixture
def runs(monkeypatch):
    """What became of each run by groups."""
    outcomes, run = [], Together.run

    def noted(self, memory, bound):
        outcomes.append(run(self, memory, bound))
        return outcomes[-1]

    monkeypatch.setattr(Together, "run", noted)
    recipe.forget()
    return outcomes


def test_groups_are_shared(runs):
    inputs = [operands(seed) for seed in range(3)]
    with Context(THREADS=1):
        alone = [attention(*some) for some in inputs]
    assert runs == []  # nothing is gained
    for threads in (2, 3):
        with Context(THREADS=threads):
            shared = [attention(*some) for some in inputs]
        for some, one, other in zip(inputs, alone, shared, strict=True):
            assert one.tobytes() == other.tobytes()
            np.testing.assert_allclose(other, expected(*some), rtol=1e-4, atol=1e-6)
    assert len(runs) == 4 and all(error == 0 for _, error in runs)
    for known in recipe._recipes.values():
        for one in known.together.values():  # between runs there is no memory of theirs
            assert not any(part.is_allocated() for part in one._executor._scratch)


def test_two_threads_at_once(runs):
    inputs = [operands(seed) for seed in range(2)]
    with Context(THREADS=2):
        wanted = [attention(*some).tobytes() for some in inputs]
    wrong = []

    def work(number):
        with Context(THREADS=2):
            for _ in range(6):
                if attention(*inputs[number]).tobytes() != wanted[number]:
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and any(outcome is not None for outcome in runs)


def test_a_check_that_fails_in_a_group_is_told_by_its_launch(runs, monkeypatch):
    q, k, v = operands(0)
    with Context(THREADS=2):
        attention(q, k, v)
        (known,) = [one for one in recipe._recipes.values() if one.together]
        (shared,) = known.together.values()
        monkeypatch.setattr(shared._executor, "run", lambda words: (5, 2))
        memory = [*range(len(shared.needs))]
        monkeypatch.setattr(shared, "needs", [])
        assert shared.run(memory, ()) == (shared.first + 5, 2)
        assert shared._executor.lock.acquire(blocking=False)
        assert shared.run(memory, ()) is None  # another thread runs it
        shared._executor.lock.release()


def rolled(x):
    """Three launches, of which the last divides."""
    return 840 // (x.flip(0).contiguous() + 1).contiguous()


def test_all_launches_by_one_call(monkeypatch):
    recipe.forget()
    runs, run = [], AtOnce.run

    def noted(self, needed, bound):
        runs.append(run(self, needed, bound))
        return runs[-1]

    monkeypatch.setattr(AtOnce, "run", noted)
    kept = []
    for number in range(1, 5):
        x = np.arange(number, number + 7)
        made = rolled(Tensor(x)).realize()
        kept.append((made, 840 // (x[::-1] + 1)))
    for made, wanted in kept:
        np.testing.assert_array_equal(made.numpy(), wanted)
    assert runs == [(0, 0)] * 3
    with pytest.raises(ZeroDivisionError, match="840 //"):
        rolled(Tensor(np.arange(-3, 4))).realize()
    assert runs[-1] == (2, 1)


def test_who_finds_all_launches_busy_does_them_one_by_one():
    recipe.forget()
    inputs = [np.arange(number, number + 5) for number in (1, 2)]
    rolled(Tensor(inputs[0])).realize()
    (known,) = recipe._recipes.values()
    with known.at_once.lock:
        np.testing.assert_array_equal(
            rolled(Tensor(inputs[1])).numpy(), 840 // (inputs[1][::-1] + 1)
        )
