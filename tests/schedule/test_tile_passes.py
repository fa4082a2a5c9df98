"""Chains by tiles of rows and columns: values as NumPy's, memory of tiles, and what stays whole.

The sizes from which it pays are made small here, so that small tensors are cut too: to a vector of
whichever target the tests run for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from tests.schedule.test_tile_and_fuse import (
    attention,
    attention_gradients,
    bytes_made,
    chained,
    numbers,
)
from torpor import Tensor
from torpor.base.settings import Context
from torpor.device import Device
from torpor.ir.ops import Ops
from torpor.schedule import tile_passes, tiles

WIDTH = 8  # of a head


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Iterator[None]:
    """Tiles of one vector, from 16 columns on."""
    with chained(512) as patch:
        patch.setattr(tile_passes, "LONG", 16)
        patch.setattr(tile_passes, "ROWS", 8)
        patch.setattr(tile_passes, "WIDE", narrow())
        patch.setattr(tiles, "NARROWEST", 1)
        patch.setattr(tiles, "FEWEST", 2)
        yield


def narrow() -> int:
    """Columns of a tile."""
    return Device["CPU"].target.lanes(tiles.WORD)


def by_tiles(items) -> bool:
    """Whether reductions go on from tile to tile."""
    return any(b.src[0].arg[0] == tiles.TILE for i in items for b in i.bindings)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("plain", (1, 16, 96)),
        ("plain", (2, 37, 43)),
        ("causal", (2, 32, 32)),
        ("causal", (2, 41, 41)),
        ("masked", (3, 29, 37)),
        ("softmax", (2, 32, 32)),
        ("doubles", (3, 24, 40)),
    ],
)
def test_attention_and_its_gradients(kind: str, shape: tuple[int, int, int]) -> None:
    heads, queries, keys = shape
    dtype = "float64" if kind == "doubles" else "float32"
    arrays = [numbers(heads, n, 8, seed=n + k).astype(dtype)
              for k, n in enumerate((queries, keys, keys))]  # fmt: skip
    mask = None
    if kind == "causal":
        mask = np.tril(np.ones((queries, keys), bool))
    elif kind == "masked":
        mask = np.random.default_rng(1).random((queries, keys)) < 0.3
        mask[:, -1] = True
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    if kind == "softmax":
        result = (tensors[0] @ tensors[1].mT * 8**-0.5).softmax(-1) @ tensors[2]
    else:
        given_mask = Tensor(mask) if kind == "masked" else None
        result = tensors[0].scaled_dot_product_attention(
            *tensors[1:], attn_mask=given_mask, is_causal=kind == "causal"
        )
    up = numbers(heads, queries, 8, seed=9)
    slopes = result.gradient(*tensors, gradient=Tensor(up.astype(dtype)))
    assert by_tiles(result.schedule()) and by_tiles(result.schedule(*slopes))
    wide = [a.astype("float64") for a in arrays]
    close = {"rtol": 1e-12, "atol": 1e-13} if kind == "doubles" else {"rtol": 2e-5, "atol": 2e-6}
    np.testing.assert_allclose(result.numpy(), attention(*wide, mask), **close)
    Tensor.realize(*slopes)
    for slope, wanted in zip(slopes, attention_gradients(*wide, up, mask), strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, **close)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "group"), [(2, 2), (3, 2), (1, 4)])
@pytest.mark.parametrize("before", [(), (2,)])
def test_grouped_heads_and_their_gradients(
    before: tuple[int, ...], heads: int, group: int, causal: bool
) -> None:
    """Exponentials that sums over groups read, outside of the chain, are those of whole rows; of
    one head alone, these sums go on from block to block of all that look at it.
    """
    shapes = [(heads * group, 64, 8), (heads, 64, 8), (heads, 64, 8)]
    arrays = [numbers(*before, *s, seed=k).astype("float32") for k, s in enumerate(shapes)]
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    many = [t.repeat_interleave(group, -3) for t in tensors[1:]]
    result = tensors[0].scaled_dot_product_attention(*many, is_causal=causal)
    up = numbers(*before, heads * group, 64, 8, seed=9)
    slopes = result.gradient(*tensors, gradient=Tensor(up.astype("float32")))
    Tensor.realize(result, *slopes)
    query, key, value = (a.astype("float64") for a in arrays)
    mask = np.tril(np.ones((64, 64), bool)) if causal else None
    every = query, np.repeat(key, group, -3), np.repeat(value, group, -3)
    close = {"rtol": 2e-5, "atol": 4e-6}
    np.testing.assert_allclose(result.numpy(), attention(*every, mask), **close)
    wanted = attention_gradients(*every, up, mask)
    sums = (w.reshape(*before, heads, group, 64, 8).sum(-3) for w in wanted[1:])
    for slope, expected in zip(slopes, (wanted[0], *sums), strict=True):
        np.testing.assert_allclose(slope.numpy(), expected, **close)


def reducing(items) -> Counter[bytes]:
    """How often each kernel of a tile that reduces something runs."""
    nodes = {i.ast.key: i.ast.toposort() for i in items if i.group}
    found = Counter(i.ast.key for i in items if i.group)
    return Counter({k: n for k, n in found.items() if any(o.op is Ops.REDUCE for o in nodes[k])})


def test_scores_are_computed_again_for_gradients_alone() -> None:
    tensors = [Tensor.empty(2, 32, 8, requires_grad=True) for _ in range(4)]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:3])
    forward = reducing(result.schedule())
    assert len(forward) == 3  # scores, exponentials, their sums with the values
    assert len(set(forward.values())) == 1
    both = reducing(result.schedule(*result.gradient(*tensors[:3], gradient=tensors[3])))
    scores = next(iter(forward))
    assert both[scores] == 2 * forward[scores]
    assert all(n <= forward[key] for key, n in both.items() if key in forward and key != scores)


@pytest.mark.parametrize("gradients", [False, True])
def test_memory_is_linear_in_the_length(gradients: bool) -> None:
    """Twice as long takes twice as much, and of scores there is a tile."""
    made = []
    for length in (64, 128, 256):
        tensors = [Tensor.empty(2, length, 8, requires_grad=True) for _ in range(4)]
        result = tensors[0].scaled_dot_product_attention(*tensors[1:3])
        slopes = result.gradient(*tensors[:3], gradient=tensors[3]) if gradients else []
        items = result.schedule(*slopes)
        made.append(bytes_made(items))
        own = {b for item in items if item.group for b in item.group[0].own}
        assert max(b.arg.size for b in own) <= tile_passes.ROWS * max(narrow(), WIDTH)
    assert made[2] < 2.1 * made[1] < 4.41 * made[0]


def test_lengths_without_divisors_have_a_shorter_block_and_tile() -> None:
    tensors = [Tensor.empty(2, n, 8, requires_grad=True) for n in (37, 43, 43)]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:])
    kernels = reducing(result.schedule())
    assert len(kernels) == 3 * 4  # whole, of fewer rows, of fewer columns, of fewer of both
    own = {b for item in result.schedule() if item.group for b in item.group[0].own}
    assert max(b.arg.size for b in own) == tile_passes.ROWS * narrow()


def test_rows_that_begin_or_consist_of_nothing() -> None:
    """Whole tiles of -inf at first, and rows that may look nowhere, which are 0."""
    arrays = [numbers(2, 32, 8, seed=n) for n in range(3)]
    mask = np.triu(np.ones((32, 32), bool), 5)
    mask[3] = False
    mask[20] = True
    result = Tensor(arrays[0]).scaled_dot_product_attention(
        *map(Tensor, arrays[1:]), attn_mask=Tensor(mask)
    )
    assert by_tiles(result.schedule())
    expected = np.nan_to_num(attention(*arrays, mask))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_nan_and_infinity_stay_in_their_rows() -> None:
    arrays = [numbers(1, 32, 8, seed=n) for n in range(3)]
    arrays[0][0, 3, 0] = np.nan
    arrays[0][0, 5, 0] = np.inf
    result = Tensor(arrays[0]).scaled_dot_product_attention(*map(Tensor, arrays[1:])).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, attention(*arrays), rtol=1e-12, atol=1e-14)


def test_great_and_small_scores() -> None:
    """The maximum grows and falls by hundreds from tile to tile."""
    arrays = [numbers(2, 64, 8, seed=n) for n in range(3)]
    arrays[1] *= np.random.default_rng(3).choice([1, 100, 1000], (2, 64, 1))
    result = Tensor(arrays[0]).scaled_dot_product_attention(*map(Tensor, arrays[1:]))
    np.testing.assert_allclose(result.numpy(), attention(*arrays), rtol=1e-10, atol=1e-13)


def double_softmax(x: Tensor) -> Tensor:
    return x.softmax(-1).softmax(-1) @ Tensor.ones(32, 4, dtype="float64")


def deviations(x: Tensor) -> Tensor:
    return ((x - x.mean(-1, keepdim=True)) ** 2) @ Tensor.ones(32, 4, dtype="float64")


def powers_of_others(x: Tensor) -> Tensor:
    return ((x * 2 - x.amax(-1, keepdim=True)).exp()) @ Tensor.ones(32, 4, dtype="float64")


def powers_and_values(x: Tensor) -> Tensor:
    return (x.softmax(-1) * x) @ Tensor.ones(32, 4, dtype="float64")


def logarithms(x: Tensor) -> Tensor:
    return x.log_softmax(-1) @ Tensor.ones(32, 4, dtype="float64") + x.amax(-1, keepdim=True)


KINDS = (double_softmax, deviations, powers_of_others, powers_and_values, logarithms)


@pytest.mark.parametrize("function", KINDS)
def test_rows_of_other_kinds(function) -> None:
    """Whether by tiles or not, the values are those of whole rows."""
    left, right = numbers(64, 8), numbers(8, 32, seed=1)
    found = function(Tensor(left) @ Tensor(right)).numpy()
    with Context(STRICT_FLOAT=1):
        whole = function(Tensor(left) @ Tensor(right))
        assert not by_tiles(whole.schedule())
        np.testing.assert_allclose(found, whole.numpy(), rtol=1e-11)


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads_and_the_jit_give_the_same_bits(threads: int) -> None:
    arrays = [numbers(3, 48, 8, seed=n).astype("float32") for n in range(3)]

    def run(*tensors: Tensor) -> Tensor:
        return tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=True)

    expected = run(*map(Tensor, arrays)).numpy()
    with Context(THREADS=threads):
        compiled = torpor.jit(run)
        for _ in range(3):
            assert np.array_equal(compiled(*map(Tensor, arrays)).numpy(), expected)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([16, 24, 32, 37, 60]), st.integers(1, 40), st.integers(0, 3))
def test_windows_at_random(length: int, width: int, seed: int) -> None:
    """A band of columns around the diagonal: the tiles beyond are left out."""
    arrays = [numbers(2, length, 4, seed=seed + n) for n in range(3)]
    ones = Tensor.ones(length, length, dtype="bool")
    band = ones.tril(width) & ones.triu(-width)
    result = Tensor(arrays[0]).scaled_dot_product_attention(
        *map(Tensor, arrays[1:]), attn_mask=band
    )
    away = np.arange(length)[None, :] - np.arange(length)[:, None]
    np.testing.assert_allclose(
        result.numpy(), attention(*arrays, abs(away) <= width), rtol=1e-11, atol=1e-13
    )
