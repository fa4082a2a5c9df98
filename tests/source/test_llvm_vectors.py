"""Lanes that are put together out of vectors."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.source.programs import param
from torpor import Context, Tensor
from torpor.base.dtypes import dtypes
from torpor.device.machine import facts, machine
from torpor.ir import Ops, UOp
from torpor.pipeline import program_for
from torpor.source.llvm_vectors import lanes_of_two

COUNT = 4
VECTORS = [
    UOp(Ops.LOAD, dtypes.float32.vec(COUNT), (param(slot, dtypes.float32),)) for slot in range(3)
]
LANES = st.tuples(st.sampled_from(VECTORS), st.integers(0, COUNT - 1))


@given(st.lists(LANES, min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_chosen_lanes_of_two_vectors_end_to_end_are_the_scalars(lanes):
    scalars = [vector.gep(lane) for vector, lane in lanes]
    found = lanes_of_two(scalars)
    if len({vector for vector, _ in lanes}) > 2:
        assert found is None
        return
    assert found is not None
    left, right, chosen = found
    both = [(vector, lane) for vector in (left, right) if vector for lane in range(COUNT)]
    assert [both[place] for place in chosen] == lanes


def test_scalars_from_elsewhere_and_vectors_of_two_formats_are_no_shuffle():
    other = UOp(Ops.LOAD, dtypes.float32.vec(2), (param(3, dtypes.float32),))
    alone = UOp(Ops.LOAD, dtypes.float32, (param(4, dtypes.float32),))
    assert lanes_of_two([VECTORS[0].gep(1), other.gep(0)]) is None
    assert lanes_of_two([VECTORS[0].gep(1), alone]) is None


@pytest.mark.parametrize(("level", "size"), [("avx512", 4), ("avx512", 8), ("avx2", 4)])
def test_elements_that_lie_anywhere_are_read_by_one_instruction_where_there_is_one(level, size):
    source, index = Tensor.rand(1000).realize(), Tensor.arange(512).realize()
    source = source.cast(dtypes.float32 if size == 4 else dtypes.float64).realize()
    with Context(TARGET=level):
        (item,) = source[index].schedule()
    text = program_for(item.ast, facts(machine(level))).source
    assert ("llvm.masked.gather" in text) == (level == "avx512")
