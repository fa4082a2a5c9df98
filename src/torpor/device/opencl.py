"""`OPENCL` and `OPENCL:N`: any OpenCL device, through pyopencl (the extra `opencl`).

Where the machine has no driver, the extra's PoCL runs the same programs on the processor.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from torpor.base import settings
from torpor.base.errors import CompileError, DeviceError
from torpor.base.target import Target, get_target
from torpor.device.base import Allocator, Compiler, DeviceBase, Executable
from torpor.device.buffer import Buffer
from torpor.device.launch import grid, named
from torpor.ir.records import BufferSpec, Program

OPTIONS: Final = ("-cl-std=CL1.2",)
_NOTHING: Final = "__kernel void nothing(__global int* out) {}"


def _driver() -> Any:
    """The module pyopencl; a `DeviceError` that says how to get it."""
    os.environ.setdefault("POCL_CACHE_DIR", str(settings.cache_dir() / "pocl"))
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(
            f'OPENCL needs pyopencl: pip install "torpor[opencl]" ({error})'
        ) from None
    return pyopencl


def _devices(driver: Any) -> list[Any]:
    """Every device of every platform for which its driver builds programs, those that are no
    processor first. A driver that is older than a processor may show it and know no code for it.
    """
    try:
        found = [device for platform in driver.get_platforms() for device in platform.get_devices()]
    except driver.Error as error:
        raise DeviceError(f"no OpenCL driver answers: {error}") from None
    faults = {device: _fault(driver, device) for device in found}
    usable = [device for device in found if faults[device] is None]
    if found and not usable:
        told = "; ".join(f"{device.platform.version.strip()}: {faults[device]}" for device in found)
        raise DeviceError(f"no OpenCL driver builds programs for this machine: {told}")
    return sorted(usable, key=lambda device: bool(device.type & driver.device_type.CPU))


def _fault(driver: Any, device: Any) -> str | None:
    """What a driver says against a program that does nothing; None if it builds it."""
    try:
        driver.Program(driver.Context([device]), _NOTHING).build(options=list(OPTIONS))
    except driver.Error as error:
        lines = str(error).splitlines()
        return next((line for line in lines if "error:" in line), lines[0])
    return None


class OpenclAllocator(Allocator):
    """Buffers of the driver."""

    def __init__(self, driver: Any, context: Any, queue: Any):
        self._driver, self._context, self._queue = driver, context, queue

    def allocate(self, nbytes: int, spec: BufferSpec) -> Any:
        flags = self._driver.mem_flags.READ_WRITE
        try:
            return self._driver.Buffer(self._context, flags, max(nbytes, 64))
        except self._driver.Error as error:
            raise MemoryError(f"the OpenCL device has no {nbytes:,} bytes left: {error}") from None

    def free(self, block: Any) -> None:
        pass  # the driver's object frees itself

    def copyin(self, block: Any, offset: int, source: memoryview) -> None:
        if source.nbytes:
            data = np.frombuffer(source, np.uint8)
            self._driver.enqueue_copy(self._queue, block, data, dst_offset=offset, is_blocking=True)

    def copyout(self, block: Any, offset: int, destination: memoryview) -> None:
        if destination.nbytes:
            data = np.frombuffer(destination, np.uint8)
            self._driver.enqueue_copy(self._queue, data, block, src_offset=offset, is_blocking=True)


class OpenclCompiler(Compiler):
    """OpenCL C to the driver's binary."""

    def __init__(self, driver: Any, context: Any):
        self._driver, self._context = driver, context

    def compile(self, program: Program) -> bytes:
        try:
            built = self._driver.Program(self._context, program.source).build(options=list(OPTIONS))
        except self._driver.Error as error:
            raise CompileError(f"OpenCL refused {program.name}: {error}") from None
        binaries: list[bytes] = built.get_info(self._driver.program_info.BINARIES)
        return binaries[0]


class OpenclExecutable(Executable):
    """A loaded kernel. A kernel object holds its arguments, so calls take turns."""

    def __init__(self, device: OpenclDevice, program: Program, compiled: bytes):
        self._device, self.program, driver = device, program, device.driver
        try:
            loaded = driver.Program(device.context, [device.handle], [compiled]).build()
            self._kernel = driver.Kernel(loaded, program.name)
        except driver.Error as error:
            raise DeviceError(f"{program.name} cannot be loaded: {error}") from None
        self._lock = threading.Lock()

    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        program, driver = self.program, self._device.driver
        values = named(program, buffers, variables)
        groups = grid(program, values)
        sizes = [g * n for g, n in zip(groups, program.local_size, strict=True)]
        if 0 in sizes:
            return 0
        arguments = [self._memory(buffer) for buffer in buffers]
        arguments += [np.dtype(kind).type(values[name]) for name, kind in program.variables]
        error = np.zeros(1, np.int64)
        if program.checks:
            flags = driver.mem_flags.READ_WRITE | driver.mem_flags.COPY_HOST_PTR
            word = driver.Buffer(self._device.context, flags, hostbuf=error)
            arguments.append(word)
        with self._lock:
            self._kernel.set_args(*arguments)
            done = driver.enqueue_nd_range_kernel(
                self._device.queue, self._kernel, sizes, program.local_size
            )
        done.wait()
        if program.checks:
            driver.enqueue_copy(self._device.queue, error, word, is_blocking=True)
        return int(error[0])

    @staticmethod
    def _memory(buffer: Buffer) -> Any:
        """The driver's buffer; a view's is a part of its base's."""
        block = buffer.memory.block
        if not buffer.offset:
            return block
        return block.get_sub_region(buffer.offset, max(buffer.nbytes, 1))


class OpenclDevice(DeviceBase):
    """One device of an OpenCL driver."""

    kind: ClassVar[str] = "OPENCL"

    def __init__(self, name: str):
        super().__init__(name)
        self.driver = _driver()
        found, number = _devices(self.driver), int(name.partition(":")[2] or 0)
        if number >= len(found):
            raise DeviceError(f"there is no {name}; OpenCL devices here: {len(found)}")
        self.handle = found[number]
        self.context = self.driver.Context([self.handle])
        self.queue = self.driver.CommandQueue(self.context)
        self._allocator = OpenclAllocator(self.driver, self.context, self.queue)

    @property
    def allocator(self) -> Allocator:
        return self._allocator

    @property
    def target(self) -> Target:
        known = get_target("opencl")
        missing = set(known.missing)
        if "cl_khr_fp64" not in self.handle.extensions:
            missing.add("float64")
        return replace(
            known,
            group_limit=min(known.group_limit, self.handle.max_work_group_size),
            local_bytes=min(known.local_bytes, self.handle.local_mem_size),
            parameters=self.handle.max_parameter_size // 8,
            missing=frozenset(missing),
        )

    @property
    def compiler(self) -> Compiler:
        return OpenclCompiler(self.driver, self.context)

    @property
    def key(self) -> str:
        handle = self.handle
        return f"opencl {handle.name} {handle.version} {handle.driver_version} {OPTIONS}"

    def executable(self, program: Program, compiled: bytes) -> Executable:
        return OpenclExecutable(self, program, compiled)

    def synchronize(self) -> None:
        self.queue.finish()
