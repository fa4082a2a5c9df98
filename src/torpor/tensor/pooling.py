"""Pooling: the greatest elements and the means of windows, which are views."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.graph import build
from torpor.tensor.annotated import Tensor
from torpor.tensor.convolution import check_window, windows
from torpor.tensor.handle import (
    Handle,
    derive,
    floats,
    located,
    make,
    render_shape,
    with_rule,
)
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.operands import choose
from torpor.tensor.repeated import repeated
from torpor.tensor.results import Selected
from torpor.tensor.spelling import pair
from torpor.tensor.wide import widely


def _maxima(dims: int) -> Callable[..., Any]:
    def method(
        self: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        plan = _pool_plan(self, kernel_size, stride, padding, dilation, ceil_mode, dims)
        sizes, steps, spread, paddings, more = plan
        pairs = [(b, a + m) for (b, a), m in zip(paddings, more, strict=True)]
        check_window(self, sizes, pairs, spread)
        found = _pooled(self, sizes, steps, spread, pairs)
        inside: Any = None
        if any(b or a for b, a in pairs):
            whole = make(build.constant(True, dtypes.bool, self.shape), self.device)
            grown: list[Any] = [None] * (self.ndim - dims) + pairs
            inside = _pooled(whole.pad(grown), sizes, steps, spread)  # which are no padding
        places: Any = None
        if return_indices:
            shape = known_shape(self.shape[-dims:])
            count = math.prod(shape)
            places = make(iota(count, self.device), self.device).reshape(*shape)
            places = _pooled(places.pad(pairs, value=count), sizes, steps, spread)
        return _greatest(self, found, inside, places, dims, return_indices)

    method.__name__ = f"max_pool{dims}d"
    method.__doc__ = f"""The greatest element of each window of the last {dims} axes; padding is
        less than anything, NaN greater. `stride` is the window's size unless given; with
        `ceil_mode` a last window may reach beyond the end.
        """
    return repeated(method)


def _means(dims: int) -> Callable[..., Any]:
    def method(
        self: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        window = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return _mean_pool(self, *window, dims)

    method.__name__ = f"avg_pool{dims}d"
    method.__doc__ = f"""The mean of each window of the last {dims} axes, windows as in
        `max_pool{dims}d`. Padding counts as zeros unless `count_include_pad` is off;
        `divisor_override` divides instead of the count. Means of integers are truncated.
        """
    return repeated(method)


def _adaptive_means(dims: int) -> Callable[..., Any]:
    def method(self: Any, output_size: Any) -> Tensor:
        wanted, sizes = _cells(self, output_size, dims)
        if all(wanted) and not any(s % n for s, n in zip(sizes, wanted)):
            even = tuple(s // n for s, n in zip(sizes, wanted))
            return _mean_pool(self, even, None, 0, False, True, None, dims)
        made: Any = floats(self)
        for place, count in enumerate(wanted):
            made = _cell_means(made, place - dims, count)
        return made

    method.__name__ = f"adaptive_avg_pool{dims}d"
    method.__doc__ = f"""Means over a grid of `output_size` cells of the last {dims} axes: cell i of
        n along an axis of length s covers its elements from floor(i s / n) up to
        ceil((i + 1) s / n), as in PyTorch. None stands for s.
        """
    return widely(method)


def _adaptive_maxima(dims: int) -> Callable[..., Any]:
    def method(self: Any, output_size: Any, return_indices: bool = False) -> Any:
        wanted, _ = _cells(self, output_size, dims)
        found, places = _cell_windows(self, wanted)
        return _greatest(self, found, None, places, dims, return_indices)

    method.__name__ = f"adaptive_max_pool{dims}d"
    method.__doc__ = f"""The greatest elements of cells of the last {dims} axes, as
        `adaptive_avg_pool{dims}d`.
        """
    return repeated(method)


def _unpool(dims: int) -> Callable[..., Any]:
    def method(
        self: Any,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        sizes, around = pair(kernel_size, dims), pair(padding, dims)
        steps = sizes if stride is None else pair(stride, dims)
        lead, inner = self.shape[: self.ndim - dims], self.shape[self.ndim - dims :]
        shape = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(inner, steps, around, sizes)]
        shape = shape if output_size is None else list(output_size)[-dims:]
        flat = self.new_zeros((*lead, math.prod(shape)))
        rows = (*lead, math.prod(known_shape(inner)))
        asked, values = indices.reshape(rows), self.reshape(rows)
        made = flat.scatter(-1, asked, values)
        # as in PyTorch, the gradient also of what another window's element took the place of
        made = with_rule(made, (flat.scatter_add(-1, asked, values),), "same")
        return made.reshape(*lead, *shape)

    method.__name__ = f"max_unpool{dims}d"
    method.__doc__ = f"""The elements at the places that `max_pool{dims}d` found, zeros elsewhere:
        in the shape `output_size`, or the least one that the pool could have come from.
        """
    return method


class Pooling(Handle):
    """Pools of the last axes, which are (length,), (height, width) or (depth, height, width)."""

    __slots__ = ()

    max_pool1d, max_pool2d, max_pool3d = map(_maxima, (1, 2, 3))
    avg_pool1d, avg_pool2d, avg_pool3d = map(_means, (1, 2, 3))
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_means, (1, 2, 3))
    adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_maxima, (1, 2, 3))
    max_unpool1d, max_unpool2d, max_unpool3d = map(_unpool, (1, 2, 3))


def _cells(operand: Any, output_size: Any, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many cells each of the last axes has, and the axes' lengths."""
    sizes = known_shape(operand.shape[-dims:])
    asked = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,) * dims
    each: tuple[Any, ...] = asked * dims if len(asked) == 1 else asked
    wanted = pair([s if n is None else n for n, s in zip(each, sizes, strict=True)], dims)
    if any(n < 0 for n in wanted) or any(s == 0 for s in sizes):
        what = f"adaptive pooling of {render_shape(operand.shape)} to {wanted}"
        raise located(ShapeError(what), (operand,))
    return wanted, sizes


def _cell_windows(operand: Any, wanted: Sequence[int]) -> tuple[Any, Any]:
    """(..., L1, L2) to (..., O1, O2, K1, K2): cells, whose last element is repeated where they are
    shorter than others; and where each element stands in the flattened axes.
    """
    dims = len(wanted)
    made, place, lead = operand, np.zeros((1,) * (2 * dims), np.int64), operand.ndim - dims
    for axis, count in enumerate(wanted):
        length = known_shape(operand.shape)[lead + axis]
        cell = np.arange(count)
        start, stop = cell * length // max(count, 1), -(-(cell + 1) * length // max(count, 1))
        longest = int((stop - start).max(initial=1))
        index = np.minimum(start[:, None] + np.arange(longest), stop[:, None] - 1)
        where = lead + 2 * axis
        rows = Handle._type(index.reshape(-1), device=operand.device)
        made = made.index_select(where, rows)
        made = made.reshape(*made.shape[:where], count, longest, *made.shape[where + 1 :])
        alone = [1] * (2 * dims)
        alone[axis], alone[dims + axis] = count, longest
        place = place * length + index.reshape(alone)
    order = (*range(lead), *range(lead, lead + 2 * dims, 2), *range(lead + 1, lead + 2 * dims, 2))
    return made.permute(*order), Handle._type(place, device=operand.device)


def _cell_means(operand: Any, axis: int, cells: int) -> Any:
    """Means over the cells of an axis counted from the end. What is not in a cell is left out, not
    multiplied by 0.
    """
    size = operand.shape[axis]
    numbers: Any = make(iota(max(cells, size), operand.device), operand.device)
    place, cell = numbers[:size], numbers[:cells].unsqueeze(1)
    inside = ((place + 1) * cells > cell * size) & (place * cells < (cell + 1) * size)
    turned = operand.transpose(axis, -1).unsqueeze(-2)
    sums = inside.where(turned, 0).sum(-1) / inside.sum(-1).cast(operand.dtype)
    return sums.transpose(axis, -1)


def _pool_plan(
    operand: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, dims: int
) -> Any:
    """Kernel, strides, dilation, paddings, and what `ceil_mode` adds behind, an axis each."""
    sizes = pair(kernel, dims)
    given = stride is not None and not (isinstance(stride, Sequence) and not stride)
    steps = pair(stride, dims) if given else sizes
    spread, paddings = pair(dilation, dims), [(p, p) for p in pair(padding, dims)]
    if any(n < 1 for n in (*sizes, *steps, *spread)):
        what = f"pooling needs a positive window, stride and dilation: {sizes}, {steps}, {spread}"
        raise located(ShapeError(what), (operand,))
    if any(not 0 <= 2 * p <= k for (p, _), k in zip(paddings, sizes)):
        raise located(ShapeError("pooling pads from 0 to half of its window"), (operand,))
    more = [0] * dims
    for place in range(dims if ceil else 0):
        reach = spread[place] * (sizes[place] - 1) + 1
        length, around = operand.shape[operand.ndim - dims + place], paddings[place][0]
        rest = (length + 2 * around - reach) % steps[place]
        count = (length + 2 * around - reach) // steps[place] + 1
        # as in PyTorch, a window must not start in the padding behind
        if rest and count * steps[place] < length + around:
            more[place] = steps[place] - rest
    return sizes, steps, spread, paddings, more


def _pooled(operand: Any, sizes: Any, steps: Any, spread: Any, borders: Any = None) -> Any:
    """Windows, with zeros at the borders."""
    around = [(0, 0)] * len(sizes) if borders is None else borders
    return derive(windows, (operand,), sizes, steps, spread, around)


def _greatest(
    operand: Any, windows: Any, inside: Any, around: Any, dims: int, indices: bool
) -> Any:
    """The greatest elements of windows, the last axes, and on demand where they stand: `around`
    says where each element of the windows does, `inside` which are no padding.
    """
    axes = tuple(range(-dims, 0))
    known = windows if inside is None else choose(inside, windows, operand.dtype.min)
    values = known.amax(axes)
    if operand.dtype.is_float:
        masks = [] if inside is None else [inside]
        values = with_rule(values, (windows, *masks), "pool", dims)
    if not indices:
        return values
    found = windows.detach().eq(values.detach().reshape(*values.shape, *(1,) * dims))
    first = found.where(around, math.prod(known_shape(operand.shape[-dims:]))).amin(axes)
    if operand.dtype.is_float:  # as in PyTorch, the last NaN
        first = values.isnan().where(windows.isnan().where(around, -1).amax(axes), first)
    return Selected(values, first)


def _quotient(total: Any, count: Any) -> Any:
    """total / count, of integers truncated."""
    return total.div(count, rounding_mode="trunc") if total.dtype.is_int else total / count


@widely
def _mean_pool(
    operand: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, counted: bool,
    divisor: int | None, dims: int,
) -> Tensor:  # fmt: skip
    sizes, steps, spread, paddings, more = _pool_plan(
        operand, kernel, stride, padding, 1, ceil, dims
    )
    lead: list[Any] = [None] * (operand.ndim - dims)
    grown = operand.pad([*lead, *paddings]) if any(b for b, _ in paddings) else operand
    behind = [*lead, *[(0, m) for m in more]]
    check_window(grown, sizes, [(0, m) for m in more], spread)
    borders = [(b, a + m) for (b, a), m in zip(paddings, more, strict=True)]
    axes = tuple(range(-dims, 0))
    total = _pooled(operand, sizes, steps, spread, borders).sum(axes).cast(operand.dtype)
    if divisor is not None:
        if not divisor:
            raise located(ShapeError("pooling cannot divide by 0"), (operand,))
        return _quotient(total, divisor)
    count = math.prod(sizes)
    if (counted or not any(b for b, _ in paddings)) and not any(more):
        return _quotient(total, count)
    inside = (grown if counted else operand).ones_like()
    inside = (inside if counted else inside.pad([*lead, *paddings])).pad(behind)
    return _quotient(total, _pooled(inside, sizes, steps, spread).sum(axes))
