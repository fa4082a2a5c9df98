"""What a function can see of the world outside: places, found from the names in its bytecode.

Receivers are not followed through the program: whatever object is reached from the function, its
arguments, globals and closure cells counts as read under every name that any code of the trace
loads. That covers more than is read and never less, save for what `baked` lists.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import gc
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.capture.code import is_opaque, is_ours, names_of, root_of
from torpor.capture.tree import is_plain
from torpor.tensor.handle import Handle
from torpor.tensor.path import Step

ABSENT: Final = type("Absent", (), {"__repr__": lambda self: "(absent)"})()
_NONE: Final[frozenset[str]] = frozenset()
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, collections.deque)


_WRAPPERS: Final = (
    collections.UserDict, collections.UserList, collections.UserString, collections.ChainMap,
)  # fmt: skip


class Place:
    """Where a value is kept: an entry of a dict, a closure cell, or a slot of an object.

    value: what was there when the trace first could see it.
    """

    __slots__ = ("owner", "name", "value", "path", "expanded", "slot")

    def __init__(self, owner: Any, name: str, path: str, slot: Any = None):
        self.owner, self.name, self.path, self.slot = owner, name, path, slot
        self.expanded = False
        self.value = self.now()

    def now(self) -> Any:
        """The value that is there now; `ABSENT` if there is none."""
        try:
            if self.slot is not None:
                return self.slot.__get__(self.owner)
            if isinstance(self.owner, types.CellType):
                return self.owner.cell_contents
        except (AttributeError, ValueError):
            return ABSENT
        return self.owner.get(self.name, ABSENT)

    def put(self, value: Any) -> None:
        """Make `value` the one that is there."""
        if self.slot is not None:
            self.slot.__set__(self.owner, value)
        elif isinstance(self.owner, types.CellType):
            self.owner.cell_contents = value
        elif value is ABSENT:
            self.owner.pop(self.name, None)
        else:
            self.owner[self.name] = value


class Variable(Place):
    """The value of a context variable, which counts as read."""

    __slots__ = ()

    def now(self) -> Any:
        return self.owner.get(ABSENT)

    def put(self, value: Any) -> None:
        self.owner.set(value)


def snapshot_of(value: Any) -> Any:
    """What a container of C code holds, as something that does not change with it."""
    return dict(value) if isinstance(value, types.MappingProxyType) else bytes(value)


def _functions_with(code: types.CodeType) -> list[types.FunctionType]:
    """Functions that run this code, if they can depend on more than their globals."""
    if not code.co_freevars and not code.co_argcount + code.co_kwonlyargcount:
        return []
    found = [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)]
    return [function for function in found if function.__code__ is code]


class Reach:
    """Everything that the code of a trace can reach, found as the code is entered.

    baked: what cannot be guarded, as text.
    """

    def __init__(self, bake: Callable[[str], None], found: Callable[[Handle], None]):
        self.bake, self.found = bake, found
        self.loaded: set[str] = set()
        self.changed: set[str] = set()
        self.stored: set[str] = set()
        self.asked: set[str] = set()
        self.everything = False  # attributes are read by names that the code computes
        self.whole = False  # the code asks which attributes there are
        self.functions: list[types.FunctionType] = []  # whose code has been entered
        self.objects: list[Any] = []  # whose attributes count
        self._inner: set[types.CodeType] = set()  # code of functions that are made inside
        self.places: dict[tuple[int, str], Place] = {}
        self.contents: dict[int, tuple[Any, Any, str]] = {}  # container, snapshot, path
        self.tensors: dict[int, tuple[Handle, str, Step | None, bool]] = {}
        self._objects: dict[int, tuple[Any, str]] = {}
        self._attributed: list[tuple[Any, str]] = []
        self._functions: dict[types.CodeType, list[tuple[types.FunctionType, str]]] = {}
        self._entered: set[types.CodeType] = set()
        self._always: set[tuple[int, str]] = set()  # places that are read under any name
        self._waiting: list[tuple[Any, str]] = []

    # --- code -------------------------------------------------------------------------------------
    def enter(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Code with these globals is about to run for the first time."""
        self._entered.add(code)
        names = names_of(code)
        self.asked |= names.asked
        self._learn(names.loaded, names.changed, names.stored)
        for name in sorted(names.outer.difference(code.co_freevars, code.co_cellvars)):
            self._place(namespace, name, name)
        for module in names.imported:
            if module in sys.modules and not is_opaque(module):
                self._place(sys.modules, module, f"sys.modules[{module!r}]", read=True)
        if "__dict__" in names.loaded and not is_ours(namespace.get("__name__")):
            self.read_everything(True)
        if code not in self._functions and code not in self._inner:
            for function in _functions_with(code):
                self._function(function, code.co_name)
        self._inner.update(part for part in code.co_consts if isinstance(part, types.CodeType))
        for function, path in self._functions.get(code, ()):
            self._cells(function, path)
        self._settle()

    def read_everything(self, whole: bool = False) -> None:
        """From now on every attribute of every object counts as read; `whole`: and which it has."""
        if whole and not self.whole:
            self.whole = True
            for owner, path in self._attributed:
                self._whole(owner, path)
        if not self.everything:
            self.everything = True
            for owner, path in list(self._attributed):
                self._attributes(owner, path, None)
            self._settle()

    def _learn(
        self, loaded: frozenset[str], changed: frozenset[str], stored: frozenset[str]
    ) -> None:
        fresh = (loaded | changed | stored) - (self.loaded | self.changed | self.stored)
        expanding = loaded - self.loaded
        self.loaded |= loaded
        self.changed |= changed
        self.stored |= stored
        for place in list(self.places.values()):
            if place.name in expanding:
                self._expand(place)
        if fresh:
            for owner, path in list(self._attributed):
                self._attributes(owner, path, fresh)

    # --- values -----------------------------------------------------------------------------------
    def root(self, value: Any, path: str) -> None:
        """A value that the function is given."""
        self.add(value, path)
        self._settle()

    def is_known(self, value: Any) -> bool:
        """Whether the object is one that was reached from outside."""
        return id(value) in self._objects or id(value) in self.tensors

    def path_of(self, value: Any) -> str:
        """How an object is reached."""
        return self._objects[id(value)][1]

    def add(self, value: Any, path: str) -> None:
        """Look at a value before long; what is plain needs no look."""
        if not is_plain(value) and not self.is_known(value):
            self._waiting.append((value, path))

    def _settle(self) -> None:
        while self._waiting:
            value, path = self._waiting.pop()
            if self.is_known(value):
                continue
            if isinstance(value, Handle):
                self.tensors[id(value)] = value, path, value._path, value.requires_grad
                self.found(value)
                if value.grad is not None:
                    self.add(value.grad, f"{path}.grad")
            else:
                self._objects[id(value)] = value, path
                self._look_at(value, path)

    def _look_at(self, value: Any, path: str) -> None:
        if isinstance(value, _CONTAINERS):
            self._container(value, path)
        elif isinstance(value, np.ndarray):
            self.contents[id(value)] = value, value.copy(), path
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, types.MethodType):
            self.add(value.__self__, f"{path}.__self__")
            self.add(value.__func__, path)
        elif isinstance(value, functools.partial):
            for part, name in ((value.func, "func"), (value.args, "args")):
                self.add(part, f"{path}.{name}")
            self.add(value.keywords, f"{path}.keywords")
        elif isinstance(value, staticmethod | classmethod):
            self.add(value.__func__, path)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset, value.fdel):
                self.add(accessor, path)
        elif isinstance(value, contextvars.ContextVar):
            self.places[id(value), path] = Variable(value, path, path)
        elif isinstance(value, operator.attrgetter | operator.methodcaller):
            self._named(value)
        elif isinstance(value, types.MappingProxyType | array.array | bytearray):
            self.contents[id(value)] = value, snapshot_of(value), path
        elif isinstance(value, types.ModuleType | type):
            name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
            if not is_opaque(name):
                self._attributes_of(value, path)
        elif hasattr(type(value), "__next__"):
            self.bake(f"the iterator {path}")
        else:
            own = _own_attributes(value)
            if isinstance(own, dict) and "__wrapped__" in own:
                self.add(own["__wrapped__"], path)
                self._given(value, path)
            module = type(value).__module__
            if isinstance(value, _WRAPPERS):
                for name in own or ():
                    self._place(own, name, f"{path}.{name}", identity=id(value), read=True)
            if module != "builtins" and not (root_of(module) == "torpor" and is_opaque(module)):
                self._attributes_of(value, path)

    def _named(self, value: Any) -> None:
        """Attributes whose names an `attrgetter` holds."""
        texts = [text for text in value.__reduce__()[1] if isinstance(text, str)]
        self._learn(frozenset(name for text in texts for name in text.split(".")), _NONE, _NONE)

    def _container(self, value: Any, path: str) -> None:
        if isinstance(value, dict):
            self.contents[id(value)] = value, dict(value), path
            for key, part in value.items():
                self.add(part, f"{path}[{key!r}]" if is_plain(key) else f"{path}[...]")
            return
        if not isinstance(value, tuple | frozenset):
            kind = frozenset if isinstance(value, set) else list
            self.contents[id(value)] = value, kind(value), path
        for number, part in enumerate(value):
            self.add(part, f"{path}[{number}]")
        if hasattr(value, "__dict__"):
            self._attributes_of(value, path)

    def _function(self, function: types.FunctionType, path: str) -> None:
        if is_opaque(function.__module__) and not hasattr(function, "__wrapped__"):
            return
        self._functions.setdefault(function.__code__, []).append((function, path))
        if function.__code__ in self._entered:
            self._cells(function, path)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.add(wrapped, path)
        self._given(function, path)

    def _given(self, function: Any, path: str) -> None:
        """Attributes that users gave to a function, or to one that is jitted."""
        self._attributed.append((function, path))
        self._attributes(
            function, path, None if self.everything else self.loaded | self.changed | self.stored
        )

    def _cells(self, function: types.FunctionType, path: str) -> None:
        self.functions.append(function)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._place(cell, name, name)
        for number, value in enumerate(function.__defaults__ or ()):
            self.add(value, f"{path}.__defaults__[{number}]")
        if function.__kwdefaults__:
            self.add(function.__kwdefaults__, f"{path}.__kwdefaults__")

    # --- attributes -------------------------------------------------------------------------------
    def _attributes_of(self, value: Any, path: str) -> None:
        self._attributed.append((value, path))
        if not isinstance(value, types.ModuleType):
            self.objects.append(value)
        if self.whole:
            self._whole(value, path)
        names = None if self.everything else self.loaded | self.changed | self.stored
        self._attributes(value, path, names)

    def _whole(self, value: Any, path: str) -> None:
        own = _own_attributes(value)
        if type(own) is dict and not isinstance(value, types.ModuleType):
            self.contents[id(own)] = own, dict(own), f"{path}.__dict__"

    def _attributes(self, value: Any, path: str, names: Any) -> None:
        """Note the attributes of `value` under these names (None: under all that it has)."""
        own = _own_attributes(value)
        if names is None:
            names = {*self.loaded, *self.changed, *self.stored, *(own or ())}
        module = type(value).__module__
        if isinstance(value, types.FunctionType) or (is_ours(module) and is_opaque(module)):
            names = [name for name in names if not name.startswith("_")]  # the rest is their own
        for name in names:
            if own is not None and name in own:
                self._place(own, name, f"{path}.{name}", identity=id(value))
            elif not isinstance(value, types.ModuleType):
                self._inherited(value, own, name, f"{path}.{name}")

    def _inherited(self, value: Any, own: Any, name: str, path: str) -> None:
        kind = value if isinstance(value, type) else type(value)
        before: list[type] = []
        for base in kind.__mro__:
            if name in base.__dict__:
                found = base.__dict__[name]
                if isinstance(found, types.MemberDescriptorType):
                    if not isinstance(value, type):
                        self._place(value, name, path, found)
                    return
                if not is_opaque(base.__module__):
                    self._place(base.__dict__, name, path, identity=id(base))
                self.add(found, path)
                break
            before.append(base)
        else:
            made_up = any("__getattr__" in base.__dict__ for base in kind.__mro__)
            if name not in self.stored and name not in self.asked and not made_up:
                return
        for base in before:
            if not is_opaque(base.__module__) and base is not value:
                self._place(base.__dict__, name, path, identity=id(base))
        if isinstance(own, dict):
            self._place(own, name, path, identity=id(value))

    def _place(
        self, owner: Any, name: str, path: str, slot: Any = None, identity: int = 0,
        read: bool = False,
    ) -> None:  # fmt: skip
        key = (identity or id(owner), name)
        if read:
            self._always.add((id(owner), name))
        if key in self.places:
            return
        place = self.places[key] = Place(owner, name, path, slot)
        if read or name in self.loaded or self.everything:
            self._expand(place)

    def _expand(self, place: Place) -> None:
        if not place.expanded:
            place.expanded = True
            if place.value is not ABSENT:
                self.add(place.value, place.path)

    def is_read(self, place: Place) -> bool:
        """Whether what is in a place decides what the function does."""
        if self.everything or place.name in self.loaded or place.name in self.changed:
            return True
        return (id(place.owner), place.name) in self._always


def _own_attributes(value: Any) -> Any:
    """The dict of an object's own attributes; None if it has none."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
