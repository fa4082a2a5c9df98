"""`CPU` and `CPU:N`: native code from LLVM, host memory, threads. All share memory and threads."""

from __future__ import annotations

import ctypes
import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Final

from torpor.base import settings
from torpor.base.errors import DeviceError
from torpor.base.target import Target
from torpor.device import llvm, memory
from torpor.device.base import DeviceBase, Executable, NativeEntry
from torpor.device.buffer import Buffer
from torpor.device.launch import launch_value, named
from torpor.device.llvm import LlvmCompiler
from torpor.device.machine import Machine, facts, machine
from torpor.device.memory import HostAllocator
from torpor.device.pool import pool
from torpor.device.share import SURE, Trial
from torpor.ir.records import Program
from torpor.ir.uop import UOp

# Below both, waking a thread costs more than it saves. Above either of the others, it always pays;
# in between a `Trial` tells, where the sizes are the same at each launch. At the first two kernels
# take about 10 us, at the others 0.5 ms; what waking costs is in bench/results/jit.md.
THREADS_FROM_OPS: Final = 50_000
THREADS_FROM_BYTES: Final = 256 * 1024
SURELY_FROM_OPS: Final = 1 << 25
SURELY_FROM_BYTES: Final = 1 << 23
LAUNCHES: Final = 64  # sizes of a kernel that are remembered, by its variables


class CpuExecutable(Executable):
    """A program's machine code. `entry` is its address (see `llvm.entry_text`)."""

    def __init__(self, program: Program, entry: int):
        self.program, self.entry = program, entry
        self._call = llvm.Entry(entry)
        count = len(program.parameters) + len(program.variables)
        self._pack = struct.Struct(f"={count + (program.checks > 0)}q").pack
        sizes = (program.thread_range, program.ops, program.bytes)
        self._fixed = program.thread_range is None or not any(isinstance(s, UOp) for s in sizes)
        self._fixed_launch = self._launch(()) if self._fixed else (0, False)
        self._launches = lru_cache(maxsize=LAUNCHES)(self._launch)
        self._parameters, self._variables = len(program.parameters), len(program.variables)
        self._trial = Trial() if self._fixed and not self._surely_big() else SURE

    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        if len(buffers) != self._parameters or len(variables) != self._variables:
            named(self.program, buffers, variables)  # raises
        addresses = [buffer.place or buffer.address for buffer in buffers]
        if not self.program.checks:
            self._run(self._pack(*addresses, *variables), variables)
            return 0
        error = ctypes.c_int64(0)
        self._run(self._pack(*addresses, *variables, ctypes.addressof(error)), variables)
        return error.value

    def native(self, variables: Sequence[int | None]) -> NativeEntry:
        known = [value for value in variables if value is not None]
        sizes: tuple[int | None, Trial | None] = None, None
        if self._fixed or len(known) == self._variables:
            sizes = self.sizes(known)
        return NativeEntry(self.entry, *sizes, self.program.checks > 0)

    def sizes(self, variables: Sequence[int]) -> tuple[int, Trial | None]:
        total, big = self._fixed_launch if self._fixed else self._launches(tuple(variables))
        return total, self._trial if big else None

    def _run(self, table: bytes, variables: Sequence[int]) -> None:
        total, trial = self.sizes(variables)
        if trial is not None:
            pool.run(self.entry, table, total, trial)
        else:
            self._call(table, 0, total)

    def _surely_big(self) -> bool:
        """Whether several threads pay in any case, where the launch is always the same."""
        program = self.program
        return bool(program.ops >= SURELY_FROM_OPS or program.bytes >= SURELY_FROM_BYTES)

    def _launch(self, variables: tuple[int, ...]) -> tuple[int, bool]:
        """How many iterations there are, and whether they are worth several threads."""
        program = self.program
        values = dict(zip((name for name, _ in program.variables), variables, strict=False))
        if program.thread_range is None:
            return 0, False
        total = launch_value(program.thread_range, values)
        big = (
            launch_value(program.ops, values) >= THREADS_FROM_OPS
            or launch_value(program.bytes, values) >= THREADS_FROM_BYTES
        )
        return total, big and total > 1


@lru_cache(maxsize=32)
def _key(made: Machine) -> str:
    """Short, and made once: every realisation looks programs up by it. Opts depend on the caches,
    of which one processor has more than another that is called the same.
    """
    known = facts(made)  # all else that it says follows from the features
    text = f"{made.features} {known.first_bytes} {known.cache_bytes} {known.last_bytes}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"cpu {made.triple} {made.processor} {digest} {llvm.version()}"


class CpuDevice(DeviceBase):
    """The processor that this process runs on, or that the setting TARGET names."""

    kind: ClassVar[str] = "CPU"
    allocator: HostAllocator = memory.host

    @property
    def machine(self) -> Machine:
        """The processor that code is generated for, here and now."""
        return machine(settings.text("TARGET"))

    @property
    def target(self) -> Target:
        return facts(self.machine)

    @property
    def compiler(self) -> LlvmCompiler:
        return LlvmCompiler(self.machine)

    @property
    def key(self) -> str:
        return _key(self.machine)

    def executable(self, program: Program, compiled: bytes) -> CpuExecutable:
        made = self.machine
        if not made.runs_here:
            raise DeviceError(
                f"this machine cannot run code for {settings.text('TARGET')!r} (the setting "
                f"TARGET); it can only be compiled and read"
            )
        return CpuExecutable(program, llvm.load(compiled, llvm.entry_name(program)))
