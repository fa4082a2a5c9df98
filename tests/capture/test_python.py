"""Slots are where they are said to be, and methods made of native code take what they are given."""

from __future__ import annotations

import ctypes

import pytest

from torpor.capture.python import Unknown, is_known, method_of, offset_of
from torpor.device.buffer import Buffer
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle
from torpor.tensor.storage import Storage

pytestmark = pytest.mark.skipif(not is_known(), reason="a Python that native code does not know")


@pytest.mark.parametrize("kind", [Handle, Storage, Buffer, UOp])
def test_slots_are_found(kind: type) -> None:
    slots: tuple[str, ...] = kind.__slots__  # type: ignore[attr-defined]
    names = [name for name in slots if not name.startswith("__")]
    offsets = [offset_of(kind, name) for name in names]
    assert len({*offsets}) == len(offsets)
    made = object.__new__(kind)
    for number, (name, offset) in enumerate(zip(names, offsets, strict=True)):
        setattr(made, name, value := [number])
        assert ctypes.c_void_p.from_address(id(made) + offset).value == id(value)


def test_what_is_no_slot() -> None:
    for kind, name in ((Handle, "shape"), (Handle, "nothing"), (Storage, "replace")):
        with pytest.raises(Unknown):
            offset_of(kind, name)


def test_a_method_of_native_code() -> None:
    taken = []

    @ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p
    )
    def function(one: object, arguments: int, count: int, names: int | None) -> int:
        taken.append((one, count, names))
        return count

    class Kind:
        pass

    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    Kind.__call__ = method_of(Kind, "__call__", address)  # type: ignore[attr-defined]
    thing = Kind()
    assert thing("a", "b") == 2  # type: ignore[operator]
    assert taken == [(thing, 2, None)]
    with pytest.raises(TypeError):
        Kind.__call__(3)  # type: ignore[attr-defined]
