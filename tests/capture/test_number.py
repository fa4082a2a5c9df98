"""Numbers among the arguments are inputs, and what looks at their value guards it."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from io import StringIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import torpor
from tests.devices import needs
from torpor import Context, Tensor, dtypes
from torpor.base.dtypes import DType
from torpor.base.errors import DivisionByZeroError, DTypeError
from torpor.capture.number import ENCODERS, Tape, integers_of


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def counted(function: Callable[..., Any]) -> tuple[Any, StringIO]:
    """The function jitted, and a text that grows each time it runs."""
    runs = StringIO()

    def watched(*arguments: Any, **options: Any) -> Any:
        runs.write(".")
        return function(*arguments, **options)

    return torpor.jit(watched), runs


VALUES = (0.1, 0.2, -0.0, math.inf, math.nan, 1e300, 3.5)
WHOLE = (1, 2, -3, 0, 2**31)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_another_number_is_no_other_call(name: str) -> None:
    f, runs = counted(lambda x, n: (x + n) * n)
    plain = Tensor(np.array([1, -2, 3])).cast(name)
    for values in (VALUES, WHOLE[:4]):
        for value in values:
            got, expected = f(plain, value), (plain + value) * value
            assert got.dtype is expected.dtype
            one, other = got.cast("float64").numpy(), expected.cast("float64").numpy()
            np.testing.assert_array_equal(one, other)
            assert (np.isnan(one) | (np.signbit(one) == np.signbit(other))).all()
    assert len(runs.getvalue()) == 2


@pytest.mark.parametrize("device", ["PYTHON", "OPENCL", "CPU:1"])
def test_on_other_devices(device: str) -> None:
    needs(device)
    f, runs = counted(lambda x, n: x * n + Tensor.full((2,), n, device=device))
    for value in (0.1, 0.7, -2.0):
        x = numbers(1, 2).to(device)
        expected = np.array([1, 2], np.float32) * np.float32(value) + np.float32(value)
        np.testing.assert_allclose(f(x, value).numpy(), expected, rtol=1e-6)
    assert len(runs.getvalue()) == 1


def test_arithmetic_with_numbers_is_done_again() -> None:
    def f(x: Tensor, beta: float, t: int) -> Any:
        correction = 1 - beta**t
        return x / correction + abs(-t) // 2 * True, correction, t + 1

    jitted, runs = counted(f)
    for t in range(1, 7):
        got, expected = jitted(numbers(1, 2), 0.9, t), f(numbers(1, 2), 0.9, t)
        np.testing.assert_array_equal(got[0].numpy(), expected[0].numpy())
        assert got[1:] == expected[1:]
        assert [type(v) for v in got[1:]] == [float, int]
    assert len(runs.getvalue()) == 1


USES: list[Callable[[Tensor, Any], Any]] = [
    lambda x, n: x * 2 if n > 2 else x,
    lambda x, n: x * 2 if n else x,
    lambda x, n: sum((x * i for i in range(int(n))), x),
    lambda x, n: x.reshape(1, -1).expand(int(n) % 3 + 1, 4),
    lambda x, n: x * len(f"{n:.1f}"),
    lambda x, n: x * len(str(n)) + len(repr(n)),
    lambda x, n: x * {1: 5, 2: 7}.get(n, 9),
    lambda x, n: x * math.sin(n),
    lambda x, n: x * math.floor(n) + round(n),
    lambda x, n: x * max(n, 2) + min(n, 1),
    lambda x, n: x * float(n) + int(n),
    lambda x, n: x * np.float32(n) + np.array([n, 1, 2, 3], np.float32),
    lambda x, n: x.numpy().shape[0] * n + x,
    lambda x, n: x * (np.arange(4, dtype=np.float32) * n),
    lambda x, n: x * (n * np.arange(4, dtype=np.float32)),
    lambda x, n: x * (isinstance(n, int) + 2 * isinstance(n, float)),
    lambda x, n: x * divmod(n, 2)[1],
    lambda x, n: x**n,
    lambda x, n: (x + 1) ** -n,
    lambda x, n: n**x,
    lambda x, n: x.clip(0, n) + x.maximum(n),
    lambda x, n: (x > n).where(n, x),
    lambda x, n: (x > 1).where(n, 0),
    lambda x, n: x % (n + 0.5) // 1,
    lambda x, n: x.add(x, alpha=n),
    lambda x, n: x.lerp(x * 2, n),
    lambda x, n: Tensor([n, 1.0, 2.0, 3.0]) * x,
    lambda x, n: Tensor(n) * x + Tensor.full((4,), n),
    lambda x, n: x * complex(n, 1).real,
    lambda x, n: x * n.real,
    lambda x, n: x * n.__class__(3),
    lambda x, n: x * (n if type(n) is int else 7),
    lambda x, n: x * (5 if n in (1, 2) else n),
    lambda x, n: x * (n == "auto") + (n is None) + (n != None),  # noqa: E711
    lambda x, n: x * operator.index(int(n)),
    lambda x, n: x * len(json.dumps([n])),
    lambda x, n: x * float(Fraction(n)),
    lambda x, n: x * (0 if hasattr(n, "shape") else 1),
    lambda x, n: x * pow(int(n), 2, 3),
    lambda x, n: x * (n if n < 3 < n + 4 else -n),
    lambda x, n: x.sum(int(n) * 0) * n,
    lambda x, n: Tensor.arange(n) if n > 0 else x,
    lambda x, n: x.leaky_relu(n).softmax() + x.dropout(n * 0),
    lambda x, n: Tensor.full((2,), n, dtype=dtypes.int32).cast(dtypes.float32).sum() + x,
]


@pytest.mark.parametrize("use", USES)
def test_whatever_is_done_with_a_number_is_right(use: Callable[[Tensor, Any], Any]) -> None:
    jitted = torpor.jit(use)
    x = numbers(0.5, 1, 2, 3)
    for value in (1, 2, 2, 5, 1, 1.0, 2.5, 1.0, 0.25, 2.5, 3, 0):
        got, expected = jitted(x, value), use(x, value)
        assert got.dtype is expected.dtype
        assert all(type(size) is int for size in got.shape)
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_a_branch_guards_its_answer_only() -> None:
    f, runs = counted(lambda x, step: x * step if step < 3 else x)
    for step in range(10):
        assert f(numbers(2), step).item() == (2 * step if step < 3 else 2)
    assert len(runs.getvalue()) == 2
    assert "takes the number arguments[1] as an input" in torpor.explain(f)
    assert "the number arguments[1] (the answer of <)" in torpor.explain(f)


def test_numbers_deep_in_the_arguments() -> None:
    def f(x: Tensor, options: dict[str, Any], pair: Any, *, scale: float = 1.0) -> Any:
        return x * options["lr"] + pair[1][0] * scale, {"next": pair[0] + 1}

    jitted = torpor.jit(f)
    for i in range(4):
        inner = [i + 0.5]
        options, pair = {"lr": 0.1 * i, "name": "a"}, (i, inner)
        got, expected = jitted(numbers(1), options, pair), f(numbers(1), options, pair)
        np.testing.assert_array_equal(got[0].numpy(), expected[0].numpy())
        assert got[1] == {"next": i + 1}
        assert type(got[1]["next"]) is int
        assert options == {"lr": 0.1 * i, "name": "a"}
        assert type(options["lr"]) is float
        assert pair[1] is inner
        assert type(inner[0]) is float
        assert jitted(numbers(1), options, pair, scale=2.0)[0].item() == pytest.approx(
            0.1 * i + 2 * inner[0]
        )
    assert torpor.explain(jitted).count("trace ") == 2


def test_a_list_that_is_passed_and_known_otherwise_too() -> None:
    schedule = [0.5, 2.0]

    @torpor.jit
    def f(x: Tensor, given: list[float]) -> Tensor:
        return x * (given[0] if given is schedule else -1.0)

    assert f(numbers(4), schedule).item() == 2
    schedule[0] = 0.25
    assert f(numbers(4), schedule).item() == 1
    assert f(numbers(4), [0.25]).item() == -4


def test_a_changed_list_is_changed() -> None:
    data = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))

    @torpor.jit
    def f(x: Tensor, given: list[Any]) -> Tensor:
        given.append(given[0] + 1)
        return x.sum() * given[0]

    for i in range(3):
        given = [i, data[0]]
        assert f(data[1], given).item() == 5 * i
        assert len(given) == 3
        assert given[2] == i + 1
        assert type(given[2]) is int
        assert given[1] is not None


def test_numbers_that_the_function_keeps() -> None:
    class Holder:
        last: Any = None
        many: list[Any] = []

    holder = Holder()

    @torpor.jit
    def f(x: Tensor, n: float) -> Tensor:
        holder.last = n * 2
        holder.many = [n, (n,)]
        return x * n

    for i in range(4):
        assert f(numbers(2), i + 0.5).item() == 2 * i + 1
        assert (holder.last, holder.many) == (2 * i + 1, [i + 0.5, (i + 0.5,)])
        assert type(holder.last) is type(holder.many[0]) is type(holder.many[1][0]) is float


def test_errors_are_those_of_the_plain_function() -> None:
    state = numbers(0)

    @torpor.jit
    def f(x: Tensor, n: int) -> Tensor:
        state.add_(1)
        return x.cast(dtypes.int8) * n + 1 // n

    assert f(numbers(1), 2).item() == 2
    for bad, kind in ((0, ZeroDivisionError), (1000, DTypeError), (2**70, DTypeError)):
        with pytest.raises(kind):
            f(numbers(1), bad)
    assert f(numbers(1), 3).item() == 3
    whole = torpor.jit(lambda x, n: x // n)
    assert whole(Tensor([7]), 2).item() == 3
    with pytest.raises(DivisionByZeroError):
        whole(Tensor([7]), 0).item()


def test_the_kind_of_a_power_is_guarded() -> None:
    f, runs = counted(lambda x, n: x * 2**n)
    for n in (1, 3, -1, -2, 2):
        got = f(Tensor([4]), n)
        assert got.dtype is (dtypes.int64 if n >= 0 else dtypes.float32)
        assert got.item() == 4 * 2.0**n
    assert len(runs.getvalue()) == 2


def test_asking_for_the_type_in_a_function_that_is_called() -> None:
    state = numbers(0)
    seen: list[Any] = []

    def helper(n: Any) -> int:
        return 1 if type(n) is float else 2

    def f(x: Tensor, n: Any) -> Tensor:
        state.add_(1)
        seen.append(n)
        return x * helper(n) + Tensor.rand(1) * 0

    jitted = torpor.jit(f)
    assert [jitted(numbers(1), n).item() for n in (0.5, 0.5, 3, 0.25)] == [1, 1, 2, 1]
    assert state.item() == 4
    assert "asks for types" in torpor.explain(jitted)
    assert seen == [0.5, 3, 0.25]  # one for each trace
    assert all(type(n) in (int, float) for n in seen)


def test_a_second_run_starts_from_the_same_state() -> None:
    total, table = numbers(0), {"a": 1}
    weight = numbers(2).requires_grad_()

    @torpor.jit
    def f(x: Tensor, n: int) -> Tensor:
        total.add_(1)
        table["a"] += 1
        (weight * x).sum().backward()
        noise = Tensor.rand(2)
        return x * len(json.dumps(n)) + noise

    torpor.manual_seed(3)
    got = f(numbers(1, 1), 10).numpy()
    torpor.manual_seed(3)
    np.testing.assert_array_equal(got, Tensor.rand(2).numpy() + 2)
    assert weight.grad is not None
    assert (total.item(), table["a"], weight.grad.item()) == (1, 2, 2)


def test_many_steps_with_a_number_stay_bounded() -> None:
    @torpor.jit
    def f(x: Tensor, n: int) -> Tensor:
        for i in range(3000):
            n = n + 1 if n > i else n
        return x * n

    for n in (1, 2, 2):
        expected = n
        for i in range(3000):
            expected = expected + 1 if expected > i else expected
        assert f(numbers(1), n).item() == expected


def test_strict_takes_numbers() -> None:
    with Context(JIT="strict"):
        f = torpor.jit(lambda x, n: x * n)
        assert [f(numbers(2), n).item() for n in (1, 2, 3)] == [2, 4, 6]


OPERATIONS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.lt, operator.le, operator.eq, operator.ne, operator.and_, operator.lshift, max, min,
]  # fmt: skip
plain_numbers = st.integers(-5, 5) | st.sampled_from([0.0, -0.0, 0.5, -2.5, 1e300])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_tape_computes_what_python_computes(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 9),
                                          st.integers(0, 9)), min_size=1, max_size=8))  # fmt: skip
    first = data.draw(st.lists(plain_numbers, min_size=2, max_size=3))
    second = [data.draw(st.integers(-5, 5) if type(v) is int else st.sampled_from([0.5, -0.0]))
              for v in first]  # fmt: skip

    def program(values: list[Any]) -> list[Any]:
        values = list(values)
        for operation, left, right in chosen:
            pair = values[left % len(values)], values[right % len(values)]
            values.append(operation(*pair))
            if values[-1] > 3:
                values.append(-values[-1])
        return values

    tape = Tape(first, ["a"] * len(first))
    try:
        made = program(tape.numbers)
    except (ArithmeticError, ValueError, TypeError):
        return
    results = [v for v in made if type(v) not in (int, float, bool)]
    tape.close()
    replay = tape.compiled(results)
    for values in (first, second):
        found = replay(values)
        if found is None:
            assert values is second
            continue
        picked = [e for e, m in zip(program(values), made, strict=True)
                  if type(m) not in (int, float, bool)]  # fmt: skip
        for got, want in zip(found[1], picked, strict=True):
            assert type(got) is type(want)
            assert got == want or got != got
            assert math.copysign(1, got) == math.copysign(1, want)


# --- numbers as integers: the bits that NumPy has for them ----------------------------------------
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTEGERS = [dtype for dtype in ENCODERS if dtype.is_int]


@given(st.floats() | st.integers(-(10**40), 10**40), st.sampled_from(FLOATS))
def test_bits_of_floats(value: float, dtype: DType) -> None:
    code = ENCODERS[dtype](value)
    low, high = integers_of(dtype)
    assert low <= code <= high
    got = np.array([code], f"{'i' if low < 0 else 'u'}{dtype.itemsize}").view(dtype.numpy)[0]
    with np.errstate(over="ignore"):
        expected = np.float64(value).astype(dtype.numpy)
    assert float(got) == float(expected) or math.isnan(value)
    assert np.signbit(got) == np.signbit(expected) or math.isnan(value)


@given(st.integers(-(2**65), 2**65), st.sampled_from(INTEGERS))
def test_integers_are_themselves_or_refused(value: int, dtype: DType) -> None:
    if dtype.min <= value <= dtype.max:
        assert ENCODERS[dtype](value) == value
    else:
        with pytest.raises(OverflowError):
            ENCODERS[dtype](value)
