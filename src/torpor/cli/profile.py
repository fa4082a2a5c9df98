"""`torpor profile`: runs a script and shows where its time goes."""

from __future__ import annotations

import argparse
import contextvars
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

from torpor.pipeline.journal import note_failure
from torpor.profile import profile

INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


def run_profile(arguments: argparse.Namespace) -> int:
    """Run the script as `python script.py` would; then print and write what the options ask for.
    Gives the script's exit status; what it did until an error or Ctrl-C is shown as well.
    """
    if not Path(arguments.script).exists():
        raise FileNotFoundError(f"there is no {arguments.script}")
    apart = redirect_stdout(sys.stderr) if arguments.json else nullcontext()
    with profile() as found, apart, as_main(arguments.script, arguments.arguments), heirs():
        status = status_of(arguments.script)
    if arguments.chrome:
        found.chrome_trace(arguments.chrome)
    if arguments.pstats:
        found.pstats(arguments.pstats)
    print(found.as_json(arguments.top) if arguments.json else f"\n{found.table(arguments.top)}")
    return status


def status_of(script: str) -> int:
    """Run the script; what the process would exit with."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is not None and not isinstance(stop.code, int):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        note_failure(error)
        tell(error)
        return 1
    return 0


def tell(error: BaseException) -> None:
    """Print what Python prints of an error that nobody caught, without the frames from here."""
    trace = error.__traceback__
    while trace is not None and is_around(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace))


def is_around(file: str) -> bool:
    """Whether it is what runs the script."""
    return file == __file__ or "runpy" in Path(file.strip("<>")).stem


@contextmanager
def as_main(script: str, arguments: list[str]) -> Iterator[None]:
    """While the script runs, arguments and the path of modules are as Python would set them."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


@contextmanager
def heirs() -> Iterator[None]:
    """Threads that are started meanwhile run in a copy of the context, so that they are heard."""
    start = threading.Thread.start

    def started(self: threading.Thread) -> None:
        context, run = contextvars.copy_context(), self.run
        self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
