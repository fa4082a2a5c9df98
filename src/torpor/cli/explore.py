"""`torpor explore`: shows what happened inside torpor, in a browser or in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, Final

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
    chosen = bool(arguments.kernel or arguments.line)
    found = show.chosen(trace, arguments.kernel or "", arguments.line or "")
    if chosen and not found:
        raise SettingError("explore: there is no such kernel; --list names them")
    every = found if chosen else [None, *found]
    if arguments.check:
        data = [checked(trace, one) for one in every]
        text = "\n".join(map(check_text, data))
    elif arguments.stage:
        data = stages(trace, every, arguments.stage)
        text = "\n".join(map(stages_text, data))
    else:
        data = show.as_data(trace, found, bool(arguments.kernel))
        whole = (show.kernel(trace, one) for one in found)
        text = "\n\n".join(whole) if arguments.kernel else show.listing(found)
        if trace.errors and not chosen:
            text = f"{show.errors(trace)}\n\n{text}"
    return json.dumps(data) if arguments.json else text


def checked(trace: Trace, one: Kernel | None) -> dict[str, Any]:
    """Where the steps of a kernel, or of the scheduling, executed one by one, first give another
    result, and how many could be executed.
    """
    told = compute_check(material(trace, one, "check"))
    first = told.get("first")
    if first is not None:
        told["first"] = show.step(trace, first, in_order(trace, one)[first])
    return {"kernel": None if one is None else one.name, **told}


def check_text(told: dict[str, Any]) -> str:
    """What `checked` has found, as text."""
    name = told["kernel"] or "scheduling"
    if told.get("error"):
        return f"{name}: {told['error']}"
    if told["first"] is not None:
        return f"{name}: this step gives another result\n{show.step_text(told['first'])}"
    return f"{name}: no step gives another result; {told['tried']} of {told['steps']} were executed"


def stages(trace: Trace, every: Iterable[Kernel | None], name: str) -> list[dict[str, Any]]:
    """What passes of a name and the rules in them did, to each of these where they did anything."""
    names: set[str] = set()
    found = []
    for one in every:
        steps = in_order(trace, one)
        names |= {step.stage or step.rule for step in steps}
        if told := show.steps(trace, steps, name):
            found.append({"kernel": None if one is None else one.name, "steps": told})
    if not found:
        known = ", ".join(sorted(names))
        raise SettingError(f"explore: there is no pass {name!r}; there are {known}")
    return found


def stages_text(told: dict[str, Any]) -> str:
    """What a pass did, as text."""
    name = told["kernel"] or "scheduling"
    return "\n".join([f"{name}:", *map(show.step_text, told["steps"])])


def serve(trace: Trace, arguments: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    server = Server(trace, arguments.port)
    try:
        print(f"{server}  (Ctrl-C ends it)", flush=True)
        if arguments.until_closed:
            threading.Thread(target=_close_with_input, args=(server,), daemon=True).start()
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()


def _close_with_input(server: Server) -> None:
    sys.stdin.read()
    server.close()
