"""From a kernel's ast to a program and to something that runs, cached in memory and on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from torpor.base import settings
from torpor.base.errors import DeviceError
from torpor.base.target import Target, get_target
from torpor.device import Device
from torpor.device.base import DeviceBase, Executable
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program, ScheduleItem
from torpor.ir.uop import UOp
from torpor.kernel import Lowered
from torpor.kernel import lower as lower_kernel
from torpor.pipeline import disk
from torpor.pipeline.report import note_compile, show_program
from torpor.source import RENDERERS

_Key = tuple[UOp, str, int, int, int]
_executables: Final[dict[_Key, tuple[Program, Executable]]] = {}
_lock: Final = threading.Lock()
CPU_NAME_LENGTH: Final = 8  # hexadecimal digits that tell functions of one name apart in a process


def program_for(ast: UOp, target: Target, opts: Sequence[Opt] | None = None) -> Program:
    """The program of a kernel's ast for a target: text, launch sizes, estimates."""
    lowered = lower_kernel(ast, target, opts)
    name = lowered.name
    if target.threads:  # functions of all kernels share one name space in the process
        name = f"{name}_{ast.key.hex()[:CPU_NAME_LENGTH]}"
    if target.name in RENDERERS:
        source = RENDERERS[target.name](target).render(name, lowered.linear)
    else:
        source = "\n".join(str(n.op) for n in lowered.linear)
    return program_of(name, source, target, lowered, ast)


def program_of(name: str, source: str, target: Target, lowered: Lowered, ast: UOp) -> Program:
    """The record of a rendered kernel."""
    linear = lowered.linear
    variables = [n for n in linear if n.op is Ops.VARIABLE]
    parameters = {n.arg.slot: n.dtype.name for n in ast.toposort() if n.op is Ops.PARAM}
    stored = {n.src[0].src[0].arg.slot for n in ast.toposort() if n.op is Ops.STORE}
    checks = [int(n.arg) for n in linear if n.op is Ops.CHECK]
    return Program(
        name,
        source,
        target.name,
        lowered.global_size,
        lowered.local_size,
        lowered.opts,
        lowered.ops,
        lowered.bytes,
        tuple(parameters[slot] for slot in sorted(parameters)),
        tuple((n.arg[0], n.dtype.name) for n in variables),
        lowered.thread_range,
        max(checks) + 1 if checks else 0,
        tuple(sorted(stored)),
        linear,
    )


def executable_for(ast: UOp, device_name: str) -> tuple[Program, Executable]:
    """What runs the kernel on the device: from memory, from disk, or compiled now."""
    device = Device[device_name]
    number = settings.number
    key = (ast, device.key, number("NOOPT"), number("STRICT_FLOAT"), number("BEAM"))
    found = _executables.get(key)
    if found is not None:
        return found
    with _lock:
        found = _executables.get(key)
        if found is None:
            found = _executables[key] = load_or_compile(ast, device_name, key)
    return found


def load_or_compile(ast: UOp, device_name: str, key: _Key) -> tuple[Program, Executable]:
    """The kernel from the disk cache if it is there and whole, else compiled and put there."""
    started = time.perf_counter()
    device = Device[device_name]
    name = disk.name_of(ast.key, *map(str, key[1:]))
    found = kept(device, name)
    if found is not None:
        program, executable = found
    else:
        program = program_for(ast, device.target)
        compiled = device.compiler.compile(program)
        executable = device.executable(program, compiled)
        if disk.usable(device.target):
            disk.write(name, program, compiled)
    note_compile(program, time.perf_counter() - started, found is not None)
    show_program(ast, program, device)
    return program, executable


def kept(device: DeviceBase, name: str) -> tuple[Program, Executable] | None:
    """The kernel from the disk cache; None where it is missing or damaged."""
    cached = disk.read(name) if disk.usable(device.target) else None
    if cached is None:
        return None
    program, compiled = cached
    try:
        return program, device.executable(program, compiled)
    except DeviceError:
        return None


def programs_of(
    items: Sequence[ScheduleItem], target: Target, opts: Sequence[Opt] | None
) -> list[Program]:
    """The programs of a schedule's kernels (copies have none)."""
    return [program_for(item.ast, target, opts) for item in items if not is_copy(item)]


def is_copy(item: ScheduleItem) -> bool:
    """Whether the item moves a buffer to another device rather than computes."""
    return item.ast.src[0].src[1].op is Ops.COPY


def target_named(name: str | None, device: str) -> Target:
    """The target called `name`, by default the device's own."""
    return Device[device].target if name is None else get_target(name)
