"""A trace in the terminal: kernels as a list, one kernel, or what the rules of a pass did."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from torpor.explore import content
from torpor.explore.reasons import says
from torpor.explore.rules import meaning
from torpor.explore.trace import Kernel, Place, Step, Trace

_ENDS: Final = (("-", "before"), ("+", "after"))


def chosen(trace: Trace, name: str = "", line: str = "") -> list[Kernel]:
    """The kernels of a name (which may have `*`, or end with `#2` for the second so called), and of
    a line of the program (`file:number`, of which the end of the file's path is enough).
    """
    found = trace.kernels
    if name:
        found = trace.named(name) or [k for k in found if fnmatchcase(k.name, name)]
    if line:
        found = [k for k in found if any(_is_at(p.file, p.line, line) for p in k.places)]
    return list(found)


def _is_at(file: str, number: int, line: str) -> bool:
    return f"/{file}:{number}".endswith(f"/{line.lstrip('/')}")


def listing(kernels: Iterable[Kernel]) -> str:
    """A line for each kernel: its launches, time, rates, reason and line."""
    lines = [f"{'kernel':24} {'runs':>6} {'time':>12} {'GFLOP/s':>8} {'GB/s':>7}  reason"]
    for one in kernels:
        rates = f"{one.rate('operations'):8.2f} {one.rate('bytes'):7.2f}"
        where = f"  {one.places[0]}" if one.places else ""
        why = ", ".join(one.reasons)
        time = f"{one.microseconds:9.1f} us"
        lines.append(
            f"{one.name or '(not made)':24} {len(one.runs):6} {time} {rates}  {why}{where}"
        )
    return "\n".join(lines)


def errors(trace: Trace) -> str:
    """What the program ended by, and the lines on the way to it."""
    told = []
    for one in trace.errors:
        told.append(f"the program ended by {one['name']}: {one['text']}")
        told += [f"  {Place(**place)}" for place in one["lines"]]
    return "\n".join(told)


def kernel(trace: Trace, one: Kernel) -> str:
    """All of a kernel: why it is one, its lines, opts, axes, linear program and source."""
    axes = ", ".join(f"{a['name']} {a['kind']} {a['size']}" for a in content.axes(trace, one))
    parts = [
        f"{one.name} on {one.device}",
        *(f"stored because: {reason} ({says(reason)})" for reason in one.reasons),
        *(f"read by: {trace.kernels[number].name}" for number in one.readers),
        *(f"planned later: {trace.kernels[number].name}, its reader" for number in one.later),
        f"asked for: {one.asked or 'by no line of the program'}",
        *(f"line: {place}" for place in one.places),
        f"opts: {', '.join(one.opts) or 'none'}",
        f"axes: {axes or 'none'}",
        f"rules: {len(one.steps)} applied",
    ]
    linear = ["  " * row["depth"] + row["text"] for row in content.listing(trace, one.linear)]
    parts += ["", *linear, "", one.source.rstrip()] if linear else ["", one.source.rstrip()]
    return "\n".join(parts)


def step(trace: Trace, number: int, one: Step) -> dict[str, Any]:
    """A step of `in_order` as data: a rule's with both expressions, a pass's with what it left."""
    file = "" if one.stage else content.PASSES
    told = {"number": number, "stage": one.stage, "rule": one.rule}
    told["says"] = meaning(one.rule, file).says
    if one.stage:
        return told | {part: trace.expression(getattr(one, part)) for part in ("before", "after")}
    return told | {"left": [trace.line(node) for node in trace.below([one.after])]}


def steps(trace: Trace, found: Iterable[Step], name: str) -> list[dict[str, Any]]:
    """What the passes of this name (which may have `*`) and the rules in them did, in order."""
    wanted = ((n, s) for n, s in enumerate(found) if fnmatchcase(s.stage or s.rule, name))
    return [step(trace, number, one) for number, one in wanted]


def step_text(told: dict[str, Any]) -> str:
    """A step as text."""
    says = f"  {told['says']}" if told["says"] else ""
    stage = f"{told['stage']}: " if told["stage"] else ""
    lines = [f"{told['number']}: {stage}{told['rule']}{says}"]
    lines += [f"  {line}" for line in told.get("left", ())]
    lines += [f"  {sign} {told[end]}" for sign, end in _ENDS if end in told]
    return "\n".join(lines)


def as_data(trace: Trace, kernels: Iterable[Kernel], whole: bool) -> list[dict[str, Any]]:
    """The kernels as the page has them: rows, or all that is known of each."""
    return [content.kernel(trace, one) if whole else content.summary(one) for one in kernels]
