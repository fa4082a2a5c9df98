"""The command line: chooses workloads, runs workers, shows progress, writes table, JSON, plots."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bench import machine, process, report
from bench.engine import Effort
from bench.libraries import CONTENDERS
from bench.workloads import choose
from torpor.device.machine import cores

ROOT = Path(__file__).resolve().parent.parent
INTERRUPTED = 130
QUICK = Effort(rounds=5, sample=0.003, budget=0.7, slow=0.4, most=25, extra=0.2)
MOST_TIMES = 5  # as many rounds as were asked for, where samples lie far apart
PATIENCE = 300.0  # seconds for one workload, before its process is taken to hang
SLOW_TO_COMPILE = "torch compiled"  # left out of a quick run: seconds for each workload


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description="Times torpor against other installed libraries, interleaved in one process. "
        "Exit status 1 if an answer of torpor is wrong or fails, 130 after Ctrl-C.",
    )
    add = made.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="part of a name, or a pattern")
    add("--quick", action="store_true", help="a short list, few rounds: below three minutes")
    add("--threads", help="how many, as in 1,2 (1 and all cores; quick: all cores)")
    add("--peers", help="contenders besides torpor, as in 'torch,torch out=,jax'; or none")
    add("--counted", action="store_true", help="of each workload, only peers that its ratio counts")
    add("--rounds", type=int, help=f"samples of each ({Effort.rounds}; quick: {QUICK.rounds})")
    add("--most", type=int, help=f"of them where they lie far apart ({MOST_TIMES} times as many)")
    add("--json", metavar="FILE", help="write what was measured")
    add("--plots", metavar="FOLDER", help="write ratios.svg and roofline.svg (needs matplotlib)")
    add("--list", action="store_true", help="name the workloads and stop")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status."""
    options = parser().parse_args(argv)
    workloads = choose(options.only, options.quick)
    if options.list or not workloads:
        print("\n".join(x.name for x in workloads) or f"no workload is called {options.only}")
        return 0 if workloads else 2
    try:
        contenders = chosen_contenders(options)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    record: dict[str, Any] = {**described(argv), "machine": machine.facts(), "runs": []}
    names = [x.name for x in workloads]
    stopped = False
    try:
        for threads in chosen_threads(options):
            effort = effort_of(options)
            run = {"threads": threads, "effort": asdict(effort), "peaks": {}, "results": []}
            record["runs"].append(run)
            for _ in measure(run, names, contenders, effort, options.counted):
                keep(record, options)
    except KeyboardInterrupt:
        stopped = True
    record["load at the end"] = machine.load()
    show(record, options)
    if stopped:
        print("interrupted: what was measured until then is above", file=sys.stderr)
        return INTERRUPTED
    return 0 if report.all_right(record) else 1


def described(argv: Sequence[str] | None) -> dict[str, str]:
    """How and when the run was started, without the files that it writes."""
    given = list(sys.argv[1:] if argv is None else argv)
    for name in ("--json", "--plots"):
        if name in given:
            del given[given.index(name) : given.index(name) + 2]
    return {
        "command": shlex.join(["python", "-m", "bench", *given]),
        "date": date.today().isoformat(),
    }


def show(record: dict[str, Any], options: argparse.Namespace) -> None:
    """The tables, and the files that were asked for."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    report.show(record, console)
    keep(record, options)
    if options.plots:
        from bench import plots

        for path in plots.write(record["runs"], Path(options.plots)):
            console.print(f"wrote {path}", highlight=False)


def keep(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Write what is known so far, if that is wanted: nobody measures an hour twice."""
    if options.json:
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def effort_of(options: argparse.Namespace) -> Effort:
    """How long to measure."""
    effort = QUICK if options.quick else Effort()
    if options.rounds is not None:
        most = MOST_TIMES * options.rounds
        effort = replace(effort, rounds=options.rounds, most=most, budget=Effort.budget)
    return effort if options.most is None else replace(effort, most=options.most)


def chosen_threads(options: argparse.Namespace) -> list[int]:
    """How many threads, for each pass."""
    if options.threads:
        return [int(text) for text in options.threads.split(",")]
    return [cores()] if options.quick or cores() == 1 else [1, cores()]


def chosen_contenders(options: argparse.Namespace) -> list[str]:
    """Names of ours, and of the peers that are wanted."""
    every = [x.name for x in CONTENDERS]
    ours = [name for name in every if name.startswith("torpor")]
    if options.peers is None:
        return [name for name in every if not (options.quick and name == SLOW_TO_COMPILE)]
    if options.peers == "none":
        return ours
    wanted = options.peers.split(",")
    if unknown := [name for name in wanted if name not in every]:
        raise ValueError(f"no contender is called {unknown[0]!r}; there are {', '.join(every)}")
    return [name for name in every if name in wanted or name in ours]


def measure(
    run: dict[str, Any], names: list[str], contenders: list[str], effort: Effort, counted: bool
) -> Iterator[None]:
    """Fill `run` with peaks and results, one workload at a time. A worker that dies costs the
    workload it was at.
    """
    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    columns += (TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{run['threads']} threads", total=len(names))
        left = list(names)
        while left:
            at = left[0]
            request = {
                "threads": run["threads"], "workloads": list(left), "contenders": contenders,
                "effort": asdict(effort), "counted": counted,
            }  # fmt: skip
            for line in lines_of(request):
                run["peaks"] = line.get("peaks", run["peaks"])
                if "begins" in line:
                    at = line["begins"]
                    bar.update(task, description=f"{run['threads']} threads: {at}")
                if "results" in line:
                    run["results"].append(line)
                    left.remove(line["workload"])
                    bar.advance(task)
                    if not console.is_terminal:
                        done = f"{len(names) - len(left)}/{len(names)} {at}"
                        print(time.strftime("%H:%M:%S"), done, file=sys.stderr, flush=True)
                    yield
            if left:
                run["results"].append({"workload": at, "results": [], "died": True})
                left.remove(at)


def lines_of(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Start a worker; what it says, line by line."""
    with process.scratch() as cache:
        worker = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", json.dumps(request)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env=process.environment(request["threads"], cache),
        )  # fmt: skip
        try:
            while line := patiently(worker):
                yield json.loads(line)
        finally:
            worker.terminate()
            worker.wait()


def patiently(process: subprocess.Popen[str]) -> str:
    """The next line of a worker; empty at its end, which comes if it says nothing for long."""
    assert process.stdout is not None
    watch = threading.Timer(PATIENCE, process.terminate)
    watch.daemon = True  # Ctrl-C may come before the next line
    watch.start()
    try:
        return process.stdout.readline()
    finally:
        watch.cancel()
