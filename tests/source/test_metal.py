"""Metal: golden text and its form. Nothing here can compile it."""

from __future__ import annotations

import pytest

from tests.source import golden
from torpor import Tensor, lower
from torpor.ir import UOp
from torpor.source import render


@pytest.mark.parametrize("case", golden.cases("metal"), ids=lambda c: c.name)
def test_golden(case):
    golden.check(case, "metal")


def test_a_loop_made_by_hand_is_closed():
    """Lists may leave out operands, and count in dtype index."""
    loop = UOp.range(11, 0)
    for linear in ([*loop.src, loop, UOp.end(loop)], [loop, UOp.end(loop)]):
        text = render(linear, target="metal", name="tester")
        assert "kernel void tester(" in text
        assert "for (int ridx0 = 0; ridx0 < 11; ridx0++) {" in text
        assert text.count("{") == text.count("}") == 2


def test_what_has_eight_bytes_is_moved_two_at_a_time():
    (kernel,) = lower(Tensor.empty(64, 64, dtype="int64") // 3, target="metal")
    assert "long2" in kernel.source and "long4" not in kernel.source
