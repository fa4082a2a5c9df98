"""One table of commands, run by one native call or command by command: results, errors, memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import torpor
from tests.devices import needs
from torpor import Context, Tensor, Variable
from torpor.base.errors import OutOfBoundsError
from torpor.device.executor import Executor
from torpor.nn.functional import scaled_dot_product_attention
from torpor.pipeline import measuring, recipe


# --- one native call ------------------------------------------------------------------------------
def chain(x: Tensor, index: Tensor, factor: float) -> Tensor:
    for i in range(5):
        x = (x * factor + i).contiguous() + Tensor.rand(3)
    return x[index]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each run of a native program."""
    found: list[int] = []
    made = Executor.__init__

    def counting(self: Executor, *arguments: Any) -> None:
        made(self, *arguments)
        call = self.call

        def counted(packed: bytes) -> int:
            found.append(len(packed))
            return int(call(packed))

        self.call = counted

    monkeypatch.setattr(Executor, "__init__", counting)
    return found


def test_a_replay_is_one_native_call(calls: list[int]) -> None:
    jitted = torpor.jit(chain)
    for i in range(4):
        x, index = Tensor([1.0, 2.0, i]), Tensor([i % 3, 0])
        torpor.manual_seed(i)
        expected = chain(x, index, 0.5 * i).numpy()
        torpor.manual_seed(i)
        np.testing.assert_array_equal(jitted(x, index, 0.5 * i).numpy(), expected)
    calls.clear()
    made = [jitted(x, index, 0.5).realize() for _ in range(3)]
    assert len(calls) == len(made)
    with measuring() as seen:
        jitted(Tensor([1.0, 2.0, 3.0]), Tensor([1, 0]), 0.5).numpy()
    assert len(seen.runs) > 1
    assert len(calls) == len(made)


def test_a_failed_check_is_the_error_of_its_kernel() -> None:
    jitted = torpor.jit(chain)
    x = Tensor([1.0, 2.0, 3.0])
    for index in ([0, 1], [2, 2], [0, 3], [1, 1], [-4, 0], [2, 0]):
        bad = [i for i in index if not -3 <= i < 3]
        if bad:
            with pytest.raises(OutOfBoundsError, match=f"length 3: {bad[0]}"):
                jitted(x, Tensor(index), 1.0)
        else:
            assert jitted(x, Tensor(index), 1.0).shape == (2,)


def test_between_cpus(calls: list[int]) -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return (x + 1).to("CPU:1") * 2

    for i in range(3):
        got = f(Tensor([float(i)]))
        assert (got.device, got.item()) == ("CPU:1", 2 * i + 2)
    assert len(calls) == 3


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL"])
def test_devices_without_native_code(device: str, calls: list[int]) -> None:
    needs(device)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return ((x.to(device) + 1).contiguous() * 2).to("CPU")

    assert [f(Tensor([float(i)])).item() for i in range(3)] == [2, 4, 6]
    assert not calls


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL"])
def test_arguments_elsewhere_are_given_back_beside_native_code(device: str) -> None:
    needs(device)
    back = torpor.jit(lambda x: x.reshape(2, 1))
    beside = torpor.jit(lambda x, y: (x, y * 2))
    for i in range(4):
        x = Tensor([float(i), 2.0], device=device).realize()
        assert back(x).tolist() == [[float(i)], [2.0]]
        first, second = beside(x, Tensor([float(i)]).realize())
        assert (first.tolist(), second.tolist()) == ([float(i), 2.0], [2.0 * i])


def test_results_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(0).random((300, 400), np.float32)

    def f(x: Tensor) -> Tensor:
        return ((x @ x.T).contiguous().relu() / 7).sum(1)

    found = []
    for threads in (1, 2, 3):
        jitted = torpor.jit(f)
        with Context(THREADS=threads):
            found += [jitted(Tensor(x)).numpy() for _ in range(3)]
    for got in found[1:]:
        np.testing.assert_array_equal(got, found[0])


# --- groups ---------------------------------------------------------------------------------------
SHAPE = (1, 2, 2048, 4)  # heads and rows enough for blocks


def operands(seed: int) -> list[Tensor]:
    generator = np.random.default_rng(seed)
    return [Tensor(generator.standard_normal(SHAPE, np.float32)).realize() for _ in range(3)]


def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return scaled_dot_product_attention(q, k, v).realize().numpy()


def attended(q: Tensor, k: Tensor, v: Tensor) -> Any:
    scores = q.numpy().astype(np.float64) @ k.numpy().swapaxes(-1, -2) / SHAPE[-1] ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.numpy()


def test_threads_share_groups_and_give_the_same_bits() -> None:
    recipe.forget()
    inputs = [operands(seed) for seed in range(2)]
    with Context(THREADS=1):
        alone = [attention(*some) for some in inputs]
    for threads in (2, 3):
        with Context(THREADS=threads):
            shared = [attention(*some) for some in inputs]
        for some, one, other in zip(inputs, alone, shared, strict=True):
            assert one.tobytes() == other.tobytes()
            np.testing.assert_allclose(other, attended(*some), rtol=1e-4, atol=1e-6)
    assert any(kept.graph.sections for kept in recipe._recipes.values())


def test_one_graph_by_two_threads_at_once() -> None:
    inputs = [operands(seed) for seed in range(2)]
    with Context(THREADS=2):
        wanted = [attention(*some).tobytes() for some in inputs]
    wrong = []

    def work(number: int) -> None:
        with Context(THREADS=2):
            for _ in range(6):
                if attention(*inputs[number]).tobytes() != wanted[number]:
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- plain calls ----------------------------------------------------------------------------------
def rolled(x: Tensor) -> Tensor:
    """Three launches, of which the last divides."""
    return 840 // (x.flip(0).contiguous() + 1).contiguous()


def test_the_first_run_and_those_that_recur_are_one_native_call_each(calls: list[int]) -> None:
    recipe.forget()
    kept = []
    for number in range(1, 5):
        x = np.arange(number, number + 7)
        kept.append((rolled(Tensor(x)).realize(), 840 // (x[::-1] + 1)))
    for made, wanted in kept:
        np.testing.assert_array_equal(made.numpy(), wanted)
    assert len(calls) == 4
    with pytest.raises(ZeroDivisionError, match="840 //"):
        rolled(Tensor(np.arange(-3, 4))).realize()
    assert len(calls) == 5


def test_who_finds_the_graph_busy_runs_it_command_by_command(calls: list[int]) -> None:
    recipe.forget()
    inputs = [np.arange(number, number + 5) for number in (1, 2)]
    rolled(Tensor(inputs[0])).realize()
    (known,) = recipe._recipes.values()
    assert known.graph.executor is not None
    with known.graph.executor.lock:
        made = rolled(Tensor(inputs[1])).numpy()
    np.testing.assert_array_equal(made, 840 // (inputs[1][::-1] + 1))
    assert len(calls) == 1


def test_sizes_that_come_with_the_call_are_run_natively(calls: list[int]) -> None:
    recipe.forget()
    source = np.random.default_rng(0).random((64, 4096), np.float32)
    n = Variable("n", 1, 64)
    x = Tensor(source).realize()
    for size in (37, 64, 1, 37):
        made = ((x[: n.bind(size)] + 1).contiguous() * 2).sum(1).numpy()
        np.testing.assert_allclose(made, ((source[:size] + 1) * 2).sum(1), rtol=1e-5)
    assert len(calls) == 4


def test_a_copy_to_another_kind_of_device_is_a_command_like_others() -> None:
    for number in range(3):
        x = Tensor([1.0, number])
        assert ((x + 1).to("PYTHON") * 2).to("CPU").tolist() == [4, 2 * number + 2]


def test_the_peak_is_known_before_the_run() -> None:
    recipe.forget()
    x = Tensor(np.ones((256, 256), np.float32)).realize()
    for _ in range(2):
        (x.flip(0).contiguous().flip(1).contiguous() + x).realize()
    (known,) = recipe._recipes.values()
    assert x.nbytes * 2 <= known.graph.peak_bytes <= x.nbytes * 3


def test_a_chain_has_memory_for_one_value() -> None:
    recipe.forget()
    values = np.random.default_rng(0).random((320, 256), dtype=np.float32)
    x = Tensor(values).realize()
    for _ in range(3):
        y = x
        for number in range(5):
            y = (y * 0.5 + number).contiguous()
        result = y.sum().item()
        expected = values
        for number in range(5):
            expected = expected * 0.5 + number
        np.testing.assert_allclose(result, expected.sum(dtype=np.float64), rtol=1e-5)
    (known,) = recipe._recipes.values()
    assert known.graph.peak_bytes < 1.5 * values.nbytes


def test_what_a_tensor_holds_is_not_written_over() -> None:
    values = np.arange(4096, dtype=np.float32)
    x = Tensor(values).realize()
    first = (x + 1).contiguous()
    second = (first * 2).contiguous()
    third = second - 3
    first.realize(third)
    np.testing.assert_array_equal(x.numpy(), values)
    np.testing.assert_array_equal(first.numpy(), values + 1)
    np.testing.assert_array_equal(third.numpy(), (values + 1) * 2 - 3)
    np.testing.assert_array_equal(second.numpy(), (values + 1) * 2)
