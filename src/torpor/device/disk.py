"""`DISK`: files as memory, mapped and read-only. Runs no kernels."""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any, ClassVar

import numpy as np

from torpor.base.dtypes import DType
from torpor.base.errors import DeviceError, MemoryStateError
from torpor.device import memory
from torpor.device.base import Allocator, DeviceBase
from torpor.device.buffer import Buffer
from torpor.ir.records import BufferSpec


class DiskAllocator(Allocator):
    """Mapped files. Fresh memory cannot be asked for: a file is opened by `disk_buffer`."""

    def allocate(self, nbytes: int, spec: BufferSpec) -> Any:
        raise DeviceError(
            "DISK has no memory of its own; it maps files, for example Tensor.from_file(path)"
        )

    def free(self, block: memory.Block) -> None:
        pass  # the mapping ends with the block

    def adopt(self, external: Any, nbytes: int) -> memory.Block:
        return memory.host.adopt(external, nbytes)

    def address(self, block: memory.Block) -> int:
        return block.address

    def read_only(self, block: memory.Block) -> bool:
        return True

    def copyin(self, block: memory.Block, offset: int, source: memoryview) -> None:
        raise DeviceError("files are mapped read-only")

    def copyout(self, block: memory.Block, offset: int, destination: memoryview) -> None:
        memory.host.copyout(block, offset, destination)


class DiskDevice(DeviceBase):
    """Mapped files."""

    kind: ClassVar[str] = "DISK"
    allocator: Allocator = DiskAllocator()


def disk_buffer(
    path: str | os.PathLike[str], dtype: DType, offset: int = 0, size: int | None = None
) -> Buffer:
    """The file at `path` from byte `offset` on, as `size` elements (by default all that there are).

    A file that is too short, or whose length is not a multiple, or what is no file, is a
    `MemoryStateError`.
    """
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        raise MemoryStateError(f"{os.fspath(path)!r} is no ordinary file, and cannot be mapped")
    length = facts.st_size - offset
    if size is None:
        size, rest = divmod(length, dtype.itemsize)
        if rest or length < 0:
            raise MemoryStateError(
                f"{os.fspath(path)!r} has {length} bytes from {offset} on, no multiple of "
                f"{dtype.itemsize} ({dtype.name})"
            )
    if offset < 0 or size * dtype.itemsize > length:
        raise MemoryStateError(
            f"{os.fspath(path)!r} has {length} bytes from {offset} on; {size} elements of "
            f"{dtype.name} need {size * dtype.itemsize}"
        )
    data = np.empty(0, np.uint8)
    if size:  # a file of no bytes cannot be mapped
        with open(path, "rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = np.frombuffer(mapping, np.uint8, size * dtype.itemsize, offset)
    return Buffer("DISK", size, dtype).allocate(data)
