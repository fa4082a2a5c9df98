"""What `/expr` shows of an index and a condition: simplified, rule by rule, and where it leads."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf, prod
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.explore.grammar import LARGEST, SyntaxFault, expression
from torpor.explore.layout import offsets
from torpor.explore.rules import meaning
from torpor.ir import trace
from torpor.ir.uop import UOp

MOST_VARIABLES: Final = 8  # of an expression
MOST_STEPS: Final = 2000  # rules that are shown of a simplification
WIDEST: Final = 4000  # characters of an expression that is shown


def compute_expression(request: dict[str, Any]) -> dict[str, Any]:
    """What the page shows for {variables: [[name, low, high]], index, valid}; where one of them is
    wrong: `error`, the field (`in`) and the character (`offset`).
    """
    place = "variables"
    try:
        variables = variables_of(request.get("variables"))
        found = {}
        for place, dtype, kind in (
            ("index", dtypes.index, "a number"),
            ("valid", dtypes.bool, "a condition"),
        ):
            text = str(request.get(place, "")).rstrip()
            text = "True" if place == "valid" and text.strip() in ("", "1") else text
            found[place] = expression(text, variables)
            if found[place].dtype is not dtype:
                raise SyntaxFault(f"expected {kind}", 0)
    except SyntaxFault as fault:
        return {"error": fault.message, "in": place, "offset": fault.offset}
    return computed(found["index"], found["valid"], list(variables.values()))


def variables_of(given: Any) -> Mapping[str, UOp]:
    """The variables, by name."""
    rows = given if isinstance(given, list) else []
    if len(rows) > MOST_VARIABLES:
        raise SyntaxFault(f"more than {MOST_VARIABLES} variables", MOST_VARIABLES)
    found: dict[str, UOp] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 3:
            raise SyntaxFault("expected a name, the least and the greatest value", number)
        name, low, high = row
        known = isinstance(name, str) and name.isascii() and name.isidentifier()
        if not known or name in found:
            raise SyntaxFault(f"{str(name)[:40]!r} is no name, or it stands here twice", number)
        if not all(isinstance(end, int) and abs(end) <= LARGEST for end in (low, high)):
            raise SyntaxFault(
                f"{name}: the limits are whole numbers that are not too large", number
            )
        if low > high:
            raise SyntaxFault(f"{name}: {low} is more than {high}", number)
        found[name] = UOp.variable(name, low, high)
    return found


def computed(index: UOp, valid: UOp, variables: list[UOp]) -> dict[str, Any]:
    """Simplified, with every rule that was applied, bounds and positions."""
    with trace.recording() as events:
        short, condition = index.simplify(), valid.simplify()
    cells, valids = offsets(index, valid, variables)
    count = prod(int(v.vmax) - int(v.vmin) + 1 for v in variables)
    return {
        "given": index.render()[:WIDEST],
        "index": short.render()[:WIDEST],
        "valid": condition.render()[:WIDEST],
        "bounds": [bound(short.vmin), bound(short.vmax)],
        "variables": [[v.arg[0], int(v.vmin), int(v.vmax)] for v in variables],
        "steps": [
            {"rule": event.rule, "old": event.before.render()[:WIDEST],
             "new": event.after.render()[:WIDEST], **meaning(event.rule)._asdict()}
            for event in events[:MOST_STEPS]
        ],
        "cells": cells,
        "valids": valids,
        "left_out": count - len(cells),
    }  # fmt: skip


def bound(value: Any) -> int | None:
    """A bound as a number; None where there is none."""
    return None if isinstance(value, float) and isinf(value) else int(value)
