"""Kernels of a trace made again: their steps executed, and what other opts or targets give."""

from __future__ import annotations

import re
from typing import Any, Final

from torpor.base.errors import DeviceError, TorporError
from torpor.base.target import Target, get_target
from torpor.explore import content
from torpor.explore.assembly import assembly_of
from torpor.explore.check import Tried, first_difference
from torpor.explore.trace import Kernel, Trace
from torpor.ir.records import Opt, OptOps
from torpor.ir.text import parse, parse_all

MOST_OPTS: Final = 64
TARGETS: Final = ("cpu", "c", "cuda:sm_80", "opencl", "metal", "wgsl")
PROCESSORS: Final = ("sse", "avx2", "avx512", "aarch64")  # that LLVM makes code for, anywhere
_OPT: Final = re.compile(r"\s*(\w+)\s+(None|\d{1,6})\s+(None|-?\d{1,6})\s*")


# --- what a process of its own is given -----------------------------------------------------------
def material(trace: Trace, one: Kernel | None, wanted: str) -> dict[str, Any]:
    """What has to be known of a kernel, or of the scheduling, for `compute_check` and
    `compute_program`.
    """
    if wanted == "program":
        return {} if one is None else {"nodes": trace.text([one.ast])}
    found = content.in_order(trace, one)[: content.MOST_STEPS]
    steps = [(not step.stage, step.before, step.after) for step in found]
    roots = [] if one is None else [one.ast]
    below = [*roots, *(number for _, *ends in steps for number in ends)]
    return {"nodes": trace.text(below), "roots": roots, "steps": steps}


# --- what it computes -----------------------------------------------------------------------------
def compute_check(request: dict[str, Any]) -> dict[str, Any]:
    """The first step whose result differs, and how many could be tried; of some `material`."""
    try:
        nodes = parse_all(request["nodes"])
    except TorporError as error:
        return {"error": f"the trace is another version's: {error}", "offset": 0}
    steps = [Tried(whole, nodes[old], nodes[new]) for whole, old, new in request["steps"]]
    ast = nodes[request["roots"][0]] if request["roots"] else None
    number, tried = first_difference(ast, steps)
    return {"first": number, "tried": tried, "steps": len(steps)}


def compute_program(request: dict[str, Any]) -> dict[str, Any]:
    """A kernel's source and assembly for a target, with these opts (None: the compiler's own)."""
    from torpor.pipeline import program_for

    try:
        text, name = request.get("opts"), str(request.get("target"))
        chosen = None if not isinstance(text, str) else opts_of(text)
        known = (*TARGETS, *PROCESSORS)
        if name not in known:
            return {"error": f"{name!r} is none of {', '.join(known)}", "offset": 0}
        target, compiler = target_of(name)
        assembly = lacking = ""
        program = program_for(parse(str(request.get("nodes", ""))), target, chosen)
        if compiler is not None:
            assembly, lacking = compiler.assembly(program), ""
        elif request.get("what") == "assembly":
            assembly, lacking = _assembly(name, program.source)
    except (TorporError, AssertionError) as error:
        return {"error": str(error) or "this cannot be compiled", "offset": 0}
    return {
        "source": program.source,
        "assembly": assembly,
        "lacking": lacking,
        "opts": [f"{opt.op.name} {opt.axis} {opt.arg}" for opt in program.opts],
        "language": content.language(program.source),
    }


def _assembly(name: str, source: str) -> tuple[str, str]:
    """The assembly; or why there is none."""
    try:
        return assembly_of(name, source), ""
    except DeviceError as error:
        return "", str(error)


def opts_of(text: str) -> list[Opt]:
    """Opts from `NAME axis amount`, one a line or with commas between."""
    parts = [part for part in re.split(r"[\n,;]", text) if part.strip()]
    if len(parts) > MOST_OPTS:
        raise DeviceError(f"more than {MOST_OPTS} opts")
    found = []
    for part in parts:
        match = _OPT.fullmatch(part)
        if match is None or match[1] not in OptOps.__members__:
            known = ", ".join(OptOps.__members__)
            raise DeviceError(f"{part.strip()!r} is no opt: NAME axis amount, with one of {known}")
        numbers = (None if text == "None" else int(text) for text in match.groups()[1:])
        found.append(Opt(OptOps[match[1]], *numbers))
    return found


def target_of(name: str) -> tuple[Target, Any]:
    """The target, and what writes its assembly, if anything does; `cpu` is this machine, with its
    own widths.
    """
    from torpor.device import Device
    from torpor.device.llvm import LlvmCompiler
    from torpor.device.machine import facts, machine

    if name == "cpu":
        return Device["CPU"].target, Device["CPU"].compiler
    if name in PROCESSORS:
        return facts(machine(name)), LlvmCompiler(machine(name))
    return get_target(name), None
