"""What rule functions share: the guards under which a rule may replace a node."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

NodeRule = Callable[[UOp], UOp | None]


def checks_below(root: UOp) -> set[UOp]:
    """Every CHECK in the expression: an error that it may raise."""
    seen = {root}
    stack = [root]
    found: set[UOp] = set()
    while stack:
        node = stack.pop()
        if node.op is Ops.CHECK:
            found.add(node)
        for source in node.src:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return found


def keeps_checks(before: UOp, after: UOp) -> bool:
    """Whether `after` can raise every error that `before` can."""
    checks = checks_below(before)
    return not checks or checks <= checks_below(after)


def index_rule(function: NodeRule) -> NodeRule:
    """A rule on scalar index arithmetic, or on a comparison of it, that never loses a CHECK."""

    @wraps(function)
    def guarded(node: UOp) -> UOp | None:
        if node.src[-1].dtype is not dtypes.index:
            return None
        made = function(node)
        if made is None or made is node or not keeps_checks(node, made):
            return None
        return made

    return guarded


def bool_rule(function: NodeRule) -> NodeRule:
    """A rule on scalar bools that never loses a CHECK."""

    @wraps(function)
    def guarded(node: UOp) -> UOp | None:
        if node.dtype is not dtypes.bool:
            return None
        made = function(node)
        if made is None or made is node or not keeps_checks(node, made):
            return None
        return made

    return guarded
