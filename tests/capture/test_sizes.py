"""Calls with ever other sizes: kernels take these as numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from torpor import Tensor, explain, jit
from torpor.base.errors import CaptureError

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((6, 6))


def wanted(x):
    return np.tanh(x @ WEIGHTS).sum(0)


def test_an_input_that_grows_compiles_nothing_after_the_third_size(compiled: list[str]) -> None:
    w = Tensor(WEIGHTS).realize()
    run = jit(lambda x: (x @ w).tanh().sum(0))
    for number, length in enumerate((4, 5, 6, 7, 8, 21, 3, 4, 6)):
        if number == 3:
            compiled.clear()
        x = RANDOM.standard_normal((length, 6))
        np.testing.assert_allclose(run(Tensor(x).realize()).numpy(), wanted(x), rtol=1e-10)
    assert compiled == []
    text = explain(run)
    assert "trace 2" in text and "trace 3" not in text
    assert "takes sizes as numbers: (6, 6); (7, 6)" in text


def test_named_arguments_vary_from_the_second_size_on() -> None:
    @jit(dynamic="x")
    def product(x, y):
        return x @ y

    for length in (4, 5, 6):
        x, y = RANDOM.standard_normal((length, 3)), RANDOM.standard_normal((3, 2))
        found = product(Tensor(x), Tensor(y))
        np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-12)
    text = explain(product)
    assert "trace 1" in text and "trace 2" not in text
    for width in (4, 5, 6):
        product(Tensor(np.ones((4, 3))), Tensor(np.ones((3, width))))
    assert "trace 4" in explain(product)


def test_named_axes_vary_and_others_do_not() -> None:
    total = jit(lambda x: x.sum(), dynamic={"x": [0]})
    for shape in ((3, 4), (5, 4), (6, 4), (3, 5), (3, 7)):
        assert total(Tensor(np.ones(shape))).item() == shape[0] * shape[1]
    text = explain(total)
    assert "takes sizes as numbers: (5, 4); (6, 4)" in text and "trace 3" in text


def test_a_name_that_is_no_argument_is_an_error() -> None:
    with pytest.raises(CaptureError, match="names 'z'; there are x, y"):
        jit(lambda x, y: x, dynamic=("x", "z"))


def test_what_changes_is_changed_and_a_branch_is_taken_anew() -> None:
    count = Tensor([0]).realize()

    @jit
    def step(x):
        count.add_(x.shape[0])
        return x * 2 if x.shape[0] % 2 else x * 3

    for length in range(3, 12):
        x = np.ones(length)
        assert step(Tensor(x)).tolist() == [2.0 if length % 2 else 3.0] * length
    assert count.tolist() == [sum(range(3, 12))]


def test_a_size_that_stays_is_traced() -> None:
    run = jit(lambda x: x + 1)
    for length in (3, 4, 5):
        run(Tensor(np.ones(length)))
    for _ in range(12):
        assert run(Tensor(np.ones(6))).tolist() == [2] * 6
    assert "trace 3" in explain(run)


# --- replayed for any size ------------------------------------------------------------------------
LENGTHS = (4, 6, 7, 5, 2, 9, 30, 1, 3, 8, 0, 7, 12, 5)


def test_a_function_is_run_once_for_all_sizes_but_the_first() -> None:
    w, runs = Tensor(WEIGHTS).realize(), []

    @jit
    def last(x):
        runs.append("run")
        places = Tensor.arange(x.shape[0]).reshape(x.shape[0], 1)
        return ((x @ w).tanh() + places)[-1]

    for length in (4, 5, 6, 7, 21, 3, 8, 2, 30):
        x = RANDOM.standard_normal((length, 6))
        wanted = np.tanh(x[-1] @ WEIGHTS) + length - 1
        np.testing.assert_allclose(last(Tensor(x).realize()).numpy(), wanted, rtol=1e-10)
    assert len(runs) == 3
    assert "trace for any size: 1 kernels, replayed 6 times" in explain(last)
    assert "takes the size of axis 0 of tensor 0 as a number" in explain(last)


def test_a_size_beyond_the_greatest_is_traced_anew() -> None:
    total = jit(lambda x: (x * x.shape[0]).sum())
    for length in (4, 5, 6, 500, 5000, 7, 5001):
        assert total(Tensor(np.ones(length))).item() == length**2


TABLE = {5: 2.0, 7: 3.0}


def by_attempt(x):
    try:
        return x.sum() * int(x.shape[0])
    except TypeError:
        return x.sum()


def by_rounds(x):
    total = x.sum()
    for number in range(x.shape[0]):
        total = total + number
    return total


LOOKING = {
    "branch": lambda x: x.sum() * 2 if x.shape[0] > 6 else x.sum(),
    "equality": lambda x: x.sum() * 2 if x.shape[0] == 7 else x.sum(),
    "another axis": lambda x: x.sum() * 2 if x.shape == (7, 6) else x.sum(),
    "membership": lambda x: x.sum() * 2 if x.shape[0] in (5, 9) else x.sum(),
    "remainder": lambda x: x.sum() * (x.shape[0] % 2),
    "table": lambda x: x.sum() * TABLE.get(x.shape[0], 1.0),
    "text": lambda x: x.sum() * len(f"{x.shape}"),
    "length": lambda x: x.sum() * len(x),
    "numel": lambda x: x.sum() * 2 if x.numel() > 40 else x.sum() / x.numel(),
    "bytes": lambda x: x.sum() * 2 if x.nbytes > 300 else x.sum(),
    "size": lambda x: x.sum() * x.size(0),
    "count": lambda x: x.sum() * 2 if x.size > 40 else x.sum(),
    "class": lambda x: x.sum() * 2 if type(x.shape[0]) is int else x.sum(),
    "whole": lambda x: x.sum() * round(x.shape[0] / 4),
    "order": lambda x: x.sum() * sorted([x.shape[0], 6])[0],
    "array": lambda x: (x.sum(1) * Tensor(np.arange(1.0 * x.shape[0]))).sum(),
    "attempt": by_attempt,
    "rounds": by_rounds,
    "rows": lambda x: sum((row.sum() * n for n, row in enumerate(x)), Tensor(0.0)),
    "parts": lambda x: sum((p.sum() * n for n, p in enumerate(x.split(4))), Tensor(0.0)),
    "end": lambda x: x[-3:].sum(0),
    "start": lambda x: x[:5].sum(0),
    "middle": lambda x: x[x.shape[0] // 2 :].sum(0),
    "padding": lambda x: Tensor.cat(x, Tensor.zeros(40 - x.shape[0], 6)).sum(0),
    "complex": lambda x: x.sum() * 2 if (x * 1j).shape[0] > 6 else x.sum(),
    "derived": lambda x: x.sum() * 2 if x.repeat(2, 1).shape[0] > 13 else x.sum(),
    "mask": lambda x: (Tensor.arange(x.shape[0]) < x.shape[0] // 2).where(x[:, 0], 0).sum(),
    "mean and deviation": lambda x: x.mean(0) + x.var(0, correction=0),
    "softmax": lambda x: (x.softmax(0) * x).sum(0),
    "triangle": lambda x: (x @ x.transpose(0, 1)).tril().sum(),
}


@pytest.mark.parametrize("name", LOOKING)
def test_whatever_is_asked_of_a_size_is_answered_anew(name: str) -> None:
    function = LOOKING[name]
    run = jit(function)
    for length in LENGTHS:
        x = Tensor(np.random.default_rng(length).standard_normal((length, 6))).realize()
        given = []
        for one in (function, run):
            try:
                given.append(one(x).numpy())
            except (ValueError, IndexError) as error:
                given.append(np.array(type(error).__name__))
        if given[0].dtype.kind == "U":
            assert given[0] == given[1]
        else:
            np.testing.assert_allclose(given[1], given[0], rtol=1e-9, atol=1e-12)


def test_two_sizes_vary_by_themselves_and_equal_ones_together() -> None:
    product = jit(lambda x, y, z: ((x @ y) + z).sum(0).sum())
    for rows, steps in ((3, 4), (5, 6), (7, 5), (4, 9), (6, 6), (9, 2)):
        x, y, z = np.ones((rows, steps)), np.ones((steps, 3)), np.ones((rows, 3))
        found = product(*(Tensor(one).realize() for one in (x, y, z))).item()
        assert found == rows * 3 * (steps + 1)
    assert "trace for any size" in explain(product)
    with pytest.raises(ValueError, match="cannot multiply"):
        product(*(Tensor(one).realize() for one in (np.ones((9, 2)), np.ones((3, 3)), z)))


def test_what_a_function_changes_is_changed_for_any_size() -> None:
    last = {"size": 0}

    @jit
    def note(x):
        last["size"] = x.shape[0]
        return x.sum()

    for length in (3, 4, 5, 6, 7, 3):
        assert note(Tensor(np.ones(length))).item() == last["size"] == length


def test_an_argument_that_is_written_to_is_changed() -> None:
    @jit
    def step(x):
        if x.shape[0] > 5:
            x.add_(1)
        return x.sum()

    for length in (3, 4, 5, 6, 7, 3):
        x = Tensor(np.ones(length)).realize()
        step(x)
        assert x.tolist() == [1.0 + (length > 5)] * length


def test_threads_that_trace_for_any_size_do_not_mind_each_other() -> None:
    meet = Barrier(3)

    def work(number: int) -> list[float]:
        @jit
        def run(x):
            if x.shape[0] > 4:
                meet.wait(timeout=5)
            return (x * x.shape[0]).sum() * (2 if x.shape[0] < 7 else 3)

        return [run(Tensor(np.ones(length)).realize()).item() for length in (3, 4, 5, 6, 9)]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, range(3)))
    assert found == [[18.0, 32.0, 50.0, 72.0, 243.0]] * 3


def test_arguments_of_other_ranks_vary_together() -> None:
    run = jit(lambda x, y: (x * y).sum(0))
    for length in (9, 5, 7, 4, 8, 9):
        x, y = RANDOM.standard_normal((length,) * 3), RANDOM.standard_normal((length,) * 2)
        found = run(Tensor(x).realize(), Tensor(y).realize()).numpy()
        np.testing.assert_allclose(found, (x * y).sum(0), rtol=1e-10)
