"""What a kernel reads and writes: index, condition, and the view that says the same, if any."""

from __future__ import annotations

from typing import Any

from torpor.explore.terms import Coordinate, Terms
from torpor.explore.trace import Kernel, Trace, name_of


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
    """The ShapeTracker whose axes are the ranges, outermost first: one view where the index is a
    sum of ranges with factors, and its conditions limit ranges; two where they are about quotients
    and remainders of such sums, or limit them; None where they are about anything else.

    Of two views the upper goes to a point for each element, whose coordinates are the ranges and
    the digits of those sums; the lower gives each coordinate its stride and its limits.
    """
    axes = sorted(shape, key=lambda n: (len(name_of(trace.nodes[n])), name_of(trace.nodes[n])))
    terms = Terms(trace, {n: shape[n] for n in axes})
    place = terms.of(index[0]) if terms.prepare(index) else None
    if place is None or (len(index) > 1 and not terms.limit(index[1])):
        return None
    factors = [place.get(one, 0) for one in terms.sizes]
    sizes, limits = [*terms.sizes.values()], [*terms.limits.values()]
    lower = _view(sizes, factors, place.get(-1, 0), limits)
    if not terms.sums:
        return lower
    offset, size = 0, 1
    strides: dict[Coordinate, int] = dict.fromkeys(axes, 0)
    for one, inner in reversed([*zip(terms.sizes, terms.sizes.values(), strict=True)]):
        for axis, factor in terms.parts.get(one, {}).items():
            if axis == -1:
                offset += factor * size
            else:
                strides[axis] += factor * size
        size *= inner
    upper = _view([shape[n] for n in axes], [strides[n] for n in axes], offset, None)
    return f"ShapeTracker(views=({lower}, {upper},))"


def _view(shape: list[int], strides: list[int], offset: int, limits: Any) -> str:
    mask = None if limits is None else _row(map(_row, limits))
    return (
        f"View.create(shape={_row(shape)}, strides={_row(strides)}, offset={offset}, mask={mask})"
    )


def _row(items: Any) -> str:
    return f"({', '.join(map(str, items))},)"
