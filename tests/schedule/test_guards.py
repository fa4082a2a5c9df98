"""Checks are asked where their value is wanted, and only about loops that they are in."""

import itertools

import numpy as np
import pytest

from torpor import Context, Tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import OutOfBoundsError
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.schedule.guards import ALWAYS, as_condition, both, either

RNG = np.random.default_rng(5)


def test_a_check_that_is_wanted_inside_and_outside_of_a_loop():
    """The gradient of a loss of labels that are themselves read by index."""
    labels, chosen = RNG.integers(0, 10, 80), RNG.integers(0, 80, 20)
    logits = RNG.standard_normal((20, 10))
    x = Tensor(logits).requires_grad_()
    with Context(CHECK=1, CACHE=0):
        (found,) = x.cross_entropy(Tensor(labels)[Tensor(chosen)]).gradient(x)
        exponents = np.exp(logits)
        expected = exponents / exponents.sum(1, keepdims=True)
        expected[np.arange(20), labels[chosen]] -= 1
        assert np.allclose(found.numpy(), expected / 20)


def both_uses(table, index, mask):
    """A value read by index, used inside of a sum under a condition on its loop, and outside."""
    read = table[index]
    inside = mask.reshape(1, -1).where(read.reshape(-1, 1), 0.0).sum(1)
    return inside, read


@pytest.mark.parametrize("outside", [False, True])
def test_what_only_masked_lanes_read_is_no_error(outside):
    table, index = Tensor(np.arange(5.0)), Tensor([1, 9, 4])
    mask = Tensor([False, False])
    inside, read = both_uses(table, index, mask)
    value = inside + read if outside else inside
    if outside:
        with pytest.raises(OutOfBoundsError):
            value.realize()
    else:
        assert value.tolist() == [0.0, 0.0, 0.0]


def test_a_condition_outside_still_guards():
    table, index = Tensor(np.arange(5.0)), Tensor([1, 9, 4])
    inside, read = both_uses(table, index, Tensor([True, False]))
    wanted = Tensor([True, False, True])
    assert wanted.where(inside + read, -1.0).tolist() == [2.0, -1.0, 8.0]


@pytest.mark.parametrize("index", [[3], [0, -4], [0, 0, 1 << 32]])
@pytest.mark.parametrize("length", [1, 3])
def test_an_index_that_makes_no_difference_is_checked_too(index, length):
    """An axis of one element, or of equal ones: the index is dropped, but not its check."""
    table = Tensor(np.arange(4.0)).reshape(1, 4).expand(length, 4)
    asked = Tensor(index)
    for found in (table[asked], table[:, :1].gather(0, asked.reshape(-1, 1)).sum(0)):
        with pytest.raises(OutOfBoundsError):
            found.realize()


def test_under_a_condition_indices_outside_are_not_read():
    x = np.arange(5, dtype=np.float32)
    index = np.array([0, 4, 99, -1, -7, 2**62, -(2**62)])
    fine = (index >= -5) & (index < 5)
    found = Tensor(fine).where(Tensor(x)[Tensor(index)], -1.0)
    assert found.tolist() == [0, 4, -1, 4, -1, -1, -1]
    with pytest.raises(OutOfBoundsError):
        Tensor(x)[Tensor(index)].realize()


def test_checks_of_a_chain_that_a_write_reads_twice():
    """Each remainder asks whether its divisor is 0, and the next one's guard is made of it: twice
    as many (a divisor of twice the bits) are to take twice the nodes.
    """
    sizes = []
    for dtype in (np.int16, np.int32):
        a = RNG.integers(-99, 99, (7, 3)).astype(dtype)
        found = Tensor(a).gcd(Tensor(a * 0 + 6))
        found[:1] *= 2
        sizes.append(sum(len(item.ast.toposort()) for item in found.schedule()))
        expected = np.gcd(a, dtype(6))
        expected[:1] *= 2
        assert np.array_equal(found.numpy(), expected)
    assert sizes[1] < 2.5 * sizes[0]


def values_of(node, given):
    """What a bool node of `and`, `or` and `not` is."""
    if node in given:
        return given[node]
    parts = [values_of(source, given) for source in node.src]
    return {
        Ops.CONST: lambda: bool(node.arg),
        Ops.AND: lambda: all(parts),
        Ops.OR: lambda: any(parts),
        Ops.XOR: lambda: parts[0] != parts[1],
    }[node.op]()


@pytest.mark.parametrize("seed", range(40))
def test_guards_say_where_something_is_wanted(seed):
    """Against all values of four conditions."""
    random = np.random.default_rng(seed)
    names = [UOp.variable(f"v{n}", 0, 9) < 5 for n in range(4)]
    pairs = [(ALWAYS, UOp.const(dtypes.bool, True))]
    for _ in range(30):
        (one, plain), (other, wide) = (pairs[random.integers(len(pairs))] for _ in range(2))
        condition = names[random.integers(4)]
        if random.random() < 0.3:
            condition = condition & names[random.integers(4)]
        holds = bool(random.random() < 0.5)
        pairs.append((both(one, condition, holds), plain & (condition if holds else ~condition)))
        pairs.append((either(one, other), plain | wide))
    for values in itertools.product((False, True), repeat=4):
        given = dict(zip(names, values, strict=True))
        for guard, expected in pairs:
            assert values_of(as_condition(guard), given) == values_of(expected, given)
