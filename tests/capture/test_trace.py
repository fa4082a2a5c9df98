"""Aliases, writes, and what a replay gives back."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_one_tensor_twice_is_another_call_than_two() -> None:
    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += 1
        return x * y

    for _ in range(3):
        x, y = numbers(2), numbers(3)
        assert f(x, y).item() == 9
        assert f(x, x).item() == 16
        assert (x.item(), y.item()) == (4, 3)


def test_equal_memory_in_the_trace_is_not_taken_for_granted() -> None:
    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    x = numbers(1).realize()
    assert f(x, x.clone()).item() == 2
    assert f(numbers(1), numbers(5)).item() == 6
    assert f(x, x.clone()).item() == 2


def test_constants_are_not_confused_with_arguments_of_the_same_value() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + Tensor.zeros(2)

    zeros = Tensor.zeros(2)
    assert f(zeros).tolist() == [0, 0]
    assert f(numbers(1, 2)).tolist() == [1, 2]
    assert f(numbers(1, 2)).tolist() == [1, 2]


def test_a_tensor_in_the_closure_is_an_input() -> None:
    weight = numbers(2)
    lazy = numbers(1) * 3

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * weight + lazy

    assert [f(numbers(2)).item() for _ in range(2)] == [7, 7]
    weight.assign(numbers(5))
    assert f(numbers(2)).item() == 13
    weight += 1
    lazy.zero_()
    assert f(numbers(2)).item() == 12
    weight = numbers(1)
    assert [f(numbers(2)).item() for _ in range(2)] == [2, 2]


def test_an_argument_that_is_a_closed_over_tensor_too() -> None:
    total = numbers(1)

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        total.add_(1)
        return x * 10

    assert f(numbers(4)).item() == 40
    assert f(numbers(4)).item() == 40
    assert f(total).item() == 40
    assert f(total).item() == 50
    assert f(numbers(4)).item() == 40
    assert total.item() == 6


def test_writes_to_arguments_and_closed_over_tensors() -> None:
    total = numbers(0)

    @torpor.jit
    def f(x: Tensor) -> None:
        total.add_(x)
        x.zero_()

    for i in range(5):
        x = numbers(i)
        view = x.reshape(1, 1)
        f(x)
        assert (x.item(), view.item(), total.item()) == (0, 0, sum(range(i + 1)))


def test_views_as_arguments() -> None:
    calls = StringIO()

    @torpor.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.write(".")
        return x.sum() + y.sum()

    data = Tensor(np.arange(12, dtype=np.float32).reshape(6, 2)).realize()
    for i in range(5):
        assert f(data[i], data[i + 1]).item() == 4 * i + 1 + 4 * (i + 1) + 1
    assert len(calls.getvalue()) == 1


@pytest.mark.parametrize(
    "hands_out", [lambda x: x[1:], lambda x: [x * 2, x.reshape(2, 1)], lambda x: lambda: x[:1]]
)
def test_views_of_views_that_were_passed_stay_views(hands_out: Any) -> None:
    function = torpor.jit(hands_out)
    data = Tensor(np.arange(8, dtype=np.float32)).realize()
    for i in range(4):
        found = function(data[i : i + 2])
        view = found() if callable(found) else found[-1] if isinstance(found, list) else found
        data[i : i + 2] = 100 + i
        assert set(view.flatten().tolist()) == {100 + i}


def test_views_that_a_function_keeps_stay_views() -> None:
    kept: dict[str, Tensor] = {}

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        kept["whole"], kept["part"] = x, x[1:]
        return x.sum()

    data = Tensor(np.arange(8, dtype=np.float32)).realize()
    for i in range(4):
        assert f(data[i : i + 2]).item() == sum(data.tolist()[i : i + 2])
        data[i : i + 2] = -i
        assert kept["whole"].tolist() == [-i, -i] and kept["part"].tolist() == [-i]


def test_a_write_is_seen_through_views_that_were_made_before() -> None:
    data = Tensor(np.arange(8, dtype=np.float32)).realize()

    @torpor.jit
    def f(x: Tensor, y: Tensor, through: str) -> list[Tensor]:
        part, before = x[1:], x * 1
        if through == "x":
            x += 10
        elif through == "part":
            part.mul_(0)
        else:
            data.fill_(5)
        return [x * 1, y * 1, part * 1, before]

    for through in ("x", "part", "data", "x"):
        for i in range(3):
            base = np.arange(8, dtype=np.float32)
            data.assign(Tensor(base.copy()))
            x, y = base[i : i + 2], base[i + 1 : i + 3]
            part, before = x[1:], x * 1
            if through == "x":
                x += 10
            elif through == "part":
                part *= 0
            else:
                base.fill(5)
            found = f(data[i : i + 2], data[i + 1 : i + 3], through)
            for one, wanted in zip(found, (x, y, part, before), strict=True):
                np.testing.assert_array_equal(one.numpy(), wanted)
            np.testing.assert_array_equal(data.numpy(), base)


@pytest.mark.parametrize("writes", [None, "before", "after"])
def test_views_that_are_turned_in_place_are_turned_for_the_caller(writes: str | None) -> None:
    data = Tensor(np.arange(6, dtype=np.float32).reshape(3, 2)).realize()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        if writes == "before":
            x += 1
        x.t_()
        if writes == "after":
            x += 1
        return x * 1

    for _ in range(3):
        x = data[1:]
        expected = x.numpy().T + (writes is not None)
        np.testing.assert_array_equal(f(x).numpy(), expected)
        np.testing.assert_array_equal(x.numpy(), expected)
        np.testing.assert_array_equal(data[1:].numpy(), expected.T)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_error_leaves_views_that_were_kept_as_they_are(error: type[BaseException]) -> None:
    kept: list[Tensor] = []

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        kept.append(x[1:])
        raise error("no")

    data = Tensor(np.arange(4, dtype=np.float32)).realize()
    with pytest.raises(error):
        f(data[1:3])
    data[2] = 9
    assert kept[0].item() == 9


def test_minibatches_are_traced_once() -> None:
    """A step over slices of the data: its second call is a replay."""
    data = Tensor(np.arange(40, dtype=np.float32).reshape(10, 4)).realize()
    layer = torpor.nn.Linear(4, 1, bias=False)
    torpor.nn.init.ones_(layer.weight)
    descent = torpor.optim.SGD(layer.parameters(), 0.001)
    calls = StringIO()

    @torpor.jit
    def step(x: Tensor) -> Tensor:
        calls.write(".")
        descent.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        descent.step()
        return loss

    expected = np.ones(4)
    for i in range(5):
        x = np.arange(40.0).reshape(10, 4)[2 * i : 2 * i + 2]
        np.testing.assert_allclose(step(data[2 * i : 2 * i + 2]).item(), (x @ expected).sum(), 1e-4)
        expected = expected - 0.001 * x.sum(0)
    assert len(calls.getvalue()) == 1


@pytest.mark.parametrize(
    "hands_out",
    [
        lambda x: lambda: x * 1,
        lambda x: lambda y=x: y * 1,
        lambda x: x.double().sum,
        lambda x: type("Box", (), {"__call__": lambda _: x * 1})(),
        lambda x: type("Box", (), {"call": staticmethod(lambda: x * 1)}).call,
    ],
)
def test_functions_that_a_call_makes_hold_what_it_was_given(hands_out: Any) -> None:
    function = torpor.jit(hands_out)
    for i in range(4):
        assert function(numbers(i, i))().tolist() in ([i, i], 2 * i)


def test_functions_that_were_there_are_given_back() -> None:
    @torpor.jit
    def f(x: Tensor) -> Any:
        return x + 1, torpor.relu, len, Tensor, test_functions_that_were_there_are_given_back

    for i in range(3):
        found, *rest = f(numbers(i))
        assert found.item() == i + 1
        mine = test_functions_that_were_there_are_given_back
        assert rest == [torpor.relu, len, Tensor, mine]
    assert "replayed 2 times" in torpor.explain(f)


def test_writes_through_a_view_that_was_passed() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        x += 1
        return x.sum()

    data = Tensor(np.zeros((3, 2), np.float32))
    for i in range(3):
        assert f(data[i]).item() == 2
    assert f(data[0]).item() == 4
    assert data.tolist() == [[2, 2], [1, 1], [1, 1]]


def test_results_that_are_arguments_and_views_of_them() -> None:
    @torpor.jit
    def f(x: Tensor) -> Any:
        return x, x[0], (x + 1)[1:], 7, {"a": [x.reshape(1, 2)]}

    for i in range(3):
        x = numbers(i, i + 1)
        same, first, rest, seven, tree = f(x)
        assert same is x
        assert seven == 7
        assert rest.tolist() == [i + 2]
        x += 10
        assert first.item() == i + 10
        assert tree["a"][0].tolist() == [[i + 10, i + 11]]


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_what_was_built_before_a_write_to_an_array_keeps_the_old_value(
    shape: tuple[int, ...],
) -> None:
    array = np.arange(6, dtype=np.float32).reshape(shape)
    before = array.copy()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        old = x * 3
        x.assign(x * 2)
        x.assign(old + x)
        return old

    assert np.array_equal(f(torpor.from_numpy(array)).numpy(), before * 3)
    assert np.array_equal(array, before * 5)
