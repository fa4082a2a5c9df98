import numpy as np
import pytest

from tests.kernel.decompose.evaluate import evaluate, variable
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir import Ops, ParamArg, UOp, graph_rewrite
from torpor.kernel.decompose import rules_for

SMALL = [dtypes.float16, dtypes.bfloat16]
ALL_BITS = np.arange(65536, dtype=np.uint16)


def rewritten(node):
    """The node for a target that has neither format; no trace of them may be left."""
    root = graph_rewrite(node, rules_for(get_target("cpu")))
    assert not {n.dtype.scalar() for n in root.toposort()} & set(SMALL)
    return root


def finite_numbers(small):
    """Every finite number of the format in order, as float64, and its bits."""
    with np.errstate(invalid="ignore"):
        numbers = ALL_BITS.view(small.numpy).astype(np.float64)
    keep = np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    order = np.argsort(numbers[keep], kind="stable")
    return numbers[keep][order], ALL_BITS[keep][order]


def nearest_bits(values, small):
    """Bits of the nearest number of the format, ties to even, by search among all of them."""
    numbers, bits = finite_numbers(small)
    step = numbers[-1] - numbers[-2]
    numbers = np.concatenate([[-numbers[-1] - step], numbers, [numbers[-1] + step]])
    infinite = bits[-1] + np.uint16(1)
    bits = np.concatenate([[infinite | 0x8000], bits, [infinite]]).astype(np.uint16)
    result = []
    for value in values:
        if value != value:
            result.append(None)
            continue
        high = int(np.clip(np.searchsorted(numbers, float(value)), 1, len(numbers) - 1))
        low = high - 1
        # Exact in float64; Python compares an integer with its own floats exactly, too.
        middle = float((numbers[low] + numbers[high]) / 2)
        tie = high if bits[high] % 2 == 0 else low
        chosen = tie if value == middle else (high if value > middle else low)
        if chosen in (0, len(numbers) - 1) or numbers[chosen] != 0:
            result.append(int(bits[chosen]))
        else:
            result.append(0x8000 if np.signbit(float(value)) else 0)
    return result


def check_bits(found, values, small):
    expected = nearest_bits(values, small)
    numbers = found.view(small.numpy).astype(np.float32)
    for mine, number, wanted, value in zip(found.tolist(), numbers, expected, values, strict=True):
        assert np.isnan(number) if wanted is None else mine == wanted, value


def around_ties(small):
    """Halfway points between neighbours, with numbers a little to each side; as float64."""
    numbers, _ = finite_numbers(small)
    chosen = np.random.default_rng(5).choice(len(numbers) - 1, 400)
    middle = (numbers[chosen] + numbers[chosen + 1]) / 2
    last = numbers[-1]
    beyond = (last - numbers[-2]) / 2 + last  # rounds to infinity
    return np.concatenate([middle, [beyond, last, np.inf, -np.inf, np.nan, -0.0, 0.0]])


@pytest.mark.parametrize("small", SMALL)
def test_every_bit_pattern_is_read_exactly(small):
    root = rewritten(variable(dtypes.uint16).bitcast(small).cast(dtypes.float32))
    found = evaluate(root, x=ALL_BITS)
    np.testing.assert_array_equal(found, ALL_BITS.view(small.numpy).astype(np.float32))
    assert (np.signbit(found) == (ALL_BITS >= 0x8000)).all()


@pytest.mark.parametrize("small", SMALL)
def test_every_number_survives_the_way_to_float32_and_back(small):
    x = variable(dtypes.uint16).bitcast(small)
    root = rewritten(x.cast(dtypes.float32).cast(small).bitcast(dtypes.uint16))
    found = evaluate(root, x=ALL_BITS)
    numbers = ~np.isnan(ALL_BITS.view(small.numpy).astype(np.float32))
    assert (found == ALL_BITS)[numbers].all()
    assert np.isnan(found.view(small.numpy).astype(np.float32))[~numbers].all()


@pytest.mark.parametrize("small", SMALL)
def test_float32_rounds_to_nearest_even(small):
    ties = around_ties(small).astype(np.float32)
    steps = [np.nextafter(ties, np.float32(d)) for d in (-np.inf, np.inf)]
    random = np.random.default_rng(6).integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([ties, *steps, random])
    x = variable(dtypes.float32)
    check_bits(evaluate(rewritten(x.cast(small).bitcast(dtypes.uint16)), x=values), values, small)
    back = evaluate(rewritten(x.cast(small).cast(dtypes.float32)), x=values)
    wanted = evaluate(rewritten(x.cast(small).bitcast(dtypes.uint16)), x=values)
    np.testing.assert_array_equal(back, wanted.view(small.numpy).astype(np.float32))


@pytest.mark.parametrize("small", SMALL)
def test_float64_is_rounded_once(small):
    ties = around_ties(small)
    steps = [np.nextafter(ties, d) for d in (-np.inf, np.inf)]
    values = np.concatenate([ties, *steps, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)])
    root = rewritten(variable(dtypes.float64).cast(small).bitcast(dtypes.uint16))
    check_bits(evaluate(root, x=values), values, small)


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize(
    "integer", [dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.int8]
)
def test_integers_are_rounded_once(small, integer):
    random = np.random.default_rng(7)
    numbers = [0, 1, integer.max, integer.min]
    for bits in range(1, integer.bits):
        for offset in (-1, 0, 1):  # around ties: 1 bit far below 8 (or 11) significant ones
            head = int(random.integers(128, 256)) * 2 + 1
            numbers.append((head << max(0, bits - 9)) + offset)
    numbers = [n for n in numbers if integer.min <= n <= integer.max]
    numbers += [-n for n in numbers if integer.min <= -n <= integer.max]
    root = rewritten(variable(integer).cast(small).bitcast(dtypes.uint16))
    found = evaluate(root, x=np.array(numbers, integer.numpy))
    check_bits(found, numbers, small)


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize(
    ("op", "reference"),
    [(Ops.ADD, np.add), (Ops.SUB, np.subtract), (Ops.MUL, np.multiply), (Ops.FDIV, np.divide)],
)
def test_arithmetic_is_correctly_rounded(small, op, reference):
    random = np.random.default_rng(8)
    a, b = random.integers(0, 65536, (2, 3000)).astype(np.uint16)
    x, y = (variable(dtypes.uint16, n).bitcast(small) for n in "xy")
    found = evaluate(rewritten(x.alu(op, y).bitcast(dtypes.uint16)), x=a, y=b)
    with np.errstate(all="ignore"):
        exact = reference(*(v.view(small.numpy).astype(np.longdouble) for v in (a, b)))
    check_bits(found, exact.astype(np.float64), small)


@pytest.mark.parametrize("small", SMALL)
def test_comparisons_and_selection(small):
    x, y = (variable(dtypes.uint16, n).bitcast(small) for n in "xy")
    less = rewritten(x < y)
    most = rewritten((x < y).where(y, x).bitcast(dtypes.uint16))
    a, b = np.random.default_rng(9).integers(0, 65536, (2, 2000)).astype(np.uint16)
    left, right = (v.view(small.numpy).astype(np.float32) for v in (a, b))
    assert (evaluate(less, x=a, y=b) == (left < right)).all()
    found = evaluate(most, x=a, y=b).view(small.numpy).astype(np.float32)
    np.testing.assert_array_equal(found, np.where(left < right, right, left))


def kernel(small, count):
    """out[i] = in[i] * 2.5 + exp(in[i]) over vectors of `count`."""
    out, data = (UOp(Ops.PARAM, small, (), ParamArg(k, 64)) for k in range(2))
    place = UOp.const(dtypes.int32, 4)
    loaded = UOp(Ops.LOAD, small.vec(count), (UOp(Ops.INDEX, small, (data, place)),))
    value = loaded * 2.5 + loaded.alu(Ops.EXP)
    stored = UOp(Ops.STORE, dtypes.void, (UOp(Ops.INDEX, small, (out, place)), value))
    return UOp.sink(stored)


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("small", SMALL)
def test_memory_becomes_uint16(small, count):
    root = rewritten(kernel(small, count))
    memory = {n.op: n for n in root.toposort() if n.op in (Ops.PARAM, Ops.INDEX, Ops.LOAD)}
    assert memory[Ops.PARAM].dtype is dtypes.uint16
    assert memory[Ops.INDEX].dtype is dtypes.uint16
    assert memory[Ops.LOAD].dtype is dtypes.uint16.vec(count)
    store = root.src[0]
    assert store.src[1].dtype is dtypes.uint16.vec(count)


def test_a_target_that_has_the_format_keeps_it_but_for_functions():
    root = graph_rewrite(kernel(dtypes.float16, 1), rules_for(get_target("cuda")))
    loads = [n for n in root.toposort() if n.op is Ops.LOAD]
    assert [n.dtype for n in loads] == [dtypes.float16]
    assert Ops.EXP not in {n.op for n in root.toposort()}


def test_between_the_two_formats():
    a = np.arange(0, 0x7C00, 7).astype(np.uint16)
    source = variable(dtypes.uint16).bitcast(dtypes.float16)
    root = rewritten(source.cast(dtypes.bfloat16).bitcast(dtypes.uint16))
    check_bits(evaluate(root, x=a), a.view(np.float16).astype(np.float64), dtypes.bfloat16)
    mixed = graph_rewrite(
        variable(dtypes.float16).cast(dtypes.bfloat16).cast(dtypes.float32),
        rules_for(get_target("c")),
    )
    assert dtypes.bfloat16 not in {n.dtype for n in mixed.toposort()}
