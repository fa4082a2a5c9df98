"""Runs kernels for 64-bit ARM on a processor of another kind: one static program, emulated.

The program is the kernels' object files and a start written here in LLVM IR. It reads its memory
from standard input, calls the kernels in order, and writes its memory to standard output. No C
compiler and no C library is needed, only a linker that knows AArch64 and QEMU's user emulation, on
Debian the packages `binutils-aarch64-linux-gnu` and `qemu-user-static`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from llvmlite import binding

from torpor.device import Buffer
from torpor.device.launch import launch_value
from torpor.device.llvm import LlvmCompiler, entry_name, unsealed
from torpor.device.machine import Machine
from torpor.ir import Program

LINKERS: Final = ("aarch64-linux-gnu-ld", "ld.lld")
EMULATORS: Final = ("qemu-aarch64-static", "qemu-aarch64")
SECONDS: Final = 60
READ, WRITE, EXIT = 63, 64, 93  # system calls of Linux on AArch64
ALIGNMENT: Final = 64

# What LLVM calls of its own accord. `no-builtins`: or it would find a memset in this memset.
MEMORY_FUNCTIONS: Final = """
define ptr @memset(ptr %to, i32 %value, i64 %count) "no-builtins" {
entry:
  %byte = trunc i32 %value to i8
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i8, ptr %to, i64 %n
  store volatile i8 %byte, ptr %place
  %next = add i64 %n, 1
  %more = icmp ne i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret ptr %to
}
define ptr @memcpy(ptr %to, ptr %from, i64 %count) "no-builtins" {
entry:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr i8, ptr %from, i64 %n
  %byte = load volatile i8, ptr %source
  %place = getelementptr i8, ptr %to, i64 %n
  store volatile i8 %byte, ptr %place
  %next = add i64 %n, 1
  %more = icmp ne i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret ptr %to
}
"""
# The number of the call comes last. `mov x8, x3; svc 0; ret` in machine words, since llvmlite has
# LLVM's reader of assembly for the host alone.
SYSTEM_CALL: Final = """
define void @system_call(i64 %first, ptr %second, i64 %third, i64 %number) noinline
    prologue [3 x i32] [i32 u0xAA0303E8, i32 u0xD4000001, i32 u0xD65F03C0] {
  ret void
}
"""


def tools() -> tuple[str, str]:
    """The linker and the emulator; a `FileNotFoundError` that says which of them is missing."""
    found = []
    for what, names in (("linker for AArch64", LINKERS), ("emulator of AArch64", EMULATORS)):
        paths = [path for path in map(shutil.which, names) if path]
        if not paths:
            raise FileNotFoundError(f"there is no {what} ({' or '.join(names)})")
        found.append(paths[0])
    return found[0], found[1]


@dataclass
class Emulated:
    """Kernels to run one after the other, and the memory that they share."""

    machine: Machine
    objects: dict[str, bytes] = field(default_factory=dict)  # by name
    declared: dict[str, None] = field(default_factory=dict)  # what is called in them, as IR
    calls: list[str] = field(default_factory=list)
    places: dict[Buffer, int] = field(default_factory=dict)
    memory: bytearray = field(default_factory=bytearray)
    errors: list[int] = field(default_factory=list)

    def place(self, buffer: Buffer) -> int:
        """Where in the memory a buffer is; what it holds is there from the start."""
        if buffer not in self.places:
            held = bytes(buffer.as_buffer()) if buffer.is_allocated() else bytes(buffer.nbytes)
            self.places[buffer] = self.reserve(held)
        return self.places[buffer]

    def reserve(self, held: bytes) -> int:
        """Memory that begins with `held`, aligned, with as much room after it as buffers have."""
        self.memory += bytes(-len(self.memory) % ALIGNMENT)
        start = len(self.memory)
        self.memory += held + bytes(ALIGNMENT)
        return start

    def add(self, program: Program, buffers: Sequence[Buffer]) -> None:
        """Run `program`, which takes no variables, after those before."""
        entry = self.load(program)
        table = [self.place(buffer) for buffer in buffers]
        if program.checks:
            self.errors.append(self.reserve(bytes(8)))
            table.append(self.errors[-1])
        total = 0 if program.thread_range is None else launch_value(program.thread_range, {})
        self.fill(table)
        self.calls.append(f"  call void @{entry}(ptr @table, i64 0, i64 {total})")

    def load(self, program: Program) -> str:
        """The name of the program's entry, which can be called from then on."""
        entry = entry_name(program)
        if entry not in self.objects:
            self.objects[entry] = unsealed(LlvmCompiler(self.machine).compile(program))
            self.declared[f"declare void @{entry}(ptr, i64, i64)"] = None
        return entry

    def fill(self, table: Sequence[int]) -> None:
        """Have the table hold the addresses of these places in the memory."""
        for number, place in enumerate(table):
            address = f"ptr getelementptr (i8, ptr @memory, i64 {place})"
            slot = f"getelementptr (i64, ptr @table, i64 {number})"
            self.calls.append(f"  store {address}, ptr {slot}")

    def text(self) -> str:
        """The start of the program, in LLVM IR."""
        size = len(self.memory)
        return "\n".join([
            f"@memory = global [{size} x i8] zeroinitializer, align {ALIGNMENT}",
            "@table = global [64 x i64] zeroinitializer",
            *self.declared,
            MEMORY_FUNCTIONS,
            SYSTEM_CALL,
            "define void @_start() noreturn {",
            f"  call void @system_call(i64 0, ptr @memory, i64 {size}, i64 {READ})",
            *self.calls,
            f"  call void @system_call(i64 1, ptr @memory, i64 {size}, i64 {WRITE})",
            f"  call void @system_call(i64 0, ptr null, i64 0, i64 {EXIT})",
            "  unreachable",
            "}",
        ])  # fmt: skip

    def run(self, folder: Path) -> None:
        """Link, run, and take over what the memory holds then."""
        linker, emulator = tools()
        files = []
        for name, made in {"start": compiled(self.text(), self.machine), **self.objects}.items():
            files.append(folder / f"{name}.o")
            files[-1].write_bytes(made)
        program, before, after = (folder / name for name in ("program", "before", "after"))
        subprocess.run([linker, "-static", "-o", program, *files], check=True)
        before.write_bytes(self.memory)
        with before.open("rb") as source, after.open("wb") as result:
            subprocess.run(
                [emulator, program], stdin=source, stdout=result, check=True, timeout=SECONDS
            )
        self.memory[:] = after.read_bytes()

    def held(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """The elements of a buffer, shape (size,)."""
        return np.frombuffer(self.memory, buffer.dtype.numpy, buffer.size, self.places[buffer])

    def failures(self) -> list[int]:
        """The error words of the kernels that check."""
        return [int(np.frombuffer(self.memory, np.int64, 1, place)[0]) for place in self.errors]


def compiled(text: str, machine: Machine) -> bytes:
    """An object file of IR in which every function can be found."""
    target = binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.processor, features=machine.features, opt=1, reloc="static"
    )
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(target.target_data)
    module.verify()
    return bytes(target.emit_object(module))
