"""Products of matrices by instructions that multiply whole ones: by the interpreter, and by their
meaning written in plain LLVM IR.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests import matrices
from torpor import Tensor
from torpor.base.errors import OptError
from torpor.base.target import Fragment, get_target
from torpor.ir import parse, show
from torpor.ir.records import Opt, OptOps
from torpor.kernel.opts.kernel import Kernel

FORMATS = [
    ("bfloat16", "bfloat16"),
    *((a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")),
]


@pytest.mark.parametrize(("left", "right"), FORMATS)
@pytest.mark.parametrize("run", [matrices.interpreted, matrices.emulated])
def test_every_pair_of_formats(left, right, run):
    """All signs, the least and greatest numbers, in the plan that is predicted to be best."""
    a, b = matrices.operand(left, (64, 128)), matrices.operand(right, (128, 96), 1)
    item = matrices.last_item(matrices.product(a, b))
    made = next(matrices.plans_for(item))
    got = run(item, made.opts)
    np.testing.assert_array_equal(got.reshape(64, 96), matrices.exact(a, b))


@pytest.mark.parametrize("form", matrices.FORMS)
@pytest.mark.parametrize("shape", [(33, 40, 65), (70, 66, 17)])
def test_sizes_that_fill_no_matrices_and_transposed_operands(form, shape):
    """Ways to tile them, and whatever lies beyond their ends."""
    rows, summed, columns = shape
    a = matrices.operand("int8", (rows, summed))
    b = matrices.operand("uint8", (summed, columns), 1)
    item = matrices.last_item(matrices.product(a, b, form))
    found = list(matrices.plans_for(item))
    assert found
    for made in found[:: max(1, len(found) // 2)]:
        got = matrices.emulated(item, made.opts)
        np.testing.assert_array_equal(got.reshape(rows, columns), matrices.exact(a, b))


def test_what_follows_the_sum_and_what_it_begins_with():
    a, b = matrices.operand("bfloat16", (50, 96)), matrices.operand("bfloat16", (96, 40), 1)
    bias = np.arange(-20, 20, dtype=np.float32) * 1e4
    item = matrices.last_item((matrices.product(a, b) + Tensor(bias).realize()).relu() * 0.5)
    got = matrices.emulated(item, next(matrices.plans_for(item)).opts)
    want = np.maximum(matrices.exact(a, b) + bias, 0) * np.float32(0.5)
    np.testing.assert_array_equal(got.reshape(50, 40), want)


def test_batches_and_several_axes_of_the_sum():
    a = matrices.operand("int8", (3, 40, 2, 64))
    b = matrices.operand("int8", (3, 2, 64, 48), 1)
    x, y = Tensor(a).realize().int(), Tensor(b).realize().int()
    result = (x.reshape(3, 40, 1, 2, 64) * y.permute(0, 3, 1, 2).reshape(3, 1, 48, 2, 64)).sum(
        (3, 4), dtype="int32"
    )
    item = matrices.last_item(result)
    want = np.einsum("bikl,bklj->bij", a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
    for made in list(matrices.plans_for(item))[::9]:
        got = matrices.emulated(item, made.opts)
        np.testing.assert_array_equal(got.reshape(3, 40, 48), want)


def test_an_instruction_of_another_shape():
    """The interpreter multiplies matrices of any shape that a target says it has."""
    small = Fragment("int8", "int8", rows=8, columns=4, words=2, registers=16)
    target = replace(get_target("python"), fragments=(small,))
    a, b = matrices.operand("int8", (16, 32)), matrices.operand("int8", (32, 8), 1)
    opts = [
        Opt(OptOps.DOT, 0, 4), Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.STAGE, 0, 1),
        Opt(OptOps.UNROLL, 0, 2), Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.MMA, 1),
    ]  # fmt: skip
    item = matrices.last_item(matrices.product(a, b))
    got = matrices.interpreted(item, opts, target)
    np.testing.assert_array_equal(got.reshape(16, 8), matrices.exact(a, b))


OPTS = [
    Opt(OptOps.DOT, 0, 4), Opt(OptOps.UPCAST, 1, 32), Opt(OptOps.STAGE, 0, 1),
    Opt(OptOps.UNROLL, 0, 16), Opt(OptOps.UPCAST, 0, 32), Opt(OptOps.MMA, 1),
]  # fmt: skip


def item_of(left="int8", right="int8"):
    a, b = matrices.operand(left, (64, 128)), matrices.operand(right, (128, 64), 1)
    return matrices.last_item(matrices.product(a, b))


@pytest.mark.parametrize(
    ("opts", "target", "why"),
    [
        (OPTS[:5], "avx512", "MMA.*no instruction for matrices"),
        ([*OPTS[:2], *OPTS[3:5]], "amx", "MMA.*as they lie in memory"),  # columns are not packed
        ([OPTS[0], Opt(OptOps.UPCAST, 1, 8), *OPTS[2:5]], "amx", "MMA.*as they lie in memory"),
        ([OPTS[0], Opt(OptOps.UPCAST, 1, 64), *OPTS[2:5]], "amx", "MMA.*as they lie in memory"),
        (OPTS[1:3], "amx", "MMA.*reduce axis"),
    ],
)
def test_refusals(opts, target, why):
    """No such instruction; operands that lie otherwise; tiles of other sizes, and too many."""
    facts = matrices.AMX if target == "amx" else replace(matrices.AMX, fragments=())
    dots = replace(facts, dots=facts.dots | {("int8", "int8")})
    kernel = Kernel(item_of().ast, dots).apply(opts)
    with pytest.raises(OptError, match=why):
        kernel.apply_opt(Opt(OptOps.MMA, len(kernel.reduce_axes) - 1))


def test_kernels_with_matrices_are_text_and_back():
    kernel = Kernel(item_of().ast, matrices.AMX).apply(OPTS)
    assert "Fragment(left='int8'" in show(kernel.ast)
    assert "Rows(count=16, apart=32)" in show(kernel.ast)
    assert parse(show(kernel.ast)) is kernel.ast


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (3, 2)])
def test_convolutions(size, stride):
    """Windows and their borders, as rows and as columns of matrices."""
    x = matrices.operand("bfloat16", (2, 32, 8, 18))
    w = matrices.operand("bfloat16", (32, 32, size, size), 1)
    left, right = (Tensor(v).realize().float() for v in (x, w))
    item = matrices.last_item(left.conv2d(right, padding=size // 2, stride=stride))
    padded = np.pad(x.astype(np.float32), [(0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
    want = np.einsum("bcyxji,ocji->boyx", windows[:, :, ::stride, ::stride], w.astype(np.float32))
    found = list(matrices.plans_for(item))
    assert found
    for made in (found[0], found[-1]):
        got = matrices.emulated(item, made.opts)
        np.testing.assert_array_equal(got.reshape(want.shape), want)
