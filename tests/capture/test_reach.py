"""Ways in which a function can see the world, each changed between two calls."""

from __future__ import annotations

import cProfile
import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor, no_grad, pipeline


def numbers(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor


class WithProperty:
    def __init__(self) -> None:
        self._factor = 2.0

    @property
    def factor(self) -> float:
        return self._factor


class Base:
    factor = 2.0

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor


class Derived(Base):
    pass


Scene = tuple[Callable[[Tensor], Tensor], Callable[[], Any]]


def slots() -> Scene:
    thing = Slotted(2.0)
    return lambda x: x * thing.factor, lambda: setattr(thing, "factor", 3.0)


def properties() -> Scene:
    thing = WithProperty()
    return lambda x: x * thing.factor, lambda: setattr(thing, "_factor", 3.0)


def class_attribute() -> Scene:
    class Own(Base):
        factor = 2.0

    thing = Own()
    return lambda x: thing(x), lambda: setattr(Own, "factor", 3.0)


def instance_over_class() -> Scene:
    thing = Derived()
    return lambda x: thing(x), lambda: setattr(thing, "factor", 3.0)


def method_of_instance() -> Scene:
    class Own:
        def factor(self) -> float:
            return 2.0

    thing = Own()
    return lambda x: x * thing.factor(), lambda: setattr(thing, "factor", lambda: 3.0)


def dict_of_layers() -> Scene:
    layers = {"a": Derived(), "b": Derived()}

    def f(x: Tensor) -> Tensor:
        for layer in layers.values():
            x = x + layer.factor
        return x

    return f, lambda: setattr(layers["b"], "factor", 3.0)


def items_of_a_dict() -> Scene:
    table = {"k": 2.0}
    return lambda x: x * table["k"], lambda: table.update(k=3.0)


def type_of_an_item() -> Scene:
    table: list[Any] = [2]
    return lambda x: x / 2 if isinstance(table[0], int) else x, lambda: table.__setitem__(0, 2.0)


def list_of_tensors() -> Scene:
    tensors = [numbers(1), numbers(2)]
    return lambda x: x * sum(tensors), lambda: tensors.__setitem__(0, numbers(5))


def nested_lists() -> Scene:
    table = [[1.0], [2.0]]
    return lambda x: x * table[1][0], lambda: table[1].__setitem__(0, 3.0)


def a_set() -> Scene:
    names = {"on"}
    return lambda x: x * 2 if "on" in names else x * 3, names.clear


def partial() -> Scene:
    thing = Derived()

    def scale(thing: Base, x: Tensor) -> Tensor:
        return x * thing.factor

    return functools.partial(scale, thing), lambda: setattr(thing, "factor", 3.0)


def bound_method() -> Scene:
    thing = Derived()
    return thing.__call__, lambda: setattr(thing, "factor", 3.0)


def default_argument() -> Scene:
    thing = Derived()

    def f(x: Tensor, thing: Base = thing) -> Tensor:
        return x * thing.factor

    return f, lambda: setattr(thing, "factor", 3.0)


def inner_function() -> Scene:
    factor = 2.0

    def outer(x: Tensor) -> Tensor:
        def inner() -> Tensor:
            return x * factor

        return inner()

    def change() -> None:
        nonlocal factor
        factor = 3.0

    return outer, change


def decorated() -> Scene:
    thing = Derived()
    return no_grad()(lambda x: x * thing.factor), lambda: setattr(thing, "factor", 3.0)


def has_attribute() -> Scene:
    thing = Derived()

    def f(x: Tensor) -> Tensor:
        return x * 3 if hasattr(thing, "special") else x * 2

    return f, lambda: setattr(thing, "special", True)


def caught_attribute() -> Scene:
    thing = Derived()

    def f(x: Tensor) -> Tensor:
        try:
            return x * thing.special
        except AttributeError:
            return x * 2

    return f, lambda: setattr(thing, "special", 3.0)


def frozen_parameter() -> Scene:
    weight = numbers(2).requires_grad_()

    def f(x: Tensor) -> Tensor:
        return x * 3 if weight.requires_grad else x * 2 + weight.detach()

    return f, lambda: weight.requires_grad_(False)


def a_gradient() -> Scene:
    weight = numbers(2).requires_grad_()

    def f(x: Tensor) -> Tensor:
        return x * 2 if weight.grad is None else x * weight.grad

    return f, lambda: setattr(weight, "grad", numbers(7))


def an_array() -> Scene:
    array = np.array([2.0], np.float32)
    return lambda x: x * Tensor(array), lambda: array.fill(3.0)


def shared_memory() -> Scene:
    array = np.array([2.0], np.float32)
    tensor = Tensor.from_numpy(array)
    return lambda x: x * tensor, lambda: array.fill(3.0)


def a_view() -> Scene:
    base = numbers(1, 2)
    view = base[1:]
    return lambda x: x * view, lambda: base.zero_()


def generator_expression() -> Scene:
    factors = [1.0, 2.0]
    return lambda x: x * sum(f for f in factors), lambda: factors.append(3.0)


SCENES = [
    slots, properties, class_attribute, instance_over_class, method_of_instance, dict_of_layers,
    items_of_a_dict, type_of_an_item, list_of_tensors, nested_lists, a_set, partial, bound_method,
    default_argument, inner_function, decorated, has_attribute, caught_attribute, frozen_parameter,
    a_gradient, an_array, shared_memory, a_view, generator_expression,
]  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
def test_a_change_is_seen(scene: Callable[[], Scene]) -> None:
    function, change = scene()
    jitted = torpor.jit(function)
    before = function(numbers(4)).item()
    assert [jitted(numbers(4)).item() for _ in range(3)] == [before] * 3
    change()
    after = function(numbers(4)).item()
    assert after != before
    assert [jitted(numbers(4)).item() for _ in range(3)] == [after] * 3
    assert jitted(numbers(6)).item() == function(numbers(6)).item()


def test_the_profiler_is_put_back() -> None:
    def profiler(*_: Any) -> None:
        return None

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        raise KeyError

    sys.setprofile(profiler)
    try:
        with pytest.raises(KeyError):
            f(numbers(1))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


def test_a_profiler_in_c_sees_what_comes_after_a_trace() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return (x + 1).realize()

    def after() -> None:
        return None

    profile = cProfile.Profile()
    profile.enable()
    f(numbers(1))
    after()
    profile.disable()
    assert after.__code__ in {entry.code for entry in profile.getstats()}


def test_the_compilers_calls_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    realize = pipeline.realize

    def noticed(*arguments: Any) -> Any:
        seen.append(sys.getprofile())
        return realize(*arguments)

    lazy = numbers(1) + 1  # computed when the trace first meets it

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return (x * lazy).realize()

    monkeypatch.setattr(pipeline, "realize", noticed)
    f(numbers(1))
    assert seen and set(seen) == {None}


def test_objects_that_are_made_inside_are_not_given_again() -> None:
    class Result:
        def __init__(self, value: Tensor) -> None:
            self.value = value

    f = torpor.jit(lambda x: Result(x * 2))
    assert [f(numbers(i)).value.item() for i in range(4)] == [0, 2, 4, 6]
    assert "Result" in torpor.explain(f)


def test_lists_that_are_passed_and_changed() -> None:
    @torpor.jit
    def f(things: list[Tensor]) -> None:
        things.append(things[0] * 2)

    for i in range(3):
        things = [numbers(i)]
        f(things)
        assert [t.item() for t in things] == [i, 2 * i]


def test_what_the_garbage_collector_calls_is_not_the_functions() -> None:
    collections = 0

    def count(*_: Any) -> None:
        nonlocal collections
        collections += 1

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        gc.collect()
        return x + 1

    gc.callbacks.append(count)
    try:
        assert [f(numbers(i)).item() for i in range(3)] == [1, 2, 3]
    finally:
        gc.callbacks.remove(count)
    assert collections > 0
    assert "collections" not in torpor.explain(f)


def test_attributes_of_functions_are_read_and_written() -> None:
    def inner(x: Tensor) -> Tensor:
        return x * inner.factor  # type: ignore[attr-defined,no-any-return]

    @torpor.jit
    def f(x: Tensor) -> Tensor:
        f.calls += 1
        f.last = inner(x) + sum(f.more)
        return x + 1

    inner.factor, f.calls, f.more = 2, 0, [1]  # type: ignore[attr-defined]
    seen = []
    for i in range(6):
        if i == 3:
            inner.factor = 10  # type: ignore[attr-defined]
        if i == 4:
            f.more.append(100)
        assert f(numbers(i)).item() == i + 1
        seen.append(f.last.item())
    assert seen == [1, 3, 5, 31, 141, 151]
    assert f.calls == 6


def test_what_holds_itself_or_is_deep_or_shared() -> None:
    inner: dict[str, Any] = {"x": numbers(1)}
    inner["self"], inner["holder"] = inner, Slotted(0)
    inner["holder"].factor = inner
    shared = deep = [inner]
    for _ in range(40):
        shared = [shared, shared]  # 2**40 ways lead to what it holds
    for _ in range(3000):
        deep = [deep]
    log: list[Any] = []

    @torpor.jit
    def f(x: Tensor) -> Any:
        log.append(log)
        around = deep
        while len(around) == 1 and isinstance(around[0], list):
            around = around[0]
        given: list[Any] = [x + inner["self"]["holder"].factor["x"] * len(shared) / 2]
        given.append(given)
        return given, around

    for i in range(4):
        inner["x"] = numbers(10 * i)
        given, around = f(numbers(i))
        assert given[0].item() == 11 * i
        assert given[1] is given
        assert around[0] is inner
        assert len(log) == i + 1


def test_the_environment_is_baked_in_and_said_to_be() -> None:
    @torpor.jit
    def f(x: Tensor) -> Tensor:
        return x + int(os.environ.get("NO_SUCH_NAME", "1"))

    assert f(numbers(1)).item() == 2
    assert "a call of os.__getitem__" in torpor.explain(f)


def test_a_profiler_in_c_sees_a_first_call() -> None:
    """Also where the compiler runs, whose calls only the trace itself is spared."""
    f = torpor.jit(lambda x: x * 7 + 3)
    profile = cProfile.Profile()
    profile.enable()
    value = f(numbers(1))
    profile.disable()
    assert value.tolist() == [10]
    assert any(getattr(e.code, "co_name", "") == "scheduled" for e in profile.getstats())


@pytest.fixture
def imported(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module that no other test knows, and that is forgotten in the end."""
    names: list[str] = []

    def write(text: str) -> str:
        names.append(f"module_of_{tmp_path.name}_{len(names)}")
        (tmp_path / f"{names[-1]}.py").write_text(text)
        return names[-1]

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for name in names:
        sys.modules.pop(name, None)


def importing(name: str) -> Any:
    """A jitted function that imports a module of this name at its first call."""
    scope: dict[str, Any] = {}
    exec(
        f"def f(x):\n try:\n  import {name}\n except ImportError:\n  return x\n"
        f" return x * {name}.scale\n",
        scope,
    )
    return torpor.jit(scope["f"])


def test_what_an_import_does_happens_once(imported: Any) -> None:
    name = imported("import os, time\nstarted = time.time(), os.getcwd()\nscale = 2.0\n")
    with torpor.Context(JIT="strict"):
        f = importing(name)
        assert [f(numbers(3)).item() for _ in range(4)] == [6] * 4
        sys.modules[name].scale = 5.0
        assert f(numbers(3)).item() == 15
    assert "baked in" not in torpor.explain(f)


def test_a_module_that_is_there_later_is_seen(imported: Any, tmp_path: Any) -> None:
    name = imported("scale = 4.0\n")
    (tmp_path / f"{name}.py").rename(tmp_path / "elsewhere")
    f = importing(name)
    assert [f(numbers(3)).item() for _ in range(3)] == [3] * 3
    (tmp_path / "elsewhere").rename(tmp_path / f"{name}.py")
    importlib.invalidate_caches()
    importlib.import_module(name)
    assert [f(numbers(3)).item() for _ in range(3)] == [12] * 3
