"""`Buffer`: one-dimensional memory of a device, identified by who it is, not by what it holds."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import DType
from torpor.base.errors import MemoryStateError
from torpor.device.base import Memory
from torpor.device.registry import Device
from torpor.ir.infer import Shape, shaped
from torpor.ir.ops import Ops
from torpor.ir.records import BufferSpec
from torpor.ir.uop import UOp

_DEFAULT_SPEC: Final = BufferSpec()
_numbers: Final = itertools.count(1)


class Buffer:
    """`size` elements of `dtype` on `device`; memory comes with `allocate()`.

    Two buffers are equal only if they are the same one. Its memory returns to the device when
    the buffer, its views and the arrays made from it are gone.
    """

    __slots__ = (
        "device", "size", "dtype", "options", "number", "base", "offset", "place", "_memory",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, device: str, size: int, dtype: DType, options: BufferSpec | None = None):
        self.device = Device.canonicalize(device)
        self.size, self.dtype = int(size), dtype
        self.options = _DEFAULT_SPEC if options is None else options
        self.number = next(_numbers)
        self.base: Buffer | None = None
        self.offset = 0  # bytes, from the start of the base's memory
        self.place = 0  # where its first byte is, once that is known and as long as it lies there
        self._memory: Memory | None = None
        if self.size < 0:
            raise MemoryStateError(f"a buffer cannot have {size} elements")

    def __repr__(self) -> str:
        return f"Buffer(#{self.number}, {self.device}, {self.size}, {self.dtype.name})"

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    # --- memory -----------------------------------------------------------------------------------
    @property
    def memory(self) -> Memory:
        """The memory that it (or its base) lies in; `MemoryStateError` where there is none yet."""
        memory = self._memory if self.base is None else self.base._memory
        if memory is None:
            raise MemoryStateError(f"{self!r} is not allocated")
        return memory

    @property
    def address(self) -> int:
        """Where its first byte is for the host; `MemoryStateError` if the host cannot see it."""
        address = self.memory.address
        if address is None:
            raise MemoryStateError(f"the host cannot see the memory of {self!r}")
        return address + self.offset

    def is_allocated(self) -> bool:
        return (self._memory if self.base is None else self.base._memory) is not None

    def allocate(self, external: Any = None) -> Buffer:
        """Get memory, from the device or `external` (an array, a memoryview, an address); itself.

        A view allocates its base. Allocating twice is a `MemoryStateError`.
        """
        if self.is_allocated():
            raise MemoryStateError(f"{self!r} is allocated already")
        if self.base is not None:
            self.base.allocate(external)
            return self
        allocator = Device[self.device].allocator
        if external is None:
            external = self.options.external_pointer
        if external is None:
            block = allocator.allocate(self.nbytes, self.options)
        else:
            block = allocator.adopt(external, self.nbytes)
        self._memory = Memory(allocator, block, self.nbytes, external is None)
        self.place = self._memory.address or 0
        return self

    def share(self, other: Buffer) -> None:
        """Lie, from its first byte on, in the memory of another buffer, no smaller than this one.

        Both hold it from then on. A buffer that has memory is a `MemoryStateError`.
        """
        if self.base is not None or self.is_allocated():
            raise MemoryStateError(f"{self!r} is allocated already")
        memory = other.memory
        if other.base is not None or memory.nbytes < self.nbytes:
            raise MemoryStateError(f"{self!r} does not fit into the memory of {other!r}")
        self._memory, self.place = memory, other.place

    def deallocate(self) -> None:
        """Let go of the memory; arrays that look into it keep it. A view's stays its base's."""
        if self.base is not None:
            raise MemoryStateError(f"{self!r} is a view; deallocate its base, {self.base!r}")
        if self._memory is None:
            raise MemoryStateError(f"{self!r} is not allocated")
        self._memory, self.place = None, 0

    def view(self, offset: int, size: int, dtype: DType | None = None) -> Buffer:
        """A buffer that shares this one's memory and keeps this one alive.

        It begins `offset` elements (of this buffer's dtype) in, and has `size` elements of `dtype`
        (by default this one's). Past the end is a `MemoryStateError`.
        """
        made = Buffer(self.device, size, dtype or self.dtype, self.options)
        start = offset * self.dtype.itemsize
        if offset < 0 or start + made.nbytes > self.nbytes:
            raise MemoryStateError(
                f"a view of {made.nbytes} bytes from byte {start} does not fit into {self!r}, "
                f"which has {self.nbytes}"
            )
        made.base = self if self.base is None else self.base
        made.offset = self.offset + start
        return made

    # --- data -------------------------------------------------------------------------------------
    def numpy(self) -> npt.NDArray[Any]:
        """The elements, shape (size,): the memory itself where the host sees it, else a copy."""
        memory = self.memory
        if memory.address is not None:
            whole = np.asarray(memory)
            return whole[self.offset : self.offset + self.nbytes].view(self.dtype.numpy)
        copied = np.empty(self.size, self.dtype.numpy)
        self.copyout(copied)
        return copied

    def as_buffer(self) -> memoryview:
        """Its bytes: the memory itself where the host sees it, else a copy."""
        return self.numpy().view(np.uint8).data

    def copyin(self, source: memoryview | npt.NDArray[Any]) -> Buffer:
        """Fill it with the bytes of `source`, which must have exactly as many; itself."""
        data = self._bytes_of(source)
        memory = self.memory
        if memory.read_only:
            raise MemoryStateError(f"{self!r} is read-only")
        memory.allocator.copyin(memory.block, self.offset, data)
        return self

    def copyout(self, destination: memoryview | npt.NDArray[Any]) -> None:
        """Fill `destination`, which must have exactly as many bytes, from it."""
        data = self._bytes_of(destination)
        if data.readonly:
            raise MemoryStateError(f"cannot copy {self!r} into memory that is read-only")
        memory = self.memory
        memory.allocator.copyout(memory.block, self.offset, data)

    def _bytes_of(self, other: memoryview | npt.NDArray[Any]) -> memoryview:
        if isinstance(other, np.ndarray) and other.flags.c_contiguous:
            data = other.reshape(-1).view(np.uint8).data
        else:
            data = other.data if isinstance(other, np.ndarray) else memoryview(other)
        if not data.c_contiguous:
            raise MemoryStateError(f"{self!r} copies only contiguous memory")
        if data.nbytes != self.nbytes:
            raise MemoryStateError(f"{self!r} has {self.nbytes} bytes, the other {data.nbytes}")
        return data.cast("B") if data.ndim == 1 or data.nbytes else memoryview(b"")


class BufferMaker:
    """Makes allocated buffers of one kind: cheaper than `Buffer(...).allocate()` each time."""

    def __init__(self, device: str, size: int, dtype: DType):
        like = Buffer(device, size, dtype)
        self._parts = like.device, like.size, like.dtype, like.options
        self._nbytes, self._allocator = like.nbytes, Device[like.device].allocator

    def __call__(self) -> Buffer:
        """One more."""
        made = object.__new__(Buffer)
        made.device, made.size, made.dtype, made.options = self._parts
        made.number, made.base, made.offset = next(_numbers), None, 0
        allocator, nbytes = self._allocator, self._nbytes
        memory = Memory(allocator, allocator.allocate(nbytes, made.options), nbytes)
        made._memory, made.place = memory, memory.address or 0
        return made


def buffer_node(buffer: Buffer, shape: Shape) -> UOp:
    """The graph node for `buffer`, in the given shape."""
    whole = (buffer.size,)
    node = shaped(UOp(Ops.BUFFER, buffer.dtype, (), buffer), whole)
    if shape == whole:
        return node
    return shaped(UOp(Ops.RESHAPE, buffer.dtype, (node,), shape), shape)
