"""A kernel rebuilt from its leaves, with some ranges or nodes become others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.rules.affine import closed_by

Changes = dict[UOp, tuple[UOp, tuple[UOp, ...]]]  # by range: its value, and the loops of that


def map_nodes(root: UOp, function: Callable[[UOp], UOp]) -> UOp:
    """`root` rebuilt from the leaves, each node replaced by what `function` makes of it."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        done[node] = function(node.over(tuple([done[s] for s in node.src])))
    return done[root]


def with_slots(root: UOp, slots: Sequence[int]) -> UOp:
    """`root` with its parameters numbered anew, in the order of `slots`."""
    numbers = {slot: number for number, slot in enumerate(slots)}
    parameters = [n for n in root.toposort() if n.op is Ops.PARAM]
    return root.substitute(
        {n: n.replace(arg=ParamArg(numbers[n.arg.slot], n.arg.size)) for n in parameters}
    )


def replace_ranges(root: UOp, changes: Changes) -> UOp:
    """`root` with ranges become values; what ran over a range runs over the loops of that. A
    reduction over no loop is its value.
    """
    done: dict[UOp, UOp] = {old: value for old, (value, _) in changes.items()}
    for node in root.toposort():
        if node in done:
            continue
        closed = closed_by(node)
        source = tuple([done[s] for s in node.src[: len(node.src) - len(closed)]])
        for one in closed:
            source += changes[one][1] if one in changes else (done[one],)
        if node.op is Ops.REDUCE and len(source) == 1:
            done[node] = source[0]
        else:
            done[node] = node.over(source)
    return done[root]
