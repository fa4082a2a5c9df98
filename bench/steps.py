"""Whole programs: first and second call, steady calls, memory; each in a fresh process.

python -m bench.steps                       # all programs, torpor beside PyTorch and JAX
python -m bench.steps --only lstm           # one of them; --large adds what is heavy
python -m bench.steps --rounds 3            # medians of three processes each
python -m bench.steps --json steps.json     # keeps what was measured
python -m bench.steps --check               # only whether all libraries compute the same
python -m bench.steps torpor lstm           # one program of one library in this process, as JSON
python -m bench.steps torpor lstm answers   # what it computes from the weights that all begin with
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from bench import process
from bench.programs import INPUTS, WHAT, functions, modules
from bench.workloads.weights import filled

LIBRARIES: Final = ("torpor", "torch", "jax")
HEAVY: Final = ("large",)
SETS: Final = 2  # sets of inputs, which take turns
EARLY: Final = slice(2, 10)  # calls 3 to 10
MOST: Final = 300  # calls
SECONDS: Final = 4.0  # that calls beyond the early ones take
COMPARED: Final = 4  # calls whose answers all libraries must agree on
AGREE: Final = 1e-3
MEBI: Final = 2.0**20


# --- one program in this process ------------------------------------------------------------------
def resident() -> float:
    """The memory that the process has now, in MiB."""
    with open("/proc/self/statm", encoding="ascii") as counts:
        return int(counts.read().split()[1]) * resource.getpagesize() / MEBI


def inputs(name: str, program: str, lib: Any) -> list[tuple[Any, ...]]:
    """Sets of inputs as the library holds them."""
    draw = np.random.default_rng(0)
    hold: Callable[[Any], Any] = {
        "torpor": lambda x: lib.Tensor(x).realize(),
        "torch": lambda x: lib.from_numpy(x),
        "jax": lambda x: lib.device_put(x),
    }[name]
    return [tuple(hold(x) for x in INPUTS[program](draw)) for _ in range(SETS)]


def kernels(lib: Any, step: Any) -> int:
    """Kernels of a steady call of a jitted function of torpor."""
    said = lib.explain(getattr(step, "jitted", step))
    counts = re.findall(r"(\d+) kernels, replayed", said)
    return int(counts[-1]) if counts else 0


def built(name: str, program: str, lib: Any, alike: bool) -> Callable[..., Any]:
    """The program's step. Models draw their own weights, as ever, unless all shall be alike."""
    if name == "jax":
        return getattr(functions, program)(lib)  # type: ignore[no-any-return]
    prepared = functools.partial(filled, lib) if alike else lambda model: model
    return getattr(modules, program)(lib, prepared)  # type: ignore[no-any-return]


def answers(name: str, program: str) -> list[float]:
    """What the first calls give."""
    lib = process.library(name)
    step, given = built(name, program, lib, alike=True), inputs(name, program, lib)
    return [float(step(*given[n % SETS]).item()) for n in range(COMPARED)]


def timed(name: str, program: str) -> dict[str, float]:
    """Seconds of calls, and MiB, of a program of one library."""
    lib = process.library(name)
    imported = resident()
    step, given = built(name, program, lib, alike=False), inputs(name, program, lib)
    times: list[float] = []
    while len(times) < EARLY.stop or (len(times) < MOST and sum(times[EARLY.stop :]) < SECONDS):
        started = time.perf_counter()
        float(step(*given[len(times) % SETS]).item())
        times.append(time.perf_counter() - started)
    return {
        "first": times[0],
        "second": times[1],
        "early": max(times[EARLY]),
        "steady": float(np.median(times[EARLY.stop :])),
        "kernels": kernels(lib, step) if name == "torpor" else 0,
        "imported": imported,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "end": resident(),
    }


# --- all of them ----------------------------------------------------------------------------------
def once(program: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The program of every library in a process of its own; `warm` is torpor's once more, with
    what the first one left on the disk.
    """
    found: dict[str, dict[str, float]] = {}
    for name in names:
        with process.scratch() as cache:
            variables = process.environment(process.THREADS, cache)
            for label in (name, "warm") if name == "torpor" else (name,):
                found[label] = process.answer("bench.steps", name, program, variables=variables)
    return found


def measured(program: str, names: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """The medians of as many rounds."""
    found = [once(program, names) for _ in range(rounds)]
    return {
        label: {key: float(np.median([one[label][key] for one in found])) for key in values}
        for label, values in found[0].items()
    }


def disagree(programs: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the libraries compute different things; says what they do."""
    wrong = False
    for program in programs:
        made = {name: process.answer("bench.steps", name, program, "answers") for name in names}
        apart = not all(np.allclose(made[names[0]], other, rtol=AGREE) for other in made.values())
        print(program, "DISAGREE" if apart else "agree", made, flush=True)
        wrong |= apart
    return wrong


def seconds(value: float) -> str:
    """Seconds, or milliseconds below a tenth of one."""
    return f"{value:.2f} s" if value >= 0.1 else f"{value * 1e3:.2f} ms"


def calls(found: dict[str, float]) -> str:
    """What the table says of torpor's calls in one process."""
    return " / ".join(seconds(found[key]) for key in ("first", "second", "early"))


def row(program: str, found: dict[str, dict[str, float]]) -> str:
    """A line of the table of times."""
    ours, warm = found["torpor"], found["warm"]
    steady = min(ours["steady"], warm["steady"])
    others = [found[name] for name in LIBRARIES[1:] if name in found]
    cells = [calls(ours), calls(warm), seconds(steady), f"{ours['kernels']:.0f}"]
    cells += [f"{seconds(x['first'])} / {seconds(x['steady'])}" for x in others]
    best = min((x["steady"] for x in others), default=math.nan)
    return f"| {WHAT[program]} | {' | '.join(cells)} | {best / steady:.2f} |"


def memory_row(program: str, found: dict[str, dict[str, float]]) -> str:
    """A line of the table of memory."""
    parts = ("imported", "peak", "end")
    cells = [" / ".join(f"{one[part]:.0f}" for part in parts) for one in found.values()]
    return f"| {program} | {' | '.join(cells)} |"


def tables(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Both tables in Markdown."""
    labels = list(next(iter(results.values())))
    others = "".join(f" {name}: first / steady |" for name in labels if name in LIBRARIES[1:])
    heads = (
        "| program | cold: first / second / worst of 3rd to 10th | warm | steady | kernels |"
        f"{others} best of the others / ours |",
        f"| program | {' | '.join(labels)} |",
    )
    lines = [
        heads[0], "|---" * (heads[0].count("|") - 1) + "|",
        *(row(program, found) for program, found in results.items()),
        "", "Resident MiB after the import, at the peak, at the end:", "",
        heads[1], "|---" * (heads[1].count("|") - 1) + "|",
        *(memory_row(program, found) for program, found in results.items()),
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Tables of all programs; or one program of one library, in this process."""
    if len(sys.argv) >= 3 and sys.argv[1] in LIBRARIES:
        give = answers if "answers" in sys.argv else timed
        print(json.dumps(give(*sys.argv[1:3])))
        return
    parser = argparse.ArgumentParser(prog="bench.steps", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=list(INPUTS), action="append", default=[])
    parser.add_argument("--library", choices=LIBRARIES, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    light = [program for program in INPUTS if options.large or program not in HEAVY]
    names = [n for n in LIBRARIES if not options.library or n in ("torpor", *options.library)]
    if options.check:
        sys.exit(disagree(options.only or light, names))
    results = {}
    for program in options.only or light:
        results[program] = measured(program, names, options.rounds)
        print(row(program, results[program]), file=sys.stderr, flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as out:
                json.dump({"load": os.getloadavg()[0], "results": results}, out, indent=1)
    print(tables(results))


if __name__ == "__main__":
    main()
