"""Pictures in other sizes and from other points of view: functions of (batch, channels, spatial
axes).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.tensor import Tensor
from torpor.tensor.handle import flat
from torpor.tensor.host import known_shape
from torpor.tensor.operands import choose
from torpor.tensor.spelling import spell
from torpor.tensor.wide import widely

Array = npt.NDArray[Any]
CUBIC: Final = -0.75  # the free number of the cubic kernel: Keys, 1981, has -0.5
GRID_MODES: Final = ("bilinear", "nearest", "bicubic")
GRID_PADDING: Final = ("zeros", "border", "reflection")
LINEAR: Final = {"linear": 1, "bilinear": 2, "trilinear": 3}


@widely
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The spatial axes of (batch, channels, ...) in another `size`, or `scale_factor` times theirs:
    by mode "nearest", "nearest-exact", "linear" ("bilinear", "trilinear"), "bicubic" or "area".

    align_corners: whether the centres of the corners stay where they are, rather than their outer
    ends. antialias: whether a smaller picture is smoothed first (bilinear and bicubic). Weighted
    sums of integers are taken in float32, the last axis first, and rounded for each axis.
    """
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueRangeError(f"align_corners is for the linear modes and bicubic, not {mode!r}")
    axes = input.ndim - 2
    inner = known_shape(input.shape[2:])
    if (size is None) == (scale_factor is None):
        raise ValueRangeError("interpolate needs a size or a scale_factor, and not both")
    if size is not None:
        wanted, scales = _each(size, axes), _each(None, axes)
    else:
        scales = _each(scale_factor, axes)
        wanted = [math.floor(s * factor) for s, factor in zip(inner, scales)]
        if recompute_scale_factor:
            scales = _each(None, axes)
    if any(length < 1 for length in (*wanted, *inner)):
        raise ShapeError(f"interpolate from {inner} to {tuple(wanted)}")
    if mode == "area":
        pools = input.adaptive_avg_pool1d, input.adaptive_avg_pool2d, input.adaptive_avg_pool3d
        return pools[axes - 1](tuple(wanted))
    return _resized(input, wanted, scales, mode, bool(align_corners), antialias)


def _resized(
    input: Tensor, wanted: Sequence[int], scales: Sequence[float | None], mode: str, corners: bool,
    antialias: bool,
) -> Tensor:  # fmt: skip
    """`interpolate` to these lengths by these scales; None: as the lengths say."""
    made, inner, axes = input, known_shape(input.shape[2:]), input.ndim - 2
    for axis in reversed(range(axes)):
        length, count, factor = inner[axis], wanted[axis], scales[axis]
        scale = length / count if factor is None else 1 / factor
        if mode in ("nearest", "nearest-exact"):
            middles = np.arange(count) + 0.5 * (mode == "nearest-exact")
            place = np.floor(middles.astype(np.float32) * np.float32(scale)).astype(np.int64)
            places, weights = np.minimum(place, length - 1)[:, None], None
        elif antialias:
            places, weights = _smooth(length, count, scale, mode == "bicubic", corners)
        elif LINEAR.get(mode, 2 if mode == "bicubic" else 0) == axes:
            places, weights = _taps(length, count, scale, mode == "bicubic", corners)
        else:
            raise ValueRangeError(f"interpolate of {axes} spatial axes has no mode {mode!r}")
        made = _weighted(made, axis + 2, places, weights)
    return made


def _each(value: Any, axes: int) -> list[Any]:
    given = list(value) if isinstance(value, Sequence) else [value] * axes
    if len(given) != axes:
        raise ShapeError(f"{axes} spatial axes need {axes} numbers, not {given}")
    return given


def _cubic(distance: Any, where: Callable[..., Any] = np.where) -> Any:
    """The cubic convolution kernel at distances from 0 to 2."""
    a = CUBIC
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return where(distance <= 1, near, where(distance >= 2, 0.0, far))


def _taps(
    length: int, count: int, scale: float, is_cubic: bool, corners: bool
) -> tuple[Array, Array]:
    """For each point of the result the elements that it is made of, and their weights."""
    place = np.arange(count)
    step = (length - 1) / max(count - 1, 1)  # where the centres of the corners stay
    source = place * step if corners else (place + 0.5) * scale - 0.5
    source = source if is_cubic else np.maximum(source, 0)
    first = np.floor(source).astype(np.int64)
    reach = np.arange(-1, 3) if is_cubic else np.arange(2)
    apart = np.abs(source[:, None] - (first[:, None] + reach))
    weights = _cubic(apart) if is_cubic else 1 - apart
    return np.clip(first[:, None] + reach, 0, length - 1), weights


def _smooth(
    length: int, count: int, scale: float, is_cubic: bool, corners: bool
) -> tuple[Array, Array]:
    """As `_taps`, of a kernel that is as wide as the steps in the source are."""
    if corners:
        scale = (length - 1) / (count - 1) if count > 1 else 0.0
    wide = max(scale, 1.0)
    reach = (2.0 if is_cubic else 1.0) * wide
    centre = (np.arange(count) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), length)
    places = first[:, None] + np.arange(int((last - first).max()))
    apart = np.abs(places - centre[:, None] + 0.5) / wide
    kernel = np.where(apart <= 1, (1.5 * apart - 2.5) * apart * apart + 1, np.where(
        apart < 2, ((-0.5 * apart + 2.5) * apart - 4) * apart + 2, 0))  # fmt: skip
    weights = kernel if is_cubic else np.maximum(1 - apart, 0)
    weights = np.where(places < last[:, None], weights, 0)
    return np.minimum(places, length - 1), weights / weights.sum(1, keepdims=True)


def _weighted(x: Any, axis: int, places: Array, weights: Array | None) -> Tensor:
    """Sums along an axis of elements at `places` (count, taps) times weights."""
    count, taps = places.shape
    found = x.index_select(
        axis, Tensor(np.ascontiguousarray(places.T).reshape(-1), device=x.device)
    )
    if weights is None:
        return found
    found = found.reshape(*x.shape[:axis], taps, count, *x.shape[axis + 1 :])
    dtype = dtypes.float32 if x.dtype.is_int else x.dtype
    factors = Tensor(np.ascontiguousarray(weights.T), dtype=dtype, device=x.device)
    made = (found * factors.reshape(taps, count, *(1,) * (x.ndim - 1 - axis))).sum(axis)
    return (made + 0.5).floor().cast(x.dtype) if x.dtype.is_int else made


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by mode "nearest"."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by mode "bilinear", with corners that stay."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# --- grids ----------------------------------------------------------------------------------------
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """For `grid_sample` the points that matrices (batch, axes, axes + 1) map the centres of a
    picture of this size to, coordinates from -1 to 1: (batch, ..., axes), the last axis first.
    """
    lines = []
    for length in size[2:]:
        ends = 1.0 if align_corners else 1.0 - 1.0 / length
        start = -ends if length > 1 else 0.0
        line = Tensor.linspace(start, -start, length, dtype=theta.dtype, device=theta.device)
        lines.append(line)
    points = Tensor.stack([*reversed(Tensor.meshgrid(*lines)), lines[0].new_ones(size[2:])], -1)
    flat = points.reshape(-1, len(lines) + 1)
    return (flat @ theta.mT).reshape(size[0], *size[2:], len(lines))


@widely
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """What a picture (batch, channels, ...) has at the points of a grid (batch, ..., axes), whose
    coordinates are from -1 to 1, the last axis first: (batch, channels, ...).

    mode: "bilinear", "nearest", "bicubic". padding_mode: what lies beyond is
    0 ("zeros"), what the border is ("border"), or mirrored ("reflection"). align_corners: whether
    -1 and 1 are the centres of the corners rather than their outer ends. A coordinate that is NaN
    lies beyond, for "bicubic" everywhere. The gradient for the grid is 0 for "nearest".
    """
    axes, sizes = input.ndim - 2, known_shape(input.shape[2:])
    if mode not in GRID_MODES or padding_mode not in GRID_PADDING:
        raise ValueRangeError(f"grid_sample has no mode {mode!r} with padding {padding_mode!r}")
    if grid.ndim != axes + 2 or grid.shape[-1] != axes or grid.shape[0] != input.shape[0]:
        raise ShapeError(f"a grid (batch, ..., {axes}) is needed, not {grid.shape}")
    points = []
    for axis, length in enumerate(sizes):
        point: Any = grid.select(-1, axes - 1 - axis)
        last = length - 1 if align_corners else length
        point = (point + 1) * (last / 2) - (0.0 if align_corners else 0.5)
        if mode != "bicubic":
            point = _inside(point, length, padding_mode, bool(align_corners))
        points.append(point)
    if mode == "nearest":
        whole = [p.round() for p in points]
        slope = flat(points[0].ones_like(), grid).unsqueeze(1)
        return _picked(input, whole, padding_mode, bool(align_corners)) * slope
    reach = range(-1, 3) if mode == "bicubic" else range(2)
    floors = [point.detach().floor() for point in points]
    made: Any = None
    for corner in itertools.product(reach, repeat=axes):
        weight: Any = 1.0
        for step, point, floor in zip(corner, points, floors):
            apart = (point - floor - step).abs() if mode == "bicubic" else None
            share = (_cubic(apart, choose) if apart is not None else
                     point - floor if step else floor + 1 - point)  # fmt: skip
            weight = share * weight
        part = _picked(input, [f + step for f, step in zip(floors, corner)], padding_mode,
                       bool(align_corners)) * weight.unsqueeze(1).contiguous()  # fmt: skip
        made = part if made is None else made + part
    return made


def _inside(point: Any, length: int, padding: str, corners: bool) -> Any:
    """Coordinates that the padding puts inside the picture, with slope 0 from its ends on; NaN is
    the first one's.
    """
    if padding == "reflection":
        low, span = (0.0, length - 1.0) if corners else (-0.5, float(length))
        if span == 0:
            return point * 0
        away = (point - low).abs()
        times = (away.detach() / span).floor()
        rest = away - times * span
        odd = times.remainder(2).eq(1)
        point = odd.where(span - rest, rest) + low
    if padding == "zeros":
        return point
    between = (point > 0) & (point < length - 1)
    return between.where(point, (point >= length - 1).where(length - 1.0, 0.0))


def _picked(image: Any, places: Sequence[Any], padding: str, corners: bool) -> Any:
    """The elements at whole coordinates; 0 beyond the picture."""
    flat: Any = None
    held: Any = None
    whole = dtypes.int32 if math.prod(image.shape[2:]) <= dtypes.int32.max else dtypes.int64
    for place, length in zip(places, image.shape[2:]):
        place = place.detach() if padding == "zeros" else _inside(
            place.detach(), length, padding, corners)  # fmt: skip
        inside = (place >= 0) & (place <= length - 1)
        held = inside if held is None else held & inside
        index = inside.where(place, 0).cast(whole)
        flat = index if flat is None else flat * length + index
    batch, channels = image.shape[:2]
    pixels = image.reshape(batch, channels, -1)
    asked = flat.reshape(batch, 1, -1).contiguous().clamp(0, max(0, pixels.shape[2] - 1)).long()
    found = pixels.gather(2, asked.expand(batch, channels, asked.shape[2]))
    found = found.reshape(batch, channels, *places[0].shape[1:])
    return held.unsqueeze(1).contiguous().where(found, 0.0)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with modes as numbers, in the order in which they are named there."""
    mode = _numbered("interpolation_mode", interpolation_mode, GRID_MODES)
    padding = _numbered("padding_mode", padding_mode, GRID_PADDING)
    return grid_sample(input, grid, mode, padding, align_corners)


def _numbered(what: str, number: int, names: Sequence[str]) -> str:
    """The name that a number stands for."""
    if number in range(len(names)):
        return names[number]
    known = ", ".join(f"{place} ({name})" for place, name in enumerate(names))
    raise ValueRangeError(f"{what} is {known}, not {number!r}")


grid_sampler_3d = grid_sampler_2d


# --- channels -------------------------------------------------------------------------------------
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels r r, height, width) to (..., channels, height r, width r). Shi et al., 2016,
    arXiv:1609.05158.
    """
    n = input.ndim - 3
    parts = input.unflatten(-3, (-1, upscale_factor, upscale_factor))
    turned = parts.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return turned.flatten(-4, -3).flatten(-2).clone()


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """What `pixel_shuffle` came from."""
    n, of_each = input.ndim - 3, (-1, downscale_factor)
    parts = input.unflatten(-2, of_each).unflatten(-1, of_each)
    turned = parts.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return turned.flatten(-5, -3).clone()


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of `groups` groups in turn, one of each."""
    return input.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


spell(sys.modules[__name__])
