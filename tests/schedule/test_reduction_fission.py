"""A kernel with a reduction as three: what sets it to nothing, what carries it on, what ends it."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Tensor
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.schedule.reduction_fission import ReductionFission, fission


def item_of(tensor: Tensor) -> ScheduleItem:
    """The one kernel that computes a tensor."""
    (item,) = tensor.schedule()
    return item


def reduced(item: ScheduleItem) -> frozenset[UOp]:
    return frozenset(r for r in item.ast.ranges() if r.arg[1] is AxisType.REDUCE)


def fission_of(tensor: Tensor) -> ReductionFission:
    item = item_of(tensor)
    parts = fission(item, reduced(item))
    assert parts is not None
    return parts


def value_of(node: UOp, memory: dict[int, np.ndarray], at: dict[UOp, int]) -> float:
    """A value of a small kernel, by what its operations say."""
    if node.op in (Ops.CONST, Ops.RANGE):
        return node.arg if node.op is Ops.CONST else at[node]
    if node.op is Ops.LOAD:
        place = node.src[0]
        return memory[place.src[0].arg.slot][int(value_of(place.src[1], memory, at))]
    if node.op is Ops.REDUCE:
        (one,) = node.src[1:]
        size = int(one.src[0].arg)
        values = [value_of(node.src[0], memory, {**at, one: n}) for n in range(size)]
        return sum(values) if node.arg is Ops.ADD else max(values)
    left, *right = (value_of(s, memory, at) for s in node.src)
    functions = {
        Ops.ADD: lambda b: left + b, Ops.MUL: lambda b: left * b, Ops.MAX: lambda b: max(left, b),
        Ops.SUB: lambda b: left - b, Ops.FDIV: lambda b: left / b,
    }  # fmt: skip
    return np.sqrt(left) if node.op is Ops.SQRT else functions[node.op](*right)


def run(item: ScheduleItem, contents: dict[UOp, np.ndarray]) -> None:
    """Execute a kernel of one STORE over at most one range."""
    memory = {slot: contents[buffer] for slot, buffer in enumerate(item.buffers)}
    (store,) = item.ast.src
    place, value, *ranges = store.src
    for number in range(int(ranges[0].src[0].arg) if ranges else 1):
        at = dict.fromkeys(ranges, number)
        target = int(value_of(place.src[1], memory, at))
        memory[place.src[0].arg.slot][target] = value_of(value, memory, at)


@pytest.mark.parametrize("kind", ["sum", "amax", "root"])
def test_tiles_one_after_another_make_the_whole(kind: str) -> None:
    """The kernel of a tile runs twice over the same numbers: twice the sum, the same maximum."""
    x = Tensor.empty(3, 4, dtype="float64")
    made = {"sum": lambda: x.sum(1), "amax": lambda: x.amax(1), "root": lambda: x.sum(1).sqrt()}
    parts = fission_of(made[kind]())
    assert parts.is_simple
    output, source = parts.item.buffers
    numbers = np.random.default_rng(0).random(12)
    contents = {output: np.full(3, np.nan), source: numbers}
    carried = parts.accumulated()
    for item in (*parts.initial(), carried, carried, *parts.finished()):
        run(item, contents)
    rows = numbers.reshape(3, 4)
    expected = {"sum": 2 * rows.sum(1), "amax": rows.max(1), "root": np.sqrt(2 * rows.sum(1))}
    np.testing.assert_allclose(contents[output], expected[kind], rtol=1e-14)
    assert len(parts.finished()) == (kind == "root")


def test_what_goes_on_already_is_not_begun_or_ended_again() -> None:
    carried = fission_of(Tensor.empty(3, 4).sum(1)).accumulated()
    again = fission(carried, reduced(carried))
    assert again is not None and again.is_simple
    assert not again.initial() and not again.finished()
    assert again.accumulated().ast is carried.ast


def test_a_reduction_within_another_one_stays_whole() -> None:
    x = Tensor.empty(3, 4)
    item = item_of((x - x.amax(1, keepdim=True)).exp().sum(1))
    inner = [n for n in item.ast.toposort() if n.op is Ops.REDUCE and n.arg is Ops.MAX]
    assert fission(item, frozenset(inner[0].src[1:])) is None
