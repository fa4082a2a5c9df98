"""Chains of kernels by blocks of rows: values as NumPy's, memory of one block, and who takes part.

The sizes from which it pays are made small here, so that small tensors are cut too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from torpor import Tensor
from torpor.base.errors import DivisionByZeroError, OutOfBoundsError
from torpor.base.target import get_target
from torpor.pipeline import recipe
from torpor.schedule import tile_and_fuse, tile_groups
from torpor.schedule.tile_and_fuse import block_bytes


@contextmanager
def chained(block: int) -> Iterator[pytest.MonkeyPatch]:
    """Chains from 1 KiB on, by blocks of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tile_groups, "SHARED_FROM", 1024)
        patch.setattr(tile_and_fuse, "block_bytes", lambda target: block)
        patch.setattr(tile_and_fuse, "CACHED", 1e9)
        recipe.forget()  # what was planned with other sizes
        yield patch
        recipe.forget()


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Iterator[None]:
    with chained(512):
        yield


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def bytes_between(*lengths: int, heads: int, causal: bool, gradients: bool) -> int:
    """What the kernels of attention hand each other, in bytes: of queries and keys of so many."""
    queries, keys = lengths
    tensors = [Tensor.empty(heads, n, 64, requires_grad=True) for n in (queries, keys, keys)]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=causal)
    results = [result]
    if gradients:
        results += result.gradient(*tensors, gradient=Tensor.empty(heads, queries, 64))
    made = bytes_made(result.schedule(*results[1:]))
    return made - sum(r.numel() * 4 for r in results)


def attention(query, key, value, mask=None):
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):  # rows of -inf are NaN
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ value


def attention_gradients(query, key, value, given, mask=None):
    scale = 1 / np.sqrt(query.shape[-1])
    scores = query @ key.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    above = given @ value.swapaxes(-1, -2)
    slope = weights * (above - (above * weights).sum(-1, keepdims=True)) * scale
    return slope @ key, slope.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ given


def bytes_made(items) -> int:
    """Of all results, each buffer once."""
    return sum(b.arg.nbytes for b in {i.buffers[n] for i in items for n in i.outputs})


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [32, 48])
def test_attention_and_its_gradients(queries: int, causal: bool) -> None:
    arrays = [numbers(2, n, 8, seed=n + k) for k, n in enumerate((queries, queries, queries))]
    mask = np.tril(np.ones((queries, queries), bool)) if causal else None
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=causal)
    assert len(result.schedule()) > 6
    # Results are averages of numbers of magnitude 1, whatever is left of them where they cancel.
    np.testing.assert_allclose(result.numpy(), attention(*arrays, mask), rtol=1e-12, atol=1e-15)
    given = numbers(2, queries, 8, seed=9)
    result = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=causal)
    result.backward(Tensor(given))
    Tensor.realize(*[t.grad for t in tensors])
    expected = attention_gradients(*arrays, given, mask)
    for tensor, slope in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), slope, rtol=1e-9, atol=1e-12)


def test_memory_of_attention_is_linear_in_its_length() -> None:
    made = []
    for length in (64, 128, 256):
        query = Tensor.empty(2, length, 8)
        made.append(bytes_made(query.scaled_dot_product_attention(query, query).schedule()))
    assert made[2] < 2.2 * made[1] < 4.84 * made[0]
    assert made[2] < 2 * 256 * 256 * 4 / 4  # not the scores


def groups_of(items) -> list[int]:
    """By section, how many groups there are; each is one run of items."""
    found = []
    for section, members in groupby(items, key=lambda i: i.group and i.group[0]):
        if section is not None:
            runs = [number for number, _ in groupby(members, key=lambda i: i.group[1])]
            assert runs == sorted(set(runs))
            found.append(len(runs))
    return found


def test_blocks_that_need_none_of_each_other_are_groups() -> None:
    query, up = (Tensor.empty(3, 64, 8, requires_grad=True) for _ in range(2))
    result = query.scaled_dot_product_attention(query, query)
    forward = result.schedule()
    assert groups_of(forward) == [len(forward) // 3]  # each block of rows
    keys = Tensor.empty(3, 64, 8, requires_grad=True)
    result = query.scaled_dot_product_attention(keys, keys)
    both = result.schedule(*(result * up).sum().gradient(query, keys))
    assert groups_of(both) == [3]  # keys' gradients grow over the blocks of a head
    weight = Tensor.empty(8, 16, requires_grad=True)
    (Tensor.empty(64, 8) @ weight).relu().square().sum().backward()
    assert groups_of(weight.grad.schedule()) in ([], [1])


def test_memory_of_a_block_is_used_again_within_it() -> None:
    """Scores, weights, and their slopes in the place of the scores."""
    tensors = [Tensor.empty(3, 64, 8, requires_grad=True) for _ in range(4)]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:3])
    items = result.schedule(*(result * tensors[3]).sum().gradient(*tensors[:3]))
    own = {b for item in items if item.group for b in item.group[0].own}
    most = max(b.arg.size for b in own)
    assert sum(b.arg.size == most for b in own) == 2
    assert own == {b for item in items for b in item.buffers} & own


@pytest.mark.parametrize("causal", [False, True])
def test_any_number_of_threads_gives_the_same_bits(causal: bool) -> None:
    arrays = [numbers(3, 48, 8, seed=n).astype("float32") for n in range(4)]
    mask = np.tril(np.ones((48, 48), bool)) if causal else None

    def both(query: Tensor, key: Tensor, value: Tensor, given: Tensor) -> tuple[Tensor, ...]:
        result = query.scaled_dot_product_attention(key, value, is_causal=causal)
        return result, *result.gradient(query, key, value, gradient=given)

    found = []
    for threads in (1, 2, 4):
        jitted = torpor.jit(both)
        with torpor.Context(THREADS=threads):
            for _ in range(3):
                found.append([one.numpy() for one in jitted(*map(Tensor, arrays))])
    wide = [a.astype("float64") for a in arrays]
    expected = [attention(*wide[:3], mask), *attention_gradients(*wide, mask)]
    for number, wanted in enumerate(expected):
        np.testing.assert_allclose(found[0][number], wanted, rtol=1e-4, atol=1e-5)
        assert len({one[number].tobytes() for one in found}) == 1


def test_a_device_without_threads_goes_block_by_block() -> None:
    arrays = [numbers(1, 16, 4, seed=n) for n in range(3)]
    tensors = [Tensor(a, device="PYTHON") for a in arrays]
    result = tensors[0].scaled_dot_product_attention(*tensors[1:])
    assert any(item.group for item in result.schedule())
    np.testing.assert_allclose(result.numpy(), attention(*arrays), rtol=1e-12)


def test_gradients_of_weights_grow_from_block_to_block() -> None:
    x, first, second = numbers(64, 8), numbers(8, 16, seed=1), numbers(16, 4, seed=2)
    weights = [Tensor(w, requires_grad=True) for w in (first, second)]
    hidden = (Tensor(x) @ weights[0]).relu()
    (hidden @ weights[1]).square().sum().backward()
    grads = [w.grad for w in weights]
    items = grads[0].schedule(grads[1])
    assert any(v for i in items for v in i.variables)
    Tensor.realize(*grads)
    kept = np.maximum(x @ first, 0)
    above = 2 * (kept @ second)
    np.testing.assert_allclose(grads[1].numpy(), kept.T @ above, rtol=1e-10)
    below = above @ second.T * (x @ first > 0)
    np.testing.assert_allclose(grads[0].numpy(), x.T @ below, rtol=1e-10)


@pytest.mark.parametrize("shape", [(64, 8), (4, 16, 8), (3, 4, 5, 16), (2, 128)])
@pytest.mark.parametrize("reduce", ["sum", "max", "min", "prod"])
def test_whole_reductions_at_several_levels(shape: tuple[int, ...], reduce: str) -> None:
    """The square root is of the whole, not of each block's part."""
    x = numbers(*shape) ** 2 * 0.1 + 0.4
    y = (Tensor(x) * 2).contiguous()
    result = getattr(y, {"max": "amax", "min": "amin"}.get(reduce, reduce))().sqrt()
    assert len(result.schedule()) > 2
    np.testing.assert_allclose(result.item(), np.sqrt(getattr(x * 2, reduce)()), rtol=1e-10)


NOT_BY_ROWS = {
    "flipped": lambda y: y.flip(0).contiguous(),
    "shifted": lambda y: y[1:] + y[:-1],
    "running": lambda y: y.cumsum(0) * 2,
    "all rows": lambda y: y + y.sum(0),
    "gathered": lambda y: y[Tensor([3, 0, 0, 5])],
}


@pytest.mark.parametrize("name", NOT_BY_ROWS)
def test_what_looks_at_other_rows_waits_for_all(name: str) -> None:
    x = numbers(64, 8)
    arrays = {
        "flipped": (x * 2)[::-1],
        "shifted": (x * 2)[1:] + (x * 2)[:-1],
        "running": (x * 2).cumsum(0) * 2,
        "all rows": x * 2 + (x * 2).sum(0),
        "gathered": (x * 2)[[3, 0, 0, 5]],
    }
    result = NOT_BY_ROWS[name]((Tensor(x) * 2).contiguous())
    assert not any(b for i in result.schedule() for b in i.bindings)
    np.testing.assert_allclose(result.numpy(), arrays[name], rtol=1e-12)


def test_what_looks_at_other_rows_may_begin_a_group() -> None:
    x = numbers(64, 8)
    result = (((Tensor(x) * 2).contiguous().flip(0).contiguous() + 1).contiguous() * 3).sum(1)
    assert any(i.bindings for i in result.schedule())
    np.testing.assert_allclose(result.numpy(), (((x * 2)[::-1] + 1) * 3).sum(1), rtol=1e-12)


def test_a_result_that_is_wanted_stays_whole() -> None:
    x = numbers(64, 8)
    y = (Tensor(x) + 1).contiguous()
    z = (y * 2).contiguous()
    total = z.exp().sum(1)
    Tensor.realize(y, total)
    np.testing.assert_allclose(y.numpy(), x + 1)
    np.testing.assert_allclose(total.numpy(), np.exp((x + 1) * 2).sum(1), rtol=1e-12)


def test_much_that_is_read_anew_for_each_block_prevents_them(monkeypatch) -> None:
    monkeypatch.setattr(tile_and_fuse, "CACHED", 4)
    x, weight = Tensor.empty(64, 8), Tensor.empty(8, 512)
    narrow = ((x + 1).contiguous() * 2).contiguous().sum(1)
    wide = (((x + 1).contiguous() * 2).contiguous() @ weight).sum(1)
    assert any(i.bindings for i in narrow.schedule())
    assert not any(i.bindings for i in wide.schedule())


@pytest.mark.parametrize("rows", [127, 193])
def test_the_last_block_is_shorter_where_none_divides_the_rows(rows: int) -> None:
    x = numbers(rows, 2)
    y = ((Tensor(x) + 1).contiguous() * 2).contiguous()
    by_rows, over_rows = y.sum(1), y.sum(0).sqrt()
    for result in (by_rows, over_rows):
        kernels = {i.ast.key for i in result.schedule() if i.group}
        assert len(kernels) == 6  # three kernels, and those of the last block
    wanted = (x + 1) * 2
    np.testing.assert_allclose(by_rows.numpy(), wanted.sum(1), rtol=1e-10)
    np.testing.assert_allclose(over_rows.numpy(), np.sqrt(wanted.sum(0)), rtol=1e-10)


def test_replayed_by_recipes_and_the_jit() -> None:
    def double_sum(x: Tensor, scale: float) -> Tensor:
        return ((x * scale).contiguous() + 1).contiguous().sum()

    jitted = torpor.jit(double_sum)
    for seed in range(4):
        x = numbers(64, 8, seed=seed)
        for function in (double_sum, jitted):
            result = function(Tensor(x), seed + 0.5)
            np.testing.assert_allclose(result.item(), (x * (seed + 0.5) + 1).sum(), rtol=1e-9)


def test_a_bad_index_in_a_later_block_is_the_users_error() -> None:
    table, index = Tensor(numbers(5, 16)), np.zeros(64, np.int64)
    good = (table[Tensor(index)].contiguous() + 1).contiguous().sum(1)
    assert any(i.bindings for i in good.schedule())
    good.realize()
    index[60] = 7
    with pytest.raises(OutOfBoundsError, match=r"test_tile_and_fuse\.py"):
        (table[Tensor(index)].contiguous() + 1).contiguous().sum(1).realize()


def test_symbolic_numbers_beside_those_of_blocks() -> None:
    rows = torpor.Variable("rows", 1, 8)
    x = numbers(64, 8)
    for count in (3, 8):
        weight = Tensor(numbers(8, 4)).shrink(((0, rows.bind(count)), None))
        taken = Tensor(x).shrink((None, (0, rows.bind(count))))
        result = ((taken @ weight).contiguous() + 1).contiguous().sum(1)
        expected = (x[:, :count] @ numbers(8, 4)[:count] + 1).sum(1)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_bad_index_in_a_group_under_the_jit(threads: int) -> None:
    """Of several that are wrong, and of any number of threads, the error is the same one."""

    @torpor.jit
    def rows(table: Tensor, index: Tensor, divisor: Tensor) -> Tensor:
        first = (table[index] // divisor).contiguous()
        return ((first + 1).contiguous() * 2).sum(1)

    table = Tensor(np.arange(80).reshape(5, 16))
    good = np.arange(64) % 5
    ones = np.ones((64, 1), np.int64)
    with torpor.Context(THREADS=threads):
        for row, zero, error in ((60, 63, OutOfBoundsError), (40, 20, DivisionByZeroError)):
            for _ in range(3):
                expected = ((np.arange(80).reshape(5, 16)[good] + 1) * 2).sum(1)
                got = rows(table, Tensor(good), Tensor(ones)).numpy()
                np.testing.assert_array_equal(got, expected)
                index, divisor = good.copy(), ones.copy()
                index[row], divisor[zero] = 7, 0
                with pytest.raises(error):
                    rows(table, Tensor(index), Tensor(divisor))


STEPS = {
    "double": (lambda t: t * 2, lambda a: a * 2),
    "exp": (lambda t: (t * 0.1).exp(), lambda a: np.exp(a * 0.1)),
    "centre": (lambda t: t - t.mean(-1, keepdim=True), lambda a: a - a.mean(-1, keepdims=True)),
    "columns": (lambda t: t.flip(-1), lambda a: a[..., ::-1]),
    "rows": (lambda t: t.flip(0), lambda a: a[::-1]),
    "over rows": (lambda t: t - t.amax(0, keepdim=True), lambda a: a - a.max(0, keepdims=True)),
    "product": (
        lambda t: t @ Tensor(numbers(t.shape[-1], t.shape[-1]) * 0.3),
        lambda a: a @ (numbers(a.shape[-1], a.shape[-1]) * 0.3),
    ),
    "gram": (
        lambda t: t + 0.1 * (t.swapaxes(-1, -2) @ t).sum(-1),
        lambda a: a + 0.1 * (a.swapaxes(-1, -2) @ a).sum(-1),
    ),
}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=6),
    st.sampled_from([(32, 8), (64, 8), (4, 16, 8), (48, 12)]),
    st.sampled_from(["none", "rows", "all"]),
)
def test_chains_at_random(steps: list[str], shape: tuple[int, ...], end: str) -> None:
    array = numbers(*shape)
    if len(shape) > 2:
        steps = [s for s in steps if s != "gram"]
    tensor = Tensor(array)
    for step in steps:
        ours, theirs = STEPS[step]
        tensor, array = ours(tensor).contiguous(), theirs(array)
    scale = np.abs(array[np.isfinite(array)]).max(initial=0) * len(array)
    if end != "none":
        tensor = tensor.sum(0) if end == "rows" else tensor.sum()
        array = array.sum(0) if end == "rows" else array.sum()
    np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-8, atol=1e-10 * scale)


@pytest.fixture
def streaming(monkeypatch) -> Iterator[None]:
    """Blocks of 512 bytes of what is only handed on."""
    monkeypatch.setattr(
        tile_and_fuse, "blockings", lambda target: [tile_and_fuse.Blocking(1024, 512, True)]
    )
    recipe.forget()
    yield
    recipe.forget()


def test_kernels_that_reduce_nothing_share_blocks_of_their_own(streaming) -> None:
    x = numbers(64, 8)
    y = ((Tensor(x) + 1).contiguous().flip(1).contiguous() * 2).contiguous()
    items = y.schedule()
    assert groups_of(items) == [16]
    assert bytes_made(items) < 3 * x.nbytes / 2
    np.testing.assert_array_equal(y.numpy(), (x + 1)[:, ::-1] * 2)
    total = (Tensor(x) + 1).contiguous().sum(1).contiguous().sum(0)
    assert not groups_of(total.schedule())


def test_few_or_long_rows_are_left_to_the_threads(streaming) -> None:
    for shape in (4, 128), (64, 80):
        x = numbers(*shape)
        y = ((Tensor(x) + 1).contiguous().flip(1).contiguous() * 2).contiguous()
        assert not groups_of(y.schedule())
        np.testing.assert_array_equal(y.numpy(), (x + 1)[:, ::-1] * 2)


def test_padding_that_is_not_read_lies_in_no_other_row(streaming) -> None:
    x = numbers(64, 8)
    shifted = (Tensor(x) + 1).contiguous()[:, 1:].pad((1, 2)).contiguous()
    y = (shifted * 2).contiguous()
    assert groups_of(y.schedule())
    expected = np.pad((x + 1)[:, 1:], ((0, 0), (1, 2))) * 2
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("count", [32, 36, 45])
def test_transforms_by_blocks(streaming, monkeypatch, name, count, threads) -> None:
    blocking = tile_and_fuse.Blocking(1024, 4096, True)
    monkeypatch.setattr(tile_and_fuse, "blockings", lambda target: [blocking])
    x = numbers(18, count, 2)
    given = x[..., 0] if name == "rfft" else x[..., 0] + 1j * x[..., 1]
    with torpor.Context(THREADS=threads):
        found = getattr(torpor.fft, name)(Tensor(given))
        real = found.real if found.is_pair else found
        assert groups_of(real.schedule()) or (name == "irfft" and count != 36)  # large primes
        expected = getattr(np.fft, name)(given)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("last", "sizes"),
    [(1, (2, 8)), (12, (3, 12)), (32, (8, 32)), (256, (8, 32))],
)
def test_blocks_stay_in_the_last_cache(last, sizes, monkeypatch):
    """Sizes in MiB: of a block, and of what a chain hands on at least."""
    monkeypatch.setattr(tile_groups, "SHARED_FROM", 32 << 20)
    target = replace(get_target("cpu"), last_bytes=last << 20)
    found = block_bytes(target), tile_groups.shared_from(target)
    assert found == tuple(size << 20 for size in sizes)
