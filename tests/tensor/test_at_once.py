"""What is computed at the call."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from torpor import Tensor, jit
from torpor.tensor.at_once import computed, memory_of

RANDOM = np.random.default_rng(0)


def test_values_are_those_of_the_tensors_that_are_given() -> None:
    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [x + y * 2, (x * y).sum()]

    for n in range(4):
        x, y = (Tensor(RANDOM.random(50 + n // 3, np.float32)).realize() for _ in range(2))
        total, dot = computed(function, x, y)
        np.testing.assert_allclose(total.numpy(), x.numpy() + y.numpy() * 2, rtol=1e-6)
        np.testing.assert_allclose(dot.numpy().item(), (x.numpy() * y.numpy()).sum(), rtol=1e-5)
    x = Tensor(np.arange(6.0, dtype=np.float32)).realize()
    assert computed(function, x, x)[0].numpy().tolist() == [0, 3, 6, 9, 12, 15]
    assert computed(function, x + 1, x.flip(0))[0].numpy().tolist() == [11, 10, 9, 8, 7, 6]
    assert memory_of(x) is not None and memory_of(x.reshape(2, 3)) is not None
    assert memory_of(x[1:]) is None and memory_of(x + 1) is None
    assert memory_of(x.reshape(2, 3).T) is None


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_, np.float64])
def test_counting_of_changing_values(dtype: type) -> None:
    for seed in range(4):
        values = np.random.default_rng(seed).integers(0, 2 if dtype is np.bool_ else 9 + 90 * seed,
                                                      300).astype(dtype)  # fmt: skip
        if dtype is np.float32:
            values[seed] = np.nan
        x = Tensor(values).realize()
        np.testing.assert_array_equal(x.nonzero().numpy()[:, 0], values.nonzero()[0])
        chosen = x.masked_select(Tensor(values > 1).realize()).numpy()
        np.testing.assert_array_equal(chosen, values[values > 1])
        for source, expected in ((x, values), (x[3:], values[3:]), (x.reshape(3, 100), values)):
            np.testing.assert_array_equal(source.unique().numpy(), np.unique(expected))
        kept = x.unique()
        found = x.unique(return_inverse=True, return_counts=True)
        np.testing.assert_array_equal(found[0].numpy()[found[1].numpy()], values)
        np.testing.assert_array_equal(kept.numpy(), found[0].numpy())
        assert int(found[2].sum().item()) == 300
        grid = values.reshape(4, 25, 3)
        np.testing.assert_array_equal(Tensor(grid).nonzero().numpy(), np.argwhere(grid))
        np.testing.assert_array_equal(Tensor(grid).nonzero(True)[2].numpy(), grid.nonzero()[2])
        runs = Tensor(np.sort(values)[::-1].copy()).unique_consecutive(True, True)
        np.testing.assert_array_equal(runs[0].numpy(), np.unique(values, equal_nan=False)[::-1])
        np.testing.assert_array_equal(runs[2].numpy(), found[2].numpy()[::-1])
        if values.dtype.kind in "iu":
            counts = np.bincount(values, minlength=20 * seed)
            np.testing.assert_array_equal(x.bincount(minlength=20 * seed).numpy(), counts)


@settings(max_examples=15)
@given(arrays(np.int64, 5, elements=st.integers(-(1 << 63), (1 << 63) - 1)))
def test_kinds_of_any_integers(values: np.ndarray) -> None:
    wanted = np.unique(values, return_inverse=True, return_counts=True)
    for one, other in zip(Tensor(values).unique(True, True, True), wanted, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_results_outlive_later_calls() -> None:
    first = Tensor([3.0, 1.0, 3.0]).realize().unique()
    second = Tensor([5.0, 5.0, 4.0]).realize().unique()
    third = Tensor([9.0, 8.0, 7.0]).realize().unique()
    assert (first.tolist(), second.tolist(), third.tolist()) == ([1, 3], [4, 5], [7, 8, 9])


def test_a_jitted_function_sees_what_is_computed_in_it() -> None:
    @jit
    def doubled(x: Tensor) -> Tensor:
        return (x.unique() * 2).realize()

    for seed in range(5):
        values = np.random.default_rng(seed).integers(0, 9, 40)
        np.testing.assert_array_equal(doubled(Tensor(values)).numpy(), np.unique(values) * 2)
