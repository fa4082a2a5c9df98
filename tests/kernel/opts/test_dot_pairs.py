"""Sums of products of small integers, two terms at a time, are exact modulo 2**32."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.errors import OptError
from torpor.base.settings import Context
from torpor.base.target import Target
from torpor.device.llvm import LlvmCompiler
from torpor.device.machine import facts, machine
from torpor.ir.records import Opt, OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.opts.kernel import Kernel
from torpor.pipeline import program_for

AVX2 = facts(machine("avx2"))
VNNI = "avx512,+avx512bw,+avx512vl,+avx512vnni"


def ast_of(result):
    return result.schedule()[-1].ast


def pairs(result, target: Target = AVX2):
    opts = choose(Kernel(ast_of(result), target))
    return [(o.op, o.arg) for o in opts].count((OptOps.DOT, 2))


@pytest.mark.parametrize("form", ["plain", "left transposed", "right transposed"])
@pytest.mark.parametrize(
    ("left", "right"), [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")]
)
@pytest.mark.parametrize("inner", [96, 1100])
def test_random_products(left, right, inner, form):
    generator = np.random.default_rng(inner)
    a, b = (
        generator.integers(np.iinfo(name).min, np.iinfo(name).max + 1, shape).astype(name)
        for name, shape in ((left, (270, inner)), (right, (inner, 112)))
    )
    x, y = Tensor(a).realize().int(), Tensor(b).realize().int()
    if form == "left transposed":
        x = Tensor(np.ascontiguousarray(a.T)).realize().T.int()
    if form == "right transposed":
        y = Tensor(np.ascontiguousarray(b.T)).realize().T.int()
    assert pairs(x @ y) == 1
    want = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    np.testing.assert_array_equal((x @ y).numpy(), want)


@pytest.mark.parametrize(
    ("name", "left", "right", "inner"),
    [
        ("int8", -128, -128, 512),
        ("int8", -128, 127, 512),
        ("int8", -128, -128, 1 << 17),  # 2**31: wraps
        ("uint8", 255, 255, 1 << 16),
    ],
)
def test_extremes_wrap_like_int32(name, left, right, inner):
    a, b = np.full((96, inner), left, name), np.full((inner, 96), right, name)
    result = Tensor(a).realize().int() @ Tensor(b).realize().int()
    assert pairs(result) == 1
    want = np.int64(left) * right * inner
    assert (result.numpy() == want.astype(np.int32)).all()


@pytest.mark.parametrize("inner", [3, 197, 1101])
@pytest.mark.parametrize("form", ["plain", "right transposed"])
def test_the_last_of_an_odd_number_of_terms_is_added_by_itself(inner, form):
    """Also where the words of a row are no whole vectors."""
    generator = np.random.default_rng(inner)
    a, b = (generator.integers(-128, 128, s).astype(np.int8) for s in ((131, inner), (inner, 75)))
    a[0], b[:, 0] = -128, -128
    y = Tensor(b).realize() if form == "plain" else Tensor(np.ascontiguousarray(b.T)).realize().T
    result = Tensor(a).realize().int() @ y.int()
    assert pairs(result) == (inner > 3)
    np.testing.assert_array_equal(result.numpy(), a.astype(np.int64) @ b.astype(np.int64))


def test_odd_axes_beside_others_are_summed_one_by_one():
    """sum(a[i, k, l]*b[k, l, j]) over 3 by 7 terms: what is left of an axis would be a sum too."""
    a, b = Tensor.empty(64, 3, 7, dtype=dtypes.int8), Tensor.empty(3, 64, 7, dtype=dtypes.int8)
    x, y = a.reshape(64, 1, 3, 7).int(), b.permute(1, 0, 2).reshape(1, 64, 3, 7).int()
    kernel = Kernel(ast_of((x * y).sum((2, 3), dtype=dtypes.int32)), AVX2)
    with pytest.raises(OptError, match="whole words"):
        kernel.apply_opt(Opt(OptOps.DOT, 1, 2))


def test_several_reduce_axes_and_what_follows_the_sum():
    """sum(a[i, k, l]*b[k, l, j]) of an odd and an even axis, scaled in float32."""
    generator = np.random.default_rng(2)
    a = generator.integers(-128, 128, (272, 3, 1 << 9)).astype(np.int8)
    b = generator.integers(-128, 128, (3, 272, 1 << 9)).astype(np.int8)
    x = Tensor(a).realize().reshape(272, 1, 3, 512).int()
    y = Tensor(b).realize().permute(1, 0, 2).reshape(1, 272, 3, 512).int()
    result = (x * y).sum((2, 3), dtype=dtypes.int32).float() * 0.5
    assert pairs(result) == 1
    want = np.einsum("ikl,kjl->ij", a.astype(np.int64), b.astype(np.int64))
    np.testing.assert_array_equal(result.numpy(), want.astype(np.float32) * np.float32(0.5))


@pytest.mark.parametrize(("rows", "many"), [(2, 0), (4, 0), (24, 1), (256, 1)])
def test_few_rows_with_rows_of_a_matrix_are_left_alone(rows, many):
    """A word that is in few products costs more to put together than it saves."""
    a, b = Tensor.empty(rows, 512, dtype=dtypes.int8), Tensor.empty(512, 512, dtype=dtypes.int8)
    assert pairs(a.int() @ b.T.int()) == many


@pytest.mark.parametrize(
    ("name", "terms", "target", "why"),
    [
        ("float32", 64, AVX2, "no instruction"),
        ("uint16", 64, AVX2, "no instruction"),
        ("int8", 64, facts(machine("aarch64")), "no instruction"),
    ],
)
def test_refusals(name, terms, target, why):
    a = Tensor.empty(32, terms, dtype=getattr(dtypes, name)).int()
    kernel = Kernel(ast_of(a @ a.reshape(terms, 32)), target)
    with pytest.raises(OptError, match=f"DOT.*{why}"):
        kernel.apply_opt(Opt(OptOps.DOT, 0, 2))


@pytest.mark.parametrize(
    ("level", "instruction", "never"),
    [("sse", "pmaddwd", "pmulld"), ("avx2", "vpmaddwd", "vpmulld"), (VNNI, "vpdpwssd", "vpmulld")],
)
def test_the_instruction_is_there(level, instruction, never):
    """Of formats of which no instruction multiplies four at a time."""
    a, b = (Tensor.empty(256, 256, dtype=dtypes.uint8) for _ in "ab")
    with Context(TARGET=level):
        ast = ast_of(a.int() @ b.int())
    program = program_for(ast, facts(machine(level)))
    text = LlvmCompiler(machine(level)).assembly(program)
    assert instruction in text
    assert never not in text


@pytest.mark.parametrize("level", ["sse", "native"])
def test_products_that_are_written_by_hand(level):
    """low*low + high*high of words that a program shifts itself, and what only resembles it."""
    if not machine(level).runs_here:
        pytest.skip(f"this processor cannot run {level}")
    generator = np.random.default_rng(3)
    words = generator.integers(-(1 << 31), 1 << 31, (2, 200)).astype(np.int32)
    words[:, :4] = [[-(1 << 31), -(1 << 31), 0x80008000 - (1 << 32), 0x7FFF7FFF]] * 2
    (x, y), (a, b) = (Tensor(w).realize() for w in words), words.astype(np.int64)
    low, high = (a << 48 >> 48, b << 48 >> 48), (a >> 16, b >> 16)
    with Context(TARGET=level):
        ours = ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16)
        crossed = ((x << 16) >> 16) * (y >> 16) + (x >> 16) * ((y << 16) >> 16)
        got = ours.numpy(), crossed.numpy()
    np.testing.assert_array_equal(got[0], (low[0] * low[1] + high[0] * high[1]).astype(np.int32))
    np.testing.assert_array_equal(got[1], (low[0] * high[1] + high[0] * low[1]).astype(np.int32))
