"""DOTs and MMAs that add to what there is already, as their instructions do.

before  s + dot(x, y)
after   dot(x, y, s)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

ADDING: Final = (Ops.DOT, Ops.MMA)


def add_in_dots(linear: Sequence[UOp]) -> list[UOp]:
    """s + dot(x, y) = dot(x, y, s) where nothing else needs the DOT, in a linear program. A licence
    for floats, as for a product and a sum: an instruction rounds as it does.
    """
    if not any(node.op in ADDING for node in linear):
        return list(linear)
    uses = Counter(source for node in linear for source in node.src)
    made: dict[UOp, UOp] = {}
    for node in linear:
        source = tuple(made.get(s, s) for s in node.src)
        made[node] = added(node, source, uses) or node.replace(src=source)
    needed = {s for node in made.values() for s in node.src}
    return [node for node in made.values() if node.op not in ADDING or node in needed]


def added(node: UOp, source: tuple[UOp, ...], uses: Counter[UOp]) -> UOp | None:
    """The DOT that a sum becomes; None for anything else."""
    if node.op is not Ops.ADD:
        return None
    for dot, total, own in zip(source, source[::-1], node.src, strict=True):
        if dot.op in ADDING and len(dot.src) == 2 and uses[own] == 1:
            return dot.replace(src=(*dot.src, total))
    return None
