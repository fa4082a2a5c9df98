"""Parts of a large graph that are shown as one until somebody opens them.

Nodes of one line of the program that hang together are a region, and those of one function that
hang together are one of regions: each call of a layer's `forward`, and its gradient, is one by
itself. What is still too much is cut into pieces in the order in which it is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from torpor.explore.trace import Graph, Place, Trace

MOST: Final = 48  # boxes that are drawn at once: Graphviz takes a second for a hundred
GRADIENT: Final = "gradient of "
Region = dict[str, Any]  # title, count, and either nodes or regions


def regions(trace: Trace, graph: Graph, numbers: Sequence[int]) -> list[Region]:
    """The regions of a graph's nodes, which are given each after what it is made of; none where all
    can be shown at once.
    """
    if len(numbers) <= MOST:
        return []
    lines = lines_of(trace, graph, numbers)
    functions = {name: functions_of(text) for name, text in trace.files.items()}

    def function(number: int) -> tuple[str, str]:
        place, gradient = lines[number]
        inside = functions.get(place.file, {}).get(place.line, "")
        return f"{GRADIENT if gradient else ''}{inside or 'the program'}", place.file

    whole = []
    for title, inner in together(trace, numbers, function):
        parts = [
            _region(_title(trace, key), nodes)
            for key, nodes in together(trace, inner, lambda number: lines[number])
        ]
        whole.append(parts[0] if len(parts) == 1 else _over(title[0], parts))
    return cut(whole)


def lines_of(trace: Trace, graph: Graph, numbers: Sequence[int]) -> dict[int, tuple[Place, bool]]:
    """The line of each node, without the text of the expression, and whether it is for a gradient:
    its own, else that of what uses it.
    """
    found = {
        number: (place._replace(text=""), place.text.startswith(GRADIENT))
        for number, place in graph.lines.items()
    }
    for number in reversed(numbers):
        own = found.setdefault(number, (Place("", 0, ""), False))
        for source in trace.nodes[number].src:
            found.setdefault(source, own)
    return {number: found[number] for number in numbers}


def functions_of(text: str) -> dict[int, str]:
    """For each line of a file the function that it is in, with its class."""
    found: dict[int, str] = {}
    try:
        stack: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError):
        return {}
    while stack:
        name, node = stack.pop()
        for inner in ast.iter_child_nodes(node):
            here = name
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                here = f"{name}.{inner.name}".lstrip(".")
                if not isinstance(inner, ast.ClassDef):
                    span = range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
                    found |= dict.fromkeys(span, here)
            stack.append((here, inner))
    return found


def together(
    trace: Trace, numbers: Iterable[int], key: Callable[[int], Hashable]
) -> list[tuple[Any, list[int]]]:
    """Nodes of one key that hang together, with the key; by their first nodes."""
    keys = {number: key(number) for number in numbers}
    above = {number: number for number in keys}

    def top(number: int) -> int:
        while above[number] != number:
            above[number] = number = above[above[number]]
        return number

    for number, own in keys.items():
        for source in trace.nodes[number].src:
            if source in keys and keys[source] == own:
                above[top(source)] = top(number)
    found: dict[int, list[int]] = {}
    for number in keys:
        found.setdefault(top(number), []).append(number)
    return [(keys[first], nodes) for first, nodes in found.items()]


def cut(parts: list[Region]) -> list[Region]:
    """At most `MOST` of these, the rest inside of others."""
    while len(parts) > MOST:
        size = max(len(parts) // MOST + 1, 8)
        groups = [parts[at : at + size] for at in range(0, len(parts), size)]
        parts = [_over(f"{group[0]['title']} … {group[-1]['title']}", group) for group in groups]
    return parts


def _over(title: str, parts: list[Region]) -> Region:
    return {"title": title, "count": sum(one["count"] for one in parts), "regions": cut(parts)}


def _region(title: str, nodes: list[int]) -> Region:
    if len(nodes) <= MOST:
        return {"title": title, "count": len(nodes), "nodes": nodes}
    pieces = [nodes[at : at + MOST] for at in range(0, len(nodes), MOST)]
    named = [_region(f"{title} part {n} of {len(pieces)}", one) for n, one in enumerate(pieces, 1)]
    return _over(title, named)


def _title(trace: Trace, key: tuple[Place, bool]) -> str:
    place, gradient = key
    if not place.line:
        return "of no line"
    lines = trace.files.get(place.file, "").splitlines()
    text = lines[place.line - 1].strip() if place.line <= len(lines) else ""
    return f"{GRADIENT if gradient else ''}{place.line}: {text}"
