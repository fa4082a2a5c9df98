"""Checked indices without clamps: the same places, for every index that there is."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import OutOfBoundsError
from torpor.base.target import Target
from torpor.device import Device
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.bounds_checks import eliminate_bounds_checks
from torpor.tensor.realisation import lower

HOST = Device["CPU"].target
INDEX = UOp(Ops.VARIABLE, dtypes.int64, (), ("i", -(1 << 63), (1 << 63) - 1))


def checked(length: int, condition: UOp | None = None) -> UOp:
    inside = ~(INDEX < 0) & (INDEX < length)  # noqa: SIM300 (a node, no constant)
    holds = inside if condition is None else condition
    passed = UOp(Ops.CHECK, dtypes.int64, (INDEX, holds), 0)
    return passed.maximum(0).minimum(length - 1)


def value(root: UOp, index: int) -> int:
    """What an expression of the index gives; of a CHECK, what it checks."""
    plain = root.substitute({n: n.src[0] for n in root.toposort() if n.op is Ops.CHECK})
    plain = plain.substitute(
        {INDEX.bitcast(dtypes.uint64): UOp.const(dtypes.uint64, index % (1 << 64))}
    )
    found = plain.substitute({INDEX: UOp.const(dtypes.int64, index)}).simplify()
    assert found.op is Ops.CONST
    return int(found.arg)


def asks(root: UOp, index: int) -> bool:
    (check,) = (n for n in root.toposort() if n.op is Ops.CHECK)
    bits = UOp.const(dtypes.uint64, index % (1 << 64))
    condition = check.src[1].substitute({INDEX.bitcast(dtypes.uint64): bits})
    found = condition.substitute({INDEX: UOp.const(dtypes.int64, index)}).simplify()
    return bool(found.arg)


@pytest.mark.parametrize("length", [1, 2, 7, 1 << 31, (1 << 63) - 1])
def test_the_same_places_and_the_same_errors(length: int) -> None:
    before = checked(length)
    after = eliminate_bounds_checks(before, HOST)
    assert after.op is Ops.WHERE
    ends = (0, 1, 2, 3, length - 2, length - 1, (1 << 63) - 1)
    for index in {*ends, *(-end - 1 for end in ends), *(min(e + 1, (1 << 63) - 1) for e in ends)}:
        inside = 0 <= index < length
        assert asks(after, index) == asks(before, index) == inside
        assert value(after, index) == (value(before, index) if inside else 0)


@pytest.mark.parametrize(
    "condition", [INDEX < 7, ~(INDEX < 0), INDEX.ne(3) | (~(INDEX < 0) & (INDEX < 7)),
                  ~(INDEX < 0) & (INDEX < 8), ~(INDEX < 1) & (INDEX < 7)],
)  # fmt: skip
def test_clamps_stay_where_the_check_asks_something_else(condition: UOp) -> None:
    root = checked(7, condition)
    assert eliminate_bounds_checks(root, HOST) is root


def test_clamps_stay_without_integers_of_64_bits() -> None:
    root = checked(7)
    assert eliminate_bounds_checks(root, Target("narrow", missing=frozenset({"int64"}))) is root


def test_a_lookup_compares_once_and_chooses_in_the_block_that_fails() -> None:
    zeros, index = Tensor.empty(8, 40), Tensor.empty(8, 64, dtype="int64")
    (program,) = lower(zeros.scatter_add(1, index, Tensor.empty(8, 64)), target="cpu")
    assert "phi i64 [" in program.source.partition("fail0:")[2].partition("fadd")[0]
    assert "icmp ult i64" in program.source and "smax" not in program.source


def test_vectors_of_indices_need_no_clamp_either() -> None:
    found = Tensor.empty(40).gather(0, Tensor.empty(64, dtype="int64"))
    (program,) = lower(found * 2, target="cpu")
    assert "<4 x i64>" in program.source and "smax" not in program.source


def test_under_a_condition_indices_outside_are_not_read() -> None:
    x = np.arange(5, dtype=np.float32)
    index = np.array([0, 4, 99, -1, -7, 2**62, -(2**62)])
    fine = (index >= -5) & (index < 5)
    found = Tensor(fine).where(Tensor(x)[Tensor(index)], -1.0)
    assert found.tolist() == [0, 4, -1, 4, -1, -1, -1]
    with pytest.raises(OutOfBoundsError):
        Tensor(x)[Tensor(index)].realize()
