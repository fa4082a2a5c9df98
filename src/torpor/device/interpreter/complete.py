"""A linear program made complete: all that it uses is listed; where its loops begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.base.errors import ContractError
from torpor.ir.ops import EFFECT, Ops
from torpor.ir.uop import UOp

# These act where they are listed, so that nothing but the list may say where they stand.
_PLACED: Final = EFFECT - {Ops.CHECK} | {Ops.RANGE, Ops.ACC}
_OPENS: Final = frozenset({Ops.RANGE, Ops.IF})
_CLOSES: Final = frozenset({Ops.END, Ops.ENDIF})


def complete(linear: Sequence[UOp]) -> list[UOp]:
    """The program with values that it uses but does not list put in before their first use.

    What is put in inside a loop or an IF is put in again after it: the loop may not have run.
    """
    result: list[UOp] = []
    scopes: list[set[UOp]] = [set()]
    for node in linear:
        _place(node, result, scopes)
        if node.op in _CLOSES:
            scopes.pop()
        elif node.op in _OPENS:
            scopes.append(set())
    return result


def _place(root: UOp, result: list[UOp], scopes: list[set[UOp]]) -> None:
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if any(node in scope for scope in scopes):
            continue
        if ready:
            result.append(node)
            scopes[-1].add(node)
            continue
        stack.append((node, True))
        stack.extend((s, False) for s in reversed(node.src) if s.op not in _PLACED)


def jumps(linear: Sequence[UOp]) -> dict[int, int]:
    """For the place of each RANGE that of its END, and the other way round."""
    places: dict[UOp, int] = {}
    found: dict[int, int] = {}
    for place, node in enumerate(linear):
        if node.op is Ops.RANGE:
            places[node] = place
        elif node.op is Ops.END:
            if node.src[0] not in places:
                raise ContractError("a loop of the linear program is closed before it is opened")
            start = places[node.src[0]]
            found[start], found[place] = place, start
    if len(found) != 2 * len(places):
        raise ContractError("a loop of the linear program is never closed")
    return found
