"""Simplification of graphs before scheduling: constants fold, movements merge.

Every rule holds bit for bit, but for the licences that `torpor.rules.exact` names. What may raise
when it runs (an integer division, a gather) is never dropped.

    >>> from torpor.base.dtypes import dtypes
    >>> from torpor.graph import build
    >>> from torpor.ir import Ops
    >>> two, three, five = (build.constant(n, dtypes.int32, (4,)) for n in (2, 3, 5))
    >>> simplify_graph(build.elementwise(Ops.ADD, two, three)) is five
    True
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import SMALL_FLOATS, dtypes
from torpor.graph.constants import constant_rules
from torpor.graph.copies import copy_rules
from torpor.graph.merge import merge_rules
from torpor.ir.ops import MOVEMENT, ROUNDED, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.uop import UOp


def value_of_function(node: UOp) -> UOp:
    """function(x, ...) = x once gradients are taken."""
    return node.src[0]


def less_own_extreme(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """x - max(x) and max(x) - x, of x as it is rounded. As one fused multiply-add, a product less
    its greatest would be up to a rounding above 0: 4096 where the product is 2^36, and exp of that
    is infinite, as the root of what is below 0 is NaN.
    """
    if node.arg is None and (is_extreme_of(x, y) or is_extreme_of(y, x)):
        return node.replace(arg=ROUNDED)
    return None


def is_extreme_of(extreme: UOp, x: UOp) -> bool:
    """Whether it is made of x by movements and by taking the greatest or least."""
    while extreme is not x and extreme.op in _EXTREMES and extreme.src:
        extreme = extreme.src[0]
    return extreme is x


_EXTREMES: Final = MOVEMENT | {Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.MAX, Ops.MIN, Ops.DETACH}
_FLOATS: Final = (*SMALL_FLOATS, dtypes.float32, dtypes.float64)
function_rules: Final = PatternMatcher([(UPat(Ops.FUNCTION, name="node"), value_of_function)])
rounding_rules: Final = PatternMatcher(
    [(UPat(Ops.SUB, _FLOATS, (UPat.var("x"), UPat.var("y")), name="node"), less_own_extreme)]
)
graph_rules: Final = function_rules + merge_rules + constant_rules + copy_rules + rounding_rules


def simplify_graph(root: UOp) -> UOp:
    """An equal graph with less to do; `root` may be a SINK of several."""
    return graph_rewrite(root, graph_rules, ctx={}, name="graph")
