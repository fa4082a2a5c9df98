"""Loops that end where a condition does compute the same, and nothing beyond."""

import numpy as np
import pytest

import torpor
from tests.kernel.products import agree
from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps, ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.passes.loop_bounds import tighten_bounds
from torpor.kernel.ranges import closed_by

END, BLOCK = 129, 8
BLOCKS = UOp.range(-(-END // BLOCK), 0, AxisType.REDUCE)
INNER = UOp.range(BLOCK, 1, AxisType.REDUCE)
PLACE = BLOCKS * BLOCK + INNER


def loaded(slot: int, condition: UOp | None) -> UOp:
    memory = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, END))
    asked = () if condition is None else (condition,)
    return UOp(Ops.LOAD, dtypes.float32, (UOp(Ops.INDEX, dtypes.float32, (memory, PLACE, *asked)),))


def total(value: UOp, op: Ops = Ops.ADD) -> UOp:
    out = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, 1))
    place = UOp(Ops.INDEX, dtypes.float32, (out, UOp.index_const(0)))
    reduction = UOp(Ops.REDUCE, dtypes.float32, (value, BLOCKS, INNER), op)
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place, reduction)))


def rounds(root: UOp) -> list[list[int]]:
    """How often the inner loop runs in each block."""
    (reduction,) = (n for n in root.toposort() if n.op is Ops.REDUCE)
    (inner,) = (r for r in closed_by(reduction) if r.arg == INNER.arg)
    runs = [inner.src[0].substitute({BLOCKS: UOp.index_const(n)}).simplify() for n in range(17)]
    return [int(n.vmax) for n in runs if n.vmin == n.vmax]


INSIDE = UOp.index_const(END) > PLACE


def test_a_sum_of_products_ends_where_both_factors_do():
    shorter = tighten_bounds(total(loaded(1, INSIDE).alu(Ops.MUL, loaded(2, INSIDE))))
    assert rounds(shorter) == [8] * 16 + [1]
    assert not any(len(n.src) > 2 for n in shorter.toposort() if n.op is Ops.INDEX)


def test_a_choice_of_the_identity_ends():
    least = UOp.const(dtypes.float32, -float("inf"))
    shorter = tighten_bounds(total(INSIDE.where(loaded(1, None), least), Ops.MAX))
    assert rounds(shorter) == [8] * 16 + [1]
    assert not any(n.op is Ops.WHERE for n in shorter.toposort())


@pytest.mark.parametrize(
    "value",
    [
        loaded(1, INSIDE).alu(Ops.MUL, loaded(2, None)),  # 0 times an infinity is no 0
        loaded(1, INSIDE).alu(Ops.ADD, loaded(2, INSIDE)).alu(Ops.EXP2),  # 1 beyond the end
        INSIDE.where(loaded(1, None), UOp.const(dtypes.float32, 1.0)),
        loaded(1, UOp.index_const(BLOCKS.src[0].arg * BLOCK - BLOCK) > PLACE),  # a block without
        loaded(1, UOp.index_const(3) < PLACE),
    ],
)
def test_what_counts_beyond_the_end_goes_on(value: UOp):
    root = total(value)
    assert tighten_bounds(root) is root


@pytest.mark.parametrize("shape", [(8, 129, 640), (1, 1031, 640), (5, 67, 1100), (3, 1021, 300)])
def test_products_with_sums_of_odd_lengths(shape: tuple[int, int, int]):
    rows, length, columns = shape
    random = np.random.default_rng(4)
    x = random.standard_normal((rows, length), np.float32)
    w = random.standard_normal((length, columns), np.float32)
    agree((Tensor(x) @ Tensor(w)).numpy(), x.astype(np.float64) @ w.astype(np.float64))


def test_a_kernel_asks_no_round_of_its_loops():
    padded = [Opt(OptOps.PADTO, 2, 8), Opt(OptOps.TILE, 2, 8)]
    product = Tensor.empty(8, 129) @ Tensor.empty(129, 2048)
    (program,) = torpor.lower(product, target="cpu", opts=padded)
    assert not any(len(n.src) > 2 for n in program.linear if n.op is Ops.INDEX)
    assert any(n.op is Ops.RANGE and n.src[0].op is not Ops.CONST for n in program.linear)


@pytest.mark.parametrize("shape", [(3, 7), (17, 33), (31, 9)])
def test_loops_that_conditions_end_where_they_would_end_count_to_numbers(shape: tuple[int, int]):
    x = Tensor(np.ones(shape, np.float32)).pad([(1, 2), (3, 0)]).T * 2
    opts = [Opt(OptOps.PADTO, 1, 16), Opt(OptOps.UPCAST, 0, 2)]
    (program,) = torpor.lower(x.sum(0), target="cpu", opts=opts)
    ends = [n.src[0] for n in program.linear if n.op is Ops.RANGE]
    assert all(end.simplify() is end for end in ends)
