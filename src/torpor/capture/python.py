"""What native code has to know about this Python: where things lie in objects, and its C API.

All of it is looked up and tried out; where anything is not as expected, there is no native replay.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
import types
from functools import lru_cache
from typing import Any, Final

from torpor.capture.replayer import API

VERSIONS: Final = ((3, 11), (3, 12), (3, 13), (3, 14))  # whose objects are known to look like this
_KIND: Final = 8  # bytes from an object's start to its type; its count of references is at 0
_MEMBER: Final = 40  # to the definition of a slot in its descriptor; and from there
_OFFSET: Final = 16  # to the slot's offset
_CALLED_WITH_NAMES: Final = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )  # fmt: skip


class _Probe:
    __slots__ = ("one", "two")


class Unknown(Exception):
    """Something is not where it was expected."""


@lru_cache(maxsize=1)
def is_known() -> bool:
    """Whether objects of this Python look as native code takes them to."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in VERSIONS:
        return False
    may_lack_lock = hasattr(sys, "_is_gil_enabled")  # asking older ones takes milliseconds
    if may_lack_lock and sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return False
    if object.__basicsize__ != 16 or hasattr(sys, "getobjects"):
        return False
    if not all(hasattr(ctypes.pythonapi, x) for x in (*API, "PyDescr_NewMethod")):
        return False
    thing = _Probe()
    held = [thing] * 3
    if _word(id(thing) + _KIND) != id(_Probe):
        return False
    count = ctypes.c_uint32.from_address(id(thing)).value
    if [*map(sys.getrefcount, held)] != [count + 1] * 3:  # as results are asked for
        return False
    try:
        return offset_of(_Probe, "one") != offset_of(_Probe, "two")
    except Unknown:
        return False


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@lru_cache(maxsize=256)
def offset_of(kind: type, name: str) -> int:
    """Bytes from the start of an object to a slot that its class has; `Unknown` if not so."""
    slot: Any = getattr(kind, name, None)
    if type(slot) is not types.MemberDescriptorType:
        raise Unknown(f"{slot!r} is no slot")
    offset = ctypes.c_ssize_t.from_address(_word(id(slot) + _MEMBER) + _OFFSET).value
    owner = slot.__objclass__
    if not 16 <= offset <= owner.__basicsize__ - 8:
        raise Unknown(f"{slot!r} is elsewhere")
    made: Any = object.__new__(owner)
    value = object()
    slot.__set__(made, value)
    if _word(id(made) + offset) != id(value):
        raise Unknown(f"{slot!r} is elsewhere")
    return int(offset)


VERSION: Final = 384  # bytes from a class's start to its version, which is another one, or none
# (0), whenever the class or one that it inherits from has been changed


def version_of(kind: type) -> int:
    """The version of a class as it is now; 0 if it has none, or none can be found."""
    if not _has_versions():
        return 0
    type.__getattribute__(kind, "mro")  # gives it one
    return word_of_version(kind).value


def word_of_version(kind: type) -> ctypes.c_uint32:
    """Where the version of a class is."""
    return ctypes.c_uint32.from_address(id(kind) + VERSION)


@lru_cache(maxsize=1)
def _has_versions() -> bool:
    """Whether the version of a class is where it is expected, and does what is expected."""
    if not is_known():
        return False
    base = type("Base", (), {})
    kind: Any = type("Kind", (base,), {})
    word = word_of_version(kind)
    seen = []
    for owner, name in ((None, ""), (kind, "one"), (base, "two"), (kind, "__bases__")):
        if owner is not None:
            setattr(owner, name, (type("Other", (base,), {}),) if name == "__bases__" else 1)
            seen.append(word.value)
        type.__getattribute__(kind, "mro")
        seen += [word.value, word.value]
    fresh = [number for number in seen if number]
    return seen[2::3] == [0, 0, 0] and len({*fresh}) == 4 and len(fresh) == 8


_methods: Final[list[_Method]] = []  # which Python does not copy


def method_of(kind: type, name: str, address: int) -> Any:
    """A method for a class: native code with the convention of METH_FASTCALL and METH_KEYWORDS."""
    made = _Method(name.encode(), address, _CALLED_WITH_NAMES, None)
    _methods.append(made)
    new = ctypes.pythonapi.PyDescr_NewMethod
    new.restype, new.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.POINTER(_Method))
    return new(kind, ctypes.byref(made))
