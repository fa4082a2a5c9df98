"""Where an index expression leads, element by element: computed by the op table's own meanings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from torpor.ir.ops import ROWS, Ops
from torpor.ir.uop import UOp

MOST_CELLS: Final = 4096  # elements that are shown


def offsets(
    position: UOp, valid: UOp, variables: Sequence[UOp]
) -> tuple[list[int | None], list[bool]]:
    """For each value of the variables, the last fastest: the position (None where computing it
    divides by zero) and whether it is valid there; of `MOST_CELLS` elements at most.
    """
    order = list(UOp.sink(position, valid).toposort())[:-1]
    spans = [range(int(v.vmin), int(v.vmax) + 1) for v in variables]
    count = min(math.prod(map(len, spans)), MOST_CELLS)
    found: list[int | None] = []
    valids: list[bool] = []
    for number in range(count):
        point = []
        for span in reversed(spans):
            number, digit = divmod(number, len(span))
            point.append(span[digit])
        values: dict[UOp, Any] = dict(zip(reversed(variables), point, strict=True))
        for node in order:
            if node not in values:
                values[node] = _value(node, values)
        found.append(values[position])
        valids.append(bool(values[valid]))
    return found, valids


def _value(node: UOp, values: dict[UOp, Any]) -> Any:
    if node.op is Ops.CONST:
        return node.arg
    fold = ROWS[node.op].fold
    assert fold is not None, f"{node.op} has no meaning on numbers"
    operands = [values[s] for s in node.src]
    if None in operands or (node.op in (Ops.IDIV, Ops.MOD) and operands[1] == 0):
        return None
    return fold(*operands)
