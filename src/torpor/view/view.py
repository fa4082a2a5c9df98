"""`View`: one way to walk through memory: offset + sum of index * stride, inside a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.ir.infer import Shape, Size, product, size_node
from torpor.ir.uop import UOp
from torpor.rules.sizes import is_never_less, plus, same, times
from torpor.view.merge import Dimension, Mask, is_full, merged

TRUE: Final = UOp.const(dtypes.bool, True)
Indices = tuple[UOp, ...]


def row_major(shape: Sequence[Size]) -> Shape:
    """Strides of a tensor stored row by row; 0 where the size is 1."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        strides.append(0 if same(size, 1) else step)
        step = times(step, size)
    return tuple(reversed(strides))


def smaller(left: Size, right: Size) -> Size:
    """The lesser of two limits."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    one, other = size_node(left), size_node(right)
    if is_never_less(other, one):
        return left
    return right if is_never_less(one, other) else one.minimum(other).simplify()


def larger(left: Size, right: Size) -> Size:
    """The greater of two limits."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    one, other = size_node(left), size_node(right)
    if is_never_less(one, other):
        return left
    return right if is_never_less(other, one) else one.maximum(other).simplify()


@dataclass(frozen=True)
class View:
    """A shape over memory: strides and offset in elements, an optional mask (half-open limits an
    axis; outside, the value is 0). `contiguous`: row-major from 0 without a mask. Sizes, strides,
    offset and limits may be symbolic. Made by `View.create`, which keeps one form of equal views.
    """

    shape: Shape
    strides: Shape
    offset: Size
    mask: Mask | None
    contiguous: bool

    @staticmethod
    def create(
        shape: Sequence[Size],
        strides: Sequence[Size] | None = None,
        offset: Size = 0,
        mask: Mask | None = None,
    ) -> View:
        """A view in canonical form: stride 0 where only one index is left, no mask that is full."""
        shape = tuple(shape)
        given = row_major(shape) if strides is None else tuple(strides)
        if len(given) != len(shape) or (mask is not None and len(mask) != len(shape)):
            raise ShapeError(f"shape {shape}, strides {given} and mask {mask} differ in length")
        if any(same(size, 0) for size in shape):
            return View(shape, (0,) * len(shape), 0, None, True)
        kept = [0 if same(size, 1) else stride for size, stride in zip(shape, given, strict=True)]
        if mask is not None:
            if any(same(low, high) for low, high in mask):
                return View(shape, (0,) * len(shape), 0, ((0, 0),) * len(shape), False)
            for axis, (low, high) in enumerate(mask):
                if same(plus(low, 1), high) and not same(kept[axis], 0):
                    offset = plus(offset, times(low, kept[axis]))
                    kept[axis] = 0
            if all(is_full(limits, size) for limits, size in zip(mask, shape, strict=True)):
                mask = None
        whole = mask is None and same(offset, 0)
        contiguous = whole and all(map(same, kept, row_major(shape)))
        return View(shape, tuple(kept), offset, mask, contiguous)

    @property
    def limits(self) -> Mask:
        """The mask, written out."""
        return self.mask if self.mask is not None else tuple((0, size) for size in self.shape)

    # --- index expressions ------------------------------------------------------------------------
    def to_indexed_uops(
        self, idxs: Sequence[UOp] | None = None, valid: UOp = TRUE
    ) -> tuple[UOp, UOp]:
        """(position, condition) at `idxs` (dtype index; ranges ridx0, ridx1, ... by default)."""
        if idxs is None:
            idxs = [UOp.range(size, axis) for axis, size in enumerate(self.shape)]
        position = size_node(self.offset)
        for index, size, stride in zip(idxs, self.shape, self.strides, strict=True):
            if not same(size, 1) and not same(stride, 0):
                position = position + index * size_node(stride)
        for index, size, (low, high) in zip(idxs, self.shape, self.limits, strict=True):
            if self.mask is not None and not is_full((low, high), size):
                valid = valid & ~(index < size_node(low)) & (index < size_node(high))
        return position.simplify(), valid.simplify()

    def minify(self, groups: Sequence[range] = ()) -> View:
        """The same walk in the fewest dimensions; or in the fewest of each group of axes."""
        found: list[Dimension] = []
        offset = self.offset
        for group in groups or [range(len(self.shape))]:
            axes = slice(group.start, group.stop)
            dims, shift = merged(self.shape[axes], self.strides[axes], self.limits[axes])
            found += dims
            offset = plus(offset, shift)
        if not found:
            return View.create((1,), None, self.offset) if self.mask is None else self
        sizes, strides, low, high, _ = zip(*found, strict=True)
        return View.create(sizes, strides, offset, tuple(zip(low, high, strict=True)))

    # --- movement ---------------------------------------------------------------------------------
    def permute(self, order: Sequence[int]) -> View:
        """Axis i of the result is axis order[i]."""
        if sorted(order) != list(range(len(self.shape))):
            raise ShapeError(f"{tuple(order)} is no order of the axes of {self.shape}")
        mask = self.mask and tuple(self.mask[axis] for axis in order)
        picked = [tuple(values[axis] for axis in order) for values in (self.shape, self.strides)]
        return View.create(picked[0], picked[1], self.offset, mask)

    def expand(self, shape: Sequence[Size]) -> View:
        """Axes of size 1 repeated to `shape`."""
        shape = tuple(shape)
        if len(shape) != len(self.shape) or not all(
            same(old, new) or same(old, 1) for old, new in zip(self.shape, shape, strict=True)
        ):
            raise ShapeError(f"{self.shape} cannot be expanded to {shape}")
        mask = self.mask and tuple(
            limits if same(old, new) else ((0, new) if same(limits[1], 1) else (0, 0))
            for limits, old, new in zip(self.mask, self.shape, shape, strict=True)
        )
        return View.create(shape, self.strides, self.offset, mask)

    def flip(self, axes: Sequence[int]) -> View:
        """The axes in `axes` reversed."""
        strides, offset, limits = list(self.strides), self.offset, list(self.limits)
        for axis in axes:
            last = plus(self.shape[axis], -1)
            offset = plus(offset, times(last, strides[axis]))
            strides[axis] = times(strides[axis], -1)
            low, high = limits[axis]
            size = self.shape[axis]
            limits[axis] = (plus(size, times(high, -1)), plus(size, times(low, -1)))
        return View.create(self.shape, strides, offset, tuple(limits) if self.mask else None)

    def pad(self, pairs: Sequence[tuple[Size, Size]]) -> View:
        """Zeros around: (before, after) an axis."""
        if len(pairs) != len(self.shape):
            raise ShapeError(f"{len(pairs)} pairs do not pad {len(self.shape)} axes")
        shape = [plus(plus(s, b), a) for s, (b, a) in zip(self.shape, pairs, strict=True)]
        mask = tuple(
            (plus(low, b), plus(high, b))
            for (low, high), (b, _) in zip(self.limits, pairs, strict=True)
        )
        offset = self.offset
        for (before, _), stride in zip(pairs, self.strides, strict=True):
            offset = plus(offset, times(times(before, stride), -1))
        return View.create(shape, self.strides, offset, mask)

    def shrink(self, bounds: Sequence[tuple[Size, Size]]) -> View:
        """The box of (start, stop) an axis."""
        if len(bounds) != len(self.shape):
            raise ShapeError(f"{len(bounds)} bounds do not shrink {len(self.shape)} axes")
        shape = [plus(stop, times(start, -1)) for start, stop in bounds]
        offset = self.offset
        mask = []
        for (start, _), stride, size, (low, high) in zip(
            bounds, self.strides, shape, self.limits, strict=True
        ):
            offset = plus(offset, times(start, stride))
            first = larger(plus(low, times(start, -1)), 0)
            end = larger(smaller(plus(high, times(start, -1)), size), first)
            mask.append((first, end))
        return View.create(shape, self.strides, offset, tuple(mask) if self.mask else None)

    def shear(
        self, axis: int, by_axis: int, length: Size, stride: int, step: int, offset: int
    ) -> View | None:
        """out[.., o, .., k, ..] = self[.., o*stride + k*step + offset, .., k, ..]; None where one
        view cannot say it, which only a mask on `axis` can bring about.
        """
        if self.mask is not None and not is_full(self.mask[axis], self.shape[axis]):
            from torpor.view.compose import compose

            sheared = View.create(self.shape).shear(axis, by_axis, length, stride, step, offset)
            return None if sheared is None else compose(self, sheared)
        own = self.strides[axis]
        strides, shape, limits = list(self.strides), list(self.shape), list(self.limits)
        strides[axis] = times(own, stride)
        strides[by_axis] = plus(strides[by_axis], times(own, step))
        shape[axis], limits[axis] = length, (0, length)
        moved = plus(self.offset, times(own, offset))
        return View.create(shape, strides, moved, tuple(limits) if self.mask else None)

    def reshape(self, shape: Sequence[Size]) -> View | None:
        """The same elements in another shape; None where one view cannot say it."""
        from torpor.view.compose import compose

        shape = tuple(shape)
        if not same(product(shape), product(self.shape)):
            raise ShapeError(f"{self.shape} cannot be reshaped to {shape}")
        return self if shape == self.shape else compose(self, View.create(shape))


__all__ = ["Indices", "View", "row_major"]
