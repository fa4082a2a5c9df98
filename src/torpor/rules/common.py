"""What rule functions share: the guards under which a rule may replace a node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Final

from torpor.base.dtypes import DType, dtypes
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


def _without_loss(before: UOp, after: UOp | None) -> UOp | None:
    """What a rule made of `before`, if that is another node which can raise the same errors."""
    changed = after is not None and after is not before and keeps_checks(before, after)
    return after if changed else None


def on(dtype: DType, function: NodeRule) -> NodeRule:
    """A rule on scalars of a format, or on a comparison of them, that never loses a CHECK."""

    @wraps(function)
    def guarded(node: UOp) -> UOp | None:
        applies = node.src[-1].dtype is dtype
        return _without_loss(node, function(node)) if applies else None

    return guarded


index_rule: Final = partial(on, dtypes.index)
bool_rule: Final = partial(on, dtypes.bool)
