"""DOTs written out, for targets that have no instruction for them."""

import numpy as np
import pytest

from tests.kernel.decompose.evaluate import evaluate, variable
from torpor.base.dtypes import dtypes
from torpor.base.target import DOTS, get_target
from torpor.ir import Ops, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for


@pytest.mark.parametrize("formats", [*DOTS, ("uint8", "int8")])
@pytest.mark.parametrize("target", ["c", "opencl"])
def test_the_products_of_all_parts(formats, target):
    sums = dtypes.float32 if formats[0] == "bfloat16" else dtypes.int32
    words = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, (2, 1000)).astype(np.int32)
    if formats[0] == "bfloat16":  # numbers of a usual size
        words = np.random.default_rng(0).standard_normal((2, 2000)).astype(dtypes.bfloat16.numpy)
        words = words.view(np.int32)
    node = UOp(Ops.DOT, sums, (variable(dtypes.int32), variable(dtypes.int32, "y")), formats)
    made = graph_rewrite(node, rules_for(get_target(target)))
    left, right = (
        word.view(getattr(dtypes, name).numpy).reshape(1000, -1).astype(np.float64)
        for word, name in zip(words, formats, strict=True)
    )
    got = evaluate(made, x=words[0], y=words[1])
    want = (left * right).sum(1)
    if sums is dtypes.int32:
        np.testing.assert_array_equal(got, want.astype(np.int64).astype(np.int32))
    else:
        assert (np.abs(got - want) <= 2.0**-23 * np.abs(left * right).sum(1)).all()
