"""What `/views` shows of a tracker: its views, its index and where each element lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import prod
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import TorporError
from torpor.explore.grammar import Call, SyntaxFault, value
from torpor.explore.layout import offsets
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.view import ShapeTracker, View

MOST_AXES: Final = 16  # of a view
MOST_CALLS: Final = 24  # movements, one after the other
WIDEST: Final = 4000  # characters of an expression
LARGEST: Final = 1 << 40  # elements
MOVES: Final = ("permute", "reshape", "expand", "pad", "shrink", "flip")


def compute_views(request: dict[str, Any]) -> dict[str, Any]:
    """What the page shows for `text`: a tracker's or a view's `repr`, or `from_shape(…)`, and moves
    applied to it; or where the text is wrong.
    """
    text = request.get("text")
    if not isinstance(text, str):
        return {"error": "there is no text", "offset": 0}
    try:
        trackers = trackers_of(text)
    except SyntaxFault as fault:
        return {"error": fault.message, "offset": fault.offset}
    return shown(trackers[-1][1]) | {
        "steps": [{"text": name, "repr": repr(one), "shape": one.shape} for name, one in trackers]
    }


def shown(tracker: ShapeTracker) -> dict[str, Any]:
    """A tracker, and its elements as far as they can be shown; what is known at launch only has its
    largest value there, which `at` has.
    """
    position, valid = tracker.to_indexed_uops(
        [UOp.range(s, n) for n, s in enumerate(tracker.shape)]
    )
    symbols = [n for n in UOp.sink(position, valid).toposort() if n.op is Ops.VARIABLE]
    largest = {one: one.const(one.dtype, int(one.vmax)) for one in symbols}
    sizes = [limits(size)[1] for size in tracker.shape]
    ranges = [UOp.range(size, axis) for axis, size in enumerate(sizes)]
    place, there = (one.substitute(largest) for one in tracker.to_indexed_uops(ranges))
    cells, valids = offsets(place, there, ranges) if 0 not in sizes else ([], [])
    variables = [[f"ridx{axis}", 0, size - 1] for axis, size in enumerate(sizes)]
    return {
        "repr": repr(tracker),
        "shape": sizes,
        "views": [] if symbols else [asdict(view) for view in tracker.views],
        "index": shortened(position.render()),
        "valid": shortened(valid.render()),
        "variables": variables + [[n.arg[0], int(n.vmin), int(n.vmax)] for n in symbols],
        "at": {one.arg[0]: int(one.vmax) for one in symbols},
        "cells": cells,
        "valids": valids,
        "left_out": prod(sizes) - len(cells),
    }


def limits(size: int | UOp) -> tuple[int, int]:
    """The least and the largest value of a size."""
    return (int(size.vmin), int(size.vmax)) if isinstance(size, UOp) else (size, size)


def shortened(text: str) -> str:
    """A text that can be shown."""
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}…"


# --- from text ------------------------------------------------------------------------------------
def trackers_of(text: str) -> list[tuple[str, ShapeTracker]]:
    """What the text makes, step by step: the text of each step, and the tracker after it."""
    call = value(text)
    if not isinstance(call, Call):
        raise SyntaxFault("expected a ShapeTracker or a View", 0)
    calls: list[Call] = []
    one: Call | None = call
    while one is not None:
        calls.append(one)
        one = one.on
    if len(calls) > MOST_CALLS:
        raise SyntaxFault(f"more than {MOST_CALLS} steps", calls[-1 - MOST_CALLS].offset)
    first, *moves = reversed(calls)
    tracker = first_of(first)
    found = [(text[: moves[0].offset - 1] if moves else text, tracker)]
    for number, move in enumerate(moves):
        tracker = checked(move, lambda: moved(tracker, move))  # noqa: B023 (called at once)
        end = moves[number + 1].offset - 1 if number + 1 < len(moves) else len(text)
        found.append((text[move.offset - 1 : end].strip(), tracker))
    return found


def checked(call: Call, make: Callable[[], ShapeTracker]) -> ShapeTracker:
    """What `make` gives, if the library takes it and it is no larger than what can be shown."""
    try:
        made = make()
    except (TorporError, TypeError, ValueError) as error:
        if isinstance(error, SyntaxFault):
            raise
        raise SyntaxFault(str(error), call.offset) from None
    if len(made.shape) > MOST_AXES:
        raise SyntaxFault(f"more than {MOST_AXES} axes", call.offset)
    sizes = [limits(size) for size in made.shape]
    if prod(most for _, most in sizes) > LARGEST or any(least < 0 for least, _ in sizes):
        raise SyntaxFault(f"sizes {made.shape} are negative or too large", call.offset)
    return made


def first_of(call: Call) -> ShapeTracker:
    """The tracker that a text begins with."""
    if call.name in ("ShapeTracker.from_shape", "from_shape"):
        (shape,) = arguments(call, "shape")
        return checked(call, lambda: ShapeTracker.from_shape(numbers(shape, call)))
    if call.name == "ShapeTracker":
        (views,) = arguments(call, "views")
        if not isinstance(views, tuple) or not 0 < len(views) <= MOST_AXES:
            raise SyntaxFault(f"expected 1 to {MOST_AXES} views", call.offset)
        return checked(call, lambda: ShapeTracker(tuple(view_of(one, call) for one in views)))
    if call.name in ("View", "View.create"):
        return checked(call, lambda: ShapeTracker((view_of(call, call),)))
    raise SyntaxFault(f"{call.name!r} is no ShapeTracker, from_shape or View", call.offset)


def view_of(call: Any, around: Call) -> View:
    """A view from its `repr`, or from what `View.create` takes."""
    if not isinstance(call, Call) or call.name not in ("View", "View.create"):
        raise SyntaxFault(
            "expected a View", call.offset if isinstance(call, Call) else around.offset
        )
    given = arguments(call, "shape", "strides", "offset", "mask", "contiguous", least=1)
    shape, strides, offset, mask, _ = given
    sizes = numbers(shape, call)
    if len(sizes) > MOST_AXES:
        raise SyntaxFault(f"more than {MOST_AXES} axes", call.offset)
    if not (offset is None or is_number(offset)):
        raise SyntaxFault("the offset is no number", call.offset)
    made = View.create(
        sizes,
        None if strides is None else numbers(strides, call),
        offset or 0,
        None if mask is None else pairs(mask, call),
    )
    known = [(*pair, size) for pair, size in zip(made.limits, made.shape, strict=True)]
    known = [one for one in known if all(isinstance(number, int) for number in one)]
    if made.mask is not None and any(not 0 <= low <= high <= size for low, high, size in known):
        raise SyntaxFault("a mask's limits are 0 <= low <= high <= size", call.offset)
    return made


def arguments(call: Call, *names: str, least: int | None = None) -> list[Any]:
    """The arguments of a call by name; None for those that are not given."""
    unknown = set(call.keywords) - set(names)
    if unknown or len(call.arguments) > len(names):
        what = f"no argument {min(unknown)!r}" if unknown else f"at most {len(names)} arguments"
        raise SyntaxFault(f"{call.name} takes {what}", call.offset)
    given = dict(zip(names, call.arguments)) | call.keywords
    missing = [name for name in names[:least] if name not in given]
    if missing:
        raise SyntaxFault(f"{call.name} lacks {missing[0]!r}", call.offset)
    return [given.get(name) for name in names]


def is_number(one: Any) -> bool:
    if isinstance(one, UOp):
        return one.dtype is dtypes.index
    return isinstance(one, int) and not isinstance(one, bool)


def numbers(given: Any, call: Call) -> tuple[Any, ...]:
    """A row of numbers."""
    if not isinstance(given, tuple) or not all(map(is_number, given)):
        raise SyntaxFault(f"{call.name}: expected numbers in parentheses", call.offset)
    return given


def pairs(given: Any, call: Call) -> tuple[tuple[Any, Any], ...]:
    """A row of pairs of numbers."""
    rows = given if isinstance(given, tuple) else ((),)
    if not all(
        isinstance(row, tuple) and len(row) == 2 and all(map(is_number, row)) for row in rows
    ):
        raise SyntaxFault(f"{call.name}: expected pairs of numbers in parentheses", call.offset)
    return rows


def moved(tracker: ShapeTracker, call: Call) -> ShapeTracker:
    """A tracker after one movement, whose numbers may stand in parentheses of their own or not."""
    if call.name not in MOVES:
        raise SyntaxFault(f"{call.name!r} is none of {', '.join(MOVES)}", call.offset)
    if call.keywords:
        raise SyntaxFault(f"{call.name} takes no names", call.offset)
    given: Any = tuple(call.arguments)
    if call.name in ("pad", "shrink"):
        whole = (
            len(given) == 1 and isinstance(given[0], tuple) and not all(map(is_number, given[0]))
        )
        rows = pairs(given[0] if whole else given, call)
        refuse_outside(tracker, call, rows)
        return getattr(tracker, call.name)(rows)  # type: ignore[no-any-return]
    row = numbers(given[0] if len(given) == 1 and isinstance(given[0], tuple) else given, call)
    axes = range(len(tracker.shape))
    if call.name in ("permute", "flip") and not set(row) <= set(axes):
        raise SyntaxFault(f"axes are 0 to {len(axes) - 1}", call.offset)
    return getattr(tracker, call.name)(row)  # type: ignore[no-any-return]


def refuse_outside(tracker: ShapeTracker, call: Call, rows: Sequence[tuple[int, int]]) -> None:
    """Padding is not negative, and what is cut out lies inside; the library counts the axes."""
    if call.name == "pad" and any(limits(size)[0] < 0 for row in rows for size in row):
        raise SyntaxFault("pad takes no negative numbers", call.offset)
    sizes = zip(rows, tracker.shape)
    if call.name == "shrink" and any(
        not 0 <= limits(low)[0] <= limits(high)[1] <= limits(size)[1] for (low, high), size in sizes
    ):
        raise SyntaxFault("the limits of shrink are 0 <= low <= high <= size", call.offset)
