import numpy as np
import pytest

import torpor
from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.base.errors import ShapeError

CASES = {
    "flip": (lambda x: x.flip(0, 1), lambda a: a[::-1, ::-1]),
    "roll": (lambda x: x.roll((1, -2), (0, 1)), lambda a: np.roll(a, (1, -2), (0, 1))),
    "roll flat": (lambda x: x.roll(5), lambda a: np.roll(a, 5)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "tile": (lambda x: x.tile(2), lambda a: np.tile(a, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, dim=1), lambda a: a.repeat(3, 1)),
    "cat": (lambda x: x.cat(x[:1], x), lambda a: np.concatenate([a, a[:1], a])),
    "stack": (lambda x: torpor.stack([x, x, x], dim=1), lambda a: np.stack([a, a, a], 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_rearrangements(name):
    ours, theirs = CASES[name]
    array = numbers((4, 6))
    check(ours(Tensor(array)), theirs(array))
    turned = np.ascontiguousarray(array.T)  # the same elements, in memory the other way round
    check(ours(Tensor(turned).T), theirs(array))


def test_cat_of_many_and_of_formats():
    arrays = [numbers((n, 2), seed=n) for n in range(1, 10)]
    check(torpor.cat([Tensor(a) for a in arrays]), np.concatenate(arrays))
    mixed = torpor.cat([Tensor([1, 2]), Tensor([0.5])])
    check(mixed, np.array([1, 2, 0.5], np.float32))
    check(torpor.cat((Tensor([1]), Tensor([2])), 0), np.array([1, 2]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.cat(Tensor.ones(3, 5)), "cat along axis 0"),
        (lambda x: torpor.stack([x, x[:1]]), "equal shapes"),
    ],
)
def test_wrong_calls_raise_at_once(call, text):
    with pytest.raises(ValueError, match=text):
        call(Tensor.ones(4, 6))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: torpor.cat([Tensor(1.0), Tensor(2.0)]), "use stack"),
        (lambda x: torpor.cat([x, Tensor(1.0)]), "use stack"),
        (lambda x: x.repeat(-1, 2), "cannot be negative"),
        (lambda x: x.tile(2, -1), "cannot be negative"),
        (lambda x: Tensor.zeros(0).repeat_interleave(-1), "cannot be negative"),
        (lambda x: x.repeat_interleave(Tensor([1, -1]), 0), "cannot be negative"),
        (lambda x: x.repeat_interleave(Tensor([1, 1, 1]), 0), "one for each element"),
        (lambda x: x.roll(1, (0, 1)), "as many shifts as axes"),
        (lambda x: x.roll((1, 1), 0), "as many shifts as axes"),
        (lambda x: x.roll((), ()), "as many shifts as axes"),
        (lambda x: x.roll(1.5, 0), "whole number"),
        (lambda x: x.flip(1.5), "an axis is an integer"),
    ],
)
def test_what_cannot_be_rearranged(call, text):
    with pytest.raises(ShapeError, match=text):
        call(Tensor([[1, 2], [3, 4]]))


def test_rearrangements_as_in_pytorch():
    x = np.array([[1, 2], [3, 4]])
    check(Tensor(x).roll((1, 1), (0, 0)), x)  # an axis may be named twice
    check(Tensor(x).roll(1, ()), np.roll(x, 1))
    check(Tensor(x).repeat_interleave(Tensor([2, 0]), 0), np.repeat(x, [2, 0], 0))
    check(Tensor(x).repeat_interleave(Tensor([1, 2, 0, 3])), np.repeat(x, [1, 2, 0, 3]))
    check(Tensor(x).repeat_interleave(Tensor(2), 1), np.repeat(x, 2, 1))
    # a vector of nothing fits everything, and its format counts
    check(torpor.cat([Tensor([]), Tensor(x)]), x.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "uint8", "float8_e5m2"])
def test_many_small_values_are_joined_whichever_they_are(dtype, compiled):
    """Batches of rows at random, some of them the same, read forwards and backwards."""
    random = np.random.default_rng(5)
    array = (random.random((40, 4, 3)) * 3).astype(np.float32)
    x = Tensor(array).cast(dtype).realize()
    known = x.cast("float32").numpy()
    seen = []
    for _ in range(6):
        chosen = random.integers(0, 40, 16).tolist()
        made = torpor.stack([x[n].T if n % 2 else x[n].T.flip(0) for n in chosen], dim=1)
        wanted = np.stack([known[n].T if n % 2 else known[n].T[::-1] for n in chosen], 1)
        assert (made.dtype, made.shape) == (x.dtype, (3, 16, 4))
        np.testing.assert_array_equal(made.cast("float32").numpy(), wanted)
        seen.append(len(compiled))
    assert seen[0] == seen[-1]


def test_many_that_were_joined_have_gradients():
    leaves = [Tensor([float(n), 1.0], requires_grad=True) for n in range(9)]
    whole = torpor.cat([*leaves, leaves[0]])
    assert whole.tolist()[:4] == [0, 1, 1, 1]
    (whole * torpor.arange(20)).sum().backward()
    assert leaves[1].grad.tolist() == [2, 3]
    assert leaves[0].grad.tolist() == [0 + 18, 1 + 19]


def test_what_was_joined_keeps_its_values_when_the_parts_change():
    parts = [torpor.full((2,), n).realize() for n in range(10)]
    whole = torpor.stack(parts)
    parts[3] += 50
    whole[0] = 7
    assert parts[0].tolist() == [0, 0]
    assert whole[:4].tolist() == [[7, 7], [1, 1], [2, 2], [3, 3]]
    assert torpor.stack(parts)[3].tolist() == [53, 53]


def test_many_in_a_jit_are_inputs():
    f = torpor.jit(lambda x: torpor.stack([x[n] for n in range(10)]) * 2)
    for start in range(4):
        array = np.arange(10.0) + start
        np.testing.assert_array_equal(f(Tensor(array)).numpy(), array * 2)


def test_many_of_which_some_wait_are_joined_too():
    x = torpor.arange(12).realize()
    parts = [x[n] + 1 if n == 5 else x[n] for n in range(12)]
    assert torpor.stack(parts).tolist() == [*range(5), 6, *range(6, 12)]
    assert torpor.stack([x[:0] for _ in range(9)]).shape == (9, 0)


def test_places_as_often_as_is_said():
    assert torpor.repeat_interleave(Tensor([2, 0, 1])).tolist() == [0, 0, 2]
    assert Tensor.zeros(0, dtype="int64").repeat_interleave().tolist() == []
    assert Tensor([3]).repeat_interleave().tolist() == [0, 0, 0]
    for repeats in (Tensor([2.0]), Tensor([[1]]), Tensor(1)):
        with pytest.raises(ShapeError, match="repeats alone are a vector of integers"):
            torpor.repeat_interleave(repeats)


def test_backwards_along_the_first_axis():
    assert reversed(Tensor([[1, 2], [3, 4]])).tolist() == [[3, 4], [1, 2]]
    assert reversed(Tensor(1)).item() == 1
