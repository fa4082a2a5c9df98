"""What the pages have computed, in a process of its own that is ended when it takes too long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from typing import Any, Final

from torpor.explore.expressions import compute_expression
from torpor.explore.remake import compute_check, compute_program
from torpor.explore.views import compute_views

Computed = dict[str, Any]
COMPUTES: Final[Mapping[str, Callable[[Computed], Computed]]] = {
    "views": compute_views,
    "expr": compute_expression,
    "check": compute_check,
    "program": compute_program,
}
PATIENCE: Final = 10.0  # seconds
TO_START: Final = 60.0  # seconds until the process is ready: a busy machine takes long to import
_COMMAND: Final = "from torpor.explore.compute import work; work()"


def compute(name: str, request: Computed) -> Computed:
    """What a page asks for, here and now."""
    return COMPUTES[name](request)


def work() -> None:
    """Say that it is ready, then answer requests, a JSON line each, until there are no more."""
    print(flush=True)
    for line in sys.stdin:
        name, request = json.loads(line)
        try:
            found = compute(name, request)
        except (MemoryError, RecursionError):
            found = {"error": "this needs too much memory", "offset": 0}
        print(json.dumps(found), flush=True)


class Computer:
    """Computes in a process that is started when it is needed."""

    def __init__(self, patience: float = PATIENCE):
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None
        self._reader = ThreadPoolExecutor(1, "torpor explorer")
        self._lock = threading.Lock()

    def __call__(self, name: str, request: Computed) -> Computed:
        """As `compute`; where it takes too long, an error."""
        with self._lock:
            try:
                process = self._process or self._started()
                answer = self._reader.submit(_ask, process, json.dumps([name, request]))
                return json.loads(answer.result(self._patience))  # type: ignore[no-any-return]
            except Late:
                error = f"this takes longer than {self._patience:g} seconds"
            except (OSError, ValueError):
                error = "this could not be computed"
            self._end()
            return {"error": error, "offset": 0}

    def _started(self) -> subprocess.Popen[str]:
        process = self._process = _start()
        assert process.stdout is not None
        self._reader.submit(process.stdout.readline).result(TO_START)
        return process

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()
        self._reader.shutdown()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def _start() -> subprocess.Popen[str]:
    package = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _COMMAND],
        env={**os.environ, "PYTHONPATH": paths, "TORPOR_VIZ": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
