"""Each scenario does the same with a function and with the function jitted."""

from __future__ import annotations

import array
import collections
import copy
import functools
import operator
import pickle
import sys
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor

Jit = Callable[[Any], Any]
SCENARIOS: list[Callable[[Jit], Any]] = []


def scenario(function: Callable[[Jit], Any]) -> Callable[[Jit], Any]:
    SCENARIOS.append(function)
    return function


def unchanged(function: Any) -> Any:
    return function


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def twice(function: Callable[[Tensor], Tensor]) -> list[float]:
    return [function(numbers(1)).item() for _ in range(2)]


# --- functions and classes that are changed between calls -----------------------------------------
@scenario
def defaults_of_the_function(jit: Jit) -> Any:
    def g(x: Tensor, n: Any = 2, *, k: Any = 3) -> Tensor:
        return x * n + k

    f = jit(g)
    found = [twice(f)]
    g.__defaults__ = (5,)
    found.append(twice(f))
    g.__kwdefaults__["k"] = 8
    found.append(twice(f))
    g.__kwdefaults__ = {"k": numbers(9)}
    return [*found, twice(f)]


@scenario
def defaults_and_code_of_a_helper(jit: Jit) -> Any:
    def helper(x: Tensor, n: Any = 2) -> Tensor:
        return x * n

    def other(x: Tensor, n: Any = 2) -> Tensor:
        return x - n

    f = jit(lambda x: helper(x))
    found = [twice(f)]
    helper.__defaults__ = (7,)
    found.append(twice(f))
    helper.__code__ = other.__code__
    return [*found, twice(f)]


@scenario
def the_class_of_an_object(jit: Jit) -> Any:
    class One:
        def go(self, x: Tensor) -> Tensor:
            return x * 2

    class Two:
        def go(self, x: Tensor) -> Tensor:
            return x * 3

    thing: Any = One()
    f = jit(lambda x: thing.go(x))
    found = [twice(f)]
    thing.__class__ = Two
    found.append(twice(f))
    Two.go = lambda self, x: x * 7  # type: ignore[method-assign]
    found.append(twice(f))
    thing.go = lambda x: x * 9
    found.append(twice(f))
    del thing.go
    return [*found, twice(f)]


@scenario
def an_attribute_that_hides_an_inherited_one(jit: Jit) -> Any:
    class Base:
        k = 1

    class Other:
        k = 11

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    leaf: Any = Leaf()
    f = jit(lambda x: x * leaf.k)
    found = [twice(f)]
    for owner in (Middle, Leaf, leaf):
        owner.k = len(found) + 4
        found.append(twice(f))
    for owner in (leaf, Leaf, Middle):
        del owner.k
        found.append(twice(f))
    Middle.__bases__ = (Other,)
    return [*found, twice(f)]


@scenario
def an_attribute_that_is_made_up(jit: Jit) -> Any:
    class MadeUp:
        def __init__(self) -> None:
            self.table = {"k": 2}

        def __getattr__(self, name: str) -> Any:
            return self.table[name]

    thing: Any = MadeUp()
    f = jit(lambda x: x * thing.k)
    found = [twice(f)]
    thing.table["k"] = 3
    found.append(twice(f))
    thing.k = 8
    return [*found, twice(f)]


@scenario
def a_property_with_a_closure(jit: Jit) -> Any:
    factor = 2

    class Thing:
        @property
        def k(self) -> int:
            return factor

    thing = Thing()
    f = jit(lambda x: x * thing.k)
    found = [twice(f)]
    factor = 5
    return [*found, twice(f)]


@scenario
def a_function_that_is_reached_in_an_unknown_way(jit: Jit) -> Any:
    def made(k: int) -> Any:
        def helper(x: Tensor, plus: list[int] = [1]) -> Tensor:  # noqa: B006 (on purpose)
            return x * k + plus[0]

        def change(value: int) -> None:
            nonlocal k
            k = value
            helper.__defaults__[0][0] = value  # type: ignore[index]

        return helper, change

    helper, change = made(2)
    dispatch = functools.singledispatch(lambda x: x)
    dispatch.register(Tensor)(helper)
    f = jit(lambda x: dispatch(x))
    found = [twice(f)]
    change(5)
    return [*found, twice(f)]


# --- ways to read ---------------------------------------------------------------------------------
@scenario
def a_module_that_is_imported_inside(jit: Jit) -> Any:
    module: Any = types.ModuleType("a_users_module")
    module.k = 2
    sys.modules["a_users_module"] = module

    def g(x: Tensor) -> Tensor:
        import a_users_module  # type: ignore[import-not-found]

        return x * a_users_module.k

    f = jit(g)
    found = [twice(f)]
    module.k = 7
    found.append(twice(f))
    again: Any = types.ModuleType("a_users_module")
    again.k = 11
    sys.modules["a_users_module"] = again
    found.append(twice(f))
    del sys.modules["a_users_module"]
    return found


@scenario
def containers_of_the_standard_library(jit: Jit) -> Any:
    user, chain = collections.UserDict(k=1), collections.ChainMap({"k": 1})
    queue, raw, bits = collections.deque([1, 2]), array.array("f", [1, 2]), bytearray(b"\1")
    backing = {"k": 1}
    shown = types.MappingProxyType(backing)
    f = jit(lambda x: x * user["k"] + chain["k"] * 2 + queue[0] * 3 + raw[0] + bits[0] + shown["k"])
    found = [twice(f)]
    for change in (
        lambda: user.update(k=4), lambda: chain.maps.insert(0, {"k": 5}),
        lambda: queue.appendleft(9), lambda: raw.__setitem__(0, 6),
        lambda: bits.__setitem__(0, 7), lambda: backing.update(k=8),
    ):  # fmt: skip
        change()
        found.append(twice(f))
    return found


@scenario
def names_of_attributes_as_text(jit: Jit) -> Any:
    class Thing:
        pass

    thing: Any = Thing()
    thing.a, thing.inner = 1, Thing()
    thing.inner.b = 2
    getter = operator.attrgetter("a", "inner.b")
    f = jit(lambda x: x * getter(thing)[0] + getter(thing)[1])
    g = jit(lambda x: x * operator.attrgetter("a")(thing))
    found = [twice(f), twice(g)]
    thing.a, thing.inner.b = 5, 6
    return [*found, twice(f), twice(g)]


@scenario
def all_attributes_at_once(jit: Jit) -> Any:
    class Thing:
        pass

    found = []
    for read in (vars, lambda thing: thing.__dict__, lambda thing: dict(vars(thing).items())):
        thing: Any = Thing()
        thing.a = 1
        f = jit(lambda x, thing=thing, read=read: x * sum(read(thing).values()))
        found.append(twice(f))
        thing.a = 4
        found.append(twice(f))
        thing.b = 5
        found.append(twice(f))
        del thing.a
        found.append(twice(f))
    return found


@scenario
def a_context_variable(jit: Jit) -> Any:
    variable = ContextVar("variable", default=2)
    f = jit(lambda x: x * variable.get())
    found = [twice(f)]
    variable.set(5)
    return [*found, twice(f)]


@scenario
def the_text_of_a_shape_and_a_format(jit: Jit) -> Any:
    f = jit(lambda x: x * len(f"{x.shape} {x.dtype} {x.device}"))
    shapes = (1, 10, (3, 100))
    return [f(torpor.ones(shape, dtype=dtype)).sum().item() for shape in shapes
            for dtype in ("int8", "float32")]  # fmt: skip


# --- ways to write --------------------------------------------------------------------------------
def writes(jit: Jit, write: Callable[[Any, Any], Any]) -> Any:
    class Thing:
        value: Any = None

    thing = Thing()

    def g(x: Tensor) -> Tensor:
        write(thing, x * 2)
        return x + 1

    f, found = jit(g), []
    for i in range(5):
        found.append((f(numbers(i)).item(), thing.value.item()))
    return found


@scenario
def attributes_by_name(jit: Jit) -> Any:
    return [
        writes(jit, lambda thing, value: setattr(thing, "value", value)),
        writes(jit, lambda thing, value: object.__setattr__(thing, "value", value)),
        writes(jit, lambda thing, value: thing.__dict__.update(value=value)),
        writes(jit, lambda thing, value: thing.__dict__.__setitem__("value", value)),
    ]


@scenario
def a_global(jit: Jit) -> Any:
    scope: dict[str, Any] = {}
    exec("kept = None\ndef g(x):\n global kept\n kept = x * 2\n return x + 1", scope)
    f, found = jit(scope["g"]), []
    for i in range(4):
        found.append((f(numbers(i)).item(), scope["kept"].item()))
    return found


@scenario
def lists_that_are_appended_to(jit: Jit) -> Any:
    log: list[Any] = []
    queue: collections.deque[Any] = collections.deque(maxlen=3)

    def g(x: Tensor, n: float) -> Tensor:
        y = x * n
        log.append(y)
        log.extend([n + 1, "text"])
        queue.append(y)
        return y

    f = jit(g)
    outputs = [f(numbers(i), 0.5 * i) for i in range(6)]
    same = [log[3 * i] is outputs[i] for i in range(6)]
    return same, [log[n + 1 : n + 3] for n in range(0, 18, 3)], [y.item() for y in queue]


@scenario
def containers_that_are_changed_in_other_ways(jit: Jit) -> Any:
    table: dict[str, Any] = {}
    seen: set[int] = set()
    first: list[Any] = []

    def g(x: Tensor) -> Tensor:
        table.update(last=x)
        seen.add(3)
        first.insert(0, 1)
        return x + 1

    f, found = jit(g), []
    for i in range(5):
        found.append((f(numbers(i)).item(), table["last"].item(), sorted(seen), len(first)))
        seen.clear()
    return found


# --- what comes out -------------------------------------------------------------------------------
@scenario
def one_object_twice(jit: Jit) -> Any:
    def g(x: Tensor) -> Any:
        y = x + 1
        pair = [y, x]
        return y, y, pair, {"again": pair, "view": y[0:1]}

    f, found = jit(g), []
    for i in range(3):
        a, b, pair, rest = f(numbers(i))
        a.add_(5)
        found.append((a is b, pair[0] is a, rest["again"] is pair, b.item(), rest["view"].item()))
    return found


@scenario
def lists_from_outside(jit: Jit) -> Any:
    store = [numbers(1), 2, ("a", [numbers(3)])]
    f = jit(lambda x: (store, store[2], x + 1))
    found = [f(numbers(i))[0] is store and f(numbers(i))[1] is store[2] for i in range(3)]
    store.append(4)
    return found, len(f(numbers(1))[0])


@scenario
def lists_that_were_passed(jit: Jit) -> Any:
    f = jit(lambda tree: tree)
    trees: list[Any] = [[numbers(1)], {"a": 1, "b": [1]}, (1, [2])]
    return [f(tree) is tree or f(tree)[1] is tree[1] for tree in trees for _ in range(3)]


@scenario
def a_list_that_holds_itself(jit: Jit) -> Any:
    given: list[Any] = [2.0]
    given.append(given)
    f = jit(lambda x, given: x * given[0])
    return [f(numbers(3), given).item() for _ in range(2)]


@scenario
def outputs_that_are_written_to(jit: Jit) -> Any:
    weight = numbers(1, 2)

    def g(x: Tensor) -> Any:
        return weight, weight[1:], Tensor([1.0, 2.0]), Tensor.ones(2), x, x + 1

    f, found = jit(g), []
    for i in range(4):
        outputs = f(numbers(i, i))
        found.append([output.tolist() for output in outputs])
        for output in outputs:
            output.add_(1)
            output.realize()
            output[0] = 9
        found.append([output.tolist() for output in outputs])
    return found


# --- views, writes, errors ------------------------------------------------------------------------
@scenario
def overlapping_views(jit: Jit) -> Any:
    def g(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return a + b

    f, found = jit(g), []
    for _ in range(4):
        for second in (slice(1, 3), slice(2, 4), slice(0, 2)):
            x = numbers(1, 2, 3, 4)
            found.append((f(x[:2], x[second]).tolist(), x.tolist()))
    return found


@scenario
def an_error_in_the_middle(jit: Jit) -> Any:
    state, bad = numbers(0), [False]

    def g(x: Tensor) -> Tensor:
        state.add_(x)
        if bad[0]:
            raise KeyError("bad")
        state.mul_(2)
        return state * 1

    f, found = jit(g), []
    for i in range(6):
        bad[0] = i in (0, 2, 4)
        try:
            found.append(f(numbers(1)).item())
        except KeyError:
            found.append(None)
        found.append(state.item())
    return found


@scenario
def generators_of_random_numbers_that_become_one(jit: Jit) -> Any:
    class Thing:
        pass

    thing: Any = Thing()
    thing.a, thing.b = torpor.Generator(1), torpor.Generator(2)
    f = jit(lambda x: x + Tensor.rand(1, generator=thing.a) * Tensor.rand(1, generator=thing.b))
    found = [twice(f)]
    thing.b = thing.a
    return [*found, twice(f)]


@scenario
def a_generator_function(jit: Jit) -> Any:
    def g(x: Tensor) -> Any:
        for i in range(3):
            yield x * i

    f = jit(g)
    return [[y.item() for y in f(numbers(i))] for i in range(3)]


@pytest.mark.parametrize("played", SCENARIOS, ids=operator.attrgetter("__name__"))
def test_the_jit_means_the_same(played: Callable[[Jit], Any]) -> None:
    torpor.manual_seed(0)
    plain = played(unchanged)
    torpor.manual_seed(0)
    assert played(torpor.jit) == plain


# --- the object itself ----------------------------------------------------------------------------
@torpor.jit
def plus_one(x: Tensor) -> Tensor:
    return x + 1


def test_copies_and_pickles_are_those_of_functions() -> None:
    assert copy.copy(plus_one) is plus_one
    assert copy.deepcopy([plus_one])[0] is plus_one
    assert pickle.loads(pickle.dumps(plus_one)) is plus_one
