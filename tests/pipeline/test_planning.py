"""Between the schedule and the programs: phases, and operands copied in the order of their use."""

import os

import numpy as np
import pytest

from torpor import Tensor, dtypes
from torpor.device import bulk
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.kernel import Piece
from torpor.pipeline import beside
from torpor.pipeline.compile import has_kernel
from torpor.pipeline.planning import divisions, of_piece, rules_for, target_of


def test_a_part_has_the_values_of_its_own_variables():
    one, other = (UOp(Ops.VARIABLE, dtypes.index, (), (name, 0, 9)) for name in ("v0", "v1"))
    bound = tuple(UOp(Ops.BIND, dtypes.index, (v, UOp.index_const(3))) for v in (one, other))
    values = ("v0", 3), ("v1", 5)
    whole = ScheduleItem(UOp.sink(one + other), (), values, "order of use", bindings=bound)
    part = of_piece(whole, Piece(UOp.sink(other * 2), ()))
    assert part.variables == (("v1", 5),) and part.bindings == bound[1:]
    assert part.reason == "order of use"
    nothing = of_piece(whole, Piece(UOp.sink(UOp.index_const(1)), ()))
    assert nothing.variables == () == nothing.bindings


def test_operands_are_put_in_order_for_each_block_of_a_chain():
    """20 heads of 1000 queries and 512 keys, with a band as mask: its chain copies an operand."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((20, n, 8), np.float32) for n in (1000, 512, 512))
    mask = abs(np.subtract.outer(np.arange(1000), np.arange(512))) < 700
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), attn_mask=Tensor(mask))
    scores = np.where(mask, q.astype(np.float64) @ k.swapaxes(1, 2) / np.sqrt(8), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights @ v / weights.sum(-1, keepdims=True)
    error = np.linalg.norm(found.numpy() - expected)
    assert error < 1e-6 * np.linalg.norm(expected)


def test_phases_in_which_nothing_is_summed_store_zeros():
    """Windows of one place, four apart: three of four rows are of no window, and read nothing."""
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 16, 40, 12), np.float32)
    w = random.standard_normal((16, 8, 3, 1), np.float32)
    expected = np.zeros((2, 8, 163, 45))
    for row in range(3):
        part = np.einsum("nchw,cd->ndhw", x, w[:, :, row, 0], dtype=np.float64)
        expected[:, :, 3 * row : 3 * row + 157 : 4, ::4] += part
    made = Tensor(x).conv_transpose2d(Tensor(w), stride=4, dilation=3)
    assert np.linalg.norm(made.numpy() - expected) < 1e-6 * np.linalg.norm(expected)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is no second processor")
def test_rules_make_the_same_of_kernels_in_another_process(monkeypatch):
    weight = Tensor.empty(64, 64, 3, 3).requires_grad_()
    images = Tensor.empty(8, 64, 24, 24)
    images.conv2d(weight, stride=2, padding=1).sum().backward()
    assert weight.grad is not None
    asts = [
        (item.ast, rules_for(item), target_of("CPU"))
        for item in weight.grad.schedule()
        if has_kernel(item)
    ]
    asts = list(dict.fromkeys(asts))
    known = [divisions(*one) for one in asts]
    bulk.wake(beside._COMMAND)
    there: list[object] = []
    monkeypatch.setattr(beside, "_from_there", lambda answer: there.append(answer) or answer[0])
    for _ in range(1000):
        found = beside.beside(divisions, asts * 20)
        assert found == known * 20
        if there:
            return
    pytest.fail("the other process never took part")
