"""`python -m bench.markdown FILE...`: what runs have written, as tables in Markdown.

With `--into FOLDER/NAME.md` the tables, and plots beside them, are put into that file, in the place
of those that it has: what stands before and after them stays. So a record is made again from its
JSON files by one command. Files may hold runs of different numbers of threads; of the same number
the last counts.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import plots
from bench.floors import BANDWIDTH_BOUND, BANDWIDTH_FLOOR, FLOORS
from bench.libraries import CONTENDERS, OURS, PLAIN
from bench.report import (
    COLUMNS,
    FAMILY_COLUMNS,
    cells,
    duration,
    family_lines,
    median,
    of,
    ratio,
    remarks,
    rows,
)
from bench.workload import Workload

Run = dict[str, Any]
BEGIN: Final = "<!-- python -m bench.markdown wrote what follows -->"
END: Final = "<!-- and ends here -->"
LEGEND: Final = (
    "Times are medians; `spread` is the distance of the quartiles, `cold` the first call with all",
    "that it compiles, `plain` torpor without its jit. `of peak` is the share of the multiply-adds",
    "or of the bandwidth that the same process measured; what stays in caches can pass it. `ratio`",
    "is the best peer's time over torpor's, **bold** below its floor; `rounds` are samples each.",
)


def main(arguments: Sequence[str]) -> int:
    """Print the tables of the files, or put them into one."""
    parser = argparse.ArgumentParser(prog="python -m bench.markdown", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="as bench --json writes them")
    parser.add_argument("--into", metavar="FILE.md", help="write there, with plots beside it")
    options = parser.parse_args(arguments)
    records = [json.loads(Path(path).read_text(encoding="utf-8")) for path in options.files]
    if not options.into:
        print("\n".join(text_of(records)))
        return 0
    put_into(Path(options.into), records)
    return 0


def put_into(path: Path, records: Sequence[Run]) -> None:
    """Write tables and plots, and keep what people wrote around them."""
    runs = runs_of(records)
    pictures = plots.write(runs, path.parent, path.stem)
    before, after = f"# {path.stem}\n\n", "\n"
    if path.exists():
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2] or "\n"
    shown = [line for picture in pictures for line in (f"![{picture.stem}]({picture.name})", "")]
    lines = [BEGIN, "", *shown, *text_of(records), "", END]
    path.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def runs_of(records: Sequence[Run]) -> list[Run]:
    """The runs, fewest threads first; each knows how it was called."""
    told = [
        {**run, "command": record.get("command", ""), "date": record.get("date", "")}
        for record in records
        for run in record["runs"]
        if run["peaks"]
    ]
    by_threads = {run["threads"]: run for run in told}
    return [by_threads[threads] for threads in sorted(by_threads)]


def text_of(records: Sequence[Run]) -> list[str]:
    """The lines: machine, families, and for each number of threads its peaks and workloads."""
    runs = runs_of(records)
    found = records[-1]["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    place = f"{found['processor']}, {found['cores']} cores, {found['architecture']}"
    lines = [f"Machine: {place}, {found['system']}; {versions}.", "", *LEGEND]
    for run in runs:
        lines += ["", *heading(run), "", *table(FAMILY_COLUMNS, family_lines(run))]
    for run in runs:
        lines += ["", f"## Every workload, threads: {run['threads']}", "", *workload_table(run)]
        lines += ["", *bandwidth_lines(run), *(f"- {line}" for line in remarks(run))]
        lines += everybody(run)
    return lines


def heading(run: Run) -> list[str]:
    """How a run was called, and what the machine could do meanwhile."""
    peaks = run["peaks"]
    bandwidths = ", ".join(f"{k} {v / 1e9:.0f}" for k, v in peaks.items() if k != "flops")
    lines = [f"## Threads: {run['threads']}", ""]
    if run["command"]:
        lines += [f"`{run['command']}`, {run['date']}{how_long(run)}.", ""]
    return [*lines, f"Peak {peaks['flops'] / 1e9:.0f} GFLOP/s; GB/s: {bandwidths}."]


def how_long(run: Run) -> str:
    """Minutes and rounds, where the file says them."""
    effort = run.get("effort")
    if effort is None:
        return ""
    minutes = sum(x.get("seconds", 0.0) for x in run["results"]) / 60
    return f", {minutes:.0f} minutes, {effort['rounds']} to {effort['most']} rounds"


def workload_table(run: Run) -> list[str]:
    """Each workload: ours, the best peer, the ratio."""
    lines = []
    for workload, results in rows(run):
        line = cells(workload, results, run["peaks"])
        if ratio(workload, results) < FLOORS[workload.family].each:
            line[COLUMNS.index("ratio")] = f"**{line[COLUMNS.index('ratio')]}**"
        lines.append(line)
    return table(COLUMNS, lines)


def everybody(run: Run) -> list[str]:
    """The times of all contenders, if there are some that the ratio does not count."""
    found = list(rows(run))
    wanted = {x["contender"] for _, results in found for x in results if x["status"] != "missing"}
    counted = {OURS, PLAIN, *(name for workload, _ in found for name in workload.against)}
    if wanted <= counted:
        return []
    names = [x.name for x in CONTENDERS if x.name in wanted]
    lines = [
        [workload.name, *(time_of(workload, results, name) for name in names)]
        for workload, results in found
    ]
    told = "All contenders; the ratio counts those in *italics*. `-`: has no such operation."
    return ["", told, "", *table(("workload", *names), lines)]


def time_of(workload: Workload, results: Sequence[Run], name: str) -> str:
    """A contender's time, or what became of it."""
    result = of(list(results), name)
    if result is None or result["status"] == "missing":
        return "-"
    if math.isnan(median(result)):
        return str(result["status"])
    return f"*{duration(median(result))}*" if name in workload.against else duration(median(result))


def bandwidth_lines(run: Run) -> list[str]:
    """What only memory limits, and whether it reaches the share that is wanted of it."""
    place = COLUMNS.index("of peak")
    found = {
        workload.name.removeprefix("memory/"): cells(workload, results, run["peaks"])[place]
        for workload, results in rows(run)
    }
    known = [f"{name} {found[name]}" for name in BANDWIDTH_BOUND if name in found]
    wanted = f"Of the measured bandwidth, wanted {BANDWIDTH_FLOOR * 100:.0f} %: "
    return [wanted + ", ".join(known) + ".", ""] if known else []


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
