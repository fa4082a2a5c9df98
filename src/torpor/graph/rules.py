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

from torpor.graph.constants import constant_rules
from torpor.graph.copies import copy_rules
from torpor.graph.merge import merge_rules
from torpor.ir.ops import Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.uop import UOp


def value_of_function(node: UOp) -> UOp:
    """function(x, ...) = x once gradients are taken."""
    return node.src[0]


function_rules: Final = PatternMatcher([(UPat(Ops.FUNCTION, name="node"), value_of_function)])
graph_rules: Final = function_rules + merge_rules + constant_rules + copy_rules


def simplify_graph(root: UOp) -> UOp:
    """An equal graph with less to do; `root` may be a SINK of several."""
    return graph_rewrite(root, graph_rules, ctx={}, name="graph")
