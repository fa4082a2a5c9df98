"""Objects of C code and of libraries: what they hold is guarded, or they are listed."""

from __future__ import annotations

import collections
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import decimal
import functools
import itertools
import os
import pathlib
import pickle
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torpor
from torpor import Context, Tensor
from torpor.base.errors import CaptureError

Scene = tuple[Callable[[Tensor], Tensor], Callable[[], Any]]
Numbers = list[float]


def number(value: float) -> Tensor:
    return Tensor(np.array([value], np.float32))


def memory_view() -> Scene:
    below = bytearray(b"\2")
    view = memoryview(below)
    return lambda x: x * view[0], lambda: below.__setitem__(0, 3)


def array_of_ctypes() -> Scene:
    numbers = (ctypes.c_float * 2)(2, 5)
    return lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 3.0)


def scalar_of_ctypes() -> Scene:
    value = ctypes.c_double(2)
    return lambda x: x * value.value, lambda: setattr(value, "value", 3)


def structure_of_ctypes() -> Scene:
    class Pair(ctypes.Structure):
        _fields_ = (("left", ctypes.c_int), ("right", ctypes.c_int * 2))

    pair = Pair(1, (1, 1))
    return lambda x: x * (pair.left + pair.right[0]), lambda: pair.right.__setitem__(0, 3)


def values_of_a_dict() -> Scene:
    table = {"k": 2}
    values = table.values()
    return lambda x: x * sum(values), lambda: table.update(k=3)


def keys_of_a_dict() -> Scene:
    table = {2: 2}
    keys = table.keys()
    return lambda x: x * sum(keys), lambda: table.update({3: 3})


def items_of_a_dict() -> Scene:
    table = collections.OrderedDict(a=2)
    items = table.items()
    return lambda x: x * sum(part for _, part in items), lambda: table.update(a=3)


def objects_in_a_view() -> Scene:
    thing = types.SimpleNamespace(k=2)
    values = {"a": thing}.values()
    return lambda x: x * sum(part.k for part in values), lambda: setattr(thing, "k", 3)


def objects_that_are_keys() -> Scene:
    class Key:
        k = 2

    key = Key()
    table = {key: 1}
    return lambda x: x * sum(part.k for part in table), lambda: setattr(key, "k", 3)


def default_of_a_dict() -> Scene:
    table: Any = collections.defaultdict(lambda: 2)
    return lambda x: x * (table["a"] + table.pop("a")), lambda: setattr(
        table, "default_factory", lambda: 3
    )


def order_of_a_dict() -> Scene:
    table = collections.OrderedDict(a=2, b=3)
    return lambda x: x * next(iter(table.values())), lambda: table.move_to_end("a")


def list_with_its_own_iteration() -> Scene:
    class Odd(list[int]):
        def __iter__(self) -> Any:
            raise RuntimeError

    odd = Odd([2])
    return lambda x: x * odd[0], lambda: odd.__setitem__(0, 3)


def number_with_attributes() -> Scene:
    class Odd(int):
        k = 2

    odd = Odd(5)
    return lambda x: x * odd.k, lambda: setattr(odd, "k", 3)


def attribute_of_a_thread() -> Scene:
    local = threading.local()
    local.k = 2
    return lambda x: x * local.k, lambda: setattr(local, "k", 3)


def attribute_that_a_thread_lacks() -> Scene:
    local = threading.local()
    return lambda x: x * getattr(local, "k", 2), lambda: setattr(local, "k", 3)


def arguments_of_the_program() -> Scene:
    sys.argv[0] = "ab"
    return lambda x: x * len(sys.argv[0]), lambda: sys.argv.__setitem__(0, "abc")


def attribute_of_a_library() -> Scene:
    library: Any = np
    library.of_a_user = 2
    return lambda x: x * library.of_a_user, lambda: setattr(library, "of_a_user", 3)


def function_of_a_library() -> Scene:
    module: Any = itertools
    module.of_a_user = lambda: 2
    return lambda x: x * module.of_a_user(), lambda: setattr(module, "of_a_user", lambda: 3)


def builtin_that_is_added() -> Scene:
    def f(x: Tensor) -> Tensor:
        try:
            return x * name_of_a_user  # type: ignore[name-defined,no-any-return]
        except NameError:
            return x * 2

    builtins: Any = __builtins__
    table = builtins if isinstance(builtins, dict) else vars(builtins)
    table.pop("name_of_a_user", None)
    return f, lambda: table.update(name_of_a_user=3)


def precision_of_decimals() -> Scene:
    decimal.getcontext().prec = 28
    one = decimal.Decimal(1)
    return lambda x: x * len(str(one / 3)), lambda: setattr(decimal.getcontext(), "prec", 5)


def printing_of_arrays() -> Scene:
    np.set_printoptions(precision=8)
    third = np.array([1 / 3])
    return lambda x: x * len(str(third)), lambda: np.set_printoptions(precision=4)


def variable_that_a_library_reads() -> Scene:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=2)
    return lambda x: x * next(map(contextvars.ContextVar.get, [variable])) * variable.get(), (
        lambda: variable.set(3)
    )


def registered_for_dispatch() -> Scene:
    @functools.singledispatch
    def scale(x: Tensor) -> Tensor:
        return x

    scale.register(Tensor)(lambda x: x * 2)
    return lambda x: scale(x), lambda: scale.register(Tensor)(lambda x: x * 3)


def method_registered_for_dispatch() -> Scene:
    class Thing:
        @functools.singledispatchmethod
        def scale(self, x: Tensor) -> Tensor:
            return x

    method: Any = vars(Thing)["scale"]
    method.register(Tensor, lambda self, x: x * 2)
    thing = Thing()
    return lambda x: thing.scale(x), lambda: method.register(Tensor, lambda self, x: x * 3)


def partial_method() -> Scene:
    class Thing:
        factor = 1

        def scale(self, by: int, x: Tensor) -> Tensor:
            return x * by * self.factor

        twice = functools.partialmethod(scale, 2)

    thing = Thing()
    return lambda x: thing.twice(x), lambda: setattr(thing, "factor", 3)


def property_that_is_cached() -> Scene:
    class Thing:
        kept = 2

        @functools.cached_property
        def k(self) -> int:
            return self.kept

    thing = Thing()

    def change() -> None:
        thing.kept = 3
        del thing.k

    return lambda x: x * thing.k, change


def all_fields_at_once() -> Scene:
    @dataclasses.dataclass
    class Thing:
        hidden: int = 2

    thing = Thing()
    return lambda x: x * dataclasses.astuple(thing)[0], lambda: setattr(thing, "hidden", 3)


def arguments_of_an_error() -> Scene:
    error = ValueError(2)
    return lambda x: x * error.args[0], lambda: setattr(error, "args", (3,))


def method_of_a_list() -> Scene:
    numbers = [2, 5]
    at = numbers.__getitem__
    return lambda x: x * at(0), lambda: numbers.__setitem__(0, 3)


def method_of_an_array() -> Scene:
    array = np.array([2.0])
    total = array.sum
    return lambda x: x * float(total()), lambda: array.fill(3)


def attribute_of_a_partial() -> Scene:
    double: Any = functools.partial(lambda x: x * 2)
    double.more = 1
    return lambda x: double(x) * double.more, lambda: setattr(double, "more", 3)


def masked_array() -> Scene:
    masked = np.ma.array([2.0, 3.0], mask=[False, False])  # type: ignore[no-untyped-call]
    return lambda x: x * float(masked.sum()), lambda: masked.__setitem__(0, np.ma.masked)


GUARDED = [
    memory_view, array_of_ctypes, scalar_of_ctypes, structure_of_ctypes, values_of_a_dict,
    keys_of_a_dict, items_of_a_dict, objects_in_a_view, objects_that_are_keys, default_of_a_dict,
    order_of_a_dict, list_with_its_own_iteration, number_with_attributes, attribute_of_a_thread,
    attribute_that_a_thread_lacks, arguments_of_the_program, attribute_of_a_library,
    function_of_a_library, builtin_that_is_added, precision_of_decimals, printing_of_arrays,
    variable_that_a_library_reads, registered_for_dispatch, method_registered_for_dispatch,
    partial_method, property_that_is_cached, all_fields_at_once, arguments_of_an_error,
    masked_array, method_of_a_list, method_of_an_array, attribute_of_a_partial,
]  # fmt: skip


@pytest.mark.parametrize("scene", GUARDED)
@pytest.mark.parametrize("calls", [1, 4])  # from the fourth on no Python runs
def test_a_change_of_what_an_object_holds_is_seen(scene: Callable[[], Scene], calls: int) -> None:
    function, change = scene()
    jitted = torpor.jit(function)
    before = function(number(4)).item()
    assert [jitted(number(4)).item() for _ in range(calls)] == [before] * calls
    change()
    after = function(number(4)).item()
    assert after != before
    assert [jitted(number(4)).item() for _ in range(calls)] == [after] * calls


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "argv", ["a program"])
    printing, precision = np.get_printoptions(), decimal.getcontext().prec
    yield
    np.set_printoptions(**printing)
    decimal.getcontext().prec = precision


def test_each_thread_has_its_own_attributes() -> None:
    local = threading.local()
    local.k = 2
    jitted = torpor.jit(lambda x: x * local.k)
    assert [jitted(number(1)).item() for _ in range(4)] == [2] * 4
    found: Numbers = []

    def other() -> None:
        local.k = 5
        found.extend(jitted(number(1)).item() for _ in range(4))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [5] * 4
    assert jitted(number(1)).item() == 2


def test_a_trace_of_an_empty_weak_set_sees_that_something_is_in_it() -> None:
    class Thing:
        pass

    things: weakref.WeakSet[Thing] = weakref.WeakSet()
    jitted = torpor.jit(lambda x: x * (1 + len(things)))
    assert [jitted(number(1)).item() for _ in range(4)] == [1] * 4
    thing = Thing()
    things.add(thing)
    assert [jitted(number(1)).item() for _ in range(4)] == [2] * 4
    del thing
    assert jitted(number(1)).item() == 1


# --- what cannot be guarded -----------------------------------------------------------------------
def generator_of_numpy() -> Callable[[Tensor], Tensor]:
    source = np.random.default_rng(0)
    return lambda x: x * float(source.random())


def generator_of_numpy_in_an_object() -> Callable[[Tensor], Tensor]:
    thing = types.SimpleNamespace(source=np.random.RandomState(0))
    return lambda x: x * float(thing.source.rand())


def numpys_own_generator() -> Callable[[Tensor], Tensor]:
    return lambda x: x * float(np.random.normal(size=3)[0])


def generator_of_numpy_made_inside() -> Callable[[Tensor], Tensor]:
    return lambda x: x * float(np.random.default_rng(0).random())


def function_of_numpys_generator() -> Callable[[Tensor], Tensor]:
    draw = np.random.rand
    return lambda x: x * float(draw())


def generator_of_python() -> Callable[[Tensor], Tensor]:
    source = random.Random(0)
    return lambda x: x * sum(map(source.uniform, [0], [1]))


def cache_of_a_function() -> Callable[[Tensor], Tensor]:
    @functools.lru_cache
    def factor() -> int:
        return 2

    factor()
    return lambda x: x * factor()


def weak_reference() -> Callable[[Tensor], Tensor]:
    class Thing:
        k = 2

    thing = Thing()
    reference = weakref.ref(thing)
    return lambda x, _=(thing,): x * reference().k  # type: ignore[union-attr,misc]


def weak_proxy() -> Callable[[Tensor], Tensor]:
    class Thing:
        k = 2

    thing = Thing()
    proxy = weakref.proxy(thing)
    return lambda x, _=(thing,): x * proxy.k  # type: ignore[misc]


def pointer() -> Callable[[Tensor], Tensor]:
    below = ctypes.pointer(ctypes.c_int(2))
    return lambda x: x * below[0]


def structure_with_a_pointer() -> Callable[[Tensor], Tensor]:
    class Holder(ctypes.Structure):
        _fields_ = (("below", ctypes.POINTER(ctypes.c_int)),)

    holder = Holder(ctypes.pointer(ctypes.c_int(2)))
    return lambda x: x * holder.below[0]


def what_numpy_does_with_errors() -> Callable[[Tensor], Tensor]:
    return lambda x: x * len(np.geterr()["divide"])


def iterator() -> Callable[[Tensor], Tensor]:
    numbers = iter(range(100))
    return lambda x: x * next(numbers)


def environment() -> Callable[[Tensor], Tensor]:
    variables = os.environ
    return lambda x: x * len(variables)


def file_that_a_library_asks_for() -> Callable[[Tensor], Tensor]:
    path = pathlib.Path(__file__)
    return lambda x: x * 2 if path.exists() else x


def subclasses() -> Callable[[Tensor], Tensor]:
    class Base:
        pass

    return lambda x: x * len(Base.__subclasses__())


LISTED = [
    (generator_of_numpy, "the numpy.random._generator.Generator source"),
    (generator_of_numpy_in_an_object, "the numpy.random.mtrand.RandomState thing.source"),
    (numpys_own_generator, "np.random.normal"), (generator_of_numpy_made_inside, "np.random"),
    (function_of_numpys_generator, "the numpy.random.mtrand.RandomState draw.__self__"),
    (generator_of_python, "the random.Random source"),
    (cache_of_a_function, "the functools._lru_cache_wrapper factor"),
    (weak_reference, "the weakref.ReferenceType reference"),
    (weak_proxy, "the weakref.ProxyType proxy"), (pointer, "below"),
    (structure_with_a_pointer, "holder"), (what_numpy_does_with_errors, "geterr"),
    (iterator, "the iterator numbers"), (environment, "the os._Environ variables"),
    (file_that_a_library_asks_for, "a call of pathlib"), (subclasses, "__subclasses__"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text"), LISTED, ids=[made.__name__ for made, _ in LISTED])
def test_what_cannot_be_guarded_is_listed_and_refused(made: Callable[[], Any], text: str) -> None:
    jitted = torpor.jit(made())
    jitted(number(1))
    listed = [line for line in torpor.explain(jitted).splitlines() if "baked in" in line]
    assert any(text in line for line in listed), listed
    with Context(JIT="strict"), pytest.raises(CaptureError, match="depends on"):
        torpor.jit(made())(number(1))


def test_usual_objects_are_not_listed() -> None:
    lock, form, kinds = threading.Lock(), np.dtype("f4"), collections.Counter("aab")
    now = datetime.datetime(2000, 1, 1)
    variable = contextvars.ContextVar("variable", default=2)
    Point = collections.namedtuple("Point", ["x", "y"])
    point = Point(1, 2)
    model = torpor.nn.Sequential(torpor.nn.Linear(1, 1), torpor.nn.ReLU())

    def f(x: Tensor) -> Tensor:
        with lock:
            y = model(x) * kinds["a"]
        return y + np.zeros(1, form)[0] + now.year * variable.get() + point.y

    jitted = torpor.jit(f)
    with Context(JIT="strict"):
        assert jitted(number(1)).tolist() == f(number(1)).tolist()


# --- copies ---------------------------------------------------------------------------------------
class Model:
    def __init__(self) -> None:
        self.weight = number(1)
        self.step = torpor.jit(self._step)

    def _step(self, x: Tensor) -> Tensor:
        self.weight += x
        return self.weight * 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_an_object_has_a_jitted_method_of_its_own(copied: Callable[[Any], Any]) -> None:
    model = Model()
    model.step(number(1))
    other = copied(model)
    assert [other.step(number(1)).item() for _ in range(4)] == [3, 4, 5, 6]
    assert model.weight.item() == 2
    assert [model.step(number(1)).item() for _ in range(4)] == [3, 4, 5, 6]
    assert other.weight.item() == 6
