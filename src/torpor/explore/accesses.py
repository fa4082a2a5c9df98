"""What a kernel reads and writes: index, condition, and the view that says the same, if any."""

from __future__ import annotations

from typing import Any

from torpor.explore.trace import Kernel, Trace, name_of

Linear = dict[int, int]  # by range the factor; under -1 what is added


def accesses(trace: Trace, one: Kernel) -> list[dict[str, Any]]:
    """What a kernel reads and writes, before its opts: the parameter, the index, where it is valid,
    the variables in them with their limits (none where one is known at launch only), and a View.
    """
    found = []
    for number in trace.below([one.ast]):
        node = trace.nodes[number]
        if node.op in ("LOAD", "STORE") and trace.nodes[node.src[0]].op == "INDEX":
            memory, *index = trace.nodes[node.src[0]].src
            index = index[:2]
            ranges = [n for n in trace.below(index) if trace.nodes[n].op == "RANGE"]
            sizes = [trace.nodes[trace.nodes[n].src[0]] for n in ranges]
            fixed = all(size.op == "CONST" for size in sizes)
            shape = [int(size.arg) for size in sizes] if fixed else []
            names = [name_of(trace.nodes[n]) for n in ranges]
            found.append(
                {
                    "what": node.op.lower(),
                    "memory": trace.expression(memory),
                    "index": trace.expression(index[0]),
                    "valid": trace.expression(index[1]) if len(index) > 1 else "True",
                    "variables": [[name, 0, size - 1] for name, size in zip(names, shape)],
                    "view": view_of(trace, index, dict(zip(ranges, shape))) if shape else None,
                }
            )
    return found


def view_of(trace: Trace, index: list[int], shape: dict[int, int]) -> str | None:
    """The View whose axes are the ranges, outermost first; None where no single one says it."""
    axes = sorted(shape, key=lambda n: (len(name_of(trace.nodes[n])), name_of(trace.nodes[n])))
    place = linear(trace, index[0])
    limits = {n: (0, shape[n]) for n in axes}
    if place is None or (len(index) > 1 and not limited(trace, index[1], limits)):
        return None
    strides = _row(place.get(n, 0) for n in axes)
    mask = _row(_row(limits[n]) for n in axes)
    return (
        f"View.create(shape={_row(shape[n] for n in axes)}, strides={strides}, "
        f"offset={place.get(-1, 0)}, mask={mask})"
    )


def _row(items: Any) -> str:
    return f"({', '.join(map(str, items))},)"


def linear(trace: Trace, number: int) -> Linear | None:
    """An index as a sum of ranges with factors; None where it is none."""
    node = trace.nodes[number]
    if node.op == "CONST":
        return {-1: int(node.arg)}
    if node.op == "RANGE":
        return {number: 1}
    parts = [linear(trace, s) for s in node.src] if node.op in ("ADD", "MUL") else [None]
    if None in parts:
        return None
    one, other = (part or {} for part in parts)
    if node.op == "ADD":
        return {n: one.get(n, 0) + other.get(n, 0) for n in one | other}
    if set(one) != {-1}:
        one, other = other, one
    return {n: one[-1] * factor for n, factor in other.items()} if set(one) == {-1} else None


def limited(trace: Trace, number: int, limits: dict[int, tuple[int, int]]) -> bool:
    """Whether a condition only limits ranges, one by one; then `limits` are made narrower."""
    node = trace.nodes[number]
    if node.op == "CONST":
        return node.arg == "True"
    if node.op == "AND":
        return all(limited(trace, s, limits) for s in node.src)
    sides = [linear(trace, s) for s in node.src] if node.op == "CMPLT" else []
    if len(sides) != 2 or None in sides:
        return False
    less = {n: (sides[0] or {}).get(n, 0) - (sides[1] or {}).get(n, 0) for n in {
        **(sides[0] or {}), **(sides[1] or {})}}  # fmt: skip
    added = less.pop(-1, 0)
    factors = {n: factor for n, factor in less.items() if factor}
    if len(factors) != 1:
        return False
    ((axis, factor),) = factors.items()  # factor * axis + added < 0
    low, high = limits[axis]
    if factor > 0:
        high = min(high, max(-(added // factor), low))
    else:
        low = max(low, min(added // -factor + 1, high))
    limits[axis] = (low, high)
    return True
