"""Integers of 8, 16 and 64 bits in WGSL, run where WebGPU is installed, against NumPy."""

import numpy as np
import pytest

import torpor
from tests.graph.evaluate import tensor
from tests.schedule.graphs import kernels
from tests.source import programs, webgpu
from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir import Ops, UOp, Variable, graph_rewrite
from torpor.kernel import lower
from torpor.kernel.decompose.division import DIVISION_RULES
from torpor.source import render
from torpor.source.linear import prepare
from torpor.source.wgsl_integers import FUNCTIONS, needs

WIDE = ("int64", "uint64")
FORMATS = (*WIDE, "int8", "uint8", "int16", "uint16", "int32", "uint32")
ITEMS = 64  # of a group


def edges(dtype):
    """Numbers around every power of two, and random ones of every size."""
    info, random = np.iinfo(dtype), np.random.default_rng(21)
    near = [s * (1 << n) + d for n in range(64) for d in (-2, -1, 0, 1, 2) for s in (1, -1)]
    near = [n for n in near if info.min <= n <= info.max]
    free = random.integers(info.min, info.max, 4000, dtype=dtype, endpoint=True)
    free >>= random.integers(0, info.bits, 4000).astype(dtype)
    found = np.concatenate([np.array(near, dtype), free])
    return found[: len(found) // ITEMS * ITEMS]


def computed(inputs, values):
    """What `values` of elements of the inputs are: one work item an element."""
    size, memory = len(inputs[0]), [dtypes.from_numpy(a.dtype) for a in inputs]
    group = UOp(Ops.SPECIAL, dtypes.int32, (programs.number(size // ITEMS),), "gidx0")
    item = group * ITEMS + UOp(Ops.SPECIAL, dtypes.int32, (programs.number(ITEMS),), "lidx0")

    def element(slot, dtype):
        return programs.at(programs.param(slot, dtype, size), item)

    outputs = []
    count = len(values(*(programs.load(element(0, f)) for f in memory)))
    for number in range(count):  # a program for each, as a group has few buffers
        loaded = [programs.load(element(1 + n, f)) for n, f in enumerate(memory)]
        result = graph_rewrite(values(*loaded)[number], DIVISION_RULES)
        linear = prepare([programs.store(element(0, result.dtype), result)])
        arrays = [np.zeros(size, result.dtype.numpy), *inputs]
        text = render(linear, "wgsl", "computed")
        found, _ = webgpu.run(text, "computed", linear, arrays, groups=size // ITEMS)
        outputs.append(found[0])
    return outputs


@pytest.mark.parametrize("dtype", FORMATS)
def test_arithmetic_of_numbers_of_every_size(dtype):
    random = np.random.default_rng(22)
    a, b = edges(dtype), edges(dtype)
    a = np.concatenate([a, a, a])
    b = np.concatenate([b, random.permutation(b), random.permutation(b)])
    b[b == 0] = 1
    n = (np.arange(len(a)) % np.iinfo(dtype).bits).astype(dtype)
    with np.errstate(all="ignore"):
        expected = (
            a // b, a % b, a * b, a + b, a - b, a < b, a == b, a != b, np.maximum(a, b),
            np.minimum(a, b), a << n, a >> n, a // 8, a % 8, a & b, a | b, a ^ b,
            np.where(a < b, a, 3).astype(dtype), a // 7, a % 7,
        )  # fmt: skip
    found = computed([a, b, n], lambda x, y, s: [
        x // y, x % y, x * y, x + y, x - y, x < y, x.eq(y), x.ne(y), x.maximum(y),
        x.minimum(y), x << s, x >> s, x // 8, x % 8, x & y, x | y, x ^ y, (x < y).where(x, 3),
        x // 7, x % 7,
    ])  # fmt: skip
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("dtype", [*FORMATS, "bool"])
def test_conversions_wrap(dtype):
    a = edges("int64").astype(dtype)
    others = [n for n in (*FORMATS, "bool") if n != dtype]
    found = computed([a], lambda x: [x.cast(getattr(dtypes, n)) for n in others])
    for got, name in zip(found, others, strict=True):
        np.testing.assert_array_equal(got, a.astype(name), name, strict=True)


@pytest.mark.parametrize("dtype", WIDE)
def test_conversion_to_float32_rounds_once(dtype):
    a = edges(dtype)
    odd = np.arange(2**25 + 1, 2**25 + 129, 2)
    ties = np.concatenate([(odd << s) + d for s in range(37) for d in (-1, 0, 1)])
    a = np.concatenate([a, ties.astype(dtype), (-ties).astype(dtype)])
    (got,) = computed([a], lambda x: [x.cast(dtypes.float32)])
    np.testing.assert_array_equal(got, a.astype(np.float32))


@pytest.mark.parametrize("dtype", WIDE)
def test_conversion_from_float32_truncates(dtype):
    random, high = np.random.default_rng(23), 2.0 ** (63 if dtype == "int64" else 64)
    x = random.uniform(-1, 1, 3003) * 2.0 ** random.integers(-3, 63, 3003)
    x = np.concatenate([x, [0.0, -0.0, 0.99, -0.99, np.nextafter(np.float32(high), np.float32(0))]])
    x = x.astype(np.float32) if dtype == "int64" else np.abs(x).astype(np.float32)
    (got,) = computed([x], lambda v: [v.cast(getattr(dtypes, dtype))])
    np.testing.assert_array_equal(got, x.astype(dtype))


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("dtype", FORMATS)
def test_programs_agree_with_numpy(dtype, count):
    """Vectors too, each result by itself: WebGPU has too few buffers for all."""
    case = programs.integer_arithmetic(count, dtype)
    stores = [n for n in case.linear if n.op is Ops.STORE]
    assert len(stores) == len(case.expected)
    text = render(case.linear, "wgsl", "whole")
    found, _ = webgpu.run(
        text, "whole", case.linear, [np.zeros_like(e) for e in case.expected] + case.inputs
    )
    for got, want in zip(found, case.expected, strict=False):
        np.testing.assert_array_equal(got, want, strict=True)


def test_sums_of_64_bits_add_up():
    values = np.random.default_rng(24).integers(-(2**62), 2**62, (12, 40))
    (item,) = kernels(build.reduce(tensor(values), Ops.ADD, 1), device="PYTHON")
    program = lower(item.ast, get_target("wgsl"))
    text = render(program.linear, "wgsl", "sums")
    arrays = [np.zeros(12, np.int64), values]
    found, _ = webgpu.run(text, "sums", program.linear, arrays, groups=program.global_size)
    np.testing.assert_array_equal(found[0], values.sum(1))


def test_a_variable_of_64_bits_is_one_uniform():
    number = Variable("n", -(1 << 40), 1 << 40)
    value = UOp.const(dtypes.int64, 3) * UOp(Ops.VARIABLE, dtypes.int64, (), number.arg)
    place = programs.at(programs.param(0, dtypes.int64), programs.number(0))
    linear = prepare([programs.store(place, value)])
    given = -(1 << 39) - 12345
    text = render(linear, "wgsl", "triple")
    found, _ = webgpu.run(text, "triple", linear, [np.zeros(48, np.int64)], (given,))
    assert found[0][0] == 3 * given


def test_counts_beyond_32_bits_are_refused():
    item = UOp(Ops.SPECIAL, dtypes.int64, (programs.number(1 << 33, dtypes.int64),), "gidx0")
    value = item.cast(dtypes.float32)
    store = programs.store(
        programs.at(programs.param(0, dtypes.float32), programs.number(0)), value
    )
    with pytest.raises(DTypeError, match="32 bits"):
        render([store], "wgsl", "far")


def test_a_program_has_the_functions_that_it_needs_only():
    (program,) = torpor.lower(torpor.Tensor.empty(8, dtype=dtypes.int64) + 1, target="wgsl")
    assert [n for n in FUNCTIONS if f"fn {n}(" in program.source] == ["add_64"]
    assert set(needs("less_i64")) == {"less_i64"}
    assert {"divide_u64", "f32_of_u64", "multiply_64"} <= set(needs("divide_u64"))
