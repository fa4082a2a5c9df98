"""Sums that share what they read use it together; those that do not fit in registers wait."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.passes.interleaved_accumulators import REGISTERS, chains_of, interleaved

IMAGE = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(1, 1000))
WEIGHT = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(2, 1000))


def load(memory, number):
    place = UOp(Ops.INDEX, dtypes.float32, (memory, UOp.index_const(number)))
    return UOp(Ops.LOAD, dtypes.float32, (place,))


def window(first, taps):
    """image[first]*weight[0] + image[first + 1]*weight[1] + ..."""
    terms = [load(IMAGE, first + n) * load(WEIGHT, n) for n in range(taps)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def of_image(node):
    return node.src[0].src[0] is IMAGE


def steps_of(sums):
    nodes = dict.fromkeys(n for one in sums for n in one.toposort())
    return interleaved(nodes, lambda node: node.op is Ops.LOAD and of_image(node))


def read_by(step):
    (place,) = (s.src[0] for s in step.src[1].src if of_image(s))
    return int(place.src[1].arg)


def test_what_two_windows_share_is_used_at_once():
    sums = [window(0, 8), window(3, 8)]
    (batch,) = steps_of(sums)
    assert set(batch.sums) == set(sums)
    assert len(batch.steps) == 14
    places = [read_by(step) for step in batch.steps]
    assert places == sorted(places)


def test_every_step_comes_after_the_one_before_it():
    for batch in steps_of([window(n * 2, 9) for n in range(5)]):
        seen = set()
        for step in batch.steps:
            assert step.src[0].op is Ops.MUL or step.src[0] in seen
            seen.add(step)


@pytest.mark.parametrize("taps", [4, 9, 30])
def test_no_more_sums_grow_at_once_than_there_are_registers(taps):
    sums = [window(100 * n, taps) for n in range(40)]
    batches = steps_of(sums)
    assert [one for batch in batches for one in batch.sums] == sums
    assert max(len(batch.sums) for batch in batches) <= REGISTERS


def test_short_sums_are_left_alone():
    assert chains_of(window(0, 3).toposort()) == []
    assert steps_of([window(0, 3), window(1, 3)]) == []
