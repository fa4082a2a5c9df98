"""Linear programs written by hand, each with what NumPy says of it. Shared by the tests here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.ir import AxisType, Ops, ParamArg, UOp, graph_rewrite
from torpor.kernel.decompose.division import DIVISION_RULES

SIZE = 48  # elements of most buffers: a multiple of every vector used here


@dataclass
class Case:
    """`linear` on `inputs` (after the outputs) must leave `expected` in the outputs."""

    name: str
    linear: list[UOp]
    inputs: list[np.ndarray]
    expected: list[np.ndarray]
    variables: tuple[int, ...] = ()
    threads: tuple[int, int] | None = None
    error: int | None = None  # what the error word must be
    groups: tuple[int, int] = (1, 1)  # groups and items of one
    tolerance: float = 0.0
    unlike: frozenset[str] = field(default_factory=frozenset)  # targets that cannot say it


def param(slot: int, dtype: DType, size: int = SIZE) -> UOp:
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size))


def at(memory: UOp, index: UOp, valid: UOp | None = None) -> UOp:
    return UOp(
        Ops.INDEX, memory.dtype, (memory, index) if valid is None else (memory, index, valid)
    )


def load(place: UOp, count: int = 1, *order: UOp) -> UOp:
    dtype = place.dtype if place.op is Ops.INDEX else place.dtype.scalar()
    return UOp(Ops.LOAD, dtype.vec(count), (place, *order))


def store(place: UOp, value: UOp) -> UOp:
    return UOp(Ops.STORE, dtypes.void, (place, value))


def count_up(dtype: DType, count: int) -> UOp:
    return UOp(Ops.LANES, dtype.vec(count))


def number(value: int, dtype: DType = dtypes.int32) -> UOp:
    return UOp.const(dtype, value)


Values = Callable[..., Sequence[UOp]]


def lanewise(name: str, inputs: Sequence[np.ndarray], count: int, values: Values) -> list[UOp]:
    """Every value of `values(*loads)` in an output of its own, `count` lanes at a time."""
    loop = UOp.range(SIZE // count, 0, AxisType.LOOP, dtypes.int32)
    index = loop * count if count > 1 else loop
    formats = [dtypes.from_numpy(a.dtype) for a in inputs]
    probe = values(*(load(at(param(0, f), index), count) for f in formats))
    first = len(probe)
    memory = [param(first + n, f) for n, f in enumerate(formats)]
    results = values(*(load(at(m, index), count) for m in memory))
    outputs = [param(n, v.dtype.scalar()) for n, v in enumerate(results)]
    stores = [store(at(o, index), v) for o, v in zip(outputs, results, strict=True)]
    return [*outputs, *memory, loop, *stores, UOp.end(loop)]


def special_floats(dtype: np.dtype, seed: int) -> np.ndarray:
    """Random numbers with NaN, infinities and both zeros among them, in random places."""
    random = np.random.default_rng(seed)
    values = random.normal(size=SIZE).astype(dtype) * 8
    places = random.permutation(SIZE)[:8]
    values[places] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.5, -3.5, 0.5]
    return values


def integers(dtype: np.dtype, seed: int) -> np.ndarray:
    """Random integers of all sizes, with both ends of the format, 0, 1 and -1."""
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    values = random.integers(limits.min, limits.max, SIZE, dtype=dtype, endpoint=True)
    values >>= random.integers(0, limits.bits, SIZE).astype(dtype)
    values[random.permutation(SIZE)[:5]] = [limits.min, limits.max, 0, 1, -1 if limits.min else 2]
    return values


def float_arithmetic(count: int, dtype: str) -> Case:
    a, b = special_floats(np.dtype(dtype), 1), special_floats(np.dtype(dtype), 2)

    def values(x: UOp, y: UOp) -> list[UOp]:
        return [
            x - y, x / y, x.maximum(y), x.minimum(y), x.maximum(0.0), x.minimum(1.5),
            x.alu(Ops.FLOOR), x.alu(Ops.TRUNC), x.alu(Ops.RINT), (x * x).alu(Ops.SQRT),
            (x < y).where(x, y), x < y, x.eq(y), x.ne(y), (x < y) & x.ne(1.0), ~(x < y),
        ]  # fmt: skip

    with np.errstate(all="ignore"):
        expected = [
            a - b, a / b, np.maximum(a, b), np.minimum(a, b), np.maximum(a, 0), np.minimum(a, 1.5),
            np.floor(a), np.trunc(a), np.rint(a), np.sqrt(a * a),
            np.where(a < b, a, b), a < b, a == b, a != b, (a < b) & (a != 1), ~(a < b),
        ]  # fmt: skip
    expected = [e.astype(dtype) if e.dtype != bool else e for e in expected]
    unlike = frozenset({"wgsl", "metal"}) if dtype == "float64" else frozenset()
    name = f"arithmetic_{dtype}_{count}"
    return Case(name, lanewise(name, [a, b], count, values), [a, b], expected, unlike=unlike)


def integer_arithmetic(count: int, dtype: str) -> Case:
    a, b = integers(np.dtype(dtype), 3), integers(np.dtype(dtype), 4)
    b[b == 0] = 3
    shifts = (np.arange(SIZE) % np.iinfo(dtype).bits).astype(dtype)

    def values(x: UOp, y: UOp, n: UOp) -> list[UOp]:
        results = [
            x + y, x - y, x * y, x // y, x % y, x // 4, x % 8, x // 7, x % 7, x & y, x | y, x ^ y,
            x << n, x >> n, x.maximum(y), x.minimum(y), x < y, x.eq(y), x.ne(y), ~x, x // -1 % 5,
        ]  # fmt: skip
        return [graph_rewrite(result, DIVISION_RULES) for result in results]

    with np.errstate(all="ignore"):
        seven, minus = np.array(7, dtype), np.array(-1).astype(dtype)
        expected = [
            a + b, a - b, a * b, a // b, a % b, a // np.array(4, dtype), a % np.array(8, dtype),
            a // seven, a % seven, a & b, a | b, a ^ b, a << shifts, a >> shifts, np.maximum(a, b),
            np.minimum(a, b), a < b, a == b, a != b, ~a, a // minus % np.array(5, dtype),
        ]  # fmt: skip
    unlike = frozenset() if dtype in ("int32", "uint32") else frozenset({"wgsl"})
    name = f"arithmetic_{dtype}_{count}"
    linear = lanewise(name, [a, b, shifts], count, values)
    return Case(name, linear, [a, b, shifts], expected, unlike=unlike)


NUMBERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64")


def conversions(count: int, dtype: str) -> Case:
    """From one format to all; floats that no integer holds are left out (see saturation)."""
    source = np.dtype(dtype)
    if source.kind == "f":
        a = np.random.default_rng(5).uniform(-120, 120, SIZE).astype(dtype)
        a[:3] = [0.0, -0.0, 100.75]
    else:
        a = integers(source, 6)
    chosen = [n for n in NUMBERS if not (source.kind == "f" and n.startswith("u"))]

    def values(x: UOp) -> list[UOp]:
        results = [x.cast(getattr(dtypes, n).vec(count)) for n in (*chosen, "bool")]
        return [r for r in results if r is not x] + [x.ne(0).cast(dtypes.int32.vec(count))]

    with np.errstate(all="ignore"):
        expected = [a.astype(n) for n in chosen if n != dtype]
    name = f"conversions_{dtype}_{count}"
    expected += [a != 0, (a != 0).astype(np.int32)]
    return Case(
        name, lanewise(name, [a], count, values), [a], expected, unlike=frozenset({"wgsl", "metal"})
    )


def bits(count: int) -> Case:
    a = special_floats(np.dtype("float32"), 7)
    name = f"bits_{count}"

    def values(x: UOp) -> list[UOp]:
        raw = x.bitcast(dtypes.uint32.vec(count))
        return [raw, (raw ^ 0x80000000).bitcast(x.dtype), x.bitcast(dtypes.int32.vec(count)) >> 23]

    expected = [a.view("u4"), -a, a.view("i4") >> 23]
    return Case(name, lanewise(name, [a], count, values), [a], expected)


def relu(count: int) -> Case:
    """A loop that is cut among threads: max(2x + 1, 0), some lanes only."""
    loop = UOp.range(SIZE // count, 0, AxisType.THREAD, dtypes.int64)
    index = loop * count
    out, a = param(0, dtypes.float32), param(1, dtypes.float32)
    value = (load(at(a, index), count) * 2.0 + 1.0).maximum(0.0)
    x = np.random.default_rng(8).integers(-9, 9, SIZE).astype(np.float32)
    expected = np.maximum(2 * x + 1, 0)
    expected[: 2 * count] = expected[5 * count :] = 0
    linear = [out, a, loop, store(at(out, index), value), UOp.end(loop)]
    groups = frozenset({"cuda", "opencl", "metal", "wgsl"})
    return Case(f"relu_{count}", linear, [x], [expected], threads=(2, 5), unlike=groups)


def padded(count: int) -> Case:
    """Conditions lane by lane on reads and writes; and of one bool for a whole vector."""
    loop = UOp.range(SIZE // count, 0, AxisType.LOOP, dtypes.int32)
    index = loop * count
    out, all_or_none, single, a = (param(n, dtypes.float32) for n in range(4))
    lanes = index.broadcast(count) + count_up(dtypes.int32, count)
    inside = ~(lanes < number(5).broadcast(count)) & (lanes < number(41).broadcast(count))
    writes = lanes < number(39).broadcast(count)
    shifted = load(at(a, index + -5, inside), count)
    whole = load(at(a, index, loop < 2), count)
    scalar = load(at(a, loop - 3, ~(loop < 3)))
    linear = [
        out, all_or_none, single, a, loop, store(at(out, index, writes), shifted),
        store(at(all_or_none, index), whole), store(at(single, loop, loop < 4), scalar),
        UOp.end(loop),
    ]  # fmt: skip
    x = np.random.default_rng(9).normal(size=SIZE).astype(np.float32)
    first, second, third = (np.zeros(SIZE, np.float32) for _ in range(3))
    first[5:39] = x[:34]
    second[: 2 * count] = x[: 2 * count]
    third[3 : min(4, SIZE // count)] = x[:1]
    return Case(f"padded_{count}", linear, [x], [first, second, third])


def bools(count: int) -> Case:
    random = np.random.default_rng(10)
    a, b = (random.integers(0, 2, SIZE).astype(bool) for _ in range(2))
    name = f"bools_{count}"

    def values(x: UOp, y: UOp) -> list[UOp]:
        return [x + y, x * y, x.maximum(y), x.minimum(y), x ^ y, x < y, x.eq(y), x.ne(y), ~x,
                x.cast(dtypes.float32.vec(count)), x.where(y, ~y)]  # fmt: skip

    expected = [a | b, a & b, a | b, a & b, a ^ b, ~a & b, a == b, a != b, ~a,
                a.astype(np.float32), np.where(a, b, ~b)]  # fmt: skip
    return Case(name, lanewise(name, [a, b], count, values), [a, b], expected)


def row_sums(count: int) -> Case:
    """Registers: a sum over rows with a vector of partial sums, read again in a second loop."""
    rows, columns = 4, 12
    outer = UOp.range(rows, 0, AxisType.LOOP, dtypes.int32)
    inner = UOp.range(columns // count, 1, AxisType.REDUCE, dtypes.int32)
    again = UOp.range(columns, 2, AxisType.LOOP, dtypes.int32)
    out, shares, a = (
        param(0, dtypes.float32, rows),
        param(1, dtypes.float32),
        param(2, dtypes.float32),
    )
    register = UOp(
        Ops.ACC, dtypes.float32.vec(count), (UOp.const(dtypes.float32.vec(count), 0.0),), 0
    )
    old = UOp(Ops.LOAD, register.dtype, (register, inner))
    update = store(register, old + load(at(a, outer * columns + inner * count), count))
    done = UOp.end(inner)
    total = UOp(Ops.LOAD, register.dtype, (register, done))
    result = total.gep(0) if count > 1 else total
    for n in range(1, count):
        result = result + total.gep(n)
    place = outer * columns + again
    linear = [
        out, shares, a, outer, outer * columns, register, inner, old, update, done, total, result,
        again,
        store(at(shares, place), load(at(a, place)) / result), UOp.end(again),
        store(at(out, outer), result), UOp.end(outer),
    ]  # fmt: skip
    x = np.random.default_rng(11).integers(1, 9, (rows, columns)).astype(np.float32)
    sums = x.sum(1)
    return Case(f"row_sums_{count}", linear, [x.ravel()], [sums, (x / sums[:, None]).ravel()])


def shuffles(count: int) -> Case:
    """Lanes reversed, interleaved from two vectors, and put together from scalars."""
    a, b = (np.random.default_rng(n).normal(size=SIZE).astype(np.float32) for n in (12, 13))
    name = f"shuffles_{count}"

    def values(x: UOp, y: UOp) -> list[UOp]:
        mixed = [(x if n % 2 else y).gep(n) for n in range(count)]
        sums = [x.gep(n) + y.gep(0) for n in range(count)]
        vector = dtypes.float32.vec(count)
        return [x.gep(*reversed(range(count))), UOp(Ops.VECTORIZE, vector, tuple(mixed)),
                UOp(Ops.VECTORIZE, vector, tuple(sums))]  # fmt: skip

    p, q = a.reshape(-1, count), b.reshape(-1, count)
    expected = [p[:, ::-1], np.where(np.arange(count) % 2, p, q), p + q[:, :1]]
    flat = [np.ascontiguousarray(e).ravel() for e in expected]
    return Case(name, lanewise(name, [a, b], count, values), [a, b], flat)


def checked(count: int, bad: int) -> Case:
    """A CHECK in a loop to a variable bound; element `bad` (if any) fails number 6."""
    size = UOp(Ops.VARIABLE, dtypes.int32, (), ("v0", 0, SIZE // count))
    loop = UOp.range(size, 0, AxisType.LOOP, dtypes.int32)
    out, a = param(0, dtypes.float32), param(1, dtypes.float32)
    value = load(at(a, loop * count), count)
    limit = UOp.const(value.dtype, 1e6)
    passed = UOp(Ops.CHECK, value.dtype, (value, value < limit), 6)
    linear = [out, a, size, loop, passed, store(at(out, loop * count), passed + 1.0), UOp.end(loop)]
    x = np.arange(SIZE, dtype=np.float32)
    if bad >= 0:
        x[bad] = np.inf
    rounds = 40 // count
    expected = np.where(np.arange(SIZE) < rounds * count, x + 1, 0).astype(np.float32)
    error = 7 if 0 <= bad < rounds * count else 0
    name = f"checked_{count}_{'bad' if error else 'good'}_{max(bad, 0)}"
    return Case(name, linear, [x], [expected], (rounds,), error=error)


def conditional() -> Case:
    loop = UOp.range(SIZE, 0, AxisType.LOOP, dtypes.int32)
    out, a = param(0, dtypes.int32), param(1, dtypes.int32)
    value = load(at(a, loop))
    test = UOp(Ops.IF, dtypes.void, (value < 0,))
    end = UOp(Ops.ENDIF, dtypes.void, (test,))
    linear = [out, a, loop, value, test, store(at(out, loop), 0 - value), end, UOp.end(loop)]
    x = np.random.default_rng(14).integers(-5, 5, SIZE).astype(np.int32)
    return Case("conditional", linear, [x], [np.where(x < 0, -x, 0).astype(np.int32)])


def sometimes(count: int) -> Case:
    """A register that gets other values where a condition holds in some lane."""
    loop = UOp.range(SIZE // count, 0, AxisType.LOOP, dtypes.int32)
    out, a = param(0, dtypes.int32), param(1, dtypes.int32)
    value = load(at(a, loop * count), count)
    register = UOp(Ops.ACC, value.dtype, (value,), 0)
    negative = value < 0
    test = UOp(Ops.IF, dtypes.void, (negative,))
    other = negative.where(0 - value, value)
    end = UOp(Ops.ENDIF, dtypes.void, (test,))
    chosen = UOp(Ops.LOAD, value.dtype, (register, end))
    linear = [
        out, a, loop, loop * count, value, register, negative, test, 0 - value, other,
        store(register, other), end, chosen, store(at(out, loop * count), chosen), UOp.end(loop),
    ]  # fmt: skip
    x = np.random.default_rng(16).integers(-2, 9, SIZE).astype(np.int32)
    return Case(f"sometimes_{count}", linear, [x], [np.abs(x)])


def numbers() -> Case:
    """Constants of every kind, exactly."""
    floats = [0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 3.4028234663852886e38]
    whole = [-(2**31), 2**31 - 1, -1, 0]
    out, ints = param(0, dtypes.float32, len(floats)), param(1, dtypes.int32, len(whole))
    stores = [store(at(out, number(n)), UOp.const(dtypes.float32, v)) for n, v in enumerate(floats)]
    stores += [store(at(ints, number(n)), UOp.const(dtypes.int32, v)) for n, v in enumerate(whole)]
    expected = [np.array(floats, np.float32), np.array(whole, np.int32)]
    return Case("numbers", [out, ints, *stores], [], expected)


def wide_numbers() -> Case:
    whole = [(dtypes.int64, -(2**63)), (dtypes.int64, 2**63 - 1), (dtypes.uint64, 2**64 - 1)]
    doubles = [0.1, 5e-324, float("nan"), float("-inf"), 1.7976931348623157e308]
    outputs = [param(n, d, 1) for n, (d, _) in enumerate(whole)] + [param(3, dtypes.float64, 5)]
    stores = [store(at(outputs[n], number(0)), UOp.const(d, v)) for n, (d, v) in enumerate(whole)]
    stores += [
        store(at(outputs[3], number(n)), UOp.const(dtypes.float64, v))
        for n, v in enumerate(doubles)
    ]
    expected = [np.array([v], d.numpy) for d, v in whole] + [np.array(doubles)]
    return Case(
        "wide_numbers", [*outputs, *stores], [], expected, unlike=frozenset({"wgsl", "metal"})
    )


def matmul_tile(count: int) -> Case:
    """A 4 by `count` tile in registers; a column of A broadcast against a row of B."""
    depth, columns = 6, count
    inner = UOp.range(depth, 0, AxisType.REDUCE, dtypes.int32)
    out, a = param(0, dtypes.float32, 4 * columns), param(1, dtypes.float32, 4 * depth)
    b, vector = param(2, dtypes.float32, depth * columns), dtypes.float32.vec(count)
    registers = [UOp(Ops.ACC, vector, (UOp.const(vector, 0.0),), n) for n in range(4)]
    row = load(at(b, inner * columns), count)
    updates = []
    for n, register in enumerate(registers):
        old = UOp(Ops.LOAD, vector, (register, inner))
        scalar = load(at(a, inner + n * depth))
        updates += [old, store(register, old + scalar.broadcast(count) * row)]
    end = UOp.end(inner)
    stores = []
    for n, register in enumerate(registers):
        total = UOp(Ops.LOAD, vector, (register, end))
        stores += [total, store(at(out, number(n * columns)), total)]
    linear = [out, a, b, *registers, inner, row, *updates, end, *stores]
    random = np.random.default_rng(15)
    x, y = random.integers(-4, 5, (4, depth)), random.integers(-4, 5, (depth, columns))
    x, y = x.astype(np.float32), y.astype(np.float32)
    return Case(f"matmul_{count}", linear, [x.ravel(), y.ravel()], [(x @ y).ravel()])


def group_sum() -> Case:
    """Each group of 8 items adds 8 neighbours through local memory (targets with groups)."""
    group = UOp(Ops.SPECIAL, dtypes.int32, (number(SIZE // 8),), "gidx0")
    item = UOp(Ops.SPECIAL, dtypes.int32, (number(8),), "lidx0")
    out, a = param(0, dtypes.float32, SIZE // 8), param(1, dtypes.float32)
    memory = UOp(Ops.DEFINE_LOCAL, dtypes.float32, (), ParamArg(0, 8))
    loop = UOp.range(2, 0, AxisType.REDUCE, dtypes.int32)
    register = UOp(Ops.ACC, dtypes.float32, (UOp.const(dtypes.float32, 0.0),), 0)
    first = store(at(memory, item), load(at(a, group * 8 + item)))
    barrier = UOp(Ops.BARRIER, dtypes.void, (first,))
    old = UOp(Ops.LOAD, dtypes.float32, (register, loop))
    four = load(at(memory, loop * 4), 4, barrier)
    total = four.gep(0) + four.gep(1) + four.gep(2) + four.gep(3)
    end = UOp.end(loop)
    result = UOp(Ops.LOAD, dtypes.float32, (register, end))
    linear = [
        out, a, memory, group, item, first, barrier, register, loop, old, four,
        store(register, old + total), end, result, store(at(out, group, item.eq(0)), result),
    ]  # fmt: skip
    x = np.random.default_rng(16).integers(0, 99, SIZE).astype(np.float32)
    return Case(
        "group_sum", linear, [x], [x.reshape(-1, 8).sum(1)], groups=(SIZE // 8, 8),
        unlike=frozenset({"cpu", "c"}),
    )  # fmt: skip


def all_cases() -> list[Case]:
    """Every program, small vectors and scalars, and counts that no language has."""
    cases = [float_arithmetic(c, t) for c in (1, 4) for t in ("float32", "float64")]
    cases += [float_arithmetic(8, "float32"), float_arithmetic(3, "float32")]
    cases += [integer_arithmetic(c, "int32") for c in (1, 4, 3)]
    cases += [integer_arithmetic(1, t) for t in NUMBERS[:7] if t != "int32"]
    cases += [integer_arithmetic(4, "int8"), integer_arithmetic(4, "int64")]
    cases += [conversions(1, t) for t in NUMBERS] + [conversions(4, t) for t in NUMBERS[3:8:2]]
    for count in (1, 4, 8):
        cases += [
            bits(count),
            row_sums(count if count < 8 else 2),
            bools(count),
            matmul_tile(count),
        ]
    cases += [relu(1), relu(8), padded(4), padded(8), shuffles(4), shuffles(8), shuffles(3)]
    cases += [checked(1, -1), checked(4, 9), checked(1, 45), conditional(), numbers()]
    cases += [sometimes(1), sometimes(4), sometimes(3)]
    return [*cases, wide_numbers(), group_sum()]
