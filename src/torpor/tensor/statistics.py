"""Statistics: reductions that pass over NaN, quantiles, the mode, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, located, make, with_rule
from torpor.tensor.host import known_size
from torpor.tensor.iota import iota
from torpor.tensor.mode import default_float
from torpor.tensor.repeated import repeated
from torpor.tensor.results import Histogram, Selected
from torpor.tensor.sorting import one_of, places_of
from torpor.tensor.spelling import among, one_axis, some_axes, within

SHARE = Requirement("value", "quantile's q is between 0 and 1")


class Statistics(Handle):
    """Statistics. `dim` is an axis, several, or None for all, as in `Reduce`."""

    __slots__ = ()

    # --- without NaN ------------------------------------------------------------------------------
    def nansum(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """`sum` of what is not NaN."""
        return self.isnan().where(0, self).cast(self.dtype).sum(dim, keepdim, dtype)

    def nanmean(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """`mean` of what is not NaN."""
        operand: Any = self if dtype is None else self.cast(dtype)
        if not operand.dtype.is_float:
            raise located(DTypeError("nanmean needs floats; give dtype= or cast first"), (self,))
        count = (~operand.isnan()).sum(dim, keepdim)
        return operand.nansum(dim, keepdim) / count.cast(operand.dtype)

    @repeated
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """`median` of what is not NaN; NaN if nothing is."""
        if dim is None:
            flat = self.reshape(-1)
            middle = flat.nanmedian(0).values if self.numel() else flat.median()
            if not self.dtype.is_float:
                return middle
            nothing = self.isnan() & ~middle.isnan()  # takes no part in the gradient
            other = middle.eq(math.inf).where(-math.inf, math.inf).cast(self.dtype)
            return with_rule(middle, (nothing.where(other, self),), "evenly", *range(self.ndim))
        if not self.ndim:
            return self.median(0)
        axis = one_axis(dim, self.ndim)
        count = (~self.isnan()).sum(axis, True)
        return one_of(self, axis, places_of(self, axis, ((count - 1) // 2).maximum(0)), keepdim)

    # --- order ------------------------------------------------------------------------------------
    def quantile(
        self, q: Any, dim: int | None = None, keepdim: bool = False, *,
        interpolation: str = "linear",
    ) -> Tensor:  # fmt: skip
        """What a share q of the elements along an axis (None: of all) is not above: a number, or a
        vector (count,), which adds a first axis. NaN if an element is.

        interpolation: between neighbours "linear", or "lower", "higher", "nearest", "midpoint".

        >>> Tensor([0.0, 1.0, 2.0, 4.0]).quantile(0.5).item()
        1.5
        """
        return _quantile(self, q, dim, keepdim, interpolation, False)

    def nanquantile(
        self, q: Any, dim: int | None = None, keepdim: bool = False, *,
        interpolation: str = "linear",
    ) -> Tensor:  # fmt: skip
        """`quantile` of what is not NaN."""
        return _quantile(self, q, dim, keepdim, interpolation, True)

    @repeated
    def mode(self, dim: int = -1, keepdim: bool = False) -> Selected:
        """(value, index) of what occurs most often along an axis, of several the least, where it
        occurs last.
        """
        if not self.ndim:
            return self.topk(1)
        axis = one_axis(dim, self.ndim)
        rows: Any = self.detach().movedim(axis, -1)
        ordered = rows.sort(-1)
        values, length = ordered.values, rows.shape[-1]
        place: Any = make(iota(length, self.device), self.device)
        first = values.ne(values.roll(1, -1)) | place.eq(0)
        start = first.where(place, 0).cummax(-1).values
        end = (place - start).argmax(-1, True)
        return one_of(self, axis, ordered.indices.gather(-1, end).movedim(-1, axis), keepdim)

    # --- histograms -------------------------------------------------------------------------------
    def histogram(
        self, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
    ) -> Histogram:
        """(hist, bin_edges): how many elements, or what `weight` of them, lie in each of `bins`
        equal parts of a range (None: of their own), or between edges that are given; the last part
        has its end. With `density`, divided by the total and the parts' widths.
        """
        points: Any = self.reshape(-1, 1)
        found = points.histogramdd([bins], range=range, weight=weight, density=density)
        return Histogram(found.hist, found.bin_edges[0])

    def histogramdd(
        self, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
    ) -> Histogram:
        """As `histogram`, of points (..., axes): bins for all axes or for each, a range as (low,
        high, low, high, …), counts of as many axes, and a tuple of edges.
        """
        points: Any = self.reshape(-1, self.shape[-1]).detach()
        parts = points.unbind(1)
        each = [bins] * len(parts) if isinstance(bins, int) else list(bins)
        limits = [None] * len(parts) if range is None else list(zip(range[::2], range[1::2]))
        edges = [_edges(*three) for three in zip(parts, each, limits, strict=True)]
        weights = None if weight is None else beside(weight, self).reshape(-1)
        hist: Any = _counted(parts, edges, weights)
        lines = tuple(line for line, _ in edges)
        if density:
            hist = hist / hist.sum()
            for axis, line in enumerate(lines):
                hist = hist / line.diff().reshape(-1, *(1,) * (len(lines) - 1 - axis))
        return Histogram(hist, lines)


@repeated
def _quantile(
    operand: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, passing: bool
) -> Tensor:
    among("interpolation", interpolation, "linear", "lower", "higher", "midpoint", "nearest")
    if not operand.dtype.is_float:
        raise located(DTypeError("quantiles are of floats; cast first"), (operand,))
    if isinstance(q, Handle):
        given: Any = q
        share: Any = derive(build.check, (given, (given >= 0) & (given <= 1)), SHARE)
    else:
        within("quantile's q", q, 0, 1)
        share = Handle._type(float(q), dtype=operand.dtype, device=operand.device)
    if share.ndim > 1 or not operand.numel():
        raise located(ShapeError("quantile needs elements, and q a number or a vector"), (operand,))
    flat = operand.reshape(-1) if dim is None else operand
    axis = 0 if dim is None else one_axis(dim, operand.ndim)
    values = flat.reshape(1) if not flat.ndim else flat.movedim(axis, -1)
    nan = values.isnan()
    count = (~nan).sum(-1, True) if passing else nan.ones_like(dtype=dtypes.int64).sum(-1, True)
    rank = share.reshape(-1) * (count - 1).maximum(0).cast(share.dtype)
    below, above = rank.floor(), rank.ceil()
    if interpolation == "nearest":
        below = above = rank.round()
    between = interpolation in ("linear", "midpoint")
    asked = [below, above] if between else [above if interpolation == "higher" else below]
    places = places_of(values, values.ndim - 1, Handle._type.cat(asked, -1).cast(dtypes.int64))
    made, *high = values.gather(-1, places).chunk(len(asked), -1)
    if between:
        made = made.lerp(*high, 0.5 if interpolation == "midpoint" else rank - below)
    empty = (~nan).sum(-1, True).eq(0) if passing else nan.any(-1, True)
    made = empty.where(math.nan, made).movedim(-1, 0)
    if keepdim and operand.ndim:
        made = made.unsqueeze(axis + 1) if dim is not None else made.reshape(
            -1, *(1,) * operand.ndim)  # fmt: skip
    return made if share.ndim else made.squeeze(0)


def _edges(flat: Any, bins: Any, limits: Any) -> tuple[Any, bool]:
    """The edges of bins: as given, or of so many equal parts of a range; and whether they are such,
    and so far apart that rounding moves nothing past a neighbour.
    """
    if isinstance(bins, Handle | Sequence):
        return beside(bins, flat).cast(flat.dtype).clone(), False
    if limits is None:
        low, high = (flat.amin(), flat.amax()) if flat.numel() else (0.0, 1.0)
        low, high = (float(x.item()) if isinstance(x, Handle) else x for x in (low, high))
    else:
        low, high = limits
    if low == high:
        low, high = low - 0.5, high + 0.5
    made = Handle._type.linspace(low, high, bins + 1, dtype=flat.dtype, device=flat.device)
    gap = {"float32": 2.0**-23, "float64": 2.0**-52}.get(flat.dtype.name, math.inf)
    return made, (high - low) / bins > 8 * gap * max(abs(low), abs(high))


@repeated
def _cell(part: Any, edges: Any, equal: bool) -> Any:
    """Which cell each number lies in, -1 or their count beyond: by halves; of equal cells, where it
    should lie, or beside.
    """
    count = edges.shape[0] - 1
    if equal:
        scale = count / (edges[-1] - edges[0])
        guess = ((part - edges[0]) * scale).clamp(0, count - 1).nan_to_num(0.0).cast(dtypes.int64)
        guess = guess.clamp(0, count - 1)
        below, above = part < edges[guess], part >= edges[guess + 1]
        number = guess - below.cast(dtypes.int64) + above.cast(dtypes.int64)
        number = part.isnan().where(count, number)
    else:
        number = Handle._type.searchsorted(edges, part, right=True) - 1
    return part.eq(edges[-1]).where(count - 1, number)


def _counted(parts: Sequence[Any], edges: Sequence[tuple[Any, bool]], weights: Any) -> Any:
    """How many points lie in each cell of a grid."""
    place: Any = None
    inside: Any = None
    shape = [edge.shape[0] - 1 for edge, _ in edges]
    for part, edge, count in zip(parts, edges, shape, strict=True):
        number = _cell(part, *edge)
        held = (number >= 0) & (number < count)
        place = number if place is None else place * count + number
        inside = held if inside is None else inside & held
    kind = parts[0].dtype
    given = inside.cast(kind) if weights is None else inside.where(weights, 0).cast(kind)
    zeros = make(build.constant(0, kind, (math.prod(shape),)), parts[0].device)
    made: Any = derive(build.scatter, (zeros, inside.where(place, 0), given), 0, Ops.ADD)
    return made.reshape(*shape)


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The slope along each axis of `dim` (all) of values on a grid, by differences with both
    neighbours; at the ends with one, or with two for `edge_order` 2. `x.gradient(...)` is another
    thing: a derivative by how x was computed.

    spacing: the distance of neighbours, one for each axis, or the places along each as a vector.

    >>> [x.tolist() for x in torpor.gradient(Tensor([1.0, 4.0, 9.0, 16.0]))]
    [[3.0, 4.0, 6.0, 7.0]]
    """
    within("edge_order", edge_order, 1, 2)
    x: Any = (
        input if input.dtype.is_float or input.dtype.is_complex else input.cast(default_float())
    )
    axes = some_axes(dim, x.ndim)
    several = isinstance(spacing, Sequence) or (isinstance(spacing, Handle) and spacing.ndim == 1)
    steps = list(spacing) if several else [1 if spacing is None else spacing] * len(axes)
    if len(steps) != len(axes):
        raise ShapeError(
            f"gradient along {len(axes)} axes needs as many spacings, not {len(steps)}"
        )
    return tuple(_slope(x, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True))


@repeated
def _slope(x: Any, axis: int, step: Any, order: int) -> Any:
    """Differences along an axis by neighbours that are `step` apart, or lie at `step[place]`."""
    length = known_size(x.shape[axis])
    if length <= order:
        raise ShapeError(f"gradient along an axis of {length}: {order + 1} places are needed")
    x = x.movedim(axis, -1)
    places = isinstance(step, Handle) and step.ndim
    apart = step.diff() if places else [float(step)] * (length - 1)
    before, after = (apart[:-1], apart[1:]) if places else (apart[0], apart[0])
    rises = x.diff()
    left, right = rises[..., :-1] / before, rises[..., 1:] / after
    inner = (left * after + right * before) / (before + after)
    ends = [rises[..., :1] / apart[0], rises[..., -1:] / apart[-1]]
    if order == 2:  # the slope of the parabola through three places
        bend = (right - left) / (before + after)
        ends[0] = ends[0] - bend[..., :1] * apart[0]
        ends[1] = ends[1] + bend[..., -1:] * apart[-1]
    return Handle._type.cat([ends[0], inner, ends[1]], -1).movedim(-1, axis)
