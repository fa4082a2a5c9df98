"""`torpor explore`: shows what happened inside torpor, in a browser or in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Final

from torpor.base.errors import SettingError
from torpor.base.settings import Context
from torpor.cli.profile import as_main, heirs, status_of
from torpor.explore import Kernel, Server, Trace, read, show
from torpor.explore.content import in_order
from torpor.explore.export import export
from torpor.explore.remake import compute_check, material
from torpor.pipeline.journal import journal

IN_THE_TERMINAL: Final = ("list", "kernel", "line", "stage", "json", "check")


def run_explore(arguments: argparse.Namespace) -> int:
    """Read a trace, or run a script and record it; then show it as the options ask for. Gives the
    script's exit status, or 0.
    """
    path, status = arguments.trace, 0
    if arguments.script is not None:
        if path is not None:
            raise SettingError("explore: a script or --trace, not both")
        path, status = record(arguments)
    trace = Trace() if path is None else read(path)
    if arguments.static:
        print(export(trace, arguments.static))
    elif any(getattr(arguments, name) for name in IN_THE_TERMINAL):
        print(text_of(trace, arguments))
    else:
        serve(trace, arguments)
    return status


def record(arguments: argparse.Namespace) -> tuple[Path, int]:
    """Run the script as `python script.py` would, recording: the trace, and the exit status."""
    if not Path(arguments.script).exists():
        raise FileNotFoundError(f"there is no {arguments.script}")
    apart = redirect_stdout(sys.stderr) if arguments.json else nullcontext()
    with Context(VIZ="file"), as_main(arguments.script, arguments.arguments), heirs(), apart:
        written = journal()
        status = status_of(arguments.script)
        written.flush()
    return written.path, status


def text_of(trace: Trace, arguments: argparse.Namespace) -> str:
    """What is asked for, as text or JSON."""
    found = show.chosen(trace, arguments.kernel or "", arguments.line or "")
    if (arguments.kernel or arguments.line) and not found:
        raise SettingError("explore: there is no such kernel; --list names them")
    whole = bool(arguments.kernel)
    if arguments.check:
        return check(trace, found, apart=not (arguments.kernel or arguments.line))
    if arguments.stage:
        return stages(trace, found if arguments.kernel or arguments.line else [], arguments.stage)
    if arguments.json:
        return json.dumps(show.as_data(trace, found, whole))
    if whole:
        return "\n\n".join(show.kernel(trace, one) for one in found)
    return show.listing(found)


def check(trace: Trace, found: list[Kernel], apart: bool) -> str:
    """Where the steps of each kernel, executed one by one, first give another result; `apart` also
    those of the scheduling.
    """
    lines = []
    for one in [*([None] if apart else []), *found]:
        steps = trace.steps if one is None else in_order(one)
        told = compute_check(material(trace, one, "check"))
        name, first = "scheduling" if one is None else one.name, told.get("first")
        if first is None:
            lines.append(told.get("error") or f"{name}: {told['tried']} of {len(steps)} steps hold")
        else:
            step = steps[first]
            lines += [f"{name}: step {first}, {step.stage} {step.rule}, gives another result",
                      f"  - {trace.expression(step.before)}",
                      f"  + {trace.expression(step.after)}"]  # fmt: skip
    return "\n".join(lines)


def stages(trace: Trace, found: list[Kernel], name: str) -> str:
    """What a pass and its rules did: to these kernels, or where there is none, everywhere."""
    parts = [] if found else [show.steps(trace, trace.steps, name)]
    for one in found or trace.kernels:
        told = [show.passes(trace, one, name), show.steps(trace, one.steps, name)]
        parts += [f"{one.name}:", *told] if any(told) else []
    text = "\n".join(part for part in parts if part)
    if not text:
        names = {step.stage for one in trace.kernels for step in one.steps}
        names |= {step.stage for step in trace.steps}
        names |= {left.name for one in trace.kernels for left in one.passes}
        raise SettingError(
            f"explore: there is no pass {name!r}; there are {', '.join(sorted(names))}"
        )
    return text


def serve(trace: Trace, arguments: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    server = Server(trace, arguments.port)
    print(f"{server}  (Ctrl-C ends it)", flush=True)
    if arguments.until_closed:
        threading.Thread(target=_close_with_input, args=(server,), daemon=True).start()
    try:
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def _close_with_input(server: Server) -> None:
    sys.stdin.read()
    server.close()
