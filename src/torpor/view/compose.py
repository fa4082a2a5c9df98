"""Two views as one: `outer` walks through the elements of `inner`, which walks through memory.

Known sizes: by digits, whatever the size; where those carry and the elements are few, every
position is computed and one view fitted to them, so one view is found exactly if there is one.
Symbolic sizes: dimensions are matched, else the index expressions are read back.
"""

from __future__ import annotations

from torpor.view.counting import can_count, compose_static, fit, is_static
from torpor.view.expression import compose_expressions
from torpor.view.matching import match_dimensions
from torpor.view.view import View


def compose(inner: View, outer: View) -> View | None:
    """The one view that walks as `outer` of `inner` does; None if there is none (or none found)."""
    if outer.contiguous and outer.shape == inner.shape:
        return inner
    if inner.contiguous and (outer.mask is None or inner.mask is None):
        return outer
    if is_static(inner) and is_static(outer):
        return compose_static(inner, outer)
    matched = match_dimensions(inner, outer.shape) if outer.contiguous else None
    return matched or compose_expressions([inner, outer])


def compose_chain(views: list[View]) -> View | None:
    """The one view equal to a chain, if there is one; None too where it is too large to tell."""
    if can_count(views):
        return fit(views)
    return None if all(map(is_static, views)) else compose_expressions(views)
