"""`ShapeTracker`: a chain of views, as short as it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import Any

from torpor.base.errors import ShapeError
from torpor.ir.infer import Shape, Size, product, size_node
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable
from torpor.rules.sizes import same
from torpor.view.compose import compose
from torpor.view.counting import is_static
from torpor.view.expression import expressions, slopes
from torpor.view.view import View


@dataclass(frozen=True)
class ShapeTracker:
    """Views from memory (first) to the shape that is seen (last)."""

    views: tuple[View, ...]

    def __post_init__(self) -> None:
        if not self.views:
            raise ShapeError("a ShapeTracker has at least one view")

    @staticmethod
    def from_shape(shape: Sequence[Size]) -> ShapeTracker:
        """Row-major memory of this shape."""
        return ShapeTracker((View.create(tuple(shape)),))

    @property
    def shape(self) -> Shape:
        """The shape that is seen."""
        return self.views[-1].shape

    @property
    def contiguous(self) -> bool:
        """Whether it is all of row-major memory in order."""
        return len(self.views) == 1 and self.views[0].contiguous

    @property
    def size(self) -> Size:
        """How many elements are seen."""
        return product(self.shape)

    def __add__(self, other: ShapeTracker) -> ShapeTracker:
        """`other` seen through this one: its memory is what this one shows."""
        return ShapeTracker(self.views + other.views).simplify()

    def simplify(self) -> ShapeTracker:
        """The same walk in as few views as are found."""
        views = list(self.views)
        shorter = shorten(views)
        while shorter is not None:
            views, shorter = shorter, shorten(shorter)
        return self if len(views) == len(self.views) else ShapeTracker(tuple(views))

    # --- movement ---------------------------------------------------------------------------------
    def moved(self, function: Callable[..., View | None], *given: Any) -> ShapeTracker:
        """The last view moved; where one view cannot say it, a new one over the old."""
        view = function(self.views[-1], *given)
        if view is not None:
            return ShapeTracker((*self.views[:-1], view)).simplify()
        fresh = function(View.create(self.shape), *given)
        assert fresh is not None, "row-major memory can be moved in every way"
        return ShapeTracker((*self.views, fresh)).simplify()

    permute = partialmethod(moved, View.permute)
    expand = partialmethod(moved, View.expand)
    pad = partialmethod(moved, View.pad)
    shrink = partialmethod(moved, View.shrink)
    flip = partialmethod(moved, View.flip)
    shear = partialmethod(moved, View.shear)
    reshape = partialmethod(moved, View.reshape)

    def invert(self, shape: Sequence[Size]) -> ShapeTracker | None:
        """The tracker that leads back from what is seen to memory of `shape`; None if it loses or
        repeats elements.
        """
        back: ShapeTracker | None = None
        below = [product(tuple(shape)), *(product(view.shape) for view in self.views[:-1])]
        for view, size in reversed(list(zip(self.views, below, strict=True))):
            step = invert_view(view)
            if step is None or not same(step.size, size):
                return None
            back = step if back is None else back.reshape(view.shape) + step
        assert back is not None, "there is at least one view"
        found: ShapeTracker = back.reshape(shape)
        return found

    # --- index expressions ------------------------------------------------------------------------
    def to_indexed_uops(self, idxs: Sequence[UOp] | None = None) -> tuple[UOp, UOp]:
        """(position in memory, condition) at `idxs` (ranges ridx0, ... by default)."""
        return expressions(self.views, idxs)

    def expr_idxs(self, idxs: Sequence[UOp] | None = None) -> tuple[UOp, UOp]:
        """As `to_indexed_uops`, with variables idx0, idx1, ... by default."""
        if idxs is None:
            idxs = [
                Variable(f"idx{axis}", 0, max(int(size_node(size).vmax) - 1, 0))
                for axis, size in enumerate(self.shape)
            ]
        return self.to_indexed_uops(idxs)

    def real_strides(self) -> tuple[Size | None, ...]:
        """Elements between neighbours in memory along each axis; None where that varies."""
        if len(self.views) == 1:
            return self.views[0].strides
        position, _ = self.to_indexed_uops()
        return tuple(slopes(position, len(self.shape))[1])

    def unit_stride_axes(self) -> list[int]:
        """The axes along which neighbours are neighbours in memory."""
        return [axis for axis, stride in enumerate(self.real_strides()) if stride == 1]


def shorten(views: list[View]) -> list[View] | None:
    """The chain with its longest run that one view can say replaced by it; None without such."""
    for length in range(len(views), 1, -1):
        for start in range(len(views) - length + 1):
            run = views[start : start + length]
            one = compose(*run)
            if one is not None:
                return [*views[:start], one, *views[start + length :]]
    return None


def invert_view(view: View) -> ShapeTracker | None:
    """The way back through one view: shrunk to its mask, a permutation and flips, if it is that."""
    if not is_static(view):
        return None
    inside = view.shrink(view.limits)
    strides = [stride for stride in inside.strides if isinstance(stride, int)]
    turned = [axis for axis, stride in enumerate(strides) if stride < 0]
    order = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
    if not inside.flip(turned).permute(order).contiguous:
        return None
    back = ShapeTracker.from_shape(view.shape).shrink(view.limits)
    way: ShapeTracker = back.flip(turned).permute(order)
    return way
