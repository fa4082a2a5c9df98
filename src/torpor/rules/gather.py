"""A first pass that writes every whole sum in its canonical form at once.

Rewriting node by node would bring each partial sum into canonical form before the next term is
added; this does the same work once a sum.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.trace import Event, listener
from torpor.ir.uop import UOp
from torpor.rules.linear import Terms, build, linear

_ADDITIVE: Final = frozenset({Ops.ADD, Ops.SUB})


def _is_sum(node: UOp) -> bool:
    if node.op is Ops.MUL:
        return node.src[1].op is Ops.CONST or node.src[0].op is Ops.CONST
    return node.op in _ADDITIVE


def gather_sums(root: UOp) -> UOp:
    """`a*c + a*d -> a*(c+d)` for each sum of index terms that is not part of a greater one."""
    nodes = root.toposort()
    whole = {root}
    for node in nodes:
        if node.op is Ops.CHECK:
            return root  # a CHECK must not cancel out; the rules watch for that
        if node.dtype is not dtypes.index or not _is_sum(node):
            whole.update(node.src)
    done: dict[UOp, UOp] = {}
    for node in nodes:
        if node.dtype is dtypes.index and _is_sum(node):
            if node in whole:
                done[node] = _gathered(node, done)
        else:
            source = tuple(done[s] for s in node.src)
            done[node] = node if source == node.src else node.replace(src=source)
    return done[root]


def _gathered(node: UOp, done: dict[UOp, UOp]) -> UOp:
    """The canonical form of a whole sum, its terms as `done` has them."""
    terms, constant = linear(node)
    mapped: Terms = {}
    for term, scale in terms.items():
        made = done[term]
        mapped[made] = mapped.get(made, 0) + scale
    result = build({term: scale for term, scale in mapped.items() if scale}, constant)
    hears = listener()
    if hears is not None and result is not node:
        hears(Event("simplify", "collect_terms", node, result))
    return result
