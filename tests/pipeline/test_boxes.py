"""Where boxes lie in memory is a number that kernels are given: loops over boxes compile once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor import Tensor
from torpor.base.errors import OutOfBoundsError
from torpor.base.settings import Context
from torpor.device.llvm import LlvmCompiler

TABLE = np.random.default_rng(0).standard_normal((40, 30))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of kernels, as they are compiled."""
    names: list[str] = []
    compile_one = LlvmCompiler.compile

    def counted(self: LlvmCompiler, program):
        names.append(program.name)
        return compile_one(self, program)

    monkeypatch.setattr(LlvmCompiler, "anywhere", False)
    monkeypatch.setattr(LlvmCompiler, "compile", counted)
    with Context(CACHE=0):
        yield names


def rows(x, n: int):
    return (x[n * 3 : n * 3 + 3] * 2).sum(1)


def element(x, n: int):
    return x[n, 2 * n] + 1


def crop(x, n: int):
    return x[n + 2 : n + 10, 17 - n : 25 - n] * 3


def strided(x, n: int):
    return x[n : n + 16 : 4, ::2].mean(0)


def turned(x, n: int):
    return x.T[n : n + 7].sum(0)


@pytest.mark.parametrize("function", [rows, element, crop, strided, turned])
def test_loops_over_boxes_compile_nothing_after_the_second_pass(
    function: Callable, compiled: list[str]
) -> None:
    x = Tensor(TABLE * np.pi).realize()  # a size of kernel that no other test has
    for n in range(8):
        if n == 2:
            assert compiled
            compiled.clear()
        found, wanted = function(x, n).numpy(), function(TABLE * np.pi, n)
        np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-12)
    assert compiled == []


def test_writes_to_places_compile_nothing_after_the_second_pass(compiled: list[str]) -> None:
    cache, kept = Tensor(np.zeros((23, 5))).realize(), np.zeros((23, 5))
    x = Tensor(TABLE).realize()
    for n in range(10):
        if n == 3:
            compiled.clear()
        cache[2 * n : 2 * n + 3] = x[n : n + 3, :5] * 2
        kept[2 * n : 2 * n + 3] = TABLE[n : n + 3, :5] * 2
        np.testing.assert_allclose(cache.numpy(), kept, rtol=1e-14)
    assert compiled == []


def test_gradients_of_boxes(compiled: list[str]) -> None:
    x = Tensor(TABLE).requires_grad_()
    for n in range(6):
        if n == 3:
            compiled.clear()
        x.grad = None
        x[n : n + 4].square().sum().backward()
        wanted = np.zeros_like(TABLE)
        wanted[n : n + 4] = 2 * TABLE[n : n + 4]
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-14)
    assert compiled == []


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 6), min_size=3, max_size=5), st.data())
def test_boxes_of_boxes_at_random(places: list[tuple[int, ...]], data) -> None:
    """Slices, pads and writes of each other, with numbers that change from pass to pass."""
    base = data.draw(st.integers(0, 2))
    for a, b, c, d, e, f in places:
        x = Tensor(TABLE).realize()
        part = x[a : a + 20, b : b + 16][c : c + 12]
        padded = part[:, d : d + 12].pad((e, 4 - e))
        table = Tensor(np.zeros((20, 20))).realize()
        table[f : f + 12, base : base + 16] = padded * 2
        found = (table[a : a + 9] + 1).numpy()
        taken = TABLE[a : a + 20, b : b + 16][c : c + 12][:, d : d + 12]
        wanted = np.zeros((20, 20))
        wanted[f : f + 12, base : base + 16] = np.pad(taken, ((0, 0), (e, 4 - e))) * 2
        np.testing.assert_array_equal(found, wanted[a : a + 9] + 1)


def test_the_line_of_an_error_is_still_known() -> None:
    x, index = Tensor(TABLE).realize(), Tensor([0, 50]).realize()
    for n in range(4):
        with pytest.raises(OutOfBoundsError, match=r"x\[n : n \+ 3\]\[index\]"):
            x[n : n + 3][index].numpy()
