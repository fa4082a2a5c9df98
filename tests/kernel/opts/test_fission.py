"""Reductions that share a loop in several places get loops of their own, and kernels come out."""

from itertools import product

import numpy as np
import pytest

from torpor import Tensor, dtypes, jit, lower
from torpor.base.errors import ContractError
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.opts.fission import fission_loops
from torpor.kernel.opts.normalise import normalise
from torpor.kernel.passes.linearise import linearise
from torpor.kernel.ranges import closed_by

ROW, COLUMN = UOp.range(3, 0, AxisType.LOOP), UOp.range(2, 1, AxisType.LOOP)
STEP, INNER = UOp.range(4, 2, AxisType.REDUCE), UOp.range(5, 3, AxisType.REDUCE)


def memory(slot: int, position: UOp) -> UOp:
    place = UOp(Ops.PARAM, dtypes.float32, (), ParamArg(slot, 4096))
    return UOp(Ops.INDEX, dtypes.float32, (place, position))


def load(slot: int, *places: tuple[UOp, int]) -> UOp:
    terms = [one * factor for one, factor in places]
    return UOp(Ops.LOAD, dtypes.float32, (memory(slot, sum(terms[1:], terms[0])),))


def total(value: UOp, *ranges: UOp) -> UOp:
    return UOp(Ops.REDUCE, dtypes.float32, (value, *ranges), Ops.ADD)


def kernel(value: UOp) -> UOp:
    target = memory(0, ROW * 2 + COLUMN)
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (target, value, ROW, COLUMN)))


def loops(root: UOp) -> list[UOp]:
    return [node for node in root.toposort() if node.op is Ops.RANGE]


HERE = total(load(1, (ROW, 40), (COLUMN, 8), (STEP, 1)), STEP)
OUTSIDE = total(load(2, (ROW, 4), (STEP, 1)), STEP)


def test_a_sum_that_needs_fewer_loops_gets_one_of_its_own():
    parted = fission_loops(kernel(HERE / OUTSIDE))
    steps = [r for n in parted.toposort() if n.op is Ops.REDUCE for r in closed_by(n)]
    assert len(steps) == 2 == len(set(steps)) and len({r.arg[0] for r in loops(parted)}) == 4
    lines = linearise(parted)
    assert [n.op for n in lines].count(Ops.END) == 4


def test_what_needs_itself_is_an_error_and_no_endless_search():
    with pytest.raises(ContractError, match="needed to compute itself"):
        linearise(kernel(HERE / OUTSIDE))


def test_sums_in_one_place_keep_their_loop():
    root = kernel(HERE + total(load(2, (ROW, 8), (COLUMN, 4), (STEP, 1)), STEP))
    assert fission_loops(root) is root


def test_what_runs_in_a_loop_moves_along():
    here = total(total(load(1, (ROW, 400), (COLUMN, 80), (STEP, 8), (INNER, 1)), INNER), STEP)
    outside = total(total(load(2, (STEP, 8), (INNER, 1)), INNER), STEP)
    parted = fission_loops(kernel(here - outside))
    assert len(loops(parted)) == 6 == len({r.arg[0] for r in loops(parted)})
    assert [n.op for n in linearise(parted)].count(Ops.END) == 6


def test_loops_are_apart_before_opts_are_chosen():
    alone = normalise(kernel(HERE / OUTSIDE))
    assert len(loops(alone)) == 4 == len({r.arg[0] for r in loops(alone)})


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_a_reduction_inside_a_store_on_the_way_moves_with_it(device: str) -> None:
    """The sum over 17 rows runs in the loop over 7 of another sum, and in that of its own store."""
    x = np.arange(17 * 5 * 7, dtype=np.float64).reshape(17, 5, 7) % 11
    tensor = Tensor(x, device=device)
    rows = tensor.sum(0)
    whole = (tensor - rows).sum((0, 2))
    Tensor.realize(whole, rows)
    np.testing.assert_array_equal(rows.numpy(), x.sum(0))
    np.testing.assert_array_equal(whole.numpy(), (x - x.sum(0)).sum((0, 2)))


def windows(x: np.ndarray, size, stride, padding, ceil: bool, padded_counts: bool) -> np.ndarray:
    """Means over windows of the last two axes, one by one."""
    found, counts = [], []
    for length, k, s, p in zip(x.shape[2:], size, stride, padding):
        rest = length + 2 * p - k
        outputs = -(-rest // s) + 1 if ceil else rest // s + 1
        outputs -= ceil and (outputs - 1) * s >= length + p
        starts = [n * s - p for n in range(outputs)]
        found.append([(max(a, 0), min(a + k, length)) for a in starts])
        whole = [min(a + k, length + p) - a for a in starts]
        counts.append(whole if padded_counts else [b - a for a, b in found[-1]])
    made = np.zeros((*x.shape[:2], len(found[0]), len(found[1])))
    for (i, (a, b)), (j, (c, d)) in product(enumerate(found[0]), enumerate(found[1])):
        made[:, :, i, j] = x[:, :, a:b, c:d].sum((2, 3)) / (counts[0][i] * counts[1][j])
    return made


@pytest.mark.parametrize(
    ("shape", "size", "stride", "padding", "ceil", "counted"),
    [
        ((2, 3, 6, 5), (4, 4), (2, 2), (1, 1), False, False),
        ((2, 3, 5, 5), (4, 4), (1, 3), (2, 2), False, False),
        ((2, 3, 6, 6), (5, 5), (2, 2), (2, 1), False, False),
        ((2, 3, 6, 5), (5, 5), (2, 2), (0, 1), True, True),
        ((3, 16, 5, 5), (3, 5), (4, 4), (0, 0), True, True),
    ],
)
def test_means_over_windows_at_borders(shape, size, stride, padding, ceil, counted):
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    found = Tensor(x).avg_pool2d(size, stride, padding, ceil, counted)
    expected = windows(x.astype(np.float64), size, stride, padding, ceil, counted)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_whose_padding_is_as_wide_as_its_steps():
    random = np.random.default_rng(4)
    x, w = random.standard_normal((1, 16, 3, 5)), random.standard_normal((16, 2, 1, 4))
    found = Tensor(x, dtype=dtypes.float32).conv_transpose2d(
        Tensor(w, dtype=dtypes.float32), stride=2, padding=2, output_padding=1, dilation=2
    )
    whole = np.zeros((1, 2, 6, 16))
    for row, column, tap in np.ndindex(3, 5, 4):
        whole[0, :, 2 * row, 2 * column + 2 * tap] += x[0, :, row, column] @ w[:, :, 0, tap]
    np.testing.assert_allclose(found.numpy(), whole[:, :, 2:4, 2:14], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["cpu", "c", "cuda", "opencl", "metal", "wgsl"])
def test_every_target_has_text_for_windows_at_borders(target):

    pooled = Tensor.empty(2, 3, 6, 5).avg_pool2d(4, 2, 1, count_include_pad=False)
    assert all(program.source for program in lower(pooled, target=target))


@pytest.mark.parametrize("size", [13, 16])
@pytest.mark.parametrize("axis", [0, 2])
def test_a_sum_beside_a_store_of_more_loops_has_its_own(size, axis):
    """What is stored and summed depends on fewer axes than it has, as is found out late."""

    @jit
    def program(some, row):
        same = (some ^ some) | row.expand(*some.shape)
        return same, same.count_nonzero(axis)

    generator = np.random.default_rng(0)
    some, row = generator.random((3, 7, size)) < 0.5, generator.random((3, 1, size)) < 0.5
    expected = np.broadcast_to(row, some.shape)
    for _ in range(2):
        stored, counted = program(Tensor(some), Tensor(row))
        assert (stored.numpy() == expected).all()
        assert (counted.numpy() == np.count_nonzero(expected, axis)).all()


def test_a_sum_that_is_made_of_another_gets_a_loop_behind_it():
    square = load(1, (ROW, 40), (COLUMN, 8), (STEP, 1))
    first = total(square * square, STEP)
    later = total(square / first, STEP)
    parted = fission_loops(kernel(later + first + total(square, STEP)))
    steps = [r for n in parted.toposort() if n.op is Ops.REDUCE for r in closed_by(n)]
    assert len(steps) == 3 and len(set(steps)) == 2  # those that wait for nothing share theirs
    lines = linearise(parted)
    assert [n.op for n in lines].count(Ops.END) == 4


def test_a_condition_of_an_index_that_another_sum_decides():
    """Where the deviation is 0 nobody wants what the index picks."""
    index, numbers = Tensor([2, 0, 1, 3]), np.array([0.4, 1.4, 2.4, 3.4])
    x = Tensor(numbers, requires_grad=True)
    picked = x.gather(0, index)
    made = picked * (picked.std() + 1)
    made.backward(made.ones_like(), create_graph=True)
    slope = x.grad
    slope.numpy()
    (found,) = slope.square().sum().gradient(x)
    away, deviation = numbers - numbers.mean(), numbers.std(ddof=1)
    by_mean = numbers.sum() / (3 * deviation)
    first = deviation + 1 + by_mean * away
    hessian = np.outer(np.ones(4), away) / (3 * deviation)
    hessian = hessian + hessian.T
    hessian += by_mean * (np.eye(4) - 0.25 - np.outer(away, away) / (3 * deviation**2))
    np.testing.assert_allclose(found.numpy(), 2 * hessian @ first, rtol=1e-9)
