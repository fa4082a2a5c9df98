import numpy as np
import pytest

from tests.kernel.decompose.evaluate import evaluate, variable
from torpor.base.dtypes import dtypes, from_name
from torpor.base.target import get_target
from torpor.ir import Ops, ParamArg, UOp
from torpor.kernel.decompose import without_missing

SMALL = [dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2]


def word_of(small):
    """The unsigned integer of as many bits."""
    return from_name(f"uint{small.bits}")


def all_bits(small):
    return np.arange(1 << small.bits, dtype=word_of(small).numpy)


def rewritten(node):
    """The node for a target that has neither format; no trace of them may be left."""
    root = without_missing(node, get_target("cpu"))
    assert not {n.dtype.scalar() for n in root.toposort()} & set(SMALL)
    return root


def finite_numbers(small):
    """Every finite number of the format in order, as float64, and its bits."""
    with np.errstate(invalid="ignore"):
        numbers = all_bits(small).view(small.numpy).astype(np.float64)
    keep = np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    order = np.argsort(numbers[keep], kind="stable")
    return numbers[keep][order], all_bits(small)[keep][order]


def nearest_bits(values, small):
    """Bits of the nearest number of the format, ties to even, by search among all of them."""
    numbers, bits = finite_numbers(small)
    step = numbers[-1] - numbers[-2]
    numbers = np.concatenate([[-numbers[-1] - step], numbers, [numbers[-1] + step]])
    infinite = int(bits[-1]) + 1  # NaN where there is no infinity
    sign = 1 << (small.bits - 1)
    bits = np.concatenate([[infinite | sign], bits, [infinite]]).astype(bits.dtype)
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
            result.append(sign if np.signbit(float(value)) else 0)
    return result


def check_bits(found, values, small):
    expected = nearest_bits(values, small)
    numbers = found.view(small.numpy).astype(np.float32)
    for mine, number, wanted, value in zip(found.tolist(), numbers, expected, values, strict=True):
        assert np.isnan(number) if wanted is None else mine == wanted, value


def random_bits(small, seed, *shape):
    word = word_of(small)
    return np.random.default_rng(seed).integers(0, 1 << small.bits, shape).astype(word.numpy)


def around_ties(small):
    """Halfway points between neighbours, with numbers a little to each side; as float64."""
    numbers, _ = finite_numbers(small)
    chosen = np.random.default_rng(5).choice(len(numbers) - 1, min(400, len(numbers) - 1))
    middle = (numbers[chosen] + numbers[chosen + 1]) / 2
    last = numbers[-1]
    beyond = (last - numbers[-2]) / 2 + last  # rounds to infinity
    return np.concatenate([middle, [beyond, last, np.inf, -np.inf, np.nan, -0.0, 0.0]])


@pytest.mark.parametrize("small", SMALL)
def test_every_bit_pattern_is_read_exactly(small):
    bits = all_bits(small)
    root = rewritten(variable(word_of(small)).bitcast(small).cast(dtypes.float32))
    found = evaluate(root, x=bits)
    np.testing.assert_array_equal(found, bits.view(small.numpy).astype(np.float32))
    assert (np.signbit(found) == (bits >> (small.bits - 1) == 1)).all()


@pytest.mark.parametrize("small", SMALL)
def test_every_number_survives_the_way_to_float32_and_back(small):
    bits, word = all_bits(small), word_of(small)
    x = variable(word).bitcast(small)
    root = rewritten(x.cast(dtypes.float32).cast(small).bitcast(word))
    found = evaluate(root, x=bits)
    numbers = ~np.isnan(bits.view(small.numpy).astype(np.float32))
    assert (found == bits)[numbers].all()
    assert np.isnan(found.view(small.numpy).astype(np.float32))[~numbers].all()


@pytest.mark.parametrize("small", SMALL)
def test_float32_rounds_to_nearest_even(small):
    ties = around_ties(small).astype(np.float32)
    steps = [np.nextafter(ties, np.float32(d)) for d in (-np.inf, np.inf)]
    random = np.random.default_rng(6).integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([ties, *steps, random])
    x, word = variable(dtypes.float32), word_of(small)
    check_bits(evaluate(rewritten(x.cast(small).bitcast(word)), x=values), values, small)
    back = evaluate(rewritten(x.cast(small).cast(dtypes.float32)), x=values)
    wanted = evaluate(rewritten(x.cast(small).bitcast(word)), x=values)
    np.testing.assert_array_equal(back, wanted.view(small.numpy).astype(np.float32))


@pytest.mark.parametrize("small", SMALL)
def test_float64_is_rounded_once(small):
    ties = around_ties(small)
    steps = [np.nextafter(ties, d) for d in (-np.inf, np.inf)]
    values = np.concatenate([ties, *steps, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)])
    root = rewritten(variable(dtypes.float64).cast(small).bitcast(word_of(small)))
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
    root = rewritten(variable(integer).cast(small).bitcast(word_of(small)))
    found = evaluate(root, x=np.array(numbers, integer.numpy))
    check_bits(found, numbers, small)


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize(
    ("op", "reference"),
    [(Ops.ADD, np.add), (Ops.SUB, np.subtract), (Ops.MUL, np.multiply), (Ops.FDIV, np.divide)],
)
def test_arithmetic_is_correctly_rounded(small, op, reference):
    (a, b), word = random_bits(small, 8, 2, 3000), word_of(small)
    x, y = (variable(word, n).bitcast(small) for n in "xy")
    found = evaluate(rewritten(x.alu(op, y).bitcast(word)), x=a, y=b)
    with np.errstate(all="ignore"):
        exact = reference(*(v.view(small.numpy).astype(np.longdouble) for v in (a, b)))
    check_bits(found, exact.astype(np.float64), small)


@pytest.mark.parametrize("small", SMALL)
def test_comparisons_and_selection(small):
    word = word_of(small)
    x, y = (variable(word, n).bitcast(small) for n in "xy")
    less = rewritten(x < y)
    most = rewritten((x < y).where(y, x).bitcast(word))
    a, b = random_bits(small, 9, 2, 2000)
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
def test_memory_becomes_integers(small, count):
    word = word_of(small)
    root = rewritten(kernel(small, count))
    memory = {n.op: n for n in root.toposort() if n.op in (Ops.PARAM, Ops.INDEX, Ops.LOAD)}
    assert memory[Ops.PARAM].dtype is word
    assert memory[Ops.INDEX].dtype is word
    assert memory[Ops.LOAD].dtype is word.vec(count)
    store = root.src[0]
    assert store.src[1].dtype is word.vec(count)


def test_a_target_that_has_the_format_keeps_it_but_for_functions():
    root = without_missing(kernel(dtypes.float16, 1), get_target("cuda"))
    loads = [n for n in root.toposort() if n.op is Ops.LOAD]
    assert [n.dtype for n in loads] == [dtypes.float16]
    assert Ops.EXP not in {n.op for n in root.toposort()}


@pytest.mark.parametrize(("one", "other"), [SMALL[2:], SMALL[:1:-1]])
def test_between_formats_of_8_bits(one, other):
    bits = all_bits(one)
    source = variable(word_of(one)).bitcast(one)
    root = rewritten(source.cast(other).bitcast(word_of(other)))
    check_bits(evaluate(root, x=bits), bits.view(one.numpy).astype(np.float64), other)


def test_between_the_two_formats():
    a = np.arange(0, 0x7C00, 7).astype(np.uint16)
    source = variable(dtypes.uint16).bitcast(dtypes.float16)
    root = rewritten(source.cast(dtypes.bfloat16).bitcast(dtypes.uint16))
    check_bits(evaluate(root, x=a), a.view(np.float16).astype(np.float64), dtypes.bfloat16)
    mixed = variable(dtypes.float16).cast(dtypes.bfloat16).cast(dtypes.float32)
    mixed = without_missing(mixed, get_target("c"))
    assert dtypes.bfloat16 not in {n.dtype for n in mixed.toposort()}
