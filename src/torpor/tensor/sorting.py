"""Sorting, selection of the greatest, and searching in what is sorted."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import OutOfBoundsError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import as_tensor, beside
from torpor.tensor.handle import Handle, derive, located, make, with_rule
from torpor.tensor.iota import iota
from torpor.tensor.operands import choose
from torpor.tensor.radix import PAIRS, keys_of, of_ranks, sorted_numbers
from torpor.tensor.repeated import repeated
from torpor.tensor.results import Selected
from torpor.tensor.spelling import among, one_axis

LANES: Final = 16  # elements of the widest vectors
# Measured, as numbers of comparisons of pairs that take as long:
LOOKUP: Final = 70.0  # looking up an element of a block
RADIX: Final = 220.0  # an element's share of a sort by digits
ALONE: Final = 10.0  # an element's share of finding the least of a row and where it stands
LEAST_OF: Final = 4.0  # an element's share of the least of its block
LEVEL: Final = 400_000.0  # starting the kernels that cut rows into blocks once
FEWEST: Final = 8  # blocks of a row


class Sorting(Handle):
    """Sorting. All sorts are stable and put NaN last: descending, first."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Selected:
        """(values, indices) in order along an axis, ascending unless told otherwise.

        >>> Tensor([3, 1, 2]).sort().values.tolist()
        [1, 2, 3]
        """
        found = self.argsort(dim, descending, stable)
        return Selected(_picked(self, dim, found), found)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """Indices (int64) that put an axis in order; of equal elements the first stays first."""
        axis = one_axis(dim, self.ndim)
        if not self.ndim or not self.numel():
            return make(build.constant(0, dtypes.int64, self.shape), self.device)
        return _order(self.detach(), axis, bool(descending))

    def msort(self) -> Tensor:
        """Values in ascending order along the first axis."""
        return self.sort(0).values

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Selected:
        """(values, indices) of the k greatest along an axis (least, with largest=False), in order,
        of equal ones the first. `OutOfBoundsError` for a k beyond the axis.

        >>> Tensor([3, 9, 4]).topk(2).values.tolist()
        [9, 4]
        """
        axis = one_axis(dim, self.ndim)
        length = self.shape[axis] if self.ndim else 1
        if not isinstance(length, int) or not 0 <= k <= length:
            raise located(OutOfBoundsError(f"topk of {k} along a length of {length}"), (self,))
        if not self.ndim:
            return Selected(self.clone(), make(build.constant(0, dtypes.int64, ()), self.device))
        shape = (*self.shape[:axis], k, *self.shape[axis + 1 :])
        if 0 in shape:
            found = make(build.constant(0, dtypes.int64, shape), self.device)
        else:
            found = _greatest(self.detach(), axis, k, bool(largest))
        return Selected(_picked(self, axis, found), found)

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Selected:
        """(value, index) of the k-th least along an axis, counted from 1; the axis goes unless
        `keepdim`. `OutOfBoundsError` for a k beyond the axis.
        """
        axis = one_axis(dim, self.ndim)
        length = self.shape[axis] if self.ndim else 1
        if not isinstance(length, int) or not 1 <= k <= length:
            raise located(OutOfBoundsError(f"kthvalue {k} along a length of {length}"), (self,))
        if not self.ndim:
            return self.topk(1)
        shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])
        rank = make(build.constant(k - 1, dtypes.int64, shape), self.device)
        return one_of(self, axis, places_of(self, axis, rank), keepdim)

    @repeated
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The middle element in order, of two the lesser; NaN if one is, and of nothing (of
        integers the least that there is). Along an axis, which has a length, (values, indices).

        >>> Tensor([4, 1, 3, 2]).median().item()
        2
        """
        if dim is None:
            if self.shape and not self.numel():
                nothing = Handle._type(-math.inf if self.dtype.is_int else math.nan)
                return nothing.cast(self.dtype).to(self.device)
            middle = self.reshape(-1).median(0).values
            if not self.dtype.is_float:
                return middle
            return with_rule(middle, (self,), "evenly", *range(self.ndim))
        if not self.ndim:
            return self.topk(1)
        axis = one_axis(dim, self.ndim)
        length = self.shape[axis]
        if not isinstance(length, int) or not length:
            raise located(ShapeError(f"median along a length of {length}"), (self,))
        nan: Any = self.isnan().any(axis, True)  # which stands last
        rank = nan.where(length - 1, nan.full_like((length - 1) // 2, dtype=dtypes.int64))
        return one_of(self, axis, places_of(self, axis, rank), keepdim)

    @staticmethod
    def searchsorted(
        sorted_sequence: Any, input: Any, right: bool = False, side: str | None = None, *,
        out_int32: bool = False, sorter: Any = None,
    ) -> Tensor:  # fmt: skip
        """How many elements (int64) of a sorted row stand before each of `input`: those that are
        less; with `right`, or side "right", those that are not greater.

        sorted_sequence: (length,), or (..., length) for input (..., count); with `sorter`, indices
        that put it in order, it need not be sorted. out_int32: as int32.

        >>> Tensor.searchsorted(Tensor([1, 3, 5]), Tensor([3, 4])).tolist()
        [1, 2]
        """
        rows = as_tensor(sorted_sequence)
        rows = rows if sorter is None else rows.gather(-1, sorter)
        asked = beside(input, rows)
        if rows.ndim > 1 and rows.shape[:-1] != asked.shape[:-1]:
            what = "searchsorted needs a row for each row of the input"
            raise located(ShapeError(what), (rows, asked))
        among("side", side, None, "left", "right")
        if right and side == "left":
            raise ValueRangeError("side is 'left', and right is True: one of them alone says it")
        made = _searched(rows, asked, right or side == "right")
        return made.cast(dtypes.int32) if out_int32 else made

    def bucketize(self, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
        """`searchsorted` of this tensor, of any shape, in one sorted row of boundaries (count,)."""
        return Sorting.searchsorted(boundaries, self, right, out_int32=out_int32)


@repeated
def _searched(rows: Any, asked: Any, right: bool) -> Tensor:
    """By halves: 2**step elements further while those before are less."""
    length = rows.shape[-1]
    before: Any = make(build.constant(0, dtypes.int64, asked.shape), asked.device)
    if not length:
        return before
    row: Any = rows
    flat = asked.reshape(-1) if rows.ndim == 1 else asked
    before = before.reshape(*flat.shape)
    for step in reversed(range(length.bit_length())):
        reach = before + (1 << step)
        inside = reach <= length
        found = derive(build.gather, (row, inside.where(reach, 1) - 1), rows.ndim - 1)
        less = found <= flat if right else found < flat
        before = (inside & (less | (flat.isnan() if flat.dtype.is_float else False))).where(
            reach, before
        )
    return before.reshape(*asked.shape)


@repeated
def _order(operand: Any, axis: int, descending: bool) -> Any:
    """As `argsort`."""
    keys = _rows(_ordered(operand, descending), axis)
    return _unrowed(sorted_numbers(keys.contiguous()), operand.shape, axis)


def places_of(operand: Any, axis: int, ranks: Any) -> Any:
    """Where along an axis those elements stand that have these ranks (int64, from 0, in the
    operand's shape but for `axis`): of a few by halves, of many by sorting. Of equal elements it
    may be any.
    """
    shape, length, count = operand.shape, operand.shape[axis], ranks.shape[axis]
    if not operand.numel() or not ranks.numel():
        return operand.argsort(axis).gather(axis, ranks)
    keys = _rows(keys_of(operand.detach()), axis)
    rounds = keys.dtype.bits * count * length + LEVEL / keys.shape[0]
    if rounds > _sorting(length):
        return operand.argsort(axis).gather(axis, ranks)
    found = _places(keys.contiguous(), _rows(ranks, axis))
    return _unrowed(found, (*shape[:axis], count, *shape[axis + 1 :]), axis)


@repeated
def _places(keys: Any, ranks: Any) -> Any:
    """Where in each row of keys the elements of some ranks stand first."""
    return keys.unsqueeze(1).eq(of_ranks(keys, ranks).unsqueeze(2)).argmax(2)


@repeated
def _greatest(operand: Any, axis: int, k: int, largest: bool) -> Any:
    """The indices that `topk` gives."""
    shape = (*operand.shape[:axis], k, *operand.shape[axis + 1 :])
    return _unrowed(_least(_rows(operand, axis), k, largest), shape, axis)


def _ordered(operand: Any, descending: bool) -> Any:
    """Keys whose ascending order is the one asked for."""
    keys = keys_of(operand.detach())
    return ~keys if descending else keys


def _rows(keys: Any, axis: int) -> Any:
    """The axis as the last of two."""
    return keys.movedim(axis, -1).reshape(-1, keys.shape[axis])


def _unrowed(found: Any, shape: Any, axis: int) -> Any:
    """What was found for rows, in a shape whose `axis` they were."""
    moved = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    return found.reshape(*moved).movedim(-1, axis)


def _picked(operand: Any, dim: int, found: Any) -> Tensor:
    return operand.gather(dim, found) if operand.ndim else operand.clone()


def one_of(operand: Any, axis: int, place: Any, keepdim: bool) -> Selected:
    """The one element along an axis that stands in such places, and these."""
    found = operand.gather(axis, place), place
    return Selected(*(one if keepdim else one.squeeze(axis) for one in found))


@lru_cache(maxsize=4096)
def _block(length: int, k: int, rows: int) -> tuple[float, int]:
    """What finding the first k of each row costs, in comparisons of two elements for each row, and
    how long blocks are to be; 0 where all is sorted. A block's length is a power of two.
    """
    best = (ALONE * length if k == 1 else _sorting(length), 0)
    for power in range(1, length.bit_length()):
        size = 1 << power
        count = -(-length // size)
        if count <= k or count < FEWEST:
            break
        inside = _sorting(k * size) + LOOKUP * k * size
        cost = _block(count, k, rows)[0] + inside + LEAST_OF * length + LEVEL / rows
        best = min(best, (cost, size))
    return best


def _sorting(length: int) -> float:
    """Comparisons in whose time a row is sorted; by pairs they are vectors if they divide it."""
    if length > PAIRS:
        return RADIX * length
    return float(length * length * (2 if length % (LANES // 2) else 1))


def _least(values: Any, k: int, descending: bool) -> Any:
    """Numbers of the first k of each row in the order asked for, (rows, k).

    They lie in the k blocks whose first elements come first: those blocks are found likewise, and
    then only their elements are sorted.
    """
    rows, length = values.shape
    keys = _ordered(values, descending)
    size = _block(length, k, rows)[1]
    if not size:
        return keys.argmin(1, True) if k == 1 else sorted_numbers(keys.contiguous()).narrow(1, 0, k)
    count = -(-length // size)
    if count <= PAIRS:
        count = -(-count // LANES) * LANES
    behind = keys.dtype.max
    extra = count * size - length
    whole = keys.pad([None, (0, extra)], value=behind) if extra else keys
    blocks = whole.reshape(rows, count, size).amin(2).contiguous()
    chosen = _least(blocks, k, False).sort(1).values.contiguous()
    inside = make(iota(size, keys.device), keys.device)
    numbers = (chosen.unsqueeze(2) * size + inside).reshape(rows, k * size)
    found: Any = derive(build.gather, (values, numbers.minimum(length - 1)), 1)
    candidates: Any = choose(numbers < length, _ordered(found, descending), behind).contiguous()
    return derive(build.gather, (numbers, sorted_numbers(candidates).narrow(1, 0, k)), 1)
