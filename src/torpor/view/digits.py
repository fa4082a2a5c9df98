"""Two static views as one, whatever their size, by digits: no element is visited.

An element of the inner view has a number; its indices are that number's digits in the base of the
inner sizes. Along an axis of the outer view the number grows by a fixed step. Where no carry can
occur, every digit grows by a fixed step too, so positions are linear and masks are inequalities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torpor.ir.infer import largest
from torpor.view.view import View


@dataclass(frozen=True)
class Dimension:
    """A merged dimension of a view: `size` places, `stride` elements apart, valid in low:high."""

    size: int
    stride: int
    low: int
    high: int


@dataclass(frozen=True)
class Digit:
    """start + sum of step * x over the outer axes, from 0 up to (not including) `limit`."""

    start: int
    steps: tuple[int, ...]

    def bounds(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Least and greatest value for x in a half-open box that is not empty."""
        ends = [(s * low, s * (high - 1)) for s, (low, high) in zip(self.steps, box, strict=True)]
        return self.start + sum(map(min, ends)), self.start + sum(map(max, ends))


def merged(view: View) -> tuple[list[Dimension], int]:
    """The fewest dimensions of a static view, and the offset that belongs to them.

    A dimension in which one index is valid merges with any next one: its mask moves there.
    """
    offset = int(view.offset)  # type: ignore[arg-type]
    found: list[Dimension] = []
    for size, stride, (low, high) in zip(view.shape, view.strides, view.limits, strict=True):
        assert isinstance(size, int) and isinstance(stride, int), "the view is static"
        assert isinstance(low, int) and isinstance(high, int), "the view is static"
        if size == 1 and high == 1:
            continue
        last = found[-1] if found else None
        if last and last.stride == size * stride and (low, high) == (0, size):
            found[-1] = Dimension(last.size * size, stride, last.low * size, last.high * size)
        elif last and last.high - last.low == 1 and last.stride == 0:
            begin = last.low * size
            found[-1] = Dimension(last.size * size, stride, begin + low, begin + high)
            offset -= begin * stride
        else:
            found.append(Dimension(size, stride, low, high))
    return found, offset


def unravel(number: int, dimensions: Sequence[Dimension]) -> list[int]:
    """The digits of an element's number."""
    digits = []
    for dimension in reversed(dimensions):
        number, digit = divmod(number, dimension.size)
        digits.append(digit)
    return digits[::-1]


def tighten(
    digit: Digit, low: int, high: int, box: list[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """The box without the outer slices in which low <= digit < high nowhere; None if none stay."""
    if any(first >= end for first, end in box):
        return None
    least, greatest = digit.bounds(box)
    if greatest < low or least >= high:
        return None
    found = []
    for step, (first, end) in zip(digit.steps, box, strict=True):
        if step:
            ends = (step * first, step * (end - 1))
            # low <= rest + step * x < high must hold for some value of the other axes' part
            floor = low - (greatest - max(ends))
            ceiling = high - 1 - (least - min(ends))
            if step < 0:
                floor, ceiling = -ceiling, -floor
            first = max(first, -(-floor // abs(step)))
            end = min(end, ceiling // abs(step) + 1)
        found.append((first, end))
    return None if any(first >= end for first, end in found) else found


def compose_digits(inner: View, outer: View) -> View | None:
    """The one view that walks as `outer` of `inner` does; None where carries occur or the valid
    elements are no box.
    """
    nowhere = View.create(outer.shape, mask=((0, 0),) * len(outer.shape)) if outer.shape else None
    if nowhere is None:
        return None
    dimensions, offset = merged(inner)
    box = [(int(low), int(high)) for low, high in outer.limits]  # type: ignore[arg-type]
    steps = tuple(step for step in outer.strides if isinstance(step, int))
    number = Digit(largest(outer.offset), steps)
    shrunk = tighten(number, *valid_numbers(dimensions), box)
    if shrunk is None:
        return nowhere
    digits = linear_digits(number, shrunk, dimensions)
    if digits is None:
        return None
    valid = solve(digits, dimensions, shrunk)
    if valid is None:
        return nowhere
    for digit, dimension in zip(digits, dimensions, strict=True):
        least, greatest = digit.bounds(valid)
        if least < dimension.low or greatest >= dimension.high:
            return None
    pairs = list(zip(digits, dimensions, strict=True))
    strides = tuple(
        sum(digit.steps[axis] * dimension.stride for digit, dimension in pairs)
        for axis in range(len(box))
    )
    start = offset + sum(digit.start * dimension.stride for digit, dimension in pairs)
    return View.create(outer.shape, strides, start, tuple(valid))


def valid_numbers(dimensions: Sequence[Dimension]) -> tuple[int, int]:
    """Half-open limits of the numbers of valid elements."""
    first = last = 0
    for dimension in dimensions:
        first = first * dimension.size + dimension.low
        last = last * dimension.size + dimension.high - 1
    return first, last + 1


def linear_digits(
    number: Digit, box: Sequence[tuple[int, int]], dimensions: Sequence[Dimension]
) -> list[Digit] | None:
    """Each digit as a linear function on the box; None where a carry occurs in it."""
    corner = number.start + sum(s * low for s, (low, _) in zip(number.steps, box, strict=True))
    origin = unravel(corner, dimensions)
    steps = [
        [a - b for a, b in zip(unravel(corner + step, dimensions), origin, strict=True)]
        if high - low > 1
        else [0] * len(dimensions)
        for step, (low, high) in zip(number.steps, box, strict=True)
    ]
    digits = []
    for place, dimension in enumerate(dimensions):
        along = tuple(step[place] for step in steps)
        start = origin[place] - sum(s * low for s, (low, _) in zip(along, box, strict=True))
        digit = Digit(start, along)
        least, greatest = digit.bounds(box)
        if least < 0 or greatest >= dimension.size:
            return None
        digits.append(digit)
    return digits


def solve(
    digits: Sequence[Digit], dimensions: Sequence[Dimension], box: list[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """A box that holds every valid element, as small as bounds alone can tell; None if empty."""
    while True:
        before = box
        for digit, dimension in zip(digits, dimensions, strict=True):
            smaller = tighten(digit, dimension.low, dimension.high, box)
            if smaller is None:
                return None
            box = smaller
        if box == before:
            return box
