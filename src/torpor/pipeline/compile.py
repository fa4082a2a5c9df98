"""From a kernel's ast to a program and to something that runs, cached in memory and on disk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from torpor.base import settings
from torpor.base.collecting import uncollected
from torpor.base.errors import DeviceError
from torpor.base.locks import recursive_lock
from torpor.base.phases import phase
from torpor.base.recent import forget_oldest
from torpor.base.target import Target, get_target
from torpor.device import Device
from torpor.device.base import Compiler, DeviceBase, Executable
from torpor.device.host import is_host
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program, ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import anew, disk
from torpor.pipeline.beside import beside
from torpor.pipeline.journal import journal, recording
from torpor.pipeline.report import narrating, note_compile, show_program

if TYPE_CHECKING:
    from torpor.kernel.lower import Lowered
    from torpor.pipeline.tuning_database import Opts

# What compiles, renders and searches is imported when a kernel is first compiled: one that is on
# the disk needs none of it.

_Key = tuple[UOp, str, int, int, tuple[int, ...]]
_Built = tuple[Program, bytes]
_Chosen = dict[_Key, "Opts | None"]
_Want = tuple[ScheduleItem, str]  # one that needs the kernel, and why it is not there
MOST_LOADED: Final = 8192  # kernels
_executables: Final[dict[_Key, tuple[Program, Executable]]] = {}
_lock: Final = recursive_lock()  # a finaliser may compute something while this thread compiles


def program_for(ast: UOp, target: Target, opts: Sequence[Opt] | None = None) -> Program:
    """The program of a kernel's ast for a target: text, launch sizes, estimates."""
    from torpor.kernel.lower import lower as lower_kernel
    from torpor.kernel.passes.inplace import shareable
    from torpor.source import RENDERERS

    with narrating(ast):
        lowered = lower_kernel(ast, target, opts)
    name = lowered.name
    shared = shareable(ast, lowered.linear) if target.name == "cpu" else ()
    if target.name in RENDERERS:
        source = RENDERERS[target.name](target).render(name, lowered.linear, shared)
    else:
        source = "\n".join(str(n.op) for n in lowered.linear)
    return replace(program_of(name, source, target, lowered, ast), shared=shared)


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


def key_of(ast: UOp, device_name: str) -> _Key:
    """Everything that decides what a kernel's program for a device is."""
    number = settings.number
    device = Device[device_name]
    beam = number("BEAM")
    searched = (beam, number("THREADS")) if beam else ()
    return ast, device.key, number("NOOPT"), number("STRICT_FLOAT"), searched


def executable_for(item: ScheduleItem) -> tuple[Program, Executable]:
    """What runs the item's kernel on its device: from memory, from disk, or compiled now."""
    key = key_of(item.ast, device_of(item))
    found = _executables.get(key)
    while found is None:
        make_ready([item])
        found = _executables.get(key)
    return found


@uncollected()
def make_ready(items: Iterable[ScheduleItem]) -> list[str]:
    """Have the kernel of every item loaded: those that no cache has are compiled together. For each
    that was not in memory: why (see `anew.reasons`).
    """
    launches: dict[_Key, list[ScheduleItem]] = {}
    for item in items:
        if has_kernel(item):
            launches.setdefault(key_of(item.ast, device_of(item)), []).append(item)
    missing = {key: same for key, same in launches.items() if key not in _executables}
    if not missing:
        return []
    reasons = anew.reasons([same[0] for same in missing.values()])
    wants = {key: (launches[key][0], why) for key, why in zip(missing, reasons, strict=True)}
    chosen: _Chosen = dict.fromkeys(missing)
    if settings.number("BEAM") > 0:
        from torpor.pipeline.tuner import Task, opts_for

        wanted = [
            Task(same[0].ast, device_of(same[0]), [dict(item.variables) for item in same])
            for same in missing.values()
        ]
        with phase("search"):
            chosen = dict(zip(missing, opts_for(wanted), strict=True))
    with _lock:
        by_device: dict[str, list[_Key]] = {}
        for key, same in missing.items():
            device_name = device_of(same[0])
            if key not in _executables and not load_kept(key, wants[key], chosen[key]):
                by_device.setdefault(device_name, []).append(key)
        for device_name, keys in by_device.items():
            compile_missing({key: wants[key] for key in keys}, Device[device_name], chosen)
    return reasons


def load_kept(key: _Key, want: _Want, opts: Opts | None) -> bool:
    """Load a kernel from the disk cache, if it is there. Who records wants to see it made."""
    if recording():
        return False
    started = time.perf_counter()
    device = Device[device_of(want[0])]
    cached = disk.read(disk_name(key, opts)) if disk.usable(device.target) else None
    if cached is None:
        return False
    program, compiled = cached
    try:
        keep_loaded(key, (program, device.executable(program, compiled)))
    except DeviceError:  # what was kept is damaged
        return False
    ended = time.perf_counter()
    note_compile(program, *want, start=started, seconds=ended - started, from_disk=True)
    show_program(key[0], program, device)
    return True


def keep_loaded(key: _Key, made: tuple[Program, Executable]) -> None:
    """Keep a kernel in memory; where there are too many, the oldest go. Graphs hold their own."""
    _executables[key] = made
    forget_oldest(_executables, MOST_LOADED)


def compile_missing(keys: Mapping[_Key, _Want], device: DeviceBase, chosen: _Chosen) -> None:
    """Compile kernels for a device, with the opts chosen for them, and keep them on disk."""
    started = time.perf_counter()
    made = built_all({key[0]: chosen[key] for key in keys}, device)
    share = (time.perf_counter() - started) / len(keys)
    for number, (key, (program, compiled)) in enumerate(zip(keys, made, strict=True)):
        keep_loaded(key, (program, device.executable(program, compiled)))
        if disk.usable(device.target):
            disk.write(disk_name(key, chosen[key]), program, compiled)
        began = started + number * share
        note_compile(program, *keys[key], start=began, seconds=share, from_disk=False)
        show_program(key[0], program, device)


def built_all(wanted: Mapping[UOp, Opts | None], device: DeviceBase) -> list[_Built]:
    """The programs and objects of kernels with these opts; what takes longest is begun first."""
    asts = sorted(wanted, key=expense, reverse=True) if len(wanted) > 1 else list(wanted)
    requests = [(ast, wanted[ast], device.target, device.compiler) for ast in asts]
    if device.compiler.anywhere:
        made = beside(build, requests, there=_build_there)
    else:
        made = [build(*request) for request in requests]
    found = dict(zip(asts, made, strict=True))
    return [found[ast] for ast in wanted]


def build(ast: UOp, opts: Opts | None, target: Target, compiler: Compiler) -> _Built:
    """The program of a kernel, and its object."""
    started = time.perf_counter()
    program = program_for(ast, target, opts)
    rendered = time.perf_counter()
    compiled = compiler.compile(program)
    if recording():
        journal().made(ast, program.linear, started, rendered)
    return program, compiled


def expense(ast: UOp) -> tuple[bool, int]:
    """The order of kernels by how long they may take to compile: sums of products are tiled."""
    nodes = ast.toposort()
    tiled = any(n.op is Ops.REDUCE and n.src[0].op is Ops.MUL for n in nodes)
    return tiled, len(nodes)


def _build_there(*wanted: Any) -> _Built:
    """A kernel for another process, without the lines that its text was made of."""
    program, compiled = build(*wanted)
    return replace(program, linear=()), compiled


def disk_name(key: _Key, opts: Opts | None) -> str:
    """The name of the disk cache's entry for a kernel; `opts` are those that a search found."""
    return disk.name_of(key[0].key, *map(str, key[1:4]), repr(opts))


def programs_of(
    items: Sequence[ScheduleItem], target: Target, opts: Sequence[Opt] | None
) -> list[Program]:
    """The programs of a schedule's kernels (copies and jumps have none); where nobody says which
    opts, those that a search has found, if `BEAM` asks for them.
    """
    kernels = [item for item in items if has_kernel(item)]
    if opts is not None or not settings.number("BEAM"):
        program = cache(partial(program_for, target=target, opts=opts))  # blocks share their asts
        return [program(item.ast) for item in kernels]
    from torpor.pipeline.tuner import opts_known

    devices = (item.buffers[0].arg.device for item in kernels)
    return [
        program_for(item.ast, target, opts_known(item.ast, device, target))
        for item, device in zip(kernels, devices, strict=True)
    ]


def device_of(item: ScheduleItem) -> str:
    """The device that the item runs on."""
    name: str = item.buffers[0].arg.device
    return name


def is_copy(item: ScheduleItem) -> bool:
    """Whether the item moves a buffer to another device rather than computes."""
    return item.jump is None and item.ast.src[0].src[1].op is Ops.COPY


def has_kernel(item: ScheduleItem) -> bool:
    """Whether a kernel computes the item."""
    return item.jump is None and not is_copy(item) and not is_host(item)


def target_named(name: str | None, device: str) -> Target:
    """The target called `name`, by default the device's own."""
    return Device[device].target if name is None else get_target(name)
