"""Long reductions to few results are cut into parts that depend on the shape alone."""

import numpy as np
import pytest

from tests.graph.evaluate import evaluate, tensor
from tests.schedule.graphs import compute, kernels
from torpor import dtypes
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.schedule.prepare import SPLIT_FROM, parts_of


def test_a_long_sum_is_cut_and_says_so():
    root = build.reduce(tensor(np.ones((512, 512))), Ops.ADD, None)
    assert [item.reason for item in kernels(root)] == ["long reduction", "output"]
    assert compute([root])[0] == 512 * 512


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MIN])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_parts_make_the_same_result(op, axes):
    x = tensor((np.arange(96 * 64 * 40) * 7 % 1013 - 500.0).reshape(96, 64, 40))
    root = build.reduce(x, op, axes)
    np.testing.assert_array_equal(compute([root])[0], evaluate(root))


def test_nan_comes_through_the_parts():
    values = np.zeros(SPLIT_FROM * 2, np.float32)
    values[-1] = np.nan
    assert np.isnan(compute([build.reduce(tensor(values), Ops.MAX, None)])[0])


@pytest.mark.parametrize(
    "length",
    [SPLIT_FROM, SPLIT_FROM * 3, 65537, 1_000_000, 1009 * 1013, 3 << 24, 39_999_983, 10**11],
)
def test_parts_are_of_one_length_and_what_is_left_over_is_short(length):
    parts, size = parts_of(length)
    assert parts >= 8 and 0 <= length - parts * size < 2 * size


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MAX, Ops.MIN])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((65537,), (0,)),
        ((2, 65537), (1,)),
        ((65539, 3), (0,)),
        ((7, 65537, 2), (0, 1)),
        ((1031, 2, 509), (0, 2)),
    ],
)
def test_lengths_that_nothing_divides(op, shape, axes):  # fmt: skip
    x = tensor((np.arange(np.prod(shape)) * 7 % 1013 - 500.0).reshape(shape))
    np.testing.assert_array_equal(compute([build.reduce(x, op, axes)])[0],
                                  evaluate(build.reduce(x, op, axes)))  # fmt: skip


def test_a_marker_costs_nothing():
    x = tensor(np.arange(4, dtype=np.int32))
    (item,) = kernels(build.detach(build.leaf(build.elementwise(Ops.ADD, x, x))))
    assert [n.op for n in item.ast.toposort()].count(Ops.ADD) == 1
    assert item.ast.src[0].src[1].dtype is dtypes.int32


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((16, 3, 48, 48), (0, 1, 2, 3)), ((5, 9, 31, 67), (1, 2, 3)), ((300, 301), (0, 1))],
)
def test_parts_of_a_crop_are_whole_rows_of_it(shape, axes):
    wide = tuple(size + 7 for size in shape)
    values = tensor((np.arange(np.prod(wide)) * 7 % 1013 - 500.0).reshape(wide))
    crop = build.shrink(values, [(3, 3 + size) for size in shape])
    root = build.reduce(crop, Ops.ADD, axes)
    np.testing.assert_array_equal(compute([root])[0], evaluate(root))
    found = {n.op for item in kernels(root) for n in item.ast.toposort()}
    assert not found & {Ops.IDIV, Ops.MOD}
