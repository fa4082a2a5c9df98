"""Tables of what was measured: each contender, and ratios by family."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.floors import FLOORS
from bench.libraries import OURS, PLAIN
from bench.workload import Workload
from bench.workloads import ALL

FAMILY_COLUMNS = (
    "family", "workloads", "geometric mean", "its floor", "floor of each", "below it", "worst",
    "where",
)  # fmt: skip
BY_NAME = {workload.name: workload for workload in ALL}
BUSY = 0.5  # load a core from which figures of several threads are not worth much
TROUBLE = ("wrong", "failed")
COLUMNS = (
    "workload", "torpor", "spread", "cold", "of peak", "plain",
    "best peer", "its time", "spread", "cold", "ratio", "rounds",
)  # fmt: skip


def median(result: dict[str, Any] | None) -> float:
    """Seconds of the middle sample; NaN where nothing was timed."""
    if result is None or result["status"] != "ok" or not result["samples"]:
        return math.nan
    return statistics.median(result["samples"])


def spread(result: dict[str, Any]) -> float:
    """Distance of the quartiles as a share of the median; NaN for a single sample."""
    samples = result["samples"]
    if len(samples) < 2:
        return math.nan
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / statistics.median(samples)


def of(results: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The result of a contender."""
    return next((x for x in results if x["contender"] == name), None)


def best_peer(workload: Workload, results: list[dict[str, Any]]) -> tuple[str, float]:
    """The fastest of the contenders that count, and its seconds; ("", NaN) if there is none."""
    timed = [
        (median(x), x["contender"])
        for x in results
        if x["contender"] in workload.against and not math.isnan(median(x))
    ]
    seconds, name = min(timed, default=(math.nan, ""))
    return name, seconds


def ratio(workload: Workload, results: list[dict[str, Any]]) -> float:
    """The best peer's time over ours: more is better; NaN without either."""
    ours = of(results, OURS)
    return best_peer(workload, results)[1] / median(ours)


def share_of_peak(workload: Workload, seconds: float, peaks: dict[str, float]) -> float:
    """How much of what the machine can do at most was done: of arithmetic or of bandwidth,
    whichever limits this workload more.
    """
    arithmetic = workload.flops / peaks["flops"]
    traffic = workload.bytes / peaks[workload.mix]
    return max(arithmetic, traffic) / seconds


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    if math.isnan(seconds):
        return "-"
    for unit, size in (("s ", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def rows(run: dict[str, Any]) -> Iterator[tuple[Workload, list[dict[str, Any]]]]:
    """The workloads of a run with their results, in order."""
    for entry in run["results"]:
        yield BY_NAME[entry["workload"]], entry["results"]


def show(record: dict[str, Any], console: Console) -> None:
    """Everything, as tables."""
    found = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    console.print(
        f"{found['processor']}, {found['cores']} cores, {found['architecture']}, "
        f"{found['system']}, load {found['load']:.1f}; {versions}",
        highlight=False,
    )
    for run in record["runs"]:
        if run["peaks"]:
            show_run(run, console)
    if max(found["load"], record["load at the end"] - found["cores"]) > found["cores"] * BUSY:
        console.print(
            "the machine was busy: libraries whose threads spin suffer from that more than others, "
            "so compare with --threads 1",
            style="bold",
        )


def show_run(run: dict[str, Any], console: Console) -> None:
    """The tables of one number of threads."""
    peaks = run["peaks"]
    kinds = ", ".join(f"{name} {peaks[name] / 1e9:.1f} GB/s" for name in peaks if name != "flops")
    title = f"threads: {run['threads']}; peak {peaks['flops'] / 1e9:.0f} GFLOP/s, {kinds}"
    table = Table(title=title)
    for name in (*COLUMNS, "others"):
        left = name in ("workload", "best peer", "others")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for workload, results in rows(run):
        table.add_row(*cells(workload, results, peaks), others(workload, results))
    console.print(table)
    show_families(run, console)
    for line in remarks(run):
        console.print(line, highlight=False, markup=False)


def cells(workload: Workload, results: list[dict[str, Any]], peaks: dict[str, float]) -> list[str]:
    """One line of the table, as `COLUMNS` has it."""
    name, theirs = best_peer(workload, results)
    ours, peer = of(results, OURS), of(results, name)
    value = ratio(workload, results)
    return [
        workload.name,
        *figures(ours, "died" if ours is None else ours["status"]),
        percent(share_of_peak(workload, median(ours), peaks)),
        duration(median(of(results, PLAIN))),
        name or "-",
        *figures(peer, "-"),
        "-" if math.isnan(value) else f"{value:.2f}",
        str(max((len(x["samples"]) for x in results), default=0)),
    ]


def figures(result: dict[str, Any] | None, otherwise: str) -> list[str]:
    """A contender's time, its spread, and its first call."""
    if result is None or math.isnan(median(result)):
        return [otherwise, "-", "-"]
    return [duration(median(result)), percent(spread(result)), duration(result["cold"])]


def percent(share: float) -> str:
    """A share in full percents."""
    return "-" if math.isnan(share) else f"{share * 100:.0f} %"


def others(workload: Workload, results: list[dict[str, Any]]) -> str:
    """Who else was timed."""
    named = (OURS, PLAIN, best_peer(workload, results)[0])
    rest = [x for x in results if x["contender"] not in named and not math.isnan(median(x))]
    return ", ".join(f"{x['contender']} {duration(median(x))}" for x in rest)


def ratios(run: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By family, then workload: the best peer's time over ours, where both are known."""
    found: dict[str, dict[str, float]] = {}
    for workload, results in rows(run):
        value = ratio(workload, results)
        if not math.isnan(value):
            found.setdefault(workload.family, {})[workload.name] = value
    return found


def show_families(run: dict[str, Any], console: Console) -> None:
    """Geometric mean and worst ratio of each family."""
    table = Table(title="best peer's time / torpor's: more is better")
    for name in FAMILY_COLUMNS:
        table.add_column(name)
    for line in family_lines(run):
        table.add_row(*line)
    if table.rows:
        console.print(table)


def family_lines(run: dict[str, Any]) -> list[list[str]]:
    """One line a family, as `FAMILY_COLUMNS` has them."""
    lines = []
    for family, found in ratios(run).items():
        where, worst = min(found.items(), key=lambda item: item[1])
        mean, floor = statistics.geometric_mean(found.values()), FLOORS[family]
        below = sum(value < floor.each for value in found.values())
        lines.append(
            [family, str(len(found)), f"{mean:.2f}", f"{floor.mean:.1f}", f"{floor.each:.1f}",
             str(below), f"{worst:.2f}", where.removeprefix(f"{family}/")]
        )  # fmt: skip
    return lines


def remarks(run: dict[str, Any]) -> list[str]:
    """What is not in the table, and why: each reason once for each contender."""
    found: dict[str, list[str]] = {}
    for workload, results in rows(run):
        if not results:
            found.setdefault("the process died at", []).append(workload.name)
        for result in results:
            known = workload.functions.get(result["contender"]) is not None
            if result["status"] != "ok" and (known or result["detail"] != "not written"):
                reason = f"{result['contender']}: {result['status']}: {result['detail']}"
                found.setdefault(reason, []).append(workload.name)
    lines = []
    for reason, names in found.items():
        where = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        lines.append(f"{reason} ({where})")
    return lines


def all_right(record: dict[str, Any]) -> bool:
    """Whether no answer of ours was wrong and nothing of ours failed; what is missing is none."""
    for run in record["runs"]:
        for _, results in rows(run):
            ours = [x for x in results if x["contender"].startswith(OURS)]
            if not ours or any(x["status"] in TROUBLE for x in ours):
                return False
    return True
