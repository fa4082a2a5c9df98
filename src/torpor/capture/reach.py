"""What a function can see of the world outside: places, found from the names in its bytecode.

Receivers are not followed through the program: whatever object is reached from the function, its
arguments, globals and closure cells counts as read under every name that any code of the trace
loads: more than is read, save for what `baked` lists and names that code computes and nobody has.
"""

from __future__ import annotations

import abc
import builtins
import contextvars
import decimal
import functools
import gc
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from torpor.capture.code import imported, is_opaque, is_ours, names_of, root_of
from torpor.capture.holding import (
    has_name,
    held_of,
    is_a,
    is_known,
    is_tensor,
    line_of,
    module_of,
    name_of,
    named_by,
    named_by_classes,
    own_attributes,
    own_of,
)
from torpor.capture.noted import NONE, Noted
from torpor.capture.place import ABSENT, Local, Place, Variable
from torpor.capture.tree import is_plain
from torpor.graph.build import identity
from torpor.tensor.differentiate import leaf_number
from torpor.tensor.handle import Handle
from torpor.tensor.pairs import Pair
from torpor.tensor.path import Step

# Modules and classes of one package, and its objects, all of whose attributes may count: choices.
MOST: Final = 128
MOST_OBJECTS: Final = 1024
# What a class has under these names does not decide what its objects do.
_NOTES: Final = frozenset(
    """
    __module__ __doc__ __dict__ __weakref__ __qualname__ __annotations__ __slots__ __orig_bases__
    __firstlineno__ __static_attributes__ __annotate__ __annotate_func__ __annotations_cache__
    __parameters__ __type_params__ __dataclass_fields__ __dataclass_params__
    __abstractmethods__ __conditional_annotations__
    """.split()  # noqa: SIM905 (a table that is read)
)
# Classes of C code to whose objects Python code gives attributes.
_NAMESPACES: Final = (types.SimpleNamespace, threading.local, functools.partial)
_TOLD: Final = frozenset(
    """
    __name__ __qualname__ __doc__ __module__ __code__ __defaults__ __kwdefaults__ __annotations__
    """.split()  # noqa: SIM905 (a table that is read)
)
_SLOTS: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _is_closed(code: types.CodeType) -> bool:
    """Whether what runs the code can depend on its globals alone."""
    return not code.co_freevars and not code.co_argcount + code.co_kwonlyargcount


class Reach:
    """Everything that the code of a trace can reach, found as the code is entered.

    baked: what cannot be guarded, as text.
    """

    def __init__(self, bake: Callable[[str], None], found: Callable[[Handle], None]):
        self.bake, self.found = bake, found
        self.noted = Noted()
        self.whole = False  # the code asks which attributes there are
        self.functions: list[types.FunctionType] = []  # whose code has been entered
        self.objects: list[Any] = []  # whose attributes count
        self._inner: set[types.CodeType] = set()  # code of functions that are made inside
        self.contents: dict[int, tuple[Any, Any, str]] = {}  # container, snapshot, path
        self.tensors: dict[int, tuple[Handle, str, Step | None, bool]] = {}
        self._objects: dict[int, tuple[Any, str]] = {}
        self._functions: dict[types.CodeType, list[tuple[types.FunctionType, str]]] = {}
        self._entered: set[types.CodeType] = set()
        self._heap: list[types.FunctionType] | None = None  # when the trace needed them
        self.classes: dict[type, None] = {}  # whose special methods count
        self._packages: dict[tuple[str, bool], set[int]] = {}  # see `_counts_whole`
        self.abstract = False  # there is a class with which others can be registered
        self.imported: frozenset[str] | None = None  # modules, if the code asks which there are
        self._finds = False  # and takes them by their names
        self._waiting: list[tuple[Any, str]] = []
        self.before = identity()  # leaves that are made inside have greater numbers

    # --- code -------------------------------------------------------------------------------------
    def enter(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Code with these globals is about to run for the first time."""
        self._entered.add(code)
        names = names_of(code)
        self._learn(
            loaded=names.loaded, changed=names.changed, stored=names.stored, asked=names.asked
        )
        if names.finds:
            self._find_modules()
        for kind in [*self.classes] if "__match_args__" in names.loaded else ():
            self._matched(kind)
        for name in sorted(names.outer.difference(code.co_freevars, code.co_cellvars)):
            self._place(namespace, name, name)
            if name not in namespace:
                self._place(vars(builtins), name, name)
        for module in names.imported:
            if not is_opaque(module):
                self._place(sys.modules, module, f"sys.modules[{module!r}]", read=True)
        if "__dict__" in names.loaded and not is_ours(namespace.get("__name__")):
            self.read_everything(True)
        if code not in self._functions and code not in self._inner:
            for function in self._functions_with(code):
                self._function(function, code.co_name)
        self._inner.update(part for part in code.co_consts if is_a(part, types.CodeType))
        for function, path in self._functions.get(code, ()):
            self._cells(function, path)
        self._settle()

    def _functions_with(self, code: types.CodeType) -> list[types.FunctionType]:
        """Functions that run this code, if they can depend on more than their globals. One pass
        over the heap finds those of all code; what is not among them is asked for by itself.
        """
        if _is_closed(code):
            return []
        if self._heap is None:  # by `map`, since the tracer would be told of each call
            objects = gc.get_objects()
            kinds = zip(objects, map(type, objects), strict=True)
            self._heap = [one for one, kind in kinds if kind is types.FunctionType]
        if found := [function for function in self._heap if function.__code__ is code]:
            return found
        late = [one for one in gc.get_referrers(code) if type(one) is types.FunctionType]
        return [function for function in late if function.__code__ is code]

    def read_everything(self, whole: bool = False) -> None:
        """From now on every attribute of every object counts as read; `whole`: and which it has."""
        if whole and not self.whole:
            self.whole = True
            for owner, path in self.noted.objects.values():
                self._whole(owner, path)
                self._told_by(owner, path, _TOLD)
        self._find_modules()
        if not self.noted.everything:
            self.noted.everything = True
            for owner, path in self.noted.sweep():
                self._attributes(owner, path, None)
            self._settle()

    def named(self, owner: Any, name: str | None = None, **_: object) -> None:
        """An attribute of `owner` is read, should it be there; no name: all that it itself has."""
        asked = frozenset(own_attributes(owner) or () if name is None else [name])
        if owner is sys:
            self._find_modules()
        if name is None and self.is_known(owner):
            self._whole(owner, self.path_of(owner))
        self._learn(loaded=asked, asked=asked)
        self._settle()

    def _find_modules(self) -> None:
        """From now on what is in any module may be read, by its name."""
        if not self._finds:
            self._finds = True
            for place in self.noted.places():
                if place.value is sys.modules:
                    self._expand(place)

    def _learn(self, **used: frozenset[str]) -> None:
        """Code uses names in these ways (see `Names`): what is reached is looked at for those that
        none has used so before. Where all that there is to see is what its class says, one object
        of the class is enough, but for those that have one of these names themselves.
        """
        fresh, loaded = self.noted.learn(**used)
        for place in self.noted.places() if loaded and not self.noted.everything else ():
            if place.name in loaded:
                self._expand(place)
        seen: set[type] = set()
        for value, path in self.noted.sweep() if fresh else ():
            own = own_attributes(value)
            if type(value) not in seen or not (own is None or own.keys().isdisjoint(fresh)):
                if self._attributes(value, path, fresh):
                    seen.add(type(value))

    # --- values -----------------------------------------------------------------------------------
    def root(self, value: Any, path: str) -> None:
        """A value that the function is given."""
        self.add(value, path)
        self._settle()

    def is_known(self, value: Any) -> bool:
        """Whether the object is one that was reached from outside."""
        return id(value) in self._objects or id(value) in self.tensors

    def is_inside(self, leaf: Handle) -> bool:
        """Whether the code has made this leaf, as far as is known."""
        return (leaf_number(leaf) or 0) > self.before and not self.is_known(leaf)

    def path_of(self, value: Any) -> str:
        """How an object is reached."""
        return self._objects[id(value)][1]

    def add(self, value: Any, path: str) -> None:
        """Look at a value before long; what is plain needs no look."""
        if not is_plain(value) and not self.is_known(value):
            self._waiting.append((value, path))

    def _settle(self) -> None:
        while self._waiting or self.noted.counting:
            if self.noted.counting:
                self._expand(self.noted.counting.pop())
                continue
            value, path = self._waiting.pop()
            if self.is_known(value):
                continue
            if is_tensor(value):
                self.tensors[id(value)] = value, path, value._path, value.requires_grad
                self.found(value)
                if value.grad is not None:
                    self.add(value.grad, f"{path}.grad")
                self._given(value, path)
            else:
                self._objects[id(value)] = value, path
                self._look_at(value, path)
        self.noted.forget_looks()

    def _look_at(self, value: Any, path: str) -> None:
        if is_a(value, types.FunctionType):
            self._function(value, path)
        elif is_a(value, types.ModuleType):
            self._attributes_of(value, path)
        elif is_a(value, type):
            self._class(value, path)
        elif is_a(value, contextvars.ContextVar):
            place = self.noted.put(Variable(value, path, path), id(value))
            place.read = True
            self._expand(place)
        else:
            self._object(value, path)

    def _object(self, value: Any, path: str) -> None:
        """What its class says that an object holds, and attributes that Python code gave it."""
        kind: Any = type(value)
        held, module = held_of(kind), module_of(kind)
        ours = is_ours(module) and is_opaque(module)
        if ours and not is_known(kind):
            own = own_attributes(value)
            if type(own) is dict and "__wrapped__" in own:
                self.add(own["__wrapped__"], path)
                self._given(value, path)
            return
        if held.bakes:
            self.bake(named_by(value, path))
        if held.snapshot is not None:
            self.contents[id(value)] = value, held.snapshot(value), path
        for text, part in held.parts(value) if held.parts is not None else ():
            self.add(part, path + text)
        for name in held.members:
            self._place(value, name, f"{path}.{name}", getattr(kind, name), read=True)
        if is_a(value, operator.attrgetter | operator.methodcaller):
            self._named(value)
        if not is_known(kind) or kind in _NAMESPACES:
            self._attributes_of(value, path)
            if is_opaque(module) and not is_known(kind) and not held.bakes:
                self._all_of(value, path)

    def _all_of(self, value: Any, path: str) -> None:
        """Code that is not looked into may read any attribute of an object of its own class."""
        own = own_attributes(value)
        for name in own if type(own) is dict else ():
            if not (is_a(value, types.FunctionType) and name.startswith("_")):
                self._place(own, name, f"{path}.{name}", identity=id(value), read=True)

    def _class(self, value: Any, path: str) -> None:
        if value is decimal.Decimal:
            self.add(value(), "decimal.getcontext()")
        if is_a(value, abc.ABCMeta):
            self.abstract = True
            if own_of(value).get("_is_protocol"):
                names = {*own_of(value), *own_of(value).get("__annotations__", ())}
                members = frozenset(name for name in names if not name.startswith("_"))
                self._learn(loaded=members, asked=members)
        if not is_opaque(module_of(value)):
            self._attributes_of(value, path)

    def _named(self, value: Any) -> None:
        """Attributes whose names an `attrgetter` holds."""
        texts = [text for text in value.__reduce__()[1] if type(text) is str]
        self._learn(loaded=frozenset(name for text in texts for name in text.split(".")))

    def _function(self, function: types.FunctionType, path: str) -> None:
        if is_opaque(function.__globals__.get("__name__")):
            self._all_of(function, path)  # such as what is registered for dispatch
            self.add(vars(function).get("__wrapped__"), path)
            return
        self._functions.setdefault(function.__code__, []).append((function, path))
        if function.__code__ in self._entered:
            self._cells(function, path)
        wrapped = vars(function).get("__wrapped__")
        if wrapped is not None:
            self.add(wrapped, path)
        self._given(function, path)

    def _given(self, function: Any, path: str) -> None:
        """Attributes that users gave to a function, or to one that is jitted."""
        self._attributes(function, path, None if self.noted.everything else self.noted.names)
        self.noted.objects[id(function)] = function, path

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
        if not is_a(value, types.ModuleType) or not is_opaque(_name_of(value)):
            self.objects.append(value)
            for kind in (type(value), value) if is_a(value, type) else (type(value),):
                self._special(kind)
        self._attributes(value, path, None if self.noted.everything else self.noted.names)
        self.noted.objects[id(value)] = value, path
        if self.whole:
            self._whole(value, path)

    def _special(self, kind: type) -> None:
        """Methods of a class that no name in bytecode leads to, such as those of operators."""
        for base in line_of(kind):
            if base in self.classes or is_opaque(module_of(base)):
                continue
            self.classes[base] = None
            for name, found in own_of(base).items():
                if name.startswith("__") and name.endswith("__") and name not in _NOTES:
                    place = self.noted.inherited(base, name, f"{name_of(base)}.{name}")
                    place.read = True
                    if not is_a(found, types.FunctionType):  # those are looked at when they run
                        self._expand(place)
            self._matched(base)

    def _matched(self, kind: type) -> None:
        """Attributes that patterns without names are matched with."""
        if "__match_args__" in self.noted.loaded:
            names = frozenset(own_of(kind).get("__match_args__", ()))
            if not names <= self.noted.loaded:
                self._learn(loaded=names)

    def _whole(self, value: Any, path: str) -> None:
        own = own_attributes(value)
        if is_a(value, threading.local):
            self.bake(f"which attributes {path} has in this thread")
        elif type(own) is dict and not is_a(value, types.ModuleType):
            kept = self.noted.first(value, own)
            self.contents.setdefault(id(own), (own, kept, f"{path}.__dict__"))

    def _attributes(self, value: Any, path: str, names: Any) -> bool:
        """Note the attributes of `value` under these names (None: under all that it has). Whether
        other objects of its class look the same, but for what they have themselves.
        """
        a_class: Any = type(value)
        own, kind, noted = own_attributes(value), _kind(a_class), self.noted
        if kind.is_tensor:  # whose own are those that a program gave it
            names = noted.asked.union(own) if names is None else names
            for name in names.intersection(own):
                self._place(own, name, f"{path}.{name}", identity=id(value))
            names = frozenset(x for x in noted.asked & names if not has_name(a_class, x))
            noted.count(a_class, names)
            return True
        loads = noted.loaded if names is None else noted.loaded & names
        told = kind.told.keys() & (_TOLD if self.whole and names is None else loads)
        self._told_by(value, path, told)
        mine = own.keys() if type(own) is dict else NONE
        if names is not None or not self._counts_whole(value):
            names = noted.names if names is None else names
            mine = mine & names
        else:
            names = noted.names | named_by_classes(a_class) | (NONE if mine else set(own or ()))
        if kind.is_module:
            self._of_module(value, own, names.union(mine), path)
            if a_class is types.ModuleType:
                return False
        if kind.is_public:
            names, mine = _public(names), _public(frozenset(mine))
        if kind.is_local:
            self._local(value, names.union(mine), path)
            return False
        for name, lacked in noted.lacked_of(value, mine):
            self._place(own, name, f"{path}.{name}", identity=id(value), lacked=lacked)
        if is_a(value, type):
            noted.from_class(value, names, path)
        if mine:  # unless a class has a descriptor of that name
            noted.from_class(a_class, frozenset(mine), path, every=True)
        counted, slots, _ = noted.from_class(a_class, names, path)
        noted.count(a_class, counted)
        for name, slot in slots:
            self._place(value, name, f"{path}.{name}", slot)
        return not (slots or told or issubclass(a_class, type))

    def _counts_whole(self, value: Any) -> bool:
        """Whether attributes of an object count under names that code computes: not those of
        torpor's modules, nor of more objects of one package than a function is likely to look at.
        """
        is_module, is_class = is_a(value, types.ModuleType), is_a(value, type)
        name = _name_of(value) if is_module else module_of(value if is_class else type(value))
        if is_module and (is_opaque(name) or is_ours(name)):
            return False
        key = root_of(name), is_module or is_class
        known = self._packages.setdefault(key, set())
        known.add(id(value))
        if len(known) <= (MOST if key[1] else MOST_OBJECTS):
            return True
        self.noted.partial.add(id(value))
        self.bake(f"what there is in {key[0]}, by names that are computed")
        return False

    def _told_by(self, value: Any, path: str, names: Iterable[str]) -> None:
        """What a function or a class says of itself."""
        kind: Any = type(value)
        told = _kind(kind).told
        for name in told.keys() & names:
            self._place(value, name, f"{path}.{name}", told[name])

    def _local(self, value: Any, names: Iterable[str], path: str) -> None:
        for name in names:
            if self.noted.of(id(value), name) is None:
                self.noted.put(Local(value, name, f"{path}.{name}"), id(value))

    def _of_module(self, module: Any, own: Any, names: Any, path: str) -> None:
        made_up = "__getattr__" in own and not is_opaque(_name_of(module))
        if made_up:
            self._place(own, "__getattr__", f"{path}.__getattr__", read=True)
        for name in names:
            if name in own or made_up or name in self.noted.asked:
                self._place(own, name, f"{path}.{name}")

    def _place(
        self, owner: Any, name: str, path: str, slot: Any = None, identity: int = 0, *,
        read: bool = False, lacked: bool = False,
    ) -> None:  # fmt: skip
        key = identity or id(owner)
        place = self.noted.of(key, name)
        place = place or self.noted.put(Place(owner, name, path, slot, lacked), key)
        if read and not place.read:
            place.read = True
            self._expand(place)

    def _expand(self, place: Place) -> None:
        if place.owner is vars(sys) and place.value is sys.modules and not self._finds:
            self.imported = self.imported or imported()
        elif not place.expanded:
            place.expanded = True
            if place.value is not ABSENT:
                self.add(place.value, place.path)


class _Kind(NamedTuple):
    """How attributes of the objects of a class are looked at. `told`: slots of C code, by name, in
    which they say what they are. `is_public`: names that start with an underscore are their own.
    """

    is_tensor: bool
    is_module: bool
    is_local: bool
    is_public: bool
    told: Mapping[str, Any]


@functools.lru_cache(maxsize=4096)
def _kind(kind: Any) -> _Kind:
    a_function, module = issubclass(kind, types.FunctionType), module_of(kind)
    told = own_of(types.FunctionType if a_function else type)
    slots = {name: told[name] for name in _TOLD & told.keys() if is_a(told[name], _SLOTS)}
    return _Kind(
        issubclass(kind, Handle) and not issubclass(kind, Pair),
        issubclass(kind, types.ModuleType),
        issubclass(kind, threading.local),
        (a_function or is_ours(module)) and is_opaque(module),
        slots if a_function or issubclass(kind, type) else {},
    )


@functools.lru_cache(maxsize=64)
def _public(names: frozenset[str]) -> frozenset[str]:
    return frozenset(x for x in names if not x.startswith("_") or x == "__wrapped__")


def _name_of(module: Any) -> Any:
    return vars(module).get("__name__")
