"""`python -m bench.sweep MODULE.NAME VALUES WORKLOAD...`: what a constant of torpor is worth.

    python -m bench.sweep schedule.tiles.PARTS 4,8 attention/1024/forward

Each value gets processes of its own, which take turns, with empty caches; the constant is changed
in every module that has it. Comments that say where a constant's value comes from point at tables
made by it. `--threads` as in `python -m bench`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import process, worker
from bench.engine import WARM_SAMPLES
from bench.libraries import Torpor
from bench.report import duration
from bench.workloads import ALL

TURNS: Final = 2  # processes of each value
ROUNDS: Final = 9  # samples of a process
WARMING: Final = 5  # calls before them, which tell how many a sample has
SAMPLE: Final = 0.02  # seconds that a sample takes at least


def main(arguments: Sequence[str]) -> int:
    """Print a line of Markdown for each workload: median and least time with each value."""
    parser = argparse.ArgumentParser(prog="python -m bench.sweep", description=__doc__)
    parser.add_argument("constant", help="as in schedule.tiles.PARTS")
    parser.add_argument("values", help="with commas between them")
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    values = options.values.split(",")
    print(f"| {options.constant} | {' | '.join(values)} |")
    for workload in options.workloads:
        samples: dict[str, list[float]] = {value: [] for value in values}
        for turn in range(TURNS):
            for value in values[:: 1 - 2 * (turn % 2)]:
                samples[value] += asked(options.constant, value, workload, options.threads)
        cells = (f"{duration(statistics.median(x))} ({duration(min(x))})" for x in samples.values())
        print(f"| {workload} | {' | '.join(cells)} |", flush=True)
    return 0


def asked(constant: str, value: str, workload: str, threads: int) -> list[float]:
    """Samples from a process of its own."""
    with process.scratch() as cache:
        made = subprocess.run(
            [sys.executable, "-m", "bench.sweep", "--child", constant, value, workload],
            env=process.environment(threads, cache), stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found: list[float] = json.loads(made.stdout)
    return found


def child(constant: str, value: str, name: str) -> list[float]:
    """Seconds a call, with the constant as given."""
    worker.pin(int(os.environ["TORPOR_THREADS"]))
    change(constant, ast.literal_eval(value))
    (workload,) = (x for x in ALL if x.name == name)
    ours = Torpor()
    inputs = ours.arrays(workload.inputs(np.random.default_rng(0)))
    call = ours.prepare(workload, inputs)
    taken = [timed(call, inputs, 1) for _ in range(WARMING)]
    calls = max(1, round(SAMPLE / min(taken)))
    samples = [timed(call, inputs, calls) for _ in range(WARM_SAMPLES + ROUNDS)]
    return samples[WARM_SAMPLES:]


def timed(call: Any, inputs: Sequence[Any], calls: int) -> float:
    """Seconds that one of so many calls takes."""
    started = time.perf_counter()
    for _ in range(calls):
        call(*inputs)
    return (time.perf_counter() - started) / calls


def change(constant: str, value: Any) -> None:
    """Give a constant another value, also where it was imported to."""
    place, _, name = f"torpor.{constant}".rpartition(".")
    importlib.import_module("torpor")
    before = getattr(importlib.import_module(place), name)  # an error if there is no such constant
    for key, module in list(sys.modules.items()):
        known = key == place or (key.startswith("torpor.") and imports(module, place))
        if known and vars(module).get(name) == before:
            setattr(module, name, value)


def imports(module: Any, place: str) -> bool:
    """Whether a module's source takes names from another one."""
    return f"from {place} import" in Path(module.__file__).read_text(encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*sys.argv[2:])))
    else:
        sys.exit(main(sys.argv[1:]))
