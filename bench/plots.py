"""Pictures of what was measured: ratios as bars, and a roofline. Needs matplotlib."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.libraries import OURS
from bench.report import best_peer, median, of, ratios, rows

OURS_COLOUR, PEER_COLOUR, SLOWER_COLOUR = "#1b7f5c", "#9a9a9a", "#c4553b"
ROW_INCHES = 0.22


def write(record: dict[str, Any], folder: Path) -> list[Path]:
    """Write both pictures; their paths (none, and a word why, without matplotlib)."""
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed")
        return []
    matplotlib.use("agg")
    folder.mkdir(parents=True, exist_ok=True)
    runs = [run for run in record["runs"] if run["peaks"] and ratios(run)]
    if not runs:
        return []
    paths = [folder / "ratios.png", folder / "roofline.png"]
    for path, draw in zip(paths, (draw_ratios, draw_roofline), strict=True):
        save(path, draw, runs)
    return paths


def save(path: Path, draw: Any, runs: list[dict[str, Any]]) -> None:
    """One picture with a field for each number of threads."""
    from matplotlib import pyplot

    most = max(sum(map(len, ratios(run).values())) for run in runs)
    height = max(5.0, ROW_INCHES * most) if draw is draw_ratios else 6.0
    figure, fields = pyplot.subplots(
        1, len(runs), figsize=(9 * len(runs), height), squeeze=False, layout="constrained"
    )
    for field, run in zip(fields[0], runs, strict=True):
        draw(field, run)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_ratios(field: Any, run: dict[str, Any]) -> None:
    """A bar for each workload, on a logarithmic scale from 1: to the right we are faster."""
    found = {name: value for family in ratios(run).values() for name, value in family.items()}
    names, values = list(found)[::-1], list(found.values())[::-1]
    colours = [OURS_COLOUR if value >= 1 else SLOWER_COLOUR for value in values]
    field.barh(names, [math.log2(value) for value in values], color=colours)
    field.axvline(0, color="black", linewidth=0.8)
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    ticks = range(min(low, -1), max(high, 1) + 1)
    field.set_xticks(list(ticks), [f"{2.0**tick:g}" for tick in ticks])
    field.tick_params(axis="y", labelsize=7)
    field.set_xlabel("best peer's time / torpor's (right of 1: torpor is faster)")
    field.set_title(f"threads: {run['threads']}")
    field.margins(y=0.01)


def draw_roofline(field: Any, run: dict[str, Any]) -> None:
    """Arithmetic rate over operations per byte, under what the machine was measured to do."""
    peaks = run["peaks"]
    roof, slope = peaks["flops"] / 1e9, peaks["read"] / 1e9
    intensities = sorted([roof / slope, *(2.0**power for power in range(-5, 12))])
    limits = [min(roof, slope * x) for x in intensities]
    field.plot(intensities, limits, color="black", linewidth=1, label="measured limits")
    for who, colour in (("best peer", PEER_COLOUR), ("torpor", OURS_COLOUR)):
        points = []
        for workload, results in rows(run):
            ours = of(results, OURS)
            seconds = best_peer(workload, results)[1] if who == "best peer" else math.nan
            if who == "torpor" and ours is not None:
                seconds = median(ours)
            if workload.flops and workload.bytes and not math.isnan(seconds):
                points.append((workload.flops / workload.bytes, workload.flops / seconds / 1e9))
        if points:
            field.scatter(*zip(*points, strict=True), s=18, color=colour, label=who, alpha=0.8)
    field.set_xscale("log", base=2)
    field.set_yscale("log")
    field.set_xlabel("operations per byte of memory traffic, at least")
    field.set_ylabel("GFLOP/s")
    field.set_title(f"threads: {run['threads']}")
    field.legend()
