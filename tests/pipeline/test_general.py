"""Where boxes lie, sizes and constants are numbers that kernels are given: loops over them compile
their kernels twice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torpor
from torpor import Tensor, nn
from torpor.base.errors import OutOfBoundsError
from torpor.pipeline.general import LASTING

TABLE = np.random.default_rng(0).standard_normal((40, 30))


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


def test_constants_that_are_one_by_chance(compiled: list[str]) -> None:
    """Two weights that add up to 1 are both a half in one of the passes."""
    x, y = Tensor(TABLE).realize(), Tensor(TABLE * np.e).realize()
    for n in range(1, 9):
        if n == 3:
            compiled.clear()
        weight = n / (n + 4)
        found = (x * weight + y * (1 - weight)).numpy()
        wanted = TABLE * weight + TABLE * np.e * (1 - weight)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
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


# --- sizes ----------------------------------------------------------------------------------------
SQUARE = np.random.default_rng(1).standard_normal((12, 12))


def softmax(x, axis: int = -1):
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


def layer(x, w):
    return (x @ w).relu().softmax(-1)


def wanted_layer(x, w):
    return softmax(np.maximum(x @ w, 0))


def attention(x, w):
    heads = (x @ w).reshape(x.shape[0], 3, 4).transpose(0, 1)
    below = Tensor.ones(x.shape[0], x.shape[0]).tril().bool()
    scores = (heads @ heads.transpose(-1, -2)).masked_fill(~below, -1e9)
    return (scores.softmax(-1) @ heads).transpose(0, 1).reshape(x.shape[0], 12)


def wanted_attention(x, w):
    heads = (x @ w).reshape(len(x), 3, 4).transpose(1, 0, 2)
    scores = heads @ heads.transpose(0, 2, 1)
    scores[:, ~np.tri(len(x), dtype=bool)] = -1e9
    return (softmax(scores) @ heads).transpose(1, 0, 2).reshape(len(x), 12)


def joined(x, w):
    return Tensor.cat([x, x[:2] * 2, x], dim=0) @ w


def wanted_joined(x, w):
    return np.concatenate([x, x[:2] * 2, x]) @ w


def statistics(x, w):
    numbered = x * Tensor.arange(x.shape[0]).unsqueeze(1)
    return numbered.mean(0) + x.std(0) + x.cumsum(0)[-1] + x.flip(0)[0]


def wanted_statistics(x, w):
    numbered = x * np.arange(len(x))[:, None]
    return numbered.mean(0) + x.std(0, ddof=1) + x.sum(0) + x[-1]


SIZED = [
    (layer, wanted_layer),
    (attention, wanted_attention),
    (joined, wanted_joined),
    (statistics, wanted_statistics),
]


@pytest.mark.parametrize(("function", "wanted"), SIZED)
def test_lengths_compile_nothing_after_the_second(
    function: Callable, wanted: Callable, compiled: list[str]
) -> None:
    w = Tensor(SQUARE).realize()
    for number, length in enumerate((5, 6, 7, 8, 13, 3, 40)):
        if number == 2:
            assert compiled
            compiled.clear()
        x = np.random.default_rng(length).standard_normal((length, 12))
        found = function(Tensor(x).realize(), w)
        assert found.shape == wanted(x, SQUARE).shape
        np.testing.assert_allclose(found.numpy(), wanted(x, SQUARE), rtol=1e-10, atol=1e-12)
    assert compiled == []


OF_LENGTHS: list[tuple[Callable, Callable]] = [
    (lambda x: Tensor.arange(x.shape[0]) * 3, lambda x: np.arange(len(x)) * 3),
    (lambda x: x.sort().values, np.sort),
    (lambda x: x.argmax(), np.argmax),
    (lambda x: x[x > 0] * 2, lambda x: x[x > 0] * 2),
    (lambda x: (x > 1).nonzero(), lambda x: np.argwhere(x > 1)),
    (lambda x: (x * 4).int().unique(), lambda x: np.unique(np.trunc(x * 4))),
    (
        lambda x: (x * 4).int().abs().bincount(),
        lambda x: np.bincount(np.trunc(abs(x * 4)).astype(int)),
    ),
    (lambda x: x * Tensor.rand(x.shape[0]).ge(0), lambda x: x),
]


@pytest.mark.parametrize("number", range(len(OF_LENGTHS)))
def test_lengths_beyond_a_table_of_integers(number: int, compiled: list[str]) -> None:
    function, wanted = OF_LENGTHS[number]
    for time, length in enumerate((5001, 9002, 6007, 7777, 20003, 4100)):
        x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
        if time == 2:
            compiled.clear()
        np.testing.assert_array_equal(function(Tensor(x).realize()).numpy(), wanted(x))
    assert compiled == []


def test_extremes_and_counts_of_a_part_that_could_be_too_long(compiled: list[str]) -> None:
    x = np.random.default_rng(0).standard_normal((9000, 8)).astype(np.float32)
    table = Tensor(x).realize()
    for time, length in enumerate((2001, 3001, 5003, 7000, 1999)):
        if time == 2:
            compiled.clear()
        part = table[:length]
        assert part.argmax().item() == x[:length].argmax()
        assert part.amax().item() == x[:length].max()
        assert (part > 0).sum().item() == (x[:length] > 0).sum()
    assert compiled == []


def test_two_lengths_that_differ_independently(compiled: list[str]) -> None:
    for number, (rows, columns) in enumerate([(4, 9), (5, 7), (6, 8), (3, 30), (11, 5)]):
        x = np.random.default_rng(number).standard_normal((rows, columns))
        y = np.random.default_rng(number).standard_normal((columns, 3))
        if number == 2:
            compiled.clear()
        found = (Tensor(x).realize() @ Tensor(y).realize()).exp().sum(1)
        np.testing.assert_allclose(found.numpy(), np.exp(x @ y).sum(1), rtol=1e-12)
    assert compiled == []


def test_rolls(compiled: list[str]) -> None:
    x = Tensor(TABLE).realize()
    for n in range(1, 9):
        if n == 4:
            compiled.clear()
        found = (x.roll(n, 0) * 2 + x).numpy()
        np.testing.assert_allclose(found, np.roll(TABLE, n, 0) * 2 + TABLE, rtol=1e-12)
    assert compiled == []


def test_a_part_of_growing_length_of_memory_that_is_written_to(compiled: list[str]) -> None:
    cache, kept = Tensor(np.zeros((20, 6))).realize(), np.zeros((20, 6))
    for n in range(2, 14):
        row = np.random.default_rng(n).standard_normal(6)
        if n == 5:
            compiled.clear()
        cache[n - 2] = Tensor(row).realize()
        kept[n - 2] = row
        found = (cache[: n - 1] @ Tensor(row).realize()).softmax(0)
        np.testing.assert_allclose(found.numpy(), softmax(kept[: n - 1] @ row), rtol=1e-12)
    assert compiled == []


def test_results_of_other_sizes_are_whole_tensors_of_their_own() -> None:
    kept = []
    for n in range(4, 10):
        x = np.arange(n * 5.0).reshape(n, 5)
        made = (Tensor(x).realize() * 3 + 1).realize()
        kept.append((made, x * 3 + 1))
    for made, wanted in kept:
        np.testing.assert_array_equal(made.numpy(), wanted)
        np.testing.assert_array_equal(made.T.reshape(-1).numpy(), wanted.T.reshape(-1))
        made[0] = 7
        assert made.numpy()[0].tolist() == [7] * 5
        np.testing.assert_array_equal(made.numpy()[1:], wanted[1:])


def test_sizes_that_stay_get_kernels_of_their_own(compiled: list[str]) -> None:
    for n in (6, 7, 8):
        (Tensor(np.ones((n, 9))).realize() * 5 + 4).numpy()
    compiled.clear()
    for _ in range(LASTING + 10):
        found = (Tensor(np.ones((9, 9))).realize() * 5 + 4).numpy()
        np.testing.assert_array_equal(found, np.full((9, 9), 9.0))
    assert len(compiled) == 1


def test_an_index_out_of_bounds_is_told_with_the_length_that_it_had() -> None:
    index = Tensor([0, 8]).realize()
    for n in range(9, 14):
        x = Tensor(np.arange(n * 2.0).reshape(n, 2)).realize()
        np.testing.assert_array_equal((x[index] + 1).numpy(), [[1, 2], [17, 18]])
    x = Tensor(np.zeros((7, 2))).realize()
    with pytest.raises(OutOfBoundsError, match="of length 7: 8"):
        (x[index] + 1).numpy()


# --- constants ------------------------------------------------------------------------------------
def test_constants_that_change_compile_nothing_after_the_second(compiled: list[str]) -> None:
    x = Tensor(TABLE).realize()
    for n in range(8):
        if n == 2:
            compiled.clear()
        rate = 0.5**n
        found = (x - rate * x.square() + rate).sum(1).numpy()
        np.testing.assert_allclose(found, (TABLE - rate * TABLE**2 + rate).sum(1), rtol=1e-12)
    assert compiled == []


def test_constants_that_were_equal_need_not_stay_so() -> None:
    x = Tensor(TABLE).realize()
    for first, second in [(2.0, 2.0), (3.0, 3.0), (3.0, 5.0), (4.0, 4.0), (2.0, 7.0)]:
        found = (x.square() * first + (x.abs() + 1) * second).numpy()
        wanted = TABLE**2 * first + (np.abs(TABLE) + 1) * second
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_integers_that_change(compiled: list[str]) -> None:
    x = Tensor(np.arange(-20, 20)).realize()
    for n in range(3, 9):
        if n == 5:
            compiled.clear()
        found = (x // n + x % n * Tensor.full((1,), n)).numpy()
        array = np.arange(-20, 20)
        np.testing.assert_array_equal(found, array // n + array % n * n)
    assert compiled == []


def test_a_value_that_is_memory_already_is_that_memory_for_any_size() -> None:
    for shape in ((30, 60), (30, 30), (17, 30), (4, 3)):
        weight = nn.Linear(shape[1], shape[0]).weight
        array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        with torpor.no_grad():
            weight.copy_(torpor.from_numpy(array))
        np.testing.assert_array_equal(weight.realize().numpy(), array)


def test_sizes_that_could_grow_beyond_memory_have_kernels_of_their_own():
    for offset in (0, 1, 2, 3):
        for rows in (5, 3):
            x = np.arange(5.0 * rows, dtype=np.float32).reshape(rows, 5)
            expected = np.stack([np.diag(row, offset) for row in x])
            made = Tensor(x).diag_embed(offset=offset)
            np.testing.assert_array_equal(made.numpy(), expected)


def test_an_axis_that_is_repeated_is_no_size_of_one_that_is_not():
    for shape in ((1, 2, 2), (1, 2, 1), (1, 1, 2), (1, 2, 2)):
        x = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
        made = Tensor(x).expand(3, 2, 2) + 1
        np.testing.assert_array_equal(made.numpy(), np.broadcast_to(x, (3, 2, 2)) + 1)


def test_products_of_sizes_that_are_one_further(compiled: list[str]) -> None:
    """Memory of (n + 1) by (n + 2) elements, of which n by n are used."""
    line, seen = np.linspace(-1, 1, 40), []
    vector = Tensor(line).realize()
    for n in (3, 7, 4, 12, 6, 9, 5, 17):
        table = np.random.default_rng(n).standard_normal((n + 1, n + 2))
        found = Tensor(table).realize()[1:, 2:] @ vector[:n]
        np.testing.assert_allclose(found.numpy(), table[1:, 2:] @ line[:n], rtol=1e-10, atol=1e-12)
        seen.append(len(compiled))
    assert seen[4] == seen[-1], seen


def test_a_length_that_a_condition_ties_to_a_counter() -> None:
    """Of every second element the last one is new: where it is, the length is the counter + 1."""
    for size in (5, 7, 9, 11):
        x = Tensor(np.arange(size, dtype=np.float32)).realize()
        x[-1:] += 1
        x.add_(1.25)
        parts = x.unfold(-1, 1, 2).clone()
        found = nn.functional.conv_transpose1d(parts, parts.unsqueeze(-1))
        wanted = np.arange(size) + 1.25
        wanted[-1] += 1
        assert found.item() == (wanted[::2] ** 2).sum()


LONG = [200, 333, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 700]


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda x: x.softmax(-1), lambda x: softmax(x, -1)),
        (lambda x: x.softmax(0), lambda x: softmax(x, 0)),
        (lambda x: x.var(-1, correction=0), lambda x: x.var(-1)),
        (lambda x: x.amax(-1) + x.sum(-1), lambda x: x.max(-1) + x.sum(-1)),
        (lambda x: x.argmin(-1), lambda x: x.argmin(-1)),
        (lambda x: (x > 0.3).all(-1), lambda x: (x > 0.3).all(-1)),
        (lambda x: x.exp().sum(0) * 2, lambda x: np.exp(x).sum(0) * 2),
        (lambda x: x.T @ x, lambda x: x.T @ x),
        (lambda x: x @ x.T, lambda x: x @ x.T),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_rows_of_any_length(
    function: Callable, reference: Callable, dtype: str, compiled: list[str]
) -> None:
    """In whole vectors, and what is left."""
    table = np.random.default_rng(1).standard_normal((7, max(LONG)))
    close = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2e-2}[dtype]
    for number, length in enumerate(LONG):
        if number == 3:
            compiled.clear()
        x = Tensor(table[:, :length].copy()).cast(dtype).realize()
        wanted = reference(x.cast("float64").numpy())
        found = function(x).cast("float64").numpy()
        np.testing.assert_allclose(found, wanted, close, close, err_msg=str(length))
    assert compiled == []
