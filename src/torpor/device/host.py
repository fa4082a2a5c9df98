"""What the host computes by functions of arrays (LAPACK's factorisations), beside kernels.

A graph names the function. Native code calls it by an address, as it calls a kernel: the call takes
Python's lock. What a function cannot do it says in its results; an exception (Ctrl-C, memory that
is not there) ends the run and is raised by `raise_held` when native code is left.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from torpor.device.base import Executable, NativeEntry
from torpor.device.buffer import Buffer
from torpor.ir.ops import Ops
from torpor.ir.records import HostCall, Program, ScheduleItem

Array = np.ndarray[Any, Any]
FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {}  # by name, of arrays and options
_ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class _Held(threading.local):
    error: BaseException | None = None  # what a function raised in this thread's native code


_held: Final = _Held()


def is_host(item: ScheduleItem) -> bool:
    """Whether the host computes the item."""
    return item.jump is None and item.ast.src[0].src[1].op is Ops.KERNEL


def raise_held() -> None:
    """Raise what a function raised while native code called it."""
    error, _held.error = _held.error, None
    if error is not None:
        raise error


class HostExecutable(Executable):
    """A function of the host, for operands and a result of these formats."""

    def __init__(self, call: HostCall, dtypes: Sequence[Any]):
        self.call, self.dtypes = call, [one.numpy for one in dtypes]  # the result's first
        self._entry = _ENTRY(self._enter)
        self._address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def native(self, variables: Sequence[int | None]) -> NativeEntry:
        return NativeEntry(self._address, 0, None, checked=True)

    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        result, *operands = buffers
        result.copyin(self._computed([one.numpy() for one in operands]))
        return 0

    def _computed(self, operands: Sequence[Array]) -> Array:
        shaped = zip(operands, self.call.shapes, strict=True)
        arrays = [one.reshape(shape) for one, shape in shaped]
        made = FUNCTIONS[self.call.name](*arrays, *self.call.options)
        return np.ascontiguousarray(made, self.dtypes[0]).reshape(-1)

    def _enter(self, table: int, begin: int, end: int) -> None:
        words = (ctypes.c_int64 * (len(self.dtypes) + 1)).from_address(table)
        try:
            operands = [
                _at(word, dtype, shape) for word, dtype, shape in
                zip(words[1:-1], self.dtypes[1:], self.call.shapes, strict=True)
            ]  # fmt: skip
            made = self._computed(operands)
            ctypes.memmove(words[0], made.ctypes.data, made.nbytes)
        except BaseException as error:  # native code cannot be unwound
            _held.error = error
            ctypes.c_int64.from_address(words[-1]).value = 1


def _at(address: int, dtype: Any, shape: Sequence[int]) -> Array:
    """The array at an address."""
    count = int(np.prod(shape))
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype, count)


def host_program(item: ScheduleItem) -> tuple[Program, HostExecutable]:
    """What stands for an item's kernel where the host computes it."""
    target, value = item.ast.src[0].src
    call: HostCall = value.arg[0]
    dtypes = [target.dtype, *(one.dtype for one in value.src)]
    program = Program(
        f"host_{call.name}", f"# {call.name} of arrays, on the host", "host",
        parameters=tuple(one.name for one in dtypes), checks=1,
    )  # fmt: skip
    return program, HostExecutable(call, dtypes)
