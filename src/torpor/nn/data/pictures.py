"""Transforms of pictures, and those that change sizes and places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import functional as F
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.operands import choose
from torpor.tensor.spelling import pair, within

GREY: Final = (0.299, 0.587, 0.114)  # of red, green and blue: ITU-R BT.601


class Transform(Module):
    """Base of transforms: `change` gets pictures of any batch as x[picture, channel, height,
    width].
    """

    def change(self, x: Any) -> Any:
        """The pictures, changed."""
        raise NotImplementedError

    def forward(self, x: Any) -> Any:
        if x.ndim < 3:
            raise ShapeError(f"pictures have a channel, height and width, unlike {x.shape}")
        made = self.change(x.reshape(-1, *x.shape[-3:]))
        return made.reshape(*x.shape[:-3], *made.shape[1:])


def drawn(x: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """A uniform number for each picture, of shape (picture, 1, 1, 1)."""
    return Tensor.rand(x.shape[0], 1, 1, 1, device=x.device) * (high - low) + low


def as_before(made: Any, x: Any) -> Any:
    """Numbers in the range of a picture's format: up to 1, or rounded and up to 255."""
    if x.dtype.is_float:
        return made.clamp(0, 1).cast(x.dtype)
    return made.round().clamp(0, 255).cast(x.dtype)


class Compose(Module):
    """Transforms, or other functions, one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = list(transforms)

    def forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Lambda(Transform):
    """A function of x[picture, channel, height, width]."""

    def __init__(self, lambd: Callable[[Any], Any]):
        self.lambd = lambd

    def change(self, x: Any) -> Any:
        return self.lambd(x)


class ToFloat(Transform):
    """Bytes as float32 from 0 to 1; floats as they are."""

    def change(self, x: Any) -> Any:
        return x if x.dtype.is_float else x.float() / 255


class Normalize(Transform):
    """(x - mean) / std, by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]):
        self.mean, self.std = tuple(mean), tuple(std)

    def change(self, x: Any) -> Any:
        options = {"dtype": x.dtype, "device": x.device}
        mean, std = (Tensor(one, **options).reshape(-1, 1, 1) for one in (self.mean, self.std))
        return (x - mean) / std


class Grayscale(Transform):
    """One channel of red, green and blue, or as many that are the same."""

    def __init__(self, num_output_channels: int = 1):
        self.num_output_channels = num_output_channels

    def change(self, x: Any) -> Any:
        return as_before(grey(x), x).expand((x.shape[0], self.num_output_channels, *x.shape[2:]))


def grey(x: Any) -> Any:
    """How bright each point is, in floats."""
    if x.shape[1] != len(GREY):
        raise ShapeError(f"pictures of red, green and blue are needed, not {x.shape[1]} channels")
    return sum(x[:, n : n + 1] * share for n, share in enumerate(GREY))


# --- sizes ----------------------------------------------------------------------------------------
class Resize(Transform):
    """In another size: (height, width), or one number for the shorter side."""

    def __init__(self, size: Any, interpolation: str = "bilinear"):
        self.size, self.interpolation = size, interpolation

    def change(self, x: Any) -> Any:
        size = self.size
        if isinstance(size, int):
            short = min(x.shape[2:])
            size = [size if side == short else size * side // short for side in x.shape[2:]]
        made = F.interpolate(x if x.dtype.is_float else x.float(), size, mode=self.interpolation)
        return made if x.dtype.is_float else as_before(made, x)


class Pad(Transform):
    """With more points around: one number, (left and right, top and bottom), or (left, top, right,
    bottom).
    """

    def __init__(self, padding: Any, fill: float = 0, padding_mode: str = "constant"):
        sides = [padding] if isinstance(padding, int) else list(padding)
        self.sides = (sides * 4)[:4]
        self.fill, self.padding_mode = fill, padding_mode

    def change(self, x: Any) -> Any:
        left, top, right, bottom = self.sides
        around = (left, right, top, bottom)
        if self.padding_mode == "constant":
            return x.pad(around, value=self.fill)
        return x.pad(around, self.padding_mode)


class CenterCrop(Transform):
    """The middle part, of a size."""

    def __init__(self, size: Any):
        self.size = pair(size, 2)

    def change(self, x: Any) -> Any:
        starts = [round((side - part) / 2) for side, part in room(x, self.size)]
        return x[:, :, starts[0] : starts[0] + self.size[0], starts[1] : starts[1] + self.size[1]]


class RandomCrop(Transform):
    """A part of a size, anywhere, after padding."""

    def __init__(self, size: Any, padding: Any = None, fill: float = 0):
        self.size = pair(size, 2)
        self._pad = None if padding is None else Pad(padding, fill)

    def change(self, x: Any) -> Any:
        x = x if self._pad is None else self._pad.change(x)
        for axis, (side, part) in enumerate(room(x, self.size), 2):
            start = (drawn(x) * (side - part + 1)).floor().long().minimum(side - part)
            places = Tensor.arange(part, device=x.device).reshape(-1, *[1] * (3 - axis))
            shape = [*x.shape]
            shape[axis] = part
            x = x.gather(axis, (start + places).expand(shape))
        return x


def room(x: Any, size: Sequence[int]) -> list[tuple[int, int]]:
    """Height and width of pictures, each with that of a part."""
    found = list(zip(x.shape[2:], size, strict=True))
    if any(part > side for side, part in found):
        raise ShapeError(f"a part of size {tuple(size)} of pictures of size {x.shape[2:]}")
    return found


class Sometimes(Transform):
    """A transform with a probability: `_changed` gets what `change` does."""

    def __init__(self, p: float = 0.5):
        within("a probability", p, 0, 1)
        self.p = p

    def _changed(self, x: Any) -> Any:
        raise NotImplementedError

    def change(self, x: Any) -> Any:
        return choose(drawn(x) < self.p, self._changed(x), x)


# --- places ---------------------------------------------------------------------------------------
class RandomHorizontalFlip(Sometimes):
    """Left and right swapped, with a probability."""

    axis = -1

    def _changed(self, x: Any) -> Any:
        return x.flip(self.axis)


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom swapped, with a probability."""

    axis = -2


class RandomAffine(Transform):
    """Turned by `degrees` (least and most; counted against the clock), moved by at most the shares
    `translate` of width and height, and scaled by numbers between two; 0 comes from outside.
    """

    def __init__(
        self, degrees: Any, translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None, interpolation: str = "nearest",
    ):  # fmt: skip
        ends = (-degrees, degrees) if isinstance(degrees, int | float) else tuple(degrees)
        self.degrees, self.interpolation = ends, interpolation
        self.translate, self.scale = translate or (0.0, 0.0), scale or (1.0, 1.0)
        if self.scale[0] <= 0:
            raise ValueRangeError(f"pictures are scaled by numbers above 0, not {scale}")

    def change(self, x: Any) -> Any:
        angle = drawn(x, *self.degrees) * (math.pi / 180)
        size = drawn(x, *self.scale)
        right, down = (drawn(x, -share, share) * 2 for share in self.translate)
        height, width = x.shape[2:]
        cosine, sine = angle.cos() / size, angle.sin() / size
        rows = [cosine, -sine * (height / width), sine * (width / height), cosine]
        return placed(x, rows, right, down, self.interpolation)


def placed(x: Any, rows: Sequence[Any], right: Any, down: Any, interpolation: str) -> Any:
    """Each picture moved, in halves of its sides, and then, by where its points come from, mapped
    by a matrix, of which the elements are given row by row.
    """
    turn = Tensor.cat(*rows, dim=1).reshape(-1, 2, 2)
    moved = Tensor.cat(right, down, dim=1).reshape(-1, 2, 1)
    return sampled(x, turn.cat(-(turn @ moved), dim=2), x.shape, interpolation, "zeros")


def sampled(x: Any, theta: Any, shape: Sequence[int], interpolation: str, outside: str) -> Any:
    """Pictures of a shape whose points are those that theta[picture, 2, 3] says."""
    wide = x if x.dtype.is_float else x.float()
    grid = F.affine_grid(theta.cast(wide.dtype), shape, False)
    made = F.grid_sample(wide, grid, interpolation, outside, False)
    return made if x.dtype.is_float else as_before(made, x)


class RandomResizedCrop(Transform):
    """A box of a share of the picture between two, of a ratio of width to height, anywhere, brought
    to a size: Szegedy et al., 2014, arXiv:1409.4842. Points are interpolated, not averaged.
    """

    def __init__(
        self, size: Any, scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3), interpolation: str = "bilinear",
    ):  # fmt: skip
        self.size, self.scale, self.ratio = pair(size, 2), tuple(scale), tuple(ratio)
        self.interpolation = interpolation

    def change(self, x: Any) -> Any:
        area, ratio = drawn(x, *self.scale), drawn(x, *map(math.log, self.ratio)).exp()
        ratio = ratio * (x.shape[2] / x.shape[3])  # in shares of the sides
        wide, high = (part.sqrt().clamp(max=1.0) for part in (area * ratio, area / ratio))
        right, down = (drawn(x, -1, 1) * (1 - part) for part in (wide, high))
        rows = [wide, wide * 0, right, wide * 0, high, down]
        theta = Tensor.cat(*rows, dim=1).reshape(-1, 2, 3)
        return sampled(x, theta, (*x.shape[:2], *self.size), self.interpolation, "border")


class RandomRotation(RandomAffine):
    """Turned around the middle, against the clock, by `degrees`: least and most."""

    def __init__(self, degrees: Any, interpolation: str = "nearest"):
        super().__init__(degrees, interpolation=interpolation)


class RandomErasing(Transform):
    """A box of a share of the picture between two, of a ratio of height to width, filled with a
    value, with a probability. Zhong et al., 2017, arXiv:1708.04896.
    """

    def __init__(
        self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3), value: float = 0,
    ):  # fmt: skip
        within("a probability", p, 0, 1)
        self.p, self.scale, self.ratio, self.value = p, tuple(scale), tuple(ratio), value

    def change(self, x: Any) -> Any:
        height, width = x.shape[2:]
        area = drawn(x, *self.scale) * (height * width)
        ratio = drawn(x, *map(math.log, self.ratio)).exp()
        inside = drawn(x) < self.p
        for axis, part in ((2, (area * ratio).sqrt()), (3, (area / ratio).sqrt())):
            side = x.shape[axis]
            part = part.round().minimum(side)
            start = (drawn(x) * (side - part + 1)).floor()
            places = Tensor.arange(side, device=x.device).reshape(-1, *[1] * (3 - axis))
            inside = inside & (places >= start) & (places < start + part)
        return choose(inside, self.value, x)


__all__ = [
    "CenterCrop", "Compose", "Grayscale", "Lambda", "Normalize", "Pad", "RandomAffine",
    "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomResizedCrop",
    "RandomRotation", "RandomVerticalFlip", "Resize", "ToFloat", "Transform",
]  # fmt: skip
