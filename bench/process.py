"""Processes of their own, whose libraries are imported anew: how they are started and answer."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Final

THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS", "TORPOR_THREADS", "NPROC", "CPU_COUNT",
)  # fmt: skip
THREADS: Final = 2  # of processes that nobody tells how many


def usual() -> dict[str, str]:
    """The variables of a process that keeps bytecode, as Python does unless it is told not to."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def environment(threads: int, cache: str) -> dict[str, str]:
    """The variables that such a process is started with: threads, and the folder of its caches."""
    return {
        **usual(),
        **{name: str(threads) for name in THREAD_VARIABLES},
        "TORPOR_CACHE_DIR": os.path.join(cache, "torpor"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "CACHEDB": os.path.join(cache, "tinygrad.db"),
        "JAX_PLATFORMS": "cpu",
        "DEV": "CPU",
    }


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for caches that are empty at the start."""
    return tempfile.TemporaryDirectory(prefix="torpor-bench-", ignore_cleanup_errors=True)


def said(*arguments: str, variables: Mapping[str, str] | None = None) -> Any:
    """What Python with these arguments prints as JSON; its errors go where ours go."""
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=variables or usual()
    )
    return json.loads(done.stdout)


def answer(module: str, *arguments: str, variables: Mapping[str, str] | None = None) -> Any:
    """What `python -m module *arguments` prints as JSON."""
    return said("-m", module, *arguments, variables=variables)


def library(name: str) -> Any:
    """The library's module, with all cores that the process may use."""
    module = importlib.import_module(name)
    if name == "torch":
        module.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", THREADS)))
    return module
