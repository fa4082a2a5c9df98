"""What classes have, changed between two calls: special methods, what is inherited, metaclasses."""

from __future__ import annotations

import abc
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Tensor

Scene = tuple[Callable[[Tensor], Any], Callable[[], Any]]


def number(value: float) -> Tensor:
    return Tensor(np.array([value], np.float32))


# How a special method is called, and two that differ.
SPECIAL: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "__mul__": (lambda x, c: x * (c * 1), lambda s, o: 2, lambda s, o: 3),
    "__rsub__": (lambda x, c: x * (1 - c), lambda s, o: 2, lambda s, o: 3),
    "__len__": (lambda x, c: x * len(c), lambda s: 2, lambda s: 3),
    "__bool__": (lambda x, c: x * 2 if c else x, lambda s: True, lambda s: False),
    "__getitem__": (lambda x, c: x * c[0], lambda s, i: 2, lambda s, i: 3),
    "__contains__": (lambda x, c: x * 2 if 1 in c else x, lambda s, o: True, lambda s, o: False),
    "__iter__": (lambda x, c: x * sum(c), lambda s: iter([2]), lambda s: iter([3])),
    "__eq__": (lambda x, c: x * 2 if c == 1 else x, lambda s, o: True, lambda s, o: False),
    "__call__": (lambda x, c: c(x), lambda s, x: x * 2, lambda s, x: x * 3),
    "__float__": (lambda x, c: x * float(c), lambda s: 2.0, lambda s: 3.0),
    "__format__": (lambda x, c: x * len(f"{c}"), lambda s, f: "ab", lambda s, f: "abc"),
    "__getattr__": (lambda x, c: x * c.k, lambda s, n: 2, lambda s, n: 3),
    "__getattribute__": (lambda x, c: x * c.k, lambda s, n: 2, lambda s, n: 3),
    "__new__": (lambda x, c: x * type(c)(), None, lambda k: 3),
}


def special(name: str) -> Scene:
    use, first, second = SPECIAL[name]
    kind: Any = type("Kind", (), {} if first is None else {name: first})
    thing = kind()
    return lambda x: use(x, thing) if first else x * len(str(kind())), lambda: setattr(
        kind, name, second
    )


def special_of_a_base() -> Scene:
    class Base:
        def __len__(self) -> int:
            return 2

    class Kind(Base):
        pass

    thing = Kind()
    return lambda x: x * len(thing), lambda: setattr(Kind, "__len__", lambda s: 3)


def special_that_is_added() -> Scene:
    class Kind:
        pass

    thing = Kind()
    return lambda x: x * 2 if thing else x, lambda: setattr(Kind, "__bool__", lambda s: False)


def method_by_super() -> Scene:
    class Base:
        def go(self) -> int:
            return 2

    class Kind(Base):
        def go(self) -> int:
            return super().go()

    thing = Kind()
    return lambda x: x * thing.go(), lambda: setattr(Base, "go", lambda s: 3)


def method_by_super_that_is_put_between() -> Scene:
    class Base:
        def go(self) -> int:
            return 2

    class Middle(Base):
        pass

    class Kind(Middle):
        def go(self) -> int:
            return super().go()

    thing = Kind()
    return lambda x: x * thing.go(), lambda: setattr(Middle, "go", lambda s: 3)


def start_by_super() -> Scene:
    class Base:
        def __init__(self) -> None:
            self.k = 2

    class Kind(Base):
        def __init__(self) -> None:
            super().__init__()

    def other(self: Any) -> None:
        self.k = 3

    return lambda x: x * Kind().k, lambda: setattr(Base, "__init__", other)


def attribute_of_a_metaclass() -> Scene:
    class Meta(type):
        k = 2

    class Kind(metaclass=Meta):
        pass

    return lambda x: x * Kind.k, lambda: setattr(Meta, "k", 3)


def call_of_a_metaclass() -> Scene:
    class Meta(type):
        def __call__(cls) -> Any:
            return 2

    class Kind(metaclass=Meta):
        pass

    return lambda x: x * Kind(), lambda: setattr(Meta, "__call__", lambda s: 3)


def metaclass_that_answers_everything() -> Scene:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            return 2

    class Kind(metaclass=Meta):
        pass

    kind: Any = Kind
    return lambda x: x * kind.k, lambda: setattr(Meta, "__getattribute__", lambda s, n: 3)


def attributes_that_raise_key_errors() -> Scene:
    table = {"k": 2}

    class Kind:
        def __getattribute__(self, name: str) -> Any:
            return table[name]

    thing: Any = Kind()
    return lambda x: x * thing.k, lambda: table.update(k=3)


def property_over_an_attribute() -> Scene:
    class Kind:
        pass

    thing: Any = Kind()
    thing.k = 2
    return lambda x: x * thing.k, lambda: setattr(Kind, "k", property(lambda s: 3))


def slot_that_is_replaced() -> Scene:
    class Kind:
        __slots__ = ("k",)

    thing: Any = Kind()
    thing.k = 2
    return lambda x: x * thing.k, lambda: setattr(Kind, "k", 3)


def registered_with_an_abstract_class() -> Scene:
    class Abstract(abc.ABC):  # noqa: B024 (it is the point)
        pass

    class Kind:
        pass

    thing: Any = Kind()
    return lambda x: x * 2 if isinstance(thing, Abstract) else x, lambda: Abstract.register(Kind)


def protocol() -> Scene:
    @typing.runtime_checkable
    class Goes(typing.Protocol):
        def go(self) -> None: ...

    class Kind:
        pass

    thing: Any = Kind()
    return lambda x: x * 2 if isinstance(thing, Goes) else x, lambda: setattr(
        Kind, "go", lambda s: None
    )


def pattern_of_a_class() -> Scene:
    class Kind:
        __match_args__ = ("one",)
        one, two = 2, 3

    thing = Kind()

    def f(x: Tensor) -> Any:
        match thing:
            case Kind(found):
                return x * found

    return f, lambda: setattr(Kind, "__match_args__", ("two",))


def attribute_in_a_pattern() -> Scene:
    class Kind:
        one = 2

    thing = Kind()

    def f(x: Tensor) -> Any:
        match thing:
            case Kind(one=found):
                return x * found

    return f, lambda: setattr(thing, "one", 3)


def attribute_in_a_format() -> Scene:
    thing = types.SimpleNamespace(k=2)
    return lambda x: x * int(f"{thing.k}"), lambda: setattr(thing, "k", 3)


def name_of_a_function() -> Scene:
    def helper() -> None:
        return None

    return lambda x: x * len(helper.__name__), lambda: setattr(helper, "__name__", "other name")


def class_of_a_module() -> Scene:
    class Kind(types.ModuleType):
        @property
        def k(self) -> int:
            return 2

    module = Kind("module")
    return lambda x: x * module.k, lambda: setattr(Kind, "k", property(lambda s: 3))


def attributes_that_a_module_makes_up() -> Scene:
    module: Any = types.ModuleType("module")
    module.__getattr__ = lambda name: 2
    return lambda x: x * module.k, lambda: setattr(module, "k", 3)


def setter_of_a_property() -> Scene:
    class Kind:
        kept = 1

        def _set(self, value: int) -> None:
            self.kept = value

        k = property(None, _set)

    thing = Kind()

    def f(x: Tensor) -> Any:
        thing.k = 2
        return x * thing.kept

    other = property(None, lambda s, value: setattr(s, "kept", value + 1))
    return f, lambda: setattr(Kind, "k", other)


def signature_of_a_function() -> Scene:
    def helper(a: int, b: int) -> None:
        return None

    def other(a: int) -> None:
        return None

    return lambda x: x * len(inspect.signature(helper).parameters), lambda: setattr(
        helper, "__code__", other.__code__
    )


def attributes_that_are_replaced() -> Scene:
    class Kind:
        pass

    thing: Any = Kind()
    thing.k = 2
    return lambda x: x * thing.k, lambda: setattr(thing, "__dict__", {"k": 3})


def metaclass_that_is_replaced() -> Scene:
    class One(type):
        k = 2

    class Two(type):
        k = 3

    class Kind(metaclass=One):
        pass

    kind: Any = Kind
    return lambda x: x * kind.k, lambda: setattr(kind, "__class__", Two)


SCENES = [
    special_of_a_base, special_that_is_added, method_by_super, method_by_super_that_is_put_between,
    start_by_super, attribute_of_a_metaclass, call_of_a_metaclass,
    metaclass_that_answers_everything, attributes_that_raise_key_errors,
    property_over_an_attribute, slot_that_is_replaced, registered_with_an_abstract_class, protocol,
    pattern_of_a_class, attribute_in_a_pattern, attribute_in_a_format, name_of_a_function,
    class_of_a_module, attributes_that_a_module_makes_up, setter_of_a_property,
    signature_of_a_function, attributes_that_are_replaced, metaclass_that_is_replaced,
]  # fmt: skip


def is_seen(scene: Scene, calls: int) -> None:
    function, change = scene
    jitted = torpor.jit(function)
    before = function(number(4)).item()
    assert [jitted(number(4)).item() for _ in range(calls)] == [before] * calls
    change()
    after = function(number(4)).item()
    assert after != before
    assert [jitted(number(4)).item() for _ in range(calls)] == [after] * calls


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("calls", [1, 4])  # from the fourth on no Python runs
def test_a_change_of_a_class_is_seen(scene: Callable[[], Scene], calls: int) -> None:
    is_seen(scene(), calls)


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("calls", [1, 4])
def test_special_methods_are_guarded(name: str, calls: int) -> None:
    is_seen(special(name), calls)


@pytest.mark.parametrize("name", ["relu", "__add__"])
@pytest.mark.parametrize("calls", [1, 4])
def test_a_method_of_tensors_may_be_replaced(
    monkeypatch: pytest.MonkeyPatch, name: str, calls: int
) -> None:
    jitted = torpor.jit(lambda x: x.relu() + x)
    assert [jitted(number(4)).item() for _ in range(calls)] == [8] * calls
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, name, lambda *given: given[0] * 5)
        after = {"relu": 24, "__add__": 20}[name]
        assert [jitted(number(4)).item() for _ in range(calls)] == [after] * calls
    assert [jitted(number(4)).item() for _ in range(calls)] == [8] * calls


def test_an_attribute_of_a_class_is_bound_by_each_call() -> None:
    class Kind:
        last: Any = None

    def f(x: Tensor) -> Tensor:
        Kind.last = x * 2
        return x + 1

    jitted = torpor.jit(f)
    for i in range(6):
        assert jitted(number(i)).item() == i + 1
        assert Kind.last.item() == 2 * i


def test_a_class_that_others_change_is_still_replayed() -> None:
    class Kind:
        k, count = 2, 0

    thing = Kind()
    jitted = torpor.jit(lambda x: x * thing.k)
    for _ in range(8):
        assert jitted(number(1)).item() == 2
        Kind.count += 1
    assert "trace 2" not in torpor.explain(jitted)
    assert "replayed 7 times" in torpor.explain(jitted)


def test_a_module_that_is_loaded_by_name_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module: Any = types.ModuleType("a_module_of_a_user")
    module.k = 2
    monkeypatch.setitem(sys.modules, module.__name__, module)
    jitted = torpor.jit(lambda x: x * importlib.import_module("a_module_of_a_user").k)
    assert jitted(number(1)).item() == 2
    assert "baked in: a call of importlib.import_module" in torpor.explain(jitted)


def test_modules_that_code_only_asks_for_are_not_looked_into(monkeypatch: Any) -> None:
    other: Any = types.ModuleType("another_module_of_a_user")
    other.k = 1
    monkeypatch.setitem(sys.modules, other.__name__, other)
    thing = types.SimpleNamespace(k=2)

    @torpor.jit
    def asks(x: Tensor) -> Tensor:
        return x * thing.k if "a_module_of_a_user" not in sys.modules else x

    for _ in range(4):
        assert asks(number(3)).item() == 6
        other.k += 1
    assert "trace 2" not in torpor.explain(asks)
    monkeypatch.setitem(sys.modules, "a_module_of_a_user", other)
    assert [asks(number(3)).item() for _ in range(2)] == [3, 3]
    monkeypatch.delitem(sys.modules, "a_module_of_a_user")
    thing.k = 4
    assert asks(number(3)).item() == 12


def test_a_module_that_is_found_by_its_name_is_guarded(monkeypatch: Any) -> None:
    module: Any = types.ModuleType("a_module_of_a_user")
    module.k = 2
    monkeypatch.setitem(sys.modules, module.__name__, module)
    name = module.__name__

    def named() -> Any:
        return sys.modules[name].k

    known = sys.modules
    attribute = "modules"
    for value in named, lambda: known.get(name).k, lambda: getattr(sys, attribute)[name].k:
        jitted = torpor.jit(lambda x, value=value: x * (value() if name in sys.modules else 0))
        module.k = 2
        assert [jitted(number(3)).item() for _ in range(2)] == [6, 6]
        module.k = 5
        assert jitted(number(3)).item() == 15
