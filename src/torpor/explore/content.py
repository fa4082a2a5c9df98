"""What the page shows of a trace, as JSON: an index, and a piece for each kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from torpor.explore.accesses import accesses
from torpor.explore.reasons import says
from torpor.explore.regions import regions
from torpor.explore.rules import meaning
from torpor.explore.trace import Graph, Kernel, Place, Step, Trace, place_of

PASSES: Final = "kernel/lower.py"  # where passes stand
MOST_STEPS: Final = 20_000  # rules that a page shows of a kernel
MOST_NODES: Final = 20_000  # of a graph
MOST_EVENTS: Final = 50_000  # of a timeline
_AXIS: Final = re.compile(r"\((\d+), AxisType\.(\w+)\)")
LANGUAGES: Final = (("define ", "llvm"), ("@compute", "wgsl"), ("", "c"))


def index(trace: Trace) -> dict[str, Any]:
    """What is seen first: kernels, the user's lines, graphs, and what happened when."""
    return {
        "name": trace.name,
        "kernels": [summary(kernel) for kernel in trace.kernels],
        "graphs": [graph(trace, one) for one in trace.graphs],
        "files": files(trace),
        "events": trace.events[:MOST_EVENTS],
        "left_out": max(len(trace.events) - MOST_EVENTS, 0),
        "scheduling": len(trace.steps),
        "jits": trace.jits,
        "errors": trace.errors,
        "says": {reason: says(reason) for one in trace.kernels for reason in one.reasons},
        "memory": list(trace.memory.values())[:MOST_EVENTS],
    }


def scheduling(trace: Trace) -> dict[str, Any]:
    """Rules that were applied while graphs were scheduled, for no kernel of its own."""
    shown = trace.steps[:MOST_STEPS]
    return {"steps": steps(trace, shown), "nodes": nodes(trace, below_steps(trace, shown))}


def summary(kernel: Kernel) -> dict[str, Any]:
    """A kernel's row."""
    return {
        "number": kernel.number,
        "name": kernel.name,
        "device": kernel.device,
        "reasons": kernel.reasons,
        "places": [place._asdict() for place in kernel.places],
        "launches": len(kernel.runs),
        "microseconds": kernel.microseconds,
        "gflops": kernel.rate("operations"),
        "gbytes": kernel.rate("bytes"),
        "operations": max((run["operations"] for run in kernel.runs), default=0),
        "bytes": max((run["bytes"] for run in kernel.runs), default=0),
        "peaks": kernel.peaks,
        "readers": kernel.readers,
        "later": kernel.later,
        "asked": place_of(kernel.asked)._asdict(),
        "reads": any(len(item["parameters"]) > 1 for item in kernel.items),
        "rewrites": len(kernel.steps),
    }


def files(trace: Trace) -> list[dict[str, Any]]:
    """The user's files that made something, by line: its text, and the kernels that compute it."""
    found: dict[str, dict[int, dict[str, Any]]] = {}

    def line(place: Place) -> dict[str, Any]:
        fresh = {"line": place.line, "text": place.text, "kernels": [], "microseconds": 0.0}
        return found.setdefault(place.file, {}).setdefault(place.line, fresh)

    for one in trace.graphs:
        for place in one.lines.values():
            line(place)
    for error in trace.errors:
        for place in error["lines"]:
            line(Place(**place))
    for kernel in trace.kernels:
        places = kernel.places
        for place in places:
            entry = line(place)
            if kernel.number not in entry["kernels"]:
                entry["kernels"].append(kernel.number)
        if places:  # its time is counted once, at the line that asks for it
            line(places[0])["microseconds"] += kernel.microseconds
    return [
        {
            "file": file,
            "text": trace.files.get(file, ""),
            "lines": [lines[number] for number in sorted(lines)],
        }
        for file, lines in found.items()
    ]


def graph(trace: Trace, one: Graph) -> dict[str, Any]:
    """A graph of tensors, with the line of each node that has one."""
    numbers = trace.below([one.root])
    kept = set(numbers[:MOST_NODES])
    return {
        "root": one.root,
        "nodes": nodes(trace, kept),
        "regions": regions(trace, one, [n for n in numbers if n in kept]),
        "lines": {n: place._asdict() for n, place in one.lines.items() if n in kept},
        "left_out": len(numbers) - len(kept),
    }


def kernel(trace: Trace, one: Kernel) -> dict[str, Any]:
    """All that the page shows of a kernel."""
    shown = in_order(trace, one)[:MOST_STEPS]
    return summary(one) | {
        "ast": one.ast,
        "items": [item | {"says": says(item["reason"])} for item in one.items],
        "opts": one.opts,
        "axes": axes(trace, one),
        "accesses": accesses(trace, one),
        "source": one.source,
        "language": language(one.source),
        "linear": listing(trace, one.linear),
        "steps": steps(trace, shown),
        "nodes": nodes(trace, below_steps(trace, shown, one.ast)),
    }


def language(source: str) -> str:
    """What a kernel's source is written in."""
    return next(name for sign, name in LANGUAGES if sign in source)


def in_order(trace: Trace, one: Kernel | None) -> list[Step]:
    """The rules that were applied for a kernel, and what each pass left, as steps without stage; or
    the rules of the scheduling.
    """
    if one is None:
        return trace.steps
    found: list[Step] = []
    root, done = one.ast, 0
    for left in one.passes:
        found += [*one.steps[done : left.steps], Step("", left.name, root, left.root)]
        root, done = left.root, left.steps
    return found + one.steps[done:]


def below_steps(trace: Trace, found: Iterable[Step], *roots: int) -> list[int]:
    """The nodes that steps are about."""
    return trace.below([*roots, *(n for step in found for n in (step.before, step.after))])


def nodes(trace: Trace, numbers: Iterable[int]) -> dict[int, list[Any]]:
    """By number: op, format, operands, argument, and the node as a short expression."""
    return {n: [*trace.nodes[n], trace.expression(n, 60)] for n in numbers}


def steps(trace: Trace, found: Iterable[Step]) -> dict[str, Any]:
    """Applications of rules, and what the rules say."""
    listed = list(found)
    rules = {
        step.rule: meaning(step.rule, "" if step.stage else PASSES)._asdict() for step in listed
    }
    shown = [
        step._asdict()
        | {
            "pass": not step.stage,
            "old": trace.expression(step.before, 300),
            "new": trace.expression(step.after, 300),
        }
        for step in listed
    ]
    return {"steps": shown, "rules": rules}


def axes(trace: Trace, one: Kernel) -> list[dict[str, str]]:
    """The axes of a kernel once its opts are applied: name, kind and size."""
    opts = len(one.opts)
    root = one.passes[opts - 1].root if 0 < opts <= len(one.passes) else one.ast
    found = []
    for number in trace.below([root]):
        node = trace.nodes[number]
        if node.op == "RANGE" and (match := _AXIS.match(node.arg)):
            size = trace.expression(node.src[0])
            found.append({"name": f"ridx{match[1]}", "kind": match[2], "size": size})
    return found


def listing(trace: Trace, numbers: Iterable[int]) -> list[dict[str, Any]]:
    """A linear program: each node by its place in the list, indented by the loops around it."""
    places: dict[int, int] = {}
    depth, found = 0, []
    for place, number in enumerate(numbers):
        node = trace.nodes[number]
        places[number] = place
        depth -= node.op in ("END", "ENDIF")
        operands = [f"%{places[s]}" if s in places else trace.expression(s, 60) for s in node.src]
        text = f"%{place} = {node.op} {node.dtype}"
        text += f" ({', '.join(operands)})" if operands else ""
        text += f" = {node.arg}" if node.arg else ""
        found.append({"depth": max(depth, 0), "node": number, "op": node.op, "text": text})
        depth += node.op in ("RANGE", "IF")
    return found
