"""Results that take over memory: only what nobody else needs, once, and results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Tensor
from torpor.device import Buffer
from torpor.ir.records import Program
from torpor.pipeline.inplace import heirs


def kernel(*shared):
    return Program("k", "", "cpu", shared=shared)


def test_what_is_read_for_the_last_time_is_taken_over():
    steps = [(kernel(), "ax"), (kernel((0, 1)), "ba"), (kernel((0, 1)), "cb")]
    assert heirs(steps, set("ab")) == {1: [("b", "a")], 2: [("c", "b")]}


@pytest.mark.parametrize(
    ("steps", "dying"),
    [
        ([(kernel((0, 1)), "ba")], ""),  # somebody keeps it
        ([(kernel((0, 1)), "ba"), (kernel(), "ca")], "ab"),  # it is read again
        ([(kernel((0, 1)), "baa")], "a"),  # it is another parameter too
        ([(kernel(), "bx"), (kernel((0, 1)), "ba")], "a"),  # the result has a part already
        ([(None, "ba")], "a"),  # a copy
        ([(kernel(), "ba")], "a"),  # the kernel does not allow it
    ],
)
def test_what_is_needed_otherwise_is_not(steps, dying):
    assert heirs(steps, set(dying)) == {}


def test_each_is_in_one_pair_only():
    both = kernel((0, 2), (0, 3), (1, 2), (1, 3))
    assert heirs([(both, "abxy")], set("xy")) == {0: [("a", "x"), ("b", "y")]}


@pytest.fixture
def most(monkeypatch):
    """The most bytes of memory that buffers have held at one time, in a list."""
    live, found = {}, [0]
    allocate = Buffer.allocate

    def counted(self, *arguments):
        made = allocate(self, *arguments)
        live[id(self.memory)] = self
        held = {id(b.memory): b.memory.nbytes for b in live.values() if b.is_allocated()}
        found[0] = max(found[0], sum(held.values()))
        return made

    monkeypatch.setattr(Buffer, "allocate", counted)
    return found


def test_a_chain_has_memory_for_one_value(most):
    values = np.random.default_rng(0).random((320, 256), dtype=np.float32)
    x = Tensor(values).realize()
    for _ in range(3):  # planned, then by recipe
        most[0] = 0
        y = x
        for number in range(5):
            y = (y * 0.5 + number).contiguous()
        result = y.sum()
        result.realize()
        expected = values
        for number in range(5):
            expected = expected * 0.5 + number
        np.testing.assert_allclose(result.numpy(), expected.sum(dtype=np.float64), rtol=1e-5)
        assert most[0] < 2.5 * values.nbytes  # and that of x


def test_what_a_tensor_holds_is_not_written_over():
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
