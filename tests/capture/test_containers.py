"""Lists and dicts among the arguments: given back as the objects that they are, and changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.errors import OutOfBoundsError, ValueRangeError


@pytest.fixture(autouse=True)
def strict() -> Any:
    """Nothing here runs as it is."""
    with Context(JIT="strict"):
        yield


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


class Pair(NamedTuple):
    left: Any
    right: Any


def test_containers_are_given_back_as_they_are() -> None:
    f = torpor.jit(lambda tree, x: (tree, [tree], x + 1))
    makers = (
        lambda i: [numbers(i), i, "a"],
        lambda i: {"w": numbers(i), "b": [numbers(i + 1), 2.5 * i]},
        lambda i: (numbers(i), [i]),
        lambda i: Pair(numbers(i), {"x": (i,)}),
    )
    for make in makers:
        for i in range(3):
            tree = make(i)
            kept = list(tree.values() if isinstance(tree, dict) else tree)
            again, inside, more = f(tree, numbers(i))
            assert again is tree
            assert inside[0] is tree
            assert more.item() == i + 1
            now = list(tree.values() if isinstance(tree, dict) else tree)
            assert all(new is old for new, old in zip(now, kept, strict=True))
    assert torpor.explain(f).count("trace ") == len(makers)


def test_inner_containers_and_those_of_options() -> None:
    @torpor.jit
    def f(*trees: Any, **options: Any) -> Any:
        return options["state"]["inner"], trees[0][1], {"x": trees[1]}

    for i in range(3):
        inner, second, last = {"a": numbers(i)}, [numbers(i)], [i]
        found = f([1, second], last, state={"inner": inner})
        assert found[0] is inner
        assert found[1] is second
        assert found[2]["x"] is last


def test_a_state_that_is_changed_and_given_back() -> None:
    @torpor.jit
    def step(state: dict[str, Any], x: Tensor) -> dict[str, Any]:
        state["mean"] = state["mean"] * 0.5 + x
        state["count"] = state["count"] + 1
        return state

    state: dict[str, Any] = {"mean": numbers(0, 0), "count": 0, "name": "a"}
    wanted = np.zeros(2)
    for i in range(5):
        before = state["mean"]
        kept = before.tolist()
        assert step(state, numbers(i, 1)) is state
        wanted = wanted * 0.5 + [i, 1]
        assert state["mean"].tolist() == wanted.tolist()
        assert before.tolist() == kept
        assert list(state) == ["mean", "count", "name"]
        assert state["count"] == i + 1
        assert type(state["count"]) is int
    assert torpor.explain(step).count("trace ") == 1


def test_parts_that_go_come_and_change_places() -> None:
    @torpor.jit
    def f(things: list[Any], table: dict[str, Any]) -> None:
        things.reverse()
        things.append([things[0] + 1, "new"])
        table["z"] = table.pop("a")
        table["things"] = things
        table["sum"] = things[0] + things[1]

    for i in range(3):
        left, right, first = numbers(i), numbers(i + 1), numbers(5)
        things: list[Any] = [left, right]
        table: dict[str, Any] = {"a": first, "b": i}
        f(things, table)
        assert things[0] is right
        assert things[1] is left
        assert things[2][0].item() == i + 2
        assert things[2][1] == "new"
        assert list(table) == ["b", "z", "things", "sum"]
        assert table["z"] is first
        assert table["things"] is things
        assert table["sum"].item() == 2 * i + 1
    assert torpor.explain(f).count("trace ") == 1


def test_one_list_passed_twice_is_another_call() -> None:
    with Context(JIT=1):
        f = torpor.jit(lambda x, y: (y, x[0] * 2))
        for _ in range(2):
            one, other = [numbers(1)], [numbers(2)]
            assert f(one, other)[0] is other
            assert f(one, one)[0] is one


def test_one_list_passed_twice_and_changed() -> None:
    with Context(JIT=1):

        @torpor.jit
        def f(x: list[Any], y: list[Any]) -> None:
            x.append(x[0] + 1)
            y.append(x[0] + 2)

        for same in (False, False, True, False):
            one = [numbers(1)]
            other = one if same else [numbers(1)]
            f(one, other)
            assert [t.item() for t in one] == ([1, 2, 3] if same else [1, 2])
            assert [t.item() for t in other] == ([1, 2, 3] if same else [1, 3])


def test_numbers_of_one_list_passed_twice() -> None:
    """They are inputs, of which two lists have different ones, and no other number is one."""
    with Context(JIT=1):
        f = torpor.jit(lambda x, a, b, n: x * a[0] + b["n"][0] * 100 + n)
        for i in range(4):
            one, other = [i + 1.0], [i + 5.0]
            for a, b in ((one, one), (one, other), (other, one)):
                assert f(numbers(2), a, {"n": b}, 0.5).item() == 2 * a[0] + b[0] * 100 + 0.5
    assert "a list of numbers twice" in torpor.explain(f)


def test_a_run_that_is_done_again_changes_a_list_once() -> None:
    @torpor.jit
    def f(things: list[Any], n: int) -> Any:
        things.append(things[0] * n)
        return things[0].reshape(-1, int(bytes([n])[0]) // n)  # `bytes` takes no stand-in

    for n in (2, 2, 3):
        things = [numbers(1, 2)]
        f(things, n)
        assert len(things) == 2
        assert things[1].tolist() == [n, 2 * n]


# --- errors ---------------------------------------------------------------------------------------
def test_an_error_in_a_replay_changes_nothing() -> None:
    """Not the state, not the list, not the gradient, not the history."""
    total, history = numbers(0, 0, 0), list[Any]()

    @torpor.jit
    def f(state: dict[str, Any], table: Tensor, index: Tensor) -> Any:
        total.add_(1)
        picked = table[index]
        total.add_(picked)
        state["last"] = picked
        history.append(picked * 2)
        return state, picked.sum()

    table = numbers(1, 2, 3)
    state: dict[str, Any] = {"last": numbers(0, 0, 0)}
    good, bad = Tensor(np.array([0, 1, 2])), Tensor(np.array([0, 7, 2]))
    for call in range(6):
        before = total.tolist(), state["last"], len(history)
        if call % 3 == 2:
            with pytest.raises(OutOfBoundsError):
                f(state, table, bad)
            assert total.tolist() == before[0]
            assert state["last"] is before[1]
            assert len(history) == before[2]
        else:
            again, picked = f(state, table, good)
            assert again is state
            assert picked.item() == 6
            assert total.tolist() == [x + 1 + y for x, y in zip(before[0], (1, 2, 3), strict=True)]
            assert len(history) == before[2] + 1
    assert torpor.explain(f).count("trace ") == 1


def test_a_check_of_values_fails_in_a_replay() -> None:
    f = torpor.jit(lambda x, n: x << n)
    x = Tensor(np.array([1, 2, 3]))
    for count in (1, 2, -1, 3, -2, 4):
        counts = Tensor(np.full(3, count))
        if count < 0:
            with pytest.raises(ValueRangeError):
                f(x, counts)
        else:
            assert f(x, counts).tolist() == [1 << count, 2 << count, 3 << count]


def test_weights_stay_when_a_step_fails() -> None:
    """The plain step fails before the weights are written; so does the jitted one."""
    weight = Tensor(np.ones((4, 2), np.float32)).requires_grad_(True)

    @torpor.jit
    def step(index: Tensor) -> Tensor:
        weight.grad = None
        loss = weight[index].sum()
        loss.backward()
        with torpor.no_grad():
            weight.sub_(weight.grad)
        return loss

    wanted = np.ones((4, 2))
    for index in ([0, 1], [1, 1], [3, 4], [2, 0]):
        if max(index) < 4:
            assert step(Tensor(np.array(index))).item() == wanted[index].sum()
            np.subtract.at(wanted, index, 1)
        else:
            with pytest.raises(OutOfBoundsError):
                step(Tensor(np.array(index)))
        np.testing.assert_array_equal(weight.numpy(), wanted)
