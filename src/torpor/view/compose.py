"""Two views as one: `outer` walks through the elements of `inner`, which walks through memory.

The chain's index expression is written out and simplified by the rules that kernels' positions are
simplified by; where it is linear and valid in a box, it is read back as a view. Of few elements
every position is computed instead, so that there one view is found exactly if there is one.
"""

from __future__ import annotations

from torpor.ir.infer import largest, product
from torpor.rules import simplify_under
from torpor.view.counting import COUNTED, fit, is_static
from torpor.view.expression import box_of, expressions, linear
from torpor.view.view import View


def compose(*views: View) -> View | None:
    """The one view that walks as the chain does; None if there is none (or none found)."""
    inner, outer = views[0], views[-1]
    if len(views) == 2 and outer.contiguous and outer.shape == inner.shape:
        return inner
    if len(views) == 2 and inner.contiguous and (outer.mask is None or inner.mask is None):
        return outer
    if all(map(is_static, views)) and largest(product(outer.shape)) <= COUNTED:
        return fit(views)
    position, valid = expressions(views)
    box = box_of(valid, outer.shape)
    found = linear(simplify_under(position, valid), len(outer.shape))
    if found is None or box is None:
        return None
    offset, strides = found
    return View.create(outer.shape, strides, offset, box)
