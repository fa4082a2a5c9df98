"""What candidates are timed on."""

from __future__ import annotations

import numpy as np
import pytest

from torpor import Tensor, dtypes
from torpor.ir.ops import Ops
from torpor.pipeline.samples import WHOLE, limits_of, numbers_for, poison_for


def sampled(result):
    """What the kernel's parameters hold, by number, and their nodes."""
    (item,) = result.schedule()
    nodes = list(item.ast.toposort())
    random, limits = np.random.default_rng(1), limits_of(nodes)
    found = sorted((n for n in nodes if n.op is Ops.PARAM), key=lambda n: n.arg.slot)
    return [numbers_for(node, limits, random) for node in found], found


def test_indices_span_the_axis_that_they_select_from():
    table, index = Tensor.empty(5000, 3), Tensor.empty(2000, dtype=dtypes.int64)
    arrays, nodes = sampled(table[index])
    (picked,) = [a for a, n in zip(arrays, nodes, strict=True) if n.dtype is dtypes.int64]
    assert 4900 < picked.max() < 5000
    assert 0 <= picked.min() < 100


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64])
def test_other_integers_are_small(dtype):
    arrays, _ = sampled(Tensor.empty(3000, dtype=dtype) + 1)
    assert arrays[1].max() == WHOLE - 1
    assert arrays[1].min() == 0


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64])
def test_floats_have_either_sign(dtype):
    arrays, _ = sampled(Tensor.empty(3000, dtype=dtype) + 1)
    wide = arrays[1].astype(np.float64)
    assert abs(wide.mean()) < 0.1
    assert 0.9 < wide.std() < 1.1


def test_bools_are_both():
    arrays, _ = sampled(~Tensor.empty(100, dtype=dtypes.bool))
    assert set(arrays[1].tolist()) == {True, False}


def test_they_are_the_same_each_time():
    first, second = (sampled(Tensor.empty(64) + 1)[0][1] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_outputs_begin_as_nothing_that_is_computed():
    _, (output, *_) = sampled(Tensor.empty(64) + 1)
    assert set(poison_for(output).view(np.uint32).tolist()) == {0xA5A5A5A5}
