"""Tiles of columns that an index condition makes constant are left out; values are as NumPy's.

The sizes from which it pays are made small here, so that small tensors are cut too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.test_tile_and_fuse import attention, attention_gradients, chained, numbers
from torpor import Tensor
from torpor.base.settings import Context
from torpor.base.target import get_target
from torpor.ir.ops import Ops
from torpor.schedule import tiles
from torpor.tensor.contraction import attention as attention_of


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Iterator[None]:
    """Tiles from 4 columns on: vectors of one, as it were."""
    with chained(8192) as patch:
        patch.setattr(tiles, "WORD", 64)
        yield


def launches_of(items) -> dict[str, int]:
    """How often each kernel runs."""
    found: dict[str, int] = {}
    for item in items:
        found[item.ast.key] = found.get(item.ast.key, 0) + 1
    return found


def skips(items) -> bool:
    """Whether some kernels run tile by tile."""
    return any(bound.src[0].arg[0] == tiles.TILE for item in items for bound in item.bindings)


def differences(queries: int, keys: int) -> np.ndarray:
    """column - row."""
    return np.arange(keys)[None, :] - np.arange(queries)[:, None]


def band(queries: int, keys: int, low: int, high: int) -> Tensor:
    """Where low <= column - row <= high, as a condition on indices."""
    ones = Tensor.ones(queries, keys, dtype="bool")
    return ones.tril(high) & ones.triu(low)


BANDS = {"causal": (-99, 0), "narrow": (-8, 0), "wide": (-5, 3), "upper": (0, 99)}


def check(arrays, mask: np.ndarray, condition: Tensor) -> None:
    """Attention and its gradients, as NumPy's."""
    given = numbers(*arrays[0].shape[:-1], arrays[2].shape[-1], seed=9)
    tensors = [Tensor(a) for a in arrays]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:], attn_mask=condition)
    gradients = result.gradient(*tensors, gradient=Tensor(given))
    assert skips(result.schedule(*gradients))
    Tensor.realize(result, *gradients)
    np.testing.assert_allclose(result.numpy(), attention(*arrays, mask), rtol=1e-11, atol=1e-13)
    expected = attention_gradients(*arrays, given, mask)
    for slope, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "length"), [("causal", 43), ("narrow", 45), ("wide", 37), ("upper", 32)]
)
def test_masks_that_depend_on_indices(name: str, length: int) -> None:
    arrays = [numbers(2, length, 8, seed=n) for n in range(3)]
    low, high = BANDS[name]
    away = differences(length, length)
    check(arrays, (low <= away) & (away <= high), band(length, length, low, high))


def test_causal_attention_runs_fewer_tiles() -> None:
    query = Tensor.empty(1, 64, 8)
    whole = launches_of(query.scaled_dot_product_attention(query, query).schedule())
    causal = query.scaled_dot_product_attention(query, query, is_causal=True).schedule()
    rows = max(whole.values()), min(launches_of(causal).values())
    most = max(launches_of(causal).values())
    assert most < rows[1] * tiles.PARTS * 0.7  # of so many tiles in each block of rows


def test_a_causal_mask_and_padding() -> None:
    arrays = [numbers(2, 3, 32, 8, seed=n) for n in range(3)]
    seen = np.ones((2, 1, 1, 32), bool)
    seen[0, ..., 27:], seen[1, ..., 5:9] = False, False
    tensors = [Tensor(a) for a in arrays]
    for mask in (Tensor(seen), Tensor(np.where(seen, 0, -np.inf))):
        result = attention_of(*tensors, mask, 0.0, is_causal=True)
        assert skips(result.schedule())
        expected = attention(*arrays, seen & (differences(32, 32) <= 0))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-11)


def test_rows_that_may_look_nowhere_are_0() -> None:
    arrays = [numbers(1, 32, 8, seed=n) for n in range(3)]
    for shift in (1, 12):
        tensors = [Tensor(a) for a in arrays]
        mask = band(32, 32, -99, -shift)
        result = tensors[0].scaled_dot_product_attention(*tensors[1:], mask).numpy()
        assert not result[:, :shift].any()
        expected = attention(*arrays, differences(32, 32) <= -shift)[:, shift:]
        np.testing.assert_allclose(result[:, shift:], expected, rtol=1e-11)


def test_keys_that_no_query_looks_at() -> None:
    arrays = [numbers(1, n, 8, seed=n) for n in (16, 64, 64)]
    check(arrays, differences(16, 64) <= 0, band(16, 64, -99, 0))


def test_what_is_read_without_the_mask_stays() -> None:
    x = numbers(64, 8)
    scores = (Tensor(x) @ Tensor(x).T).tril().contiguous()
    total = (scores.exp().contiguous() * 2).sum(1)  # of which exp(0) = 1 is a part
    assert not skips(total.schedule())
    np.testing.assert_allclose(total.numpy(), 2 * np.exp(np.tril(x @ x.T)).sum(1), rtol=1e-9)


@pytest.mark.parametrize("above", [False, True])
def test_products_of_triangular_matrices(above: bool) -> None:
    x, y = numbers(64, 8), numbers(64, 4, seed=1)
    product = Tensor(x) @ Tensor(x).T
    triangle = (product.triu() if above else product.tril()).contiguous()
    result = (triangle * 3).contiguous() @ Tensor(y)
    expected = 3 * (np.triu if above else np.tril)(x @ x.T) @ y
    assert skips(result.schedule())
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-9, atol=1e-12)
    with Context(STRICT_FLOAT=1):
        assert not skips(result.schedule())


@settings(max_examples=8)
@given(
    st.sampled_from([(32, 32), (43, 37), (32, 64), (67, 32)]),
    st.integers(-40, 40),
    st.integers(-40, 40),
)
def test_bands_at_random(shape: tuple[int, int], low: int, high: int) -> None:
    x, y = numbers(shape[0], 8), numbers(shape[1], 8, seed=1)
    inside, away = band(*shape, low, high), differences(*shape)
    product = Tensor(x) @ Tensor(y).T
    kept = inside.where(product, 0.0).contiguous()
    forward, backward = (kept * 2).contiguous() @ Tensor(y), kept.T @ Tensor(x)
    Tensor.realize(forward, backward)
    expected = np.where((low <= away) & (away <= high), x @ y.T, 0)
    np.testing.assert_allclose(forward.numpy(), 2 * expected @ y, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(backward.numpy(), expected.T @ x, rtol=1e-9, atol=1e-11)


def test_no_kernel_divides_by_the_width_of_tiles() -> None:
    query = Tensor.empty(1, 64, 8)
    for item in query.scaled_dot_product_attention(query, query, is_causal=True).schedule():
        assert not any(n.op in (Ops.IDIV, Ops.MOD) for n in item.ast.toposort())


@pytest.mark.parametrize(
    ("columns", "vector", "width"),
    [
        (200, 16, 20),
        (200, 32, 40),
        (200, 64, None),
        (211, 32, 32),
        (2039, 32, 128),
        (1000, 32, 120),
    ],
)
def test_tiles_have_vectors_of_the_processor(columns, vector, width):
    """Of divisors of whole vectors the one next to an eighth; where none is near, the last tile is
    shorter. Of 4, 8 and 16 lanes.
    """
    lanes = replace(get_target("cpu"), vector_bytes=vector).lanes(4)
    assert tiles.tile_width(columns, lanes, tiles.WIDEST) == width
