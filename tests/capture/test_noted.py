"""Objects of one class are looked at as one: what each has, lacks and gets itself counts."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.base.attributes import attributes


def number(value: float) -> Tensor:
    return Tensor(np.array([value], np.float32))


class Scale:
    factor = 2.0
    by_name = "factor"


class Slotted:
    __slots__ = ("factor", "__dict__")


def product(things: list[Any]) -> Any:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        for thing in things:
            x = x * thing.factor
        return x

    return f


def product_by_name(things: list[Any]) -> Any:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        for thing in things:
            x = x * getattr(thing, "fact" + "or"[: len(things)])
        return x

    return f


@pytest.mark.parametrize("make", [product, product_by_name])
@pytest.mark.parametrize("which", range(3))
def test_an_attribute_that_one_of_many_objects_gets_counts(make: Any, which: int) -> None:
    things = [Scale() for _ in range(3)]
    f = make(things)
    assert [f(number(1)).item() for _ in range(3)] == [8] * 3
    things[which].factor = 5.0
    assert [f(number(1)).item() for _ in range(3)] == [20] * 3
    del things[which].factor
    assert f(number(1)).item() == 8
    assert f"[{which}].factor" in torpor.explain(f)


@pytest.mark.parametrize("which", range(3))
def test_slots_of_each_object_count(which: int) -> None:
    things = [Slotted() for _ in range(3)]
    for thing in things:
        thing.factor = 2.0
    f = product(things)
    assert [f(number(1)).item() for _ in range(3)] == [8] * 3
    things[which].factor = 5.0
    assert [f(number(1)).item() for _ in range(3)] == [20] * 3


def test_what_an_object_has_is_asked_after_its_name_was_read_elsewhere() -> None:
    thing, other = Scale(), type("Other", (), {"extra": 2.0})()

    def asks() -> float:
        try:
            return 10.0 * thing.extra  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            return 1.0

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * other.extra * thing.factor * asks()

    assert [f(number(1)).item() for _ in range(3)] == [4] * 3
    thing.extra = 1.0  # type: ignore[attr-defined]
    assert [f(number(1)).item() for _ in range(3)] == [40] * 3


def test_what_a_library_puts_into_an_object_counts() -> None:
    class Lazy:
        @functools.cached_property
        def factor(self) -> float:
            return 2.0

    things: Any = [Lazy() for _ in range(3)]
    f = product(things)
    assert [f(number(1)).item() for _ in range(4)] == [8] * 4
    things[1].factor = 5.0
    assert [f(number(1)).item() for _ in range(3)] == [20] * 3


def test_what_a_function_gives_to_objects_is_given_by_replays() -> None:
    things: Any = [Scale() for _ in range(3)]

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        for place, thing in enumerate(things):
            thing.last = x * place
        return x

    for value in range(4):
        f(number(value))
        assert [thing.last.item() for thing in things] == [0, value, 2 * value]
        if value == 2:
            del things[1].last
    assert "replays" in torpor.explain(f)


def test_what_an_object_holds_that_is_found_later_than_others_of_its_class() -> None:
    things: Any = [Scale(), Scale()]
    things[1].extra = 3.0

    def later(x: Tensor) -> Tensor:
        return x * things_again[0].extra

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        if hasattr(first, "extra") or "extra" in first.__dict__:
            x = x * 7
        return later(x)

    first, things_again = things[0], [things[1]]
    assert [f(number(1)).item() for _ in range(4)] == [3] * 4
    assert "replayed 3 times" in torpor.explain(f)
    things[1].extra = 4.0
    assert [f(number(1)).item() for _ in range(2)] == [4] * 2
    first.extra = 1.0
    assert [f(number(1)).item() for _ in range(2)] == [28] * 2


def test_what_a_function_of_a_library_holds_is_asked_for() -> None:
    act, scale = torpor.nn.functional.gelu, Scale()

    @functools.wraps(product)
    def own(x: Tensor) -> Tensor:
        return x * scale.factor

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return act(own(x)) * (2 if hasattr(own, "__wrapped__") else 3) + 0 * len(attributes(act))

    wanted = 2 * act(number(2)).item()
    assert [f(number(1)).item() for _ in range(4)] == pytest.approx([wanted] * 4)
    assert "replayed 3 times" in torpor.explain(f)


def test_guards_are_not_names_times_objects() -> None:
    """Names that code computes may be any that a class has."""
    names = {f"name{number}": 1.0 for number in range(60)}
    kind = type("Many", (), names)
    things = [kind() for _ in range(50)]

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        for at, thing in enumerate(things):
            x = x * getattr(thing, f"name{at}")
        return x

    assert [f(number(1)).item() for _ in range(2)] == [1, 1]
    (trace,) = [trace for kind in f._kinds.values() for trace in kind.traces]
    assert len(trace.guards.tests) < 10 * (len(names) + len(things))
    things[49].name49 = 3.0
    assert f(number(1)).item() == 3


class Holder:
    """Holds what code gives it."""

    value: Any

    def given(self, x: Tensor) -> Tensor:
        self.value = x * 2
        return self.shown()

    def shown(self) -> Tensor:
        return self.value + 1


@pytest.mark.parametrize("others", [0, 3])
def test_what_one_function_gives_and_another_reads_is_given_by_replays(others: int) -> None:
    """What is there when the second one is looked at was not there before."""
    holders = [Holder() for _ in range(1 + others)]

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return sum((holder.given(x + at) for at, holder in enumerate(holders)), x)

    for n in range(5):
        made = sum(2 * (n + at) + 1 for at in range(1 + others)) + n
        assert f(number(n)).item() == made
        assert [holder.value.item() for holder in holders] == [
            2 * (n + at) for at in range(1 + others)
        ]


def test_what_is_not_there_is_told() -> None:
    thing = Holder()

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x * (2.0 if hasattr(thing, "extra") else 1.0)

    assert [f(number(1)).item() for _ in range(2)] == [1, 1]
    assert "thing without extra" in torpor.explain(f)
    vars(thing)["extra"] = 0
    assert f(number(1)).item() == 2
    assert "missed because of thing.extra" in torpor.explain(f)
