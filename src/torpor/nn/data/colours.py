"""Transforms of pictures that change colours, and those that choose among others.

A change is a function of x[picture, channel, height, width] and of its strength for each picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.base.errors import ValueRangeError
from torpor.nn.data.pictures import Compose, Sometimes, Transform, as_before, drawn, grey, placed
from torpor.tensor.operands import choose
from torpor.tensor.spelling import pair, within


def _most(x: Any) -> float:
    return 1.0 if x.dtype.is_float else 255.0


def _blend(plain: Any, x: Any, strength: Any) -> Any:
    return as_before(plain + (x - plain) * strength, x)


def brightened(x: Any, strength: Any) -> Any:
    """Multiplied."""
    return as_before(x * strength, x)


def contrasted(x: Any, strength: Any) -> Any:
    """Apart from the mean grey by so much."""
    return _blend(grey(x).mean((1, 2, 3), keepdim=True), x, strength)


def saturated(x: Any, strength: Any) -> Any:
    """Apart from grey by so much."""
    return _blend(grey(x), x, strength)


def sharpened(x: Any, strength: Any) -> Any:
    """Apart from the mean of the nine points around, the middle counted five times, by so much; the
    border stays.
    """
    height, width = x.shape[2:]
    whole = x if x.dtype.is_float else x.float()
    inner = whole[:, :, 1:-1, 1:-1]
    places = [(i, j) for i in range(3) for j in range(3)]
    around = sum(whole[:, :, i : height - 2 + i, j : width - 2 + j] for i, j in places)
    smooth = as_before((around + inner * 4) / 13, x)
    made = _blend(smooth, x[:, :, 1:-1, 1:-1], strength)
    return x.slice_scatter(x[:, :, 1:-1].slice_scatter(made, 3, 1, width - 1), 2, 1, height - 1)


def inverted(x: Any, strength: Any = None) -> Any:
    """Light and dark swapped."""
    return as_before(_most(x) - x, x)


def solarised(x: Any, threshold: Any) -> Any:
    """Swapped where it is not below a threshold."""
    return choose(x >= threshold, inverted(x), x)


def posterised(x: Any, bits: Any) -> Any:
    """With the first bits of eight."""
    step = 2.0 ** (8 - bits)
    whole = (x * (255 / _most(x))).floor()
    return as_before((whole / step).floor() * step * (_most(x) / 255), x)


def stretched(x: Any, strength: Any = None) -> Any:
    """Each channel over the whole range."""
    wide = x if x.dtype.is_float else x.float()
    low, high = wide.amin((2, 3), keepdim=True), wide.amax((2, 3), keepdim=True)
    flat = low == high
    made = (wide - low) * (_most(x) / choose(flat, 1.0, high - low))
    return as_before(choose(flat, wide, made), x)


def turned(x: Any, share: Any) -> Any:
    """Hues moved by a share of the circle."""
    whole = (x if x.dtype.is_float else x.float()) / _most(x)
    red, green, blue = (whole[:, n : n + 1] for n in range(3))
    value = whole.amax(1, keepdim=True)
    chroma = value - whole.amin(1, keepdim=True)
    some = choose(chroma == 0, 1.0, chroma)
    hue = choose(value == red, (green - blue) / some, choose(
        value == green, (blue - red) / some + 2, (red - green) / some + 4))  # fmt: skip
    moved = choose(chroma == 0, 0.0, hue) + share * 6
    places = [(moved + first).remainder(6) for first in (5, 3, 1)]
    made = [value - chroma * k.minimum(4 - k).clamp(0, 1) for k in places]
    return as_before(made[0].cat(*made[1:], dim=1) * _most(x), x)


# --- by chance ------------------------------------------------------------------------------------
class RandomApply(Compose):
    """Transforms, one after the other, of each picture with a probability; sizes stay."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5):
        within("a probability", p, 0, 1)
        super().__init__(transforms)
        self.p = p

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, *x.shape[-3:])
        return choose(drawn(flat) < self.p, super().forward(flat), flat).reshape(x.shape)


def _sometimes(name: str, about: str, function: Any, parameter: str | None = None) -> Any:
    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        given = dict(zip((parameter or "p", "p"), arguments, strict=False), **options)
        self.strength = given.pop(parameter) if parameter else None
        Sometimes.__init__(self, **given)

    def _changed(self: Any, x: Any) -> Any:
        return function(x, self.strength)

    members = {"__doc__": about, "__module__": __name__, "__init__": begin, "_changed": _changed}
    return type(name, (Sometimes,), members)


RandomInvert = _sometimes("RandomInvert", "Light and dark swapped, with a probability.", inverted)
RandomAutocontrast = _sometimes(
    "RandomAutocontrast", "Each channel over the whole range, with a probability.", stretched
)
RandomPosterize = _sometimes(
    "RandomPosterize", "Only the first bits of eight, with a probability.", posterised, "bits"
)
RandomSolarize = _sometimes(
    "RandomSolarize", "Swapped where not below a threshold, with a probability.", solarised,
    "threshold",
)  # fmt: skip
RandomAdjustSharpness = _sometimes(
    "RandomAdjustSharpness", "Smoother below 1 and sharper above, with a probability.", sharpened,
    "sharpness_factor",
)  # fmt: skip


class RandomGrayscale(Sometimes):
    """All channels grey, with a probability."""

    def __init__(self, p: float = 0.1):
        super().__init__(p)

    def _changed(self, x: Any) -> Any:
        return as_before(grey(x), x)


class ColorJitter(Transform):
    """Brightness, contrast and saturation multiplied, in this order, by numbers between two: of one
    number n those from 1 - n, but not below 0, to 1 + n. Then hues moved by a share of the circle
    between two, or from -n to n.
    """

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ):  # fmt: skip
        self.brightness, self.contrast, self.saturation = (
            (max(0.0, 1 - one), 1.0 + one) if isinstance(one, int | float) else tuple(one)
            for one in (brightness, contrast, saturation)
        )
        self.hue = (-hue, hue) if isinstance(hue, int | float) else tuple(hue)
        within("the greatest hue", max(map(abs, self.hue)), 0, 0.5)

    def change(self, x: Any) -> Any:
        for ends, none, function in (
            (self.brightness, 1, brightened), (self.contrast, 1, contrasted),
            (self.saturation, 1, saturated), (self.hue, 0, turned),
        ):  # fmt: skip
            if ends != (none, none):
                x = function(x, drawn(x, *ends))
        return x


class GaussianBlur(Transform):
    """Each point as the mean of those around, by a Gaussian of a deviation between two, of a size
    (width, height) of odd numbers; borders are mirrored.
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)):
        self.size = pair(kernel_size, 2)
        if any(side % 2 == 0 for side in self.size):
            raise ValueRangeError(f"the size of a blur is odd, not {self.size}")
        self.sigma = (sigma, sigma) if isinstance(sigma, int | float) else tuple(sigma)

    def change(self, x: Any) -> Any:
        sigma, made = drawn(x, *self.sigma), x if x.dtype.is_float else x.float()
        for axis, side in zip((3, 2), self.size, strict=True):
            half, length = side // 2, x.shape[axis]
            weights = [(-((n / sigma) ** 2) / 2).exp() for n in range(-half, half + 1)]
            ends = (half, half, 0, 0) if axis == 3 else (0, 0, half, half)
            more = made.pad(ends, "reflect")
            parts = [more.narrow(axis, n, length) * weight for n, weight in enumerate(weights)]
            made = sum(parts) / sum(weights)
        return as_before(made, x) if not x.dtype.is_float else made.cast(x.dtype)


Change = Callable[[Any, Any], Any]
# With the strength for a share of the greatest magnitude, and its sign.
COLOURS: Final[Sequence[tuple[Change, Change]]] = (
    (brightened, lambda x, m: 1 + m * 0.9), (saturated, lambda x, m: 1 + m * 0.9),
    (contrasted, lambda x, m: 1 + m * 0.9), (sharpened, lambda x, m: 1 + m * 0.9),
    (posterised, lambda x, m: 8 - (m.abs() * 4).round()),
    (solarised, lambda x, m: (1 - m.abs()) * _most(x)), (stretched, lambda x, m: m),
)  # fmt: skip
PLACES: Final = 6  # nothing, two shears, two moves, a turn


class RandAugment(Transform):
    """`num_ops` changes, chosen for each picture among moves, shears, turns and changes of colour,
    of a magnitude out of bins, either way: Cubuk et al., 2019, arXiv:1909.13719, without equalising
    histograms.
    """

    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
        interpolation: str = "nearest",
    ):  # fmt: skip
        within("a magnitude", magnitude, 0, num_magnitude_bins - 1)
        self.num_ops, self.share = num_ops, magnitude / (num_magnitude_bins - 1)
        self.interpolation = interpolation

    def change(self, x: Any) -> Any:
        for _ in range(self.num_ops):
            which = (drawn(x) * (PLACES + len(COLOURS))).floor()
            strength = choose(drawn(x) < 0.5, -self.share, self.share)
            made = self._moved(x, which, strength)
            for number, (function, scaled) in enumerate(COLOURS, PLACES):
                made = choose(which == number, function(x, scaled(x, strength)), made)
            x = made
        return x

    def _moved(self, x: Any, which: Any, strength: Any) -> Any:
        """Sheared, moved or turned; as it is where neither is chosen."""
        amounts = (0.3, 0.3, 300 / 331, 300 / 331, math.pi / 6)
        across, along, right, down, angle = (
            choose(which == number, strength * most, 0.0) for number, most in enumerate(amounts, 1)
        )
        ratio = x.shape[2] / x.shape[3]
        rows = [angle.cos(), (across - angle.sin()) * ratio, (along + angle.sin()) / ratio,
                angle.cos()]  # fmt: skip
        made = placed(x, rows, right, down, self.interpolation)
        return choose((which > 0) & (which < PLACES), made, x)


__all__ = [
    "ColorJitter", "GaussianBlur", "RandAugment", "RandomAdjustSharpness", "RandomApply",
    "RandomAutocontrast", "RandomGrayscale", "RandomInvert", "RandomPosterize",
    "RandomSolarize",
]  # fmt: skip
