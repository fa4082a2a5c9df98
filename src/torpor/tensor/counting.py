"""What is counted, and results whose length depends on the values: those compute them at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes
from torpor.base.errors import ShapeError
from torpor.device import Buffer, copy_buffer
from torpor.device.buffer import buffer_node
from torpor.graph import build
from torpor.ir.infer import Shape, largest
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.tensor.annotated import Tensor
from torpor.tensor.at_once import computed, memory_of
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, located, make, with_rule
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.mode import grad_enabled
from torpor.tensor.operands import choose, need
from torpor.tensor.radix import keys_of, placed, sorted_keys, sorted_numbers, values_of
from torpor.tensor.repeated import repeated
from torpor.tensor.scatter import as_number
from torpor.tensor.spelling import one_axis, within

SMALL: Final = 1 << 12  # entries of a table that costs next to nothing
TABLE: Final = 2  # most entries of a table of kinds, for each element
BYTE: Final = 8  # bits
COPIED: Final = 1 << 16  # bytes of a result that cost next to nothing to copy
KEPT: Final = 4  # a result keeps memory that is at most this many times as large

_GREATEST: Final = sys.float_info.max
INFINITE: Final = Requirement("value", "histc needs elements that are finite, or a range")
NEGATIVE: Final = Requirement("index", "bincount counts no negative numbers")


class Kinds(NamedTuple):
    """What `unique` found: the values that occur, for each element which of them it is, and how
    often each occurs (each None where nobody asks).
    """

    values: Any
    inverse: Any
    counts: Any


class Counting(Handle):
    """Counts, and selection by bools. Where a length depends on the values, they are computed at
    the call.
    """

    __slots__ = ()

    def nonzero(self, as_tuple: bool = False) -> Any:
        """Where elements are not 0, in row-major order: int64 (count, axes), or with `as_tuple` one
        vector (count,) for each axis. Computed at the call.

        >>> Tensor([[0, 7], [8, 0]]).nonzero().tolist()
        [[0, 1], [1, 0]]
        """
        axes = self.ndim
        if not axes:
            alone = self.reshape(1).nonzero(as_tuple)
            return alone if as_tuple else alone.narrow(1, 0, 0)
        tails = [()] * axes if as_tuple else [(axes,)]
        found = _chosen(_places, tails, self.ne(0) if self.is_pair else self, as_tuple)
        return tuple(found) if as_tuple else found[0]

    def nonzero_static(self, size: int, fill_value: int = -1) -> Tensor:
        """`nonzero` cut, or filled up, to `size` rows: computed when needed, in a jit too.

        >>> Tensor([0, 7, 8]).nonzero_static(3).tolist()
        [[1], [2], [-1]]
        """
        if not self.ndim:
            return self.reshape(1).nonzero_static(size=size).narrow(1, 0, 0)
        if not self.numel():
            return self.new_full((size, self.ndim), fill_value, dtype="int64")
        places, there = _first(self.ne(0).reshape(-1), size)
        each = Handle._type.unravel_index(places, self.shape)
        return there.unsqueeze(1).where(Handle._type.stack(each, 1), fill_value)

    def argwhere(self) -> Tensor:
        """As `nonzero`: int64 (count, axes)."""
        return self.nonzero()

    def masked_select(
        self, mask: Tensor, *, size: int | None = None, fill_value: Any = 0
    ) -> Tensor:
        """The elements for which a mask of bools (broadcast) holds, in row-major order: (count,).
        Computed at the call; or with a `size`, cut or filled up to it, when needed, in a jit too.

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True]), size=4).tolist()
        [1, 3, 0, 0]
        """
        mask = beside(mask, self)
        need(mask.dtype.kind == "bool", f"a mask holds bools, not {mask.dtype}", self, mask)
        shape = build.broadcast_shapes(self.shape, mask.shape)
        pair: Any = mask, self
        held, whole = (one if one.shape == shape else one.expand(shape) for one in pair)
        if size is not None:
            if not held.numel():
                return whole.reshape(-1).pad([(0, size)], value=fill_value)
            places, there = _first(held.reshape(-1), size)
            return choose(there, whole.take(places), whole.new_full((size,), fill_value))
        smooth = self.dtype.is_float and grad_enabled()
        if smooth and memory_of(whole) is None:
            return whole.take(held.reshape(-1).nonzero(True)[0])
        made = _chosen(_masked, [()], held, whole)[0]
        return with_rule(made, (whole, held), "masked") if smooth else made

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy in which the mask's true places (broadcast) hold the elements of `source`, in
        order. Too few of them raise at realisation.
        """
        mask, source = beside(mask, self), beside(source, self)
        need(mask.dtype.kind == "bool", f"a mask holds bools, not {mask.dtype}", self, mask)
        same = source.dtype is self.dtype
        need(same, f"values of {self.dtype} are needed, not {source.dtype}", self, source)
        shape = build.broadcast_shapes(self.shape, mask.shape)
        both: Any = self, mask
        whole, held = (one if one.shape == shape else one.expand(shape) for one in both)
        number = held.reshape(-1).cumsum(0) - 1
        chosen = source.reshape(-1).take(held.reshape(-1).where(number, 0)).reshape(shape)
        return choose(held, chosen, whole)

    def bincount(self, weights: Any = None, minlength: int = 0) -> Tensor:
        """How often 0, 1, 2, … occur in a vector of integers, int64, or the sums of their `weights`
        (of the vector's length), float64 unless these are float32. The length, greatest element + 1
        and at least `minlength`, is computed at the call; a negative element raises at realisation.

        >>> Tensor([0, 2, 2]).bincount().tolist()
        [1, 0, 2]
        """
        if self.ndim != 1 or not (self.dtype.is_int or self.dtype.kind == "bool"):
            raise located(ShapeError("bincount needs a vector of integers"), (self,))
        within("minlength", minlength, 0)
        flat: Any = self
        low, high = _ends(self) if self.shape[0] else (0, -1)
        length = max(high + 1, minlength, int(low < 0))  # one place, where its error is found
        if weights is None and low >= 0 and 0 < length <= _most_entries(flat.shape[0]):
            size = _table_size(length - 1)
            (counts,) = computed(_counted, self, size)
            return _beginning(counts, length, (size,), self.device)
        given: Any = self.ones_like(dtype=dtypes.int64)
        if weights is not None:
            given = beside(weights, self)
            given = given if given.dtype is dtypes.float32 else given.cast(dtypes.float64)
        zeros = make(build.constant(0, given.dtype, (length,)), self.device)
        wide: Any = self.cast(dtypes.int64)
        counted = derive(build.check, (wide, wide >= 0), NEGATIVE)
        return derive(build.scatter, (zeros, counted, given), 0, Ops.ADD)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of `bins` equal parts of [min, max], (bins,) in the
        tensor's format; others count nowhere. With min == max the elements' own extremes are taken,
        which must be finite (else an error at realisation); where these are equal, 1 less and more.

        >>> Tensor([1.0, 2.0, 2.0, 4.0]).histc(bins=3).tolist()
        [1.0, 2.0, 1.0]
        """
        within("the number of bins", bins, 1)
        within("min", min, -_GREATEST, max)
        within("max", max, min, _GREATEST)
        flat: Any = self.reshape(-1).detach()
        low, high = (min, max) if min < max or not flat.numel() else _range(flat)
        width = high - low
        part = ((flat - low) * bins / width).floor().clamp(0, bins)
        inside = (flat >= low) & (flat <= high)
        place = inside.where(part.nan_to_num(0.0), 0).cast(dtypes.int64).clamp(0, bins - 1)
        wide = dtypes.float32 if self.dtype in SMALL_FLOATS else self.dtype
        zeros = make(build.constant(0, wide, (bins,)), self.device)
        counts = derive(build.scatter, (zeros, place, inside.cast(wide)), 0, Ops.ADD)
        return counts.cast(self.dtype)

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The values that occur, in order: (count,). With `return_inverse` also which of them each
        element is (int64, the tensor's shape), with `return_counts` how often each occurs (int64).
        Each NaN is a value of its own. With `dim` the slices of that axis, in the order of their
        elements. Complex numbers are in the order of their real parts, then of their imaginary
        ones. Computed at the call.

        >>> Tensor([3, 1, 3]).unique(return_counts=True)[1].tolist()
        [1, 2]
        """
        if dim is not None or self.is_pair:
            return _slices(self, dim, False, return_inverse, return_counts)
        found = _kinds(self.reshape(-1).detach(), return_inverse, return_counts)
        return _asked(found, self.shape, return_inverse, return_counts)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """As `unique`, of neighbours only, in their order.

        >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
        [1, 2, 1]
        """
        if dim is not None or self.is_pair:
            return _slices(self, dim, True, return_inverse, return_counts)
        found = _found(_runs, self.reshape(-1).detach(), return_inverse, return_counts)
        return _asked(found, self.shape, return_inverse, return_counts)


def _slices(given: Any, dim: int | None, runs: bool, inverse: bool, counts: bool) -> Any:
    """The kinds of an axis' slices, or of the elements: they are numbered in the order of their
    first elements, then, of equal ones, of their second, and so on.
    """
    operand = given.reshape(-1) if dim is None else given
    axis = 0 if dim is None else one_axis(dim, operand.ndim)
    moved = operand.detach().movedim(axis, 0)
    moved = moved.view_as_real() if operand.is_pair else moved
    length = known_shape(moved.shape)[0]
    rows = moved.reshape(length, -1) if moved.numel() else moved.new_zeros((length, 0))
    if runs:
        apart = rows[1:].ne(rows[:-1]).any(1) if length > 1 else rows[:0].any(1)
        number = apart.long().cumsum(0).pad((min(length, 1), 0))
    else:
        number = rows.new_zeros((length,), dtype=dtypes.int64)
        for column in rows.unbind(1):
            kinds, which = column.unique(return_inverse=True)
            number = (number * kinds.shape[0] + which).unique(return_inverse=True)[1]
    often = number.bincount()
    places = make(iota(length, operand.device), operand.device)
    first = often.full_like(length).scatter_reduce(0, number, places, "amin")
    found = Kinds(operand.index_select(axis, first), number, often)
    return _asked(found, given.shape if dim is None else (length,), inverse, counts)


def _range(flat: Any) -> tuple[Any, Any]:
    """The extremes of a vector, which are checked to be finite; apart, if they are equal."""
    low, high = flat.amin(), flat.amax()
    low = derive(build.check, (low, low.isfinite() & high.isfinite()), INFINITE)
    apart = low.eq(high).cast(flat.dtype)
    return low - apart, high + apart


def _asked(found: Kinds, shape: Any, return_inverse: bool, return_counts: bool) -> Any:
    """What `unique` gives back: the values alone, or a tuple with what else is asked for."""
    parts = [found.values]
    parts += [found.inverse.reshape(shape)] if return_inverse else []
    parts += [found.counts] if return_counts else []
    return tuple(parts) if len(parts) > 1 else parts[0]


# --- kinds ----------------------------------------------------------------------------------------
def _kinds(flat: Any, inverse: bool, counts: bool) -> Kinds:
    """What `unique` gives, of what is asked for. Integers that lie close together need no order:
    a table says which there are.
    """
    dtype: DType = flat.dtype
    bits = dtype.bits
    if flat.shape[0] and not dtype.is_float:
        low, high = _ends(flat) if bits > BYTE else (0, (1 << BYTE) - 1)
        if high - low < _most_entries(flat.shape[0]):
            size = _table_size(high - low)
            return _found(_in_table, flat, inverse, counts, size)
        bits = min(-(-(high - low).bit_length() // BYTE) * BYTE, bits)  # few kinds of kernels
    return _found(_in_order, flat, inverse, counts, bits)


def _found(find: Any, flat: Any, inverse: bool, counts: bool, *more: int) -> Kinds:
    """The kinds of a vector's elements, of what is asked for: `find` gives `_gathered` of their
    values and how often these occur, and then the inverse.
    """
    if not flat.shape[0]:
        nothing = flat.cast(dtypes.int64)
        return Kinds(flat, nothing, nothing)
    made = computed(find, flat, inverse, counts, *more)
    tables = _beginnings(made[: 2 + counts], [()] * (1 + counts), flat.device)
    which = _beginning(made[-1], flat.shape[0], flat.shape, flat.device) if inverse else None
    return Kinds(tables[0], which, tables[-1] if counts else None)


def _most_entries(length: int) -> int:
    """How many entries a table for so many elements may have."""
    return max(SMALL, TABLE * length)


def _first(held: Any, size: int) -> tuple[Any, Any]:
    """Of a vector of bools the places of the first `size` that hold, (size,), 0 where there are no
    more; and whether there is one.
    """
    number = held.cumsum(0) - 1
    rows = (held & (number < size)).where(number, size)  # the last row is for all others
    every = Handle._type.arange(held.shape[0], device=held.device)
    places = rows.new_zeros(size + 1).scatter(0, rows, every)
    order = Handle._type.arange(size, device=held.device)
    return places.narrow(0, 0, size), order < held.sum()


def _table_size(last: int) -> int:
    """Entries of a table up to the `last`: a power of two, for few kinds of kernels."""
    return 1 << max(last.bit_length(), BYTE)


def _ends(flat: Any) -> tuple[int, int]:
    """The least and the greatest of some integers or bools."""
    least, greatest = computed(_extremes, flat)
    return int(least.numpy().item()), int(greatest.numpy().item())


@repeated
def _extremes(flat: Any) -> tuple[Any, Any]:
    """The least and the greatest element, without axes."""
    return flat.amin(), flat.amax()


@repeated
def _in_table(flat: Any, inverse: bool, counts: bool, size: int) -> tuple[Any, ...]:
    """Kinds of numbers that are less than `size` more than the least."""
    wide = flat.cast(dtypes.int64)
    low = flat.amin().cast(dtypes.int64)  # the least as unsigned numbers, if they are such
    place = wide - low
    entry, op = (dtypes.int64, Ops.ADD) if counts else (dtypes.bool, Ops.STORE)
    often = _table(place, size, entry, op)
    values = (_numbers(often) + low).cast(flat.dtype)
    made = _gathered(often.bool(), values, *([often] * counts))
    return *made, *([(made[0] - 1).take(place).cast(dtypes.int64)] if inverse else [])


def _table(places: Any, size: int, entry: DType, op: Ops) -> Any:
    """A table of zeros in which ones are stored, or added, at these places."""
    empty = make(build.constant(0, entry, (size,)), places.device)
    return derive(build.scatter, (empty, places, places.ones_like(dtype=entry)), 0, op)


@repeated
def _counted(flat: Any, size: int) -> tuple[Any]:
    """How often each number below `size` occurs."""
    return (_table(flat.cast(dtypes.int64), size, dtypes.int64, Ops.ADD),)


@repeated
def _in_order(flat: Any, inverse: bool, counts: bool, bits: int) -> tuple[Any, ...]:
    """Kinds of elements whose keys, less the least, are below 2**bits."""
    keys = keys_of(flat).contiguous()
    low = keys.amin() if bits < keys.dtype.bits else 0
    rows, order = (keys - low).reshape(1, -1), None
    if inverse:
        order = sorted_numbers(rows, bits).reshape(-1).contiguous()
        ordered = keys.take(order).contiguous()
    else:
        ordered = (sorted_keys(rows, bits).reshape(-1) + low).contiguous()
    first = _differs(ordered)
    if flat.dtype.is_float:  # NaN, the greatest, is of no kind with another
        first = first | ordered.eq(ordered.dtype.max)
    return _of_runs(first, values_of(ordered, flat.dtype), order, inverse, counts)


@repeated
def _runs(flat: Any, inverse: bool, counts: bool) -> tuple[Any, ...]:
    """Kinds of neighbours."""
    return _of_runs(_differs(flat), flat, None, inverse, counts)


def _of_runs(first: Any, values: Any, order: Any, inverse: bool, counts: bool) -> tuple[Any, ...]:
    """Kinds that stand side by side, `first` saying where they begin: in place, or in `order`."""
    made = _gathered(first, values)
    which = (made[0] - 1).cast(dtypes.int64)
    if counts:
        made = *made, _table(which, values.shape[0], dtypes.int64, Ops.ADD)
    if inverse and order is not None:
        which = placed(which.reshape(1, -1), order.reshape(1, -1)).reshape(-1)
    return *made, *([which] if inverse else [])


def _differs(flat: Any) -> Any:
    """Which elements of a vector differ from the one before; the first does."""
    if flat.shape[0] < 2:
        return flat.ones_like(dtype=dtypes.bool)
    return flat[1:].ne(flat[:-1]).pad([(1, 0)], value=True)


# --- choosing -------------------------------------------------------------------------------------
@repeated
def _places(tensor: Any, apart: bool) -> tuple[Any, ...]:
    """`_gathered` of where elements that are not 0 stand: for each axis a vector, or
    (elements, axes).
    """
    flat = tensor.reshape(-1)
    found, rest = [], _numbers(flat)
    for size in reversed(known_shape(tensor.shape[1:])):
        found.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    places = [rest, *reversed(found)]
    return _gathered(flat.bool(), *(places if apart else [Handle._type.stack(places, 1)]))


@repeated
def _masked(held: Any, tensor: Any) -> tuple[Any, ...]:
    """`_gathered` of elements for which a flag holds."""
    return _gathered(held.reshape(-1), tensor.reshape(-1))


def _chosen(choose: Any, tails: Sequence[Shape], *given: Any) -> list[Any]:
    """The rows for which a flag holds of the tables, of rows of the shapes `tails`, that `choose`
    gives `_gathered`. Computed at once, whatever their count by the same kernels: the others are
    put behind them.
    """
    if not given[0].numel():
        return [table[:0] for table in choose(*given)[1:]]
    return _beginnings(computed(choose, *given), tails, given[0].device)


def _gathered(flags: Any, *tables: Any) -> tuple[Any, ...]:
    """How many flags hold up to each, and the tables with the rows for which one holds in front of
    the others.
    """
    length = flags.shape[0]
    kind = dtypes.int32 if largest(length) <= dtypes.int32.max else dtypes.int64
    ahead = flags.cumsum(0, dtype=kind).contiguous()
    number = make(iota(length, flags.device, kind), flags.device)
    last = as_number(length, flags.device) - 1
    place = flags.where(ahead - 1, last - (number - ahead)).cast(dtypes.int64)
    found = []
    for table in tables:
        shape = (largest(length), *table.shape[1:])
        nothing = make(build.constant(0, table.dtype, shape), flags.device)
        rows = place.reshape(length, *[1] * (table.ndim - 1)).expand(table.shape)
        found.append(derive(build.scatter, (nothing, rows, table), 0, Ops.STORE, True))
    return ahead, *found


def _beginnings(made: Sequence[Any], tails: Sequence[Shape], device: Any) -> list[Any]:
    """The rows for which a flag holds, of what was computed of `_gathered`, with rows of the shapes
    `tails`.
    """
    ahead, *tables = made
    flags = ahead.numpy()
    pairs = zip(tables, tails, strict=True)
    return [_beginning(one, int(flags[-1]), (len(flags), *tail), device) for one, tail in pairs]


def _beginning(table: Any, count: int, shape: Shape, device: Any) -> Any:
    """The first rows of a table of this shape, a tensor or its memory. A copy where they are few
    and it need not stay, and where that costs next to nothing.
    """
    rows = shape[0]
    if isinstance(table, Buffer):
        part = table.view(0, count * math.prod(known_shape(shape[1:])))
        if part.nbytes <= COPIED or count * KEPT < rows:
            table = Buffer(part.device, part.size, part.dtype)
            copy_buffer(table, part)
            return make(buffer_node(table, (count, *shape[1:])), device)
        table = make(buffer_node(table, shape), device)
    short = table[:count]
    return short if count * KEPT >= rows else short.contiguous()


def _numbers(flat: Any) -> Any:
    """0, 1, 2, … for the elements of a vector, int64."""
    return make(iota(flat.shape[0], flat.device), flat.device)
