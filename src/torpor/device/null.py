"""`NULL`: has no memory and runs nothing, to time the compiler alone. Its target is the CPU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torpor.base.errors import DeviceError
from torpor.base.target import Target, get_target
from torpor.device.base import Allocator, Compiler, DeviceBase, Executable
from torpor.device.buffer import Buffer
from torpor.ir.records import BufferSpec, Program


class NullAllocator(Allocator):
    """Gives out nothing, and takes any copy."""

    def allocate(self, nbytes: int, spec: BufferSpec) -> None:
        return None

    def free(self, block: Any) -> None:
        pass

    def copyin(self, block: Any, offset: int, source: memoryview) -> None:
        pass

    def copyout(self, block: Any, offset: int, destination: memoryview) -> None:
        raise DeviceError("NULL keeps no values; realise the tensor on another device to read it")


class NullCompiler(Compiler):
    """Compiles to nothing."""

    def compile(self, program: Program) -> bytes:
        return b""


class NullExecutable(Executable):
    """Does nothing."""

    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        return 0


class NullDevice(DeviceBase):
    """Takes programs and memory, and does nothing with them."""

    kind: ClassVar[str] = "NULL"
    allocator: Allocator = NullAllocator()
    target: Target = get_target("cpu")
    compiler: Compiler = NullCompiler()
    key = "null"

    def executable(self, program: Program, compiled: bytes) -> Executable:
        return NullExecutable()
