"""Outputs in the place of inputs: claims hold for the bits, and what is wrong is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torpor import Tensor, dtypes, lower
from torpor.device import Buffer
from torpor.kernel import Opt, OptOps
from torpor.pipeline.command import Prepared, prepare
from torpor.tensor.storage import buffers_of


def array(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def tensors(count, *shape, dtype=np.float32):
    return [Tensor(array(*shape, dtype=dtype, seed=seed)).realize() for seed in range(count)]


def memory_under(tensor):
    (buffer,) = buffers_of(tensor._storage.base)
    return buffer


def pairs(*results, opts=None):
    (program,) = lower(*results, target="cpu", opts=opts)
    return set(program.shared)


def test_elements_that_are_read_where_they_are_stored():
    x, y = tensors(2, 16, 24)
    assert pairs(x * 2 + y) == {(0, 1), (0, 2)}
    assert pairs(x.cast(dtypes.int32)) == {(0, 1)}
    first, second = x + y, x - y * 2
    assert pairs(first, second) == {(0, 2), (0, 3), (1, 2), (1, 3)}


def test_a_row_in_registers_is_read_before_any_of_it_is_stored():
    x, y = tensors(2, 16, 16)
    row = [Opt(OptOps.UNROLL, 0, 0), Opt(OptOps.UPCAST, 1, 0)]
    assert pairs(x.sum(1, keepdim=True) + y, opts=row) == {(0, 1), (0, 2)}
    assert pairs(x.sum(1, keepdim=True) + y, opts=[Opt(OptOps.UPCAST, 1, 8)]) == {(0, 2)}


@pytest.mark.parametrize("opts", [[(OptOps.UPCAST, 0, 4)], [(OptOps.UPCAST, 0, 0)], None])
def test_it_holds_after_opts(opts):
    x, y = tensors(2, 96)
    assert pairs(x + y, opts=opts and [Opt(*opt) for opt in opts]) == {(0, 1), (0, 2)}


def test_single_elements_are_left_to_llvm():
    """It makes vectors of them where it knows that what is stored is not read."""
    x, y = tensors(2, 96)
    assert not pairs(x + y, opts=[])


def test_parts_of_an_axis_keep_it():
    x, y = tensors(2, 40)
    opts = [Opt(OptOps.PARTITION, 0, 24), Opt(OptOps.UPCAST, 0, 8)]
    assert pairs(x + y, opts=opts) == {(0, 1), (0, 2)}


REFUSED = {
    "reversed": lambda x, y: x.flip(0) + y,
    "shifted": lambda x, y: x.pad(((1, 0), (0, 0)))[:-1] + y,
    "crossed": lambda x, y: x.T + y,
    "broadcast": lambda x, y: x[:1] + y,
    "in another place too": lambda x, y: x + x.T + y,
    "reduction": lambda x, y: x.sum(0, keepdim=True) + y,
    "narrower": lambda x, y: (x + y).cast(dtypes.float16),
    "wider": lambda x, y: (x + y).cast(dtypes.float64),
    "part": lambda x, y: x[:8] + y[:8],
    "gathered": lambda x, y: x[y.cast(dtypes.int32)[0].abs()] * 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused(name):
    x, y = tensors(2, 48, 48)
    for item in REFUSED[name](x, y).schedule():
        program = prepare(item).program
        for _, slot in program.shared if program is not None else ():
            assert item.buffers[slot].arg is not memory_under(x)


def test_two_outputs_of_one_input_in_turn():
    """Stores in loops of their own: what the first writes over, the second still reads."""
    x, y = tensors(2, 48, 48)
    for item in (x + y).schedule(x.T * 1 + y):
        program = prepare(item).program
        if program is not None and len(item.outputs) > 1:
            assert all(item.buffers[slot].arg is not memory_under(x) for _, slot in program.shared)


STEPS = (
    lambda x, y: x + y,
    lambda x, y: x * 2 - y,
    lambda x, y: x.flip(0) + y,
    lambda x, y: x.T + y,
    lambda x, y: (x > y).where(x, y + 1),
    lambda x, y: x - y.sum(1, keepdim=True),
    lambda x, y: x.pad(((0, 0), (2, 0)))[:, :-2] + y,
    lambda x, y: x.reshape(-1)[: x.shape[0]].reshape(-1, 1) + y,
)


def memory_of(prepared: Prepared) -> list[Buffer]:
    """A buffer for each parameter, those that are read filled with the values that lie there."""
    made = []
    for node in prepared.item.buffers:
        copy = Buffer("CPU", node.arg.size, node.dtype).allocate()
        copy.copyin(node.arg.numpy() if node.arg.is_allocated() else np.zeros_like(copy.numpy()))
        made.append(copy)
    return made


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_results_have_the_same_bits_in_place(data):
    size = data.draw(st.sampled_from([3, 8, 16, 33]))
    x, y, z = tensors(3, size, size)
    results = []
    for _ in range(data.draw(st.integers(1, 2))):
        value = x
        for _ in range(data.draw(st.integers(1, 3))):
            value = data.draw(st.sampled_from(STEPS))(value, data.draw(st.sampled_from([y, z])))
        results.append(value)
    for item in results[0].schedule(*results[1:]):
        prepared = prepare(item)
        assert prepared.program is not None
        assert prepared.executable is not None
        apart = memory_of(prepared)
        prepared.executable(apart, prepared.program.values_of(prepared.item.variables))
        for output, slot in prepared.program.shared:
            together = memory_of(prepared)
            together[output] = together[slot]
            prepared.executable(together, prepared.program.values_of(prepared.item.variables))
            for number in item.outputs:
                np.testing.assert_array_equal(together[number].numpy(), apart[number].numpy())
