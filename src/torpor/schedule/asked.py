"""Indices that a program gave are looked at one and all, also where only a part is read there.

before  shrink(gather(x, i), (0, 1))                       asks for i[0] alone
after   shrink(gather(x, check(i, all(0 <= i < n))), (0, 1))

An error in an index must not depend on what of the result is used. What a WHERE may not choose is
guarded by its condition: below its branches, only what it chooses is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.infer import shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.rewrite import graph_rewrite, unite_origins
from torpor.ir.uop import UOp
from torpor.schedule.prepare import filled
from torpor.schedule.region import STORED

CUTTING: Final = (Ops.SHRINK, Ops.SHEAR)


def ask_for_all(root: UOp) -> UOp:
    """The graph with a check of all indices where a user's index is read in part."""
    order = list(root.toposort())
    if not any(is_words(node) for node in order):
        return root
    asked, whole = uses(root, order)
    changes: dict[UOp, UOp] = {}
    for node in order:
        if node in asked and node not in whole:
            if node.op is Ops.GATHER:
                add_places(node, changes)
            elif is_words(node) and node.src[1].below(MOVEMENT).op is not Ops.CONST:
                changes[node] = checked(node, node.src[1])
    return graph_rewrite(root, _ASKING, changes, bottom_up=True, name="ask for all")


def is_words(node: UOp) -> bool:
    """Whether this says what an index means to the user."""
    return node.op is Ops.CHECK and node.arg.kind == "index"


def uses(root: UOp, order: list[UOp]) -> tuple[set[UOp], set[UOp]]:
    """The nodes that some use asks for without a condition, and those of which one asks for all
    elements.
    """
    asked, whole = {root}, {root}
    for node in reversed(order):
        for place, source in enumerate(node.src):
            guarded = node.op is Ops.WHERE and place > 0
            if node in asked and not guarded:
                asked.add(source)
            if is_all_used(node, place) and (node.op in STORED or (node in whole and not guarded)):
                whole.add(source)
    return asked, whole


def is_all_used(node: UOp, place: int) -> bool:
    """Whether all elements of a node take all elements of its operand."""
    if node.op in CUTTING:
        return shape_of(node) == shape_of(node.src[0]) and node.op is Ops.SHRINK
    return node.op is not Ops.GATHER or place > 0


def add_places(node: UOp, changes: dict[UOp, UOp]) -> None:
    """Have the indices of a GATHER lie in its axis, if the user gave them."""
    check, length = node.src[1].below(MOVEMENT), shape_of(node.src[0])[node.arg]
    if not is_words(check) or not isinstance(length, int):
        return
    value = check.src[0]
    low, high = (filled(UOp.const(value.dtype, n), shape_of(value)) for n in (0, length))
    below = UOp(Ops.CMPLT, dtypes.bool, (value, low))
    inside = UOp(Ops.CMPLT, dtypes.bool, (value, high))
    true = filled(UOp.const(dtypes.bool, True), shape_of(value))
    changes[check] = checked(check, UOp(Ops.WHERE, dtypes.bool, (below, ~true, inside)))


def checked(check: UOp, condition: UOp) -> UOp:
    """A CHECK that holds if the condition does everywhere."""
    shape = shape_of(condition)
    if math.prod(int(s.vmax) if isinstance(s, UOp) else s for s in shape) < 2:
        return check
    every = UOp(Ops.REDUCE_AXIS, dtypes.bool, (condition,), (Ops.MUL, tuple(range(len(shape)))))
    made = check.replace(src=(check.src[0], filled(every, shape)))
    unite_origins(check, made)
    return made


def asked_for_all(ctx: Mapping[UOp, UOp], node: UOp) -> UOp | None:
    """`check(i, some) -> check(i, all)`."""
    found = ctx.get(node)
    return None if found is node else found


_ASKING: Final = PatternMatcher([(UPat(Ops.CHECK, name="node"), asked_for_all)])
