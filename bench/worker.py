"""A process that times some workloads with one number of threads; one line of JSON for each.

The first line holds the measured peaks. How many threads a library uses is settled before it is
imported, which is why this is a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.engine import Effort, race
from bench.libraries import CONTENDERS, OURS, PLAIN
from bench.workloads import ALL


def pin(threads: int) -> None:
    """Leave this process as many cores as it may use threads, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, known[:threads])


def work(request: Mapping[str, Any], say: Any) -> None:
    """Time the workloads of a request; `say` takes each line."""
    from bench.peaks import measure_peaks

    pin(request["threads"])
    say({"peaks": asdict(measure_peaks())})
    by_name = {workload.name: workload for workload in ALL}
    contenders = [x for x in CONTENDERS if x.name in request["contenders"]]
    effort = Effort(**request["effort"])
    for name in request["workloads"]:
        say({"begins": name})
        workload = by_name[name]
        wanted = contenders
        if request["counted"]:
            wanted = [x for x in contenders if x.name in (OURS, PLAIN, *workload.against)]
        started = time.perf_counter()
        results = [asdict(result) for result in race(workload, wanted, effort)]
        rounds = max((len(result["samples"]) for result in results), default=0)
        seconds = round(time.perf_counter() - started, 2)
        say({"workload": name, "rounds": rounds, "seconds": seconds, "results": results})


def main(arguments: Sequence[str]) -> int:
    """The request is the only argument. Libraries that print go to standard error."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(line: Mapping[str, Any]) -> None:
        lines.write(json.dumps(line) + "\n")

    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        work(json.loads(arguments[0]), say)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
