"""`python -m bench.markdown FILE...`: what runs have written, as one table of ratios in Markdown.

Files may hold runs of different numbers of threads; of the same number the last counts.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.libraries import OURS
from bench.report import best_peer, duration, median, of, ratio, ratios, rows

Runs = dict[int, dict[str, Any]]


def main(paths: Sequence[str]) -> int:
    """Print the tables of the files."""
    if not paths:
        print("usage: python -m bench.markdown FILE... (as --json writes them)", file=sys.stderr)
        return 2
    records = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    print("\n".join(text_of(records)))
    return 0


def text_of(records: Sequence[dict[str, Any]]) -> list[str]:
    """The lines: machine, peaks, each workload, each family."""
    runs = {run["threads"]: run for record in records for run in record["runs"]}
    found = records[-1]["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    place = f"{found['processor']}, {found['cores']} cores, {found['architecture']}"
    lines = [f"Machine: {place}, {found['system']}; {versions}.", ""]
    for threads, run in runs.items():
        bandwidths = ", ".join(
            f"{name} {rate / 1e9:.0f}" for name, rate in run["peaks"].items() if name != "flops"
        )
        rate = run["peaks"]["flops"] / 1e9
        lines.append(f"- threads: {threads}; peak {rate:.0f} GFLOP/s; GB/s: {bandwidths}")
    return [*lines, "", *workload_table(runs), "", *family_table(runs)]


def workload_table(runs: Runs) -> list[str]:
    """Each workload: our time, the best peer and its time, the ratio, by number of threads."""
    heads = ["workload"]
    for threads in runs:
        heads += [f"torpor, {threads} thr.", "best peer", "its time", "ratio"]
    found: dict[str, dict[int, list[str]]] = {}
    for threads, run in runs.items():
        for workload, results in rows(run):
            ours = of(results, OURS)
            name, theirs = best_peer(workload, results)
            cells = ["-" if ours is None else duration(median(ours)), name or "-"]
            value = ratio(workload, results)
            cells += [duration(theirs), "-" if math.isnan(value) else f"{value:.2f}"]
            found.setdefault(workload.name, {})[threads] = cells
    empty = ["-"] * 4
    return table(
        heads,
        [
            [name, *(cell for threads in runs for cell in cells.get(threads, empty))]
            for name, cells in found.items()
        ],
    )


def family_table(runs: Runs) -> list[str]:
    """Geometric mean and worst ratio of each family, by number of threads."""
    heads = ["family"]
    found: dict[str, list[str]] = {}
    for place, (threads, run) in enumerate(runs.items()):
        heads += [f"mean, {threads} thr.", "worst", "where"]
        for family, known in ratios(run).items():
            where, worst = min(known.items(), key=lambda item: item[1])
            line = found.setdefault(family, [family, *["-"] * 3 * place])
            mean = statistics.geometric_mean(known.values())
            line += [f"{mean:.2f}", f"{worst:.2f}", where.removeprefix(f"{family}/")]
    width = len(heads)
    return table(heads, [[*line, *["-"] * (width - len(line))] for line in found.values()])


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
