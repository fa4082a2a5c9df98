"""Pictures of what was measured: ratios by family, and a roofline. Needs matplotlib.

Both are SVG with text as text: small enough to be kept, and sharp at any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.floors import FLOORS
from bench.libraries import OURS
from bench.report import best_peer, median, of, ratios, rows

Run = dict[str, Any]
RED: Final = "#c4352b"
COLOURS: Final = ("#e08a1e", "#1b7f5c", "#3b6fb6", "#8e5ea2")  # one for each number of threads
FAMILY_COLOURS: Final = (
    "#3b6fb6", "#7fb0e6", "#1b7f5c", "#e08a1e", "#8e5ea2", "#c4553b", "#444444",
)  # fmt: skip
LEAST: Final = 0.5  # ratios past which a bar ends at the edge, with its number
MOST: Final = 8.0
COLUMNS: Final = 3  # of panels
ROW: Final = 0.17  # inches
FONT: Final = 7


def write(runs: Sequence[Run], folder: Path, stem: str = "") -> list[Path]:
    """Write both pictures, called after `stem`; their paths (none, and a word why, without
    matplotlib).
    """
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed")
        return []
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench"})
    folder.mkdir(parents=True, exist_ok=True)
    shown = [run for run in runs if run["peaks"] and ratios(run)]
    if not shown:
        return []
    prefix = f"{stem}-" if stem else ""
    paths = [folder / f"{prefix}ratios.svg", folder / f"{prefix}roofline.svg"]
    for path, draw in zip(paths, (draw_ratios, draw_rooflines), strict=True):
        figure = draw(shown)
        figure.savefig(path, metadata={"Date": None})
    return paths


# --- ratios ---------------------------------------------------------------------------------------
def draw_ratios(runs: Sequence[Run]) -> Any:
    """A bar for each workload and number of threads, on a logarithmic scale from 1: to the right
    we are faster. The shade ends at the family's floor.
    """
    from matplotlib.figure import Figure

    known = [ratios(run) for run in runs]
    panels = columns_of({name: sorted_names(name, known) for name in families(known)})
    most = max(sum(len(names) + 2 for _, names in panel) for panel in panels)
    figure = Figure((5.6 * len(panels), ROW * most + 1.2), layout="constrained")
    fields = figure.subplots(1, len(panels), squeeze=False)[0]
    for field, panel in zip(fields, panels, strict=True):
        draw_panel(field, panel, known)
        field.set_ylim(most - 0.5, -1.5)
    handles = [
        fields[0].barh([0], [0], color=COLOURS[n], label=f"threads: {run['threads']}")
        for n, run in enumerate(runs)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(runs), frameon=False)
    figure.supxlabel(
        "time of the best peer / time of torpor (right of 1: torpor is faster); red: below floor"
    )
    return figure


def families(known: Sequence[dict[str, dict[str, float]]]) -> list[str]:
    return list(dict.fromkeys(family for one in known for family in one))


def sorted_names(family: str, known: Sequence[dict[str, dict[str, float]]]) -> list[str]:
    """The workloads of a family in the order in which they are listed."""
    return list(dict.fromkeys(name for one in known for name in one.get(family, {})))


def columns_of(found: dict[str, list[str]]) -> list[list[tuple[str, list[str]]]]:
    """Families side by side in columns of about the same length; long ones go on in the next."""
    total = sum(len(names) + 2 for names in found.values())
    height = max(20, math.ceil(total / COLUMNS) + 2)
    columns: list[list[tuple[str, list[str]]]] = [[]]
    room = height
    for family, names in found.items():
        left = list(names)
        while left:
            if room < min(len(left) + 2, 6):
                columns.append([])
                room = height
            part, left = left[: room - 2], left[room - 2 :]
            columns[-1].append((family, part))
            room -= len(part) + 2
    return columns


def draw_panel(
    field: Any, panel: list[tuple[str, list[str]]], known: Sequence[dict[str, dict[str, float]]]
) -> None:
    """Families one under the other, each with its name, its floor and its points."""
    row = 0
    for family, names in panel:
        floor = FLOORS[family].each
        field.text(LEAST * 0.82, row - 0.1, f"{family} (floor {floor:g})", ha="right",
                   va="center", fontsize=FONT + 1, weight="bold")  # fmt: skip
        first, last = row + 0.5, row + len(names) + 0.5
        field.fill_betweenx([first, last], LEAST * 0.8, floor, color=RED, alpha=0.1, lw=0)
        for name in names:
            row += 1
            field.text(LEAST * 0.78, row, name.partition("/")[2], ha="right", va="center",
                       fontsize=FONT)  # fmt: skip
            draw_bars(field, [one.get(family, {}).get(name) for one in known], row, floor)
        row += 2
    field.axvline(1.0, color="black", linewidth=0.8)
    field.set_xscale("log", base=2)
    field.set_xlim(LEAST * 0.8, MOST * 1.7)
    ticks = [0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
    field.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=FONT)
    field.xaxis.minorticks_off()
    field.tick_params(top=True, labeltop=True)
    field.set_yticks([])
    field.grid(axis="x", color="#dddddd", linewidth=0.5)
    field.set_axisbelow(True)
    for side in ("left", "right"):
        field.spines[side].set_visible(False)


def draw_bars(field: Any, values: Sequence[float | None], row: int, floor: float) -> None:
    """The ratios of one workload; past the edges their numbers stand there."""
    height = 0.8 / len(values)
    for number, value in enumerate(values):
        if value is None:
            continue
        colour = COLOURS[number] if value >= floor else RED
        end = min(max(value, LEAST), MOST)
        place = row - 0.4 + height * (number + 0.5)
        field.barh([place], [end - 1.0], height, left=1.0, color=colour, lw=0)
        if end != value:
            field.text(end * 1.04 * 1.3**number, row, f"{value:.3g}", fontsize=FONT - 1,
                       va="center", color=colour)  # fmt: skip


# --- roofline -------------------------------------------------------------------------------------
def draw_rooflines(runs: Sequence[Run]) -> Any:
    """A field for each number of threads."""
    from matplotlib.figure import Figure

    figure = Figure((7.2 * len(runs), 6.0), layout="constrained")
    for field, run in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        draw_roofline(field, run)
    return figure


def draw_roofline(field: Any, run: Run) -> None:
    """Arithmetic rate over operations per byte, under what the machine was measured to do. A thin
    line leads from the best peer to us.
    """
    peaks = run["peaks"]
    roof = peaks["flops"] / 1e9
    for name, style in (("read", "-"), ("copy", "--")):
        slope = peaks[name] / 1e9
        places = [2.0**-5, roof / slope, 2.0**11]
        limits = [min(roof, slope * x) for x in places]
        label = f"{roof:.0f} GFLOP/s, {name} {slope:.0f} GB/s"
        field.plot(places, limits, style, color="black", linewidth=1, label=label)
    names = families([ratios(run)])
    for family in names:
        colour = FAMILY_COLOURS[list(FLOORS).index(family) % len(FAMILY_COLOURS)]
        points, theirs = points_of(run, family)
        if not points:
            continue
        for (x, y), other in zip(points, theirs, strict=True):
            field.plot([x, x], [y, other], color=colour, linewidth=0.5, alpha=0.5)
        field.scatter(*zip(*points, strict=True), s=16, color=colour, label=family, lw=0)
    field.set_xscale("log", base=2)
    field.set_yscale("log")
    field.set_xlabel("operations per byte of memory traffic, at least")
    field.set_ylabel("GFLOP/s")
    field.set_title(f"threads: {run['threads']}; points: torpor, other ends of lines: best peer")
    field.grid(color="#dddddd", linewidth=0.5)
    field.legend(fontsize=FONT + 1, loc="lower right")


def points_of(run: Run, family: str) -> tuple[list[tuple[float, float]], list[float]]:
    """Ours as (operations per byte, GFLOP/s), and the best peers' rates."""
    points, theirs = [], []
    for workload, results in rows(run):
        ours, peer = median(of(results, OURS)), best_peer(workload, results)[1]
        counts = workload.family == family and workload.flops and workload.bytes
        if counts and not math.isnan(ours + peer):
            points.append((workload.flops / workload.bytes, workload.flops / ours / 1e9))
            theirs.append(workload.flops / peer / 1e9)
    return points, theirs
