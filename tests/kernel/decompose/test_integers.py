"""Programs in 32-bit integers, run by the interpreter against NumPy."""

import numpy as np
import pytest

from tests.device.test_python import load, program_of
from tests.graph.evaluate import tensor
from tests.schedule.graphs import kernels
from tests.source import programs as written
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.device import numpy_buffer
from torpor.graph import build
from torpor.ir import Ops, UOp
from torpor.kernel import lower
from torpor.kernel.decompose import in_words
from torpor.source.linear import prepare

WIDE = ("int64", "uint64")
NARROW = ("int8", "uint8", "int16", "uint16")
CASES = [c for c in written.all_cases() if c.threads is None and "float64" not in c.name]
CASES = [c for c in CASES if not any(e.dtype == np.float64 for e in c.expected)]
CASES += [written.integer_arithmetic(n, d) for d in (*WIDE, *NARROW) for n in (1, 4)]


def run(linear, outputs, inputs, groups=(1, 1), variables=()):
    """The error word, with `outputs` written by the program in 32-bit integers."""
    arrays = [*outputs, *inputs]
    executable = load(program_of(in_words(linear), *groups))
    buffers = [numpy_buffer(a.view(np.uint8), "PYTHON") for a in arrays]
    return executable(buffers, variables)


def formats(linear):
    """Formats of arithmetic: of everything but memory and the CASTs beside it."""
    beside = {Ops.PARAM, Ops.DEFINE_LOCAL, Ops.INDEX, Ops.LOAD, Ops.STORE}
    found = {n.dtype.scalar().name for n in linear if n.op not in beside | {Ops.CAST}}
    return found | {n.dtype.scalar().name for n in linear if n.dtype.bits == 64}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_programs_agree_with_numpy(case):
    outputs = [np.zeros_like(e) for e in case.expected]
    inputs = [a.copy() for a in case.inputs]
    error = run(case.linear, outputs, inputs, case.groups, case.variables)
    for number, (got, expected) in enumerate(zip(outputs, case.expected, strict=True)):
        np.testing.assert_array_equal(got, expected, f"output {number}")
    assert error == (case.error or 0)
    assert not formats(in_words(case.linear)) & {*WIDE, *NARROW}


def edges(dtype):
    """Numbers around every power of two, and random ones of every size."""
    info, random = np.iinfo(dtype), np.random.default_rng(21)
    near = [s * (1 << n) + d for n in range(64) for d in (-2, -1, 0, 1, 2) for s in (1, -1)]
    near = [n for n in near if info.min <= n <= info.max]
    free = random.integers(info.min, info.max, 4000, dtype=dtype, endpoint=True)
    free >>= random.integers(0, 64, 4000).astype(dtype)
    return np.concatenate([np.array(near, dtype), free])


def computed(inputs, values):
    """What `values` of elements of the inputs are, in 32-bit integers: one item an element."""
    size, memory = len(inputs[0]), [dtypes.from_numpy(a.dtype) for a in inputs]
    item = UOp(Ops.SPECIAL, dtypes.int32, (written.number(size),), "gidx0")

    def element(slot, dtype):
        return written.at(written.param(slot, dtype, size), item)

    count = len(values(*(written.load(element(0, f)) for f in memory)))
    results = values(*(written.load(element(count + n, f)) for n, f in enumerate(memory)))
    outputs = [np.zeros(size, r.dtype.numpy) for r in results]
    stores = [written.store(element(n, r.dtype), r) for n, r in enumerate(results)]
    run(prepare(stores), outputs, inputs, (size, 1))
    return outputs


@pytest.mark.parametrize("dtype", WIDE)
def test_division_of_numbers_of_every_size(dtype):
    random = np.random.default_rng(22)
    a, b = edges(dtype), edges(dtype)
    a = np.concatenate([a, a, a])
    b = np.concatenate([b, random.permutation(b), random.permutation(b)])
    b[b == 0] = 1
    with np.errstate(all="ignore"):
        expected = a // b, a % b, a * b, a + b, a - b, a < b
    found = computed([a, b], lambda x, y: [x // y, x % y, x * y, x + y, x - y, x < y])
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", WIDE)
def test_conversion_to_float32_rounds_once(dtype):
    a = edges(dtype)
    odd = np.arange(2**25 + 1, 2**25 + 65, 2)
    ties = np.concatenate([(odd << s) + d for s in range(38) for d in (-1, 0, 1)])
    a = np.concatenate([a, ties.astype(dtype), (-ties).astype(dtype)])
    (got,) = computed([a], lambda x: [x.cast(dtypes.float32)])
    np.testing.assert_array_equal(got, a.astype(np.float32))


@pytest.mark.parametrize("dtype", WIDE)
def test_conversion_from_float32_truncates(dtype):
    random, high = np.random.default_rng(23), 2.0 ** (63 if dtype == "int64" else 64)
    x = random.uniform(-1, 1, 3000) * 2.0 ** random.integers(-3, 63, 3000)
    x = np.concatenate([x, [0.0, -0.0, 0.99, -0.99, np.nextafter(np.float32(high), np.float32(0))]])
    x = x.astype(np.float32) if dtype == "int64" else np.abs(x).astype(np.float32)
    (got,) = computed([x], lambda v: [v.cast(getattr(dtypes, dtype))])
    np.testing.assert_array_equal(got, x.astype(dtype))


def test_registers_of_two_words_add_up():
    """A sum of int64, lowered and run in 32-bit integers."""
    values = np.random.default_rng(24).integers(-(2**62), 2**62, (12, 40))
    (item,) = kernels(build.reduce(tensor(values), Ops.ADD, 1), device="PYTHON")
    lowered = lower(item.ast, get_target("wgsl"))
    assert not any(n.dtype.bits == 64 for n in lowered.linear)
    output = np.zeros(12, np.int64)
    run(lowered.linear, [output], [values.copy()], (lowered.global_size[0], lowered.local_size[0]))
    np.testing.assert_array_equal(output, values.sum(1))
