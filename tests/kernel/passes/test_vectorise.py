"""Kernels with vectors of which only some lanes are stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernel.kernels import case, check_kernel, sample
from torpor import Context, Tensor
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.kernel import Opt, OptOps, lower

ROWS = case("rows", build.elementwise(Ops.MUL, sample(5, 7), sample(5, 7, step=3)))


@pytest.mark.parametrize("size", [8, 16])
def test_the_rest_of_a_row_is_stored_in_parts(size):
    opts = [Opt(OptOps.PADTO, 0, size), Opt(OptOps.UPCAST, 0, 0)]
    with Context(CHECK=1):
        check_kernel(ROWS, "CPU", opts)
        check_kernel(ROWS, "PYTHON", opts)


@pytest.mark.parametrize(("width", "masked"), [(32, False), (64, True)])
def test_stores_under_masks_are_for_vectors_that_come_with_masks(width, masked):
    (item,) = (Tensor(np.ones((8, 7), np.float32)) + 1).sum(0).schedule()[-1:]
    target = replace(get_target("cpu"), vector_bytes=width)
    opts = [Opt(OptOps.PADTO, 0, width // 4), Opt(OptOps.UPCAST, 0, 0)]
    linear = lower(item.ast, target, opts).linear
    stores = [n for n in linear if n.op is Ops.STORE and n.src[0].op is Ops.INDEX]
    assert any(len(n.src[0].src) > 2 for n in stores) == masked
    if not masked:
        assert [n.src[1].dtype.count for n in stores] == [4, 2, 1]
