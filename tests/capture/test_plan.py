"""A replay as one native call: how often there is one, its errors, its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.errors import OutOfBoundsError
from torpor.device.executor import Executor
from torpor.pipeline import measuring


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
    assert len(calls) == 3
    with measuring() as seen:
        jitted(Tensor([1.0, 2.0, 3.0]), Tensor([1, 0]), 0.5).numpy()
    assert len(seen.runs) > 1
    assert len(calls) == 3


def test_a_failed_check_is_the_error_of_its_kernel(calls: list[int]) -> None:
    jitted = torpor.jit(chain)
    x = Tensor([1.0, 2.0, 3.0])
    for index in ([0, 1], [2, 2], [0, 3], [1, 1], [-4, 0], [2, 0]):
        bad = any(not -3 <= i < 3 for i in index)
        if bad:
            with pytest.raises(OutOfBoundsError, match="length 3"):
                jitted(x, Tensor(index), 1.0)
        else:
            assert jitted(x, Tensor(index), 1.0).shape == (2,)
    assert len(calls) == 5


def test_between_cpus(calls: list[int]) -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return (x + 1).to("CPU:1") * 2

    for i in range(3):
        got = f(Tensor([float(i)]))
        assert (got.device, got.item()) == ("CPU:1", 2 * i + 2)
    assert len(calls) == 2


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL"])
def test_devices_without_native_code(device: str, calls: list[int]) -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return ((x.to(device) + 1).contiguous() * 2).to("CPU")

    assert [f(Tensor([float(i)])).item() for i in range(3)] == [2, 4, 6]
    assert not calls


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL"])
def test_arguments_elsewhere_are_given_back_beside_native_code(device: str) -> None:
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
