"""What objects hold whose state no bytecode names: one table of how each class is guarded.

A class that is not in the table, and whose objects have memory that neither their `__dict__` nor
`__slots__` show, is one of C code with a state of its own: it cannot be guarded.
"""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import datetime
import decimal
import fractions
import functools
import operator
import pathlib
import re
import struct
import threading
import types
import typing
import uuid
import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.attributes import attributes
from torpor.base.dtypes import DType
from torpor.capture.code import CHANGING, is_opaque, root_of
from torpor.tensor.complex import Complex
from torpor.tensor.handle import Handle
from torpor.tensor.pairs import Pair


class Held(NamedTuple):
    """How the objects of a class are guarded.

    snapshot: gives what an object holds, as something that does not change with it and is compared
              by `same_parts`; None: it does not change.
    parts:    gives what is to be looked at too, each with how it is named.
    members:  attributes of C code that may be set.
    bakes:    it has more to it than that.
    """

    snapshot: Callable[[Any], Any] | None = None
    parts: Callable[[Any], Iterable[tuple[str, Any]]] | None = None
    members: tuple[str, ...] = ()
    bakes: bool = False


def is_a(value: Any, kinds: Any) -> bool:
    """`isinstance` that asks nothing of the object: a `__getattribute__` of its class may raise."""
    return issubclass(type(value), kinds)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of real numbers; one of complex numbers holds two of these."""
    kind = type(value)
    return issubclass(kind, Handle) and not issubclass(kind, Pair)


# What a class says of itself, whatever its metaclass makes of its attributes.
own_of: Final[Callable[[type], Any]] = type.__dict__["__dict__"].__get__
line_of: Final[Callable[[type], Any]] = type.__dict__["__mro__"].__get__
_base_of: Final[Callable[[type], Any]] = type.__dict__["__base__"].__get__
_SIZES: Final = [type.__dict__[name].__get__ for name in ("__basicsize__", "__itemsize__")]
_EXTRAS: Final = [type.__dict__[name].__get__ for name in ("__dictoffset__", "__weakrefoffset__")]


def module_of(kind: type) -> str:
    """The module of a class."""
    found = own_of(kind).get("__module__")
    return found if type(found) is str else str(type.__getattribute__(kind, "__module__"))


def name_of(kind: type) -> str:
    """What a class is called."""
    return str(type.__getattribute__(kind, "__qualname__"))


def has_name(kind: type, name: str) -> bool:
    """Whether a class says what its objects have under a name."""
    return any(name in own_of(base) for base in line_of(kind))


def is_given_one_of(tensor: Handle, reach: Any) -> bool:
    """Whether a program gave a tensor an attribute that the code of a trace has a name for."""
    own, noted = attributes(tensor).keys(), reach.noted
    return bool(own) and (noted.everything or not noted.names.isdisjoint(own))


def own_attributes(value: Any) -> Any:
    """The dict of an object's own attributes; None if it has none."""
    if is_a(value, type):
        return own_of(value)
    try:
        return object.__getattribute__(value, "__dict__")
    except Exception:  # there is none, or it is a property
        return None


def title_of(value: Any) -> str:
    """What the class of an object is called, with its module."""
    kind = type(value)
    return f"{module_of(kind)}.{name_of(kind)}"


def named_by(value: Any, path: str) -> str:
    """What an object of C code is to a function, in words."""
    kind = type(value)
    if hasattr(kind, "__next__") and not issubclass(kind, weakref.ProxyTypes):
        return f"the iterator {path}"
    is_function = any("__name__" in own_of(base) for base in line_of(kind))
    return f"a call of {path}" if is_function else f"the {title_of(value)} {path}"


def named_by_classes(kind: type) -> frozenset[str]:
    """The attributes that objects have of a class, but for those that Python itself asks for."""
    bases = [base for base in line_of(kind) if not is_opaque(module_of(base))]
    return frozenset(name for base in bases for name in own_of(base) if name[:2] != "__")


def _named(*names: str) -> Callable[[Any], Iterable[tuple[str, Any]]]:
    getters = [(f".{name}", operator.attrgetter(name)) for name in names]
    return lambda value: [(text, getter(value)) for text, getter in getters]


def parts_of(value: Any) -> Any:
    """What a container holds, whatever a class of the user makes of iterating over it."""
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset, collections.deque)
    for kind in kinds:
        if is_a(value, kind):
            return iter(kind.__iter__(value))
    return iter(value._parts if is_a(value, Pair) else value)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    for kind in (collections.OrderedDict, dict):
        if is_a(value, kind):
            return kind.items(value)
    return value.items()  # type: ignore[no-any-return]


def _listed(value: Any) -> list[Any]:
    return [*parts_of(value)]


def _gathered(value: Any) -> frozenset[Any]:
    return frozenset(set.__iter__(value))


def _mapped(value: Any) -> dict[Any, Any]:
    return dict(_items(value))


def _numbered(value: Any) -> Iterable[tuple[str, Any]]:
    return [(f"[{number}]", part) for number, part in enumerate(parts_of(value))]


def _entries(value: Any) -> Iterable[tuple[str, Any]]:
    """Keys and values; those of text and numbers are named by them."""
    for key, part in _items(value):
        yield f"[{key!r}]" if type(key) in (str, int) else "[...]", part
        yield "[...]", key


def _pairs(value: Any) -> list[Any]:
    return [part for pair in value for part in pair]


def _memory(value: Any) -> Any:
    """What a view of memory shows; nothing when it has been released."""
    try:
        return value.tobytes(), value.format, *value.shape
    except ValueError:
        return ()


def _precision(_: Any) -> str:
    """What decides what arithmetic with decimal numbers gives."""
    return repr(decimal.getcontext())


def _told(error: Any) -> list[Any]:
    return [*error.args]


def _is_dead(reference: Any) -> list[bool]:
    return [reference() is None]


class _Named(NamedTuple):
    field: Any


class _Probe(ctypes.Structure):
    _fields_ = (("field", ctypes.c_int),)


_PLAIN: Final = (dict[Any, Any](), collections.OrderedDict[Any, Any]())
_KEYS: Final = tuple(type(made.keys()) for made in _PLAIN)
_VALUES: Final = tuple(type(made.values()) for made in _PLAIN)
_ITEMS: Final = tuple(type(made.items()) for made in _PLAIN)
_native: Any = ctypes  # some of whose classes have names of their own
_POINTERS: Final[tuple[Any, ...]] = (
    _native._Pointer, _native._CFuncPtr, ctypes.c_char_p, ctypes.c_wchar_p, ctypes.py_object,
)  # fmt: skip
_FIXED: Final[tuple[Any, ...]] = (
    str, bytes, int, float, complex, type(None), type(Ellipsis), type(NotImplemented), range, slice,
    types.CodeType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.GenericAlias, types.UnionType, typing.TypeVar, re.Pattern,
    re.Match, np.dtype, np.generic, np.ufunc, type(np.sum), fractions.Fraction, datetime.date,
    datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID, struct.Struct,
    pathlib.PurePath, operator.attrgetter, operator.itemgetter, operator.methodcaller,
    type(_Probe.field), type(vars(_Named)["field"]), Handle, DType,
    type(threading.Lock()), type(threading.RLock()),
)  # fmt: skip

# What a class inherits from these is known; those that `Reach` has more to say about stand last.
TABLE: Final[dict[tuple[Any, ...], Held]] = {
    _FIXED: Held(),
    (tuple, frozenset, Complex): Held(None, _numbered),
    (list, collections.deque, *_KEYS, *_VALUES): Held(_listed, _numbered),
    (set,): Held(_gathered, _numbered),
    (dict, collections.OrderedDict, types.MappingProxyType): Held(_mapped, _entries),
    (collections.defaultdict,): Held(_mapped, _entries, ("default_factory",)),
    _ITEMS: Held(_pairs, lambda value: _numbered(_pairs(value))),
    (np.ndarray,): Held(np.copy),
    (array.array, bytearray): Held(bytes),
    (memoryview,): Held(_memory),
    (_native._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union): Held(bytes),
    _POINTERS: Held(bakes=True),
    (decimal.Decimal,): Held(_precision),
    (BaseException,): Held(_told, lambda error: _numbered(_told(error))),
    (weakref.ref,): Held(_is_dead, bakes=True),
    (weakref.finalize,): Held(bakes=True),
    (types.MethodType,): Held(None, _named("__self__", "__func__")),
    (types.BuiltinFunctionType, types.MethodWrapperType): Held(None, _named("__self__")),
    (functools.partial,): Held(None, _named("func", "args", "keywords")),
    (staticmethod, classmethod): Held(None, _named("__func__")),
    (property,): Held(None, _named("fget", "fset", "fdel")),
    (object, types.SimpleNamespace, types.FunctionType, types.ModuleType, type): Held(),
    (contextvars.ContextVar, threading.local): Held(),
}
_KNOWN: Final = {kind: held for kinds, held in TABLE.items() for kind in kinds}


@lru_cache(maxsize=4096)
def held_of(kind: Any) -> Held:
    """How objects of a class are guarded, without the attributes that Python code gives them."""
    base, changing = kind, False
    while base not in _KNOWN:
        if _hides(base) and not (is_opaque(module_of(base)) and issubclass(base, _FIXED)):
            return Held(bakes=True)
        changing |= root_of(module_of(base)) in CHANGING
        base = _base_of(base)
    bakes = _points(kind) or (changing and base is object)
    return _KNOWN[base]._replace(bakes=True) if bakes else _KNOWN[base]


def is_known(kind: type) -> bool:
    """Whether the table has the class itself."""
    return kind in _KNOWN


def snapshot_of(value: Any) -> Any:
    """What an object holds, as its class says."""
    kind: Any = type(value)
    snapshot = held_of(kind).snapshot
    assert snapshot is not None, "others do not change"
    return snapshot(value)


def _hides(kind: type) -> bool:
    """Whether a class adds memory to objects that is no attribute of theirs."""
    base, own = _base_of(kind), own_of(kind)
    shown = 0
    if "__slots__" in own:
        shown += sum(type(part) is types.MemberDescriptorType for part in own.values())
    shown += sum(has(kind) != 0 and not has(base) for has in _EXTRAS)
    size, item = (size(kind) - size(base) for size in _SIZES)
    return bool(size > 8 * shown or item)


def _points(kind: Any) -> bool:
    """Whether a class of ctypes has pointers in it: what they point at is not in the object."""
    if not issubclass(kind, ctypes.Array | ctypes.Structure | ctypes.Union):
        return False
    fields = getattr(kind, "_fields_", ())
    parts = [kind._type_] if issubclass(kind, ctypes.Array) else [field[1] for field in fields]
    return any(issubclass(part, _POINTERS) or _points(part) for part in parts)
