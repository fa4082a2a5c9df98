"""What is counted, and results whose length depends on the values: those compute them at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.infer import largest
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.tensor.again import computed
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, located, make
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.radix import keys_of, placed, sorted_keys, sorted_numbers, values_of
from torpor.tensor.scatter import as_number

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

SMALL: Final = 1 << 12  # entries of a table that costs next to nothing
TABLE: Final = 2  # most entries of a table of kinds, for each element
BYTE: Final = 8
KEPT: Final = 4  # a result keeps memory that is at most this many times as large

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
        flat = _where(self.reshape(-1))
        if self.ndim == 1:
            return (flat,) if as_tuple else flat.reshape(-1, 1)
        found, rest = [], flat
        for size in reversed(known_shape(self.shape)):
            found.append(rest % max(size, 1))
            rest = rest // max(size, 1)
        found.reverse()
        if as_tuple:
            return tuple(found) if found else (flat,)
        if not found:
            return flat.reshape(-1, 1).narrow(1, 0, 0)
        return Handle._type.stack(found, 1)

    def argwhere(self) -> Tensor:
        """As `nonzero`: int64 (count, axes)."""
        return self.nonzero()

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements for which a mask of bools (broadcast) holds, in row-major order: (count,).
        Computed at the call.

        >>> Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist()
        [1, 3]
        """
        if mask.dtype.kind != "bool":
            raise located(DTypeError(f"a mask holds bools, not {mask.dtype}"), (self, mask))
        shape = build.broadcast_shapes(self.shape, mask.shape)
        places = _where(mask.expand(shape).reshape(-1))
        return self.expand(shape).reshape(-1).take(places)

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy in which the mask's true places (broadcast) hold the elements of `source`, in
        order. Too few of them raise at realisation.
        """
        held = mask.expand(self.shape)
        number = held.reshape(-1).cumsum(0) - 1
        chosen = source.reshape(-1).take(held.reshape(-1).where(number, 0)).reshape(self.shape)
        return held.where(chosen.cast(self.dtype), self)

    def bincount(self, weights: Any = None, minlength: int = 0) -> Tensor:
        """How often 0, 1, 2, … occur in a vector of integers, int64, or the sums of their `weights`
        (of the vector's length), in the weights' format. The length, greatest element + 1 and at
        least `minlength`, is computed at the call; a negative element raises at realisation.

        >>> Tensor([0, 2, 2]).bincount().tolist()
        [1, 0, 2]
        """
        if self.ndim != 1 or not (self.dtype.is_int or self.dtype.kind == "bool"):
            raise located(ShapeError("bincount needs a vector of integers"), (self,))
        length = int(self.amax().item()) + 1 if self.shape[0] else 0
        where = self.device
        if weights is None:
            weights = self.ones_like(dtype=dtypes.int64)
        given = beside(weights, self)
        shape = (max(length, minlength),)
        zeros = make(build.constant(0, given.dtype, shape), where)
        wide: Any = self.cast(dtypes.int64)
        counted = derive(build.check, (wide, wide >= 0), NEGATIVE)
        return derive(build.scatter, (zeros, counted, given), 0, Ops.ADD)

    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of `bins` equal parts of [min, max], (bins,) in the
        tensor's format; others count nowhere. With min == max the elements' own extremes are taken.

        >>> Tensor([1.0, 2.0, 2.0, 4.0]).histc(bins=3).tolist()
        [1.0, 2.0, 1.0]
        """
        flat: Any = self.reshape(-1).detach()
        low, high = (flat.amin(), flat.amax()) if min == max and flat.numel() else (min, max)
        width = high - low
        part = ((flat - low) * bins / width).floor().clamp(0, bins - 1)
        inside = (flat >= low) & (flat <= high)
        place = inside.where(part.nan_to_num(0.0), 0).cast(dtypes.int64)
        zeros = make(build.constant(0, self.dtype, (bins,)), self.device)
        return derive(build.scatter, (zeros, place, inside.cast(self.dtype)), 0, Ops.ADD)

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The values that occur, in order: (count,). With `return_inverse` also which of them each
        element is (int64, the tensor's shape), with `return_counts` how often each occurs (int64).
        Each NaN is a value of its own. Computed at the call; `dim` is not there yet (`ShapeError`).

        >>> Tensor([3, 1, 3]).unique(return_counts=True)[1].tolist()
        [1, 2]
        """
        if dim is not None:
            raise located(ShapeError("unique compares elements; dim is not there yet"), (self,))
        found = _kinds(self.reshape(-1).detach(), return_inverse, return_counts)
        return _asked(found, self.shape, return_inverse, return_counts)

    def unique_consecutive(self, return_inverse: bool = False, return_counts: bool = False) -> Any:
        """As `unique`, of neighbours only, in their order.

        >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
        [1, 2, 1]
        """
        flat: Any = self.reshape(-1)
        first = _differs(flat)
        (starts,) = _chosen(first, _numbers(flat))
        found = Kinds(flat.take(starts), _which(first), _lengths(starts, flat.shape[0]))
        return _asked(found, self.shape, return_inverse, return_counts)


def _asked(found: Kinds, shape: Any, return_inverse: bool, return_counts: bool) -> Any:
    """What `unique` gives back: the values alone, or a tuple with what else is asked for."""
    parts = [found.values]
    parts += [found.inverse.reshape(shape)] if return_inverse else []
    parts += [found.counts] if return_counts else []
    return tuple(parts) if len(parts) > 1 else parts[0]


def _kinds(flat: Any, inverse: bool, counts: bool) -> Kinds:
    """What `unique` gives, of what is asked for. Integers that lie close together need no order:
    a table says which there are.
    """
    if not flat.shape[0]:
        nothing = flat.cast(dtypes.int64)
        return Kinds(flat, nothing, nothing)
    keys, low, high = computed("extremes", _extremes, flat)
    span = int(high.item()) - int(low.item())
    if not flat.dtype.is_float and span < max(SMALL, TABLE * flat.shape[0]):
        size = 1 << max(span.bit_length(), SMALL.bit_length() - 1)
        return _from_table(keys, low, size, flat.dtype, inverse, counts)
    whole = -(-max(span.bit_length(), 1) // BYTE) * BYTE  # few kinds of kernels
    bits = min(whole, keys.dtype.bits)
    if not inverse and not counts:
        gather = partial(_sorted_kinds, bits, flat.dtype)
        (values,) = _beginnings(computed(("kinds", bits, flat.dtype), gather, keys, low))
        return Kinds(values, None, None)
    if inverse:
        order = sorted_numbers((keys - low).reshape(1, -1), bits).reshape(-1).contiguous()
        ordered = keys.take(order)
    else:
        order = None
        ordered = sorted_keys((keys - low).reshape(1, -1), bits).reshape(-1) + low
    return _from_sorted(ordered.contiguous(), order, flat.dtype, counts)


def _extremes(flat: Any) -> tuple[Any, Any, Any]:
    """The keys of a vector, the least and the greatest of them."""
    keys = keys_of(flat).contiguous()
    return keys, keys.amin(), keys.amax()


def _sorted_kinds(bits: int, dtype: DType, keys: Any, low: Any) -> list[Any]:
    """`_gathered` of the values that occur; their keys, less the least, are below 2**bits."""
    ordered = (sorted_keys((keys - low).reshape(1, -1), bits).reshape(-1) + low).contiguous()
    return _gathered(_first_of_kind(ordered, dtype), values_of(ordered, dtype))


def _from_table(keys: Any, low: Any, size: int, dtype: DType, inverse: bool, counts: bool) -> Kinds:
    """Kinds of keys that are less than `size` more than the least."""
    if inverse:
        occurs, vectors = _table(size, dtype, counts, keys, low)
        values, *rest = _chosen(occurs, *vectors)
        which = _which(occurs).take((keys - low).cast(dtypes.int64))
    else:
        gather = partial(_table_kinds, size, dtype, counts)
        values, *rest = _beginnings(computed(("table", size, dtype, counts), gather, keys, low))
        which = None
    return Kinds(values, which, rest[0] if counts else None)


def _table(size: int, dtype: DType, counts: bool, keys: Any, low: Any) -> tuple[Any, list[Any]]:
    """For each possible key whether it occurs; the values that they stand for and, with `counts`,
    how often they do.
    """
    place = (keys - low).cast(dtypes.int64)
    entry = dtypes.int64 if counts else dtypes.bool
    empty = make(build.constant(0, entry, (size,)), keys.device)
    op = Ops.ADD if counts else Ops.STORE
    often = derive(build.scatter, (empty, place, keys.ones_like(dtype=entry)), 0, op)
    occurs = often.bool()
    values = values_of(_numbers(occurs).cast(low.dtype) + low, dtype)
    return occurs, [values, *([often] * counts)]


def _table_kinds(size: int, dtype: DType, counts: bool, keys: Any, low: Any) -> list[Any]:
    """`_gathered` of what `_table` gives."""
    occurs, vectors = _table(size, dtype, counts, keys, low)
    return _gathered(occurs, *vectors)


def _from_sorted(keys: Any, order: Any, dtype: DType, counts: bool) -> Kinds:
    """Kinds of keys in order. NaN, the greatest, is of no kind with another."""
    first = _first_of_kind(keys, dtype)
    values, *rest = _chosen(first, values_of(keys, dtype), *([_numbers(keys)] * counts))
    often = _lengths(rest[0], keys.shape[0]) if counts else None
    if order is None:
        return Kinds(values, None, often)
    inverse = placed(_which(first).reshape(1, -1), order.reshape(1, -1)).reshape(-1)
    return Kinds(values, inverse, often)


def _first_of_kind(keys: Any, dtype: DType) -> Any:
    """Which of the keys in order are the first of a kind."""
    first = _differs(keys)
    return first | keys.eq(keys.dtype.max) if dtype.is_float else first


def _where(flat: Any) -> Any:
    """The numbers of the elements of a vector that are not 0, int64."""
    if not flat.shape[0]:
        return _numbers(flat)
    (places,) = _beginnings(computed("where", _places_of, flat))
    return places


def _places_of(flat: Any) -> list[Any]:
    """`_gathered` of the numbers of what is not 0."""
    return _gathered(flat.bool(), _numbers(flat))


def _numbers(flat: Any) -> Any:
    """0, 1, 2, … for the elements of a vector, int64."""
    return make(iota(flat.shape[0], flat.device), flat.device)


def _differs(flat: Any) -> Any:
    """Which elements of a vector differ from the one before; the first does."""
    if flat.shape[0] < 2:
        return flat.ones_like(dtype=dtypes.bool)
    return flat[1:].ne(flat[:-1]).pad([(1, 0)], value=True)


def _which(first: Any) -> Any:
    """For each element the number of its kind, where `first` holds for the first of each."""
    return first.cumsum(0) - 1


def _lengths(starts: Any, length: int) -> Any:
    """How long runs are that begin at `starts`, the last at the end of the vector."""
    if not starts.shape[0]:
        return starts
    return starts[1:].cat(starts.full_like(length)[:1]) - starts


def _chosen(flags: Any, *vectors: Any) -> list[Any]:
    """Of each vector the elements for which a flag holds. Computed at once, whatever their count by
    the same kernels: the others are put behind them.
    """
    if not flags.shape[0]:
        return [vector[:0] for vector in vectors]
    made = _gathered(flags, *vectors)
    made[0].realize(*made[1:])
    return _beginnings(made)


def _gathered(flags: Any, *vectors: Any) -> list[Any]:
    """How many flags hold up to each, and the vectors with the elements for which one holds in
    front of the others.
    """
    length = flags.shape[0]
    kind = dtypes.int32 if largest(length) <= dtypes.int32.max else dtypes.int64
    ahead = flags.cumsum(0, dtype=kind).contiguous()
    number = make(iota(length, flags.device, kind), flags.device)
    last = as_number(length, flags.device) - 1
    place = flags.where(ahead - 1, last - (number - ahead)).cast(dtypes.int64)
    found = []
    for vector in vectors:
        nothing = make(build.constant(0, vector.dtype, (largest(length),)), flags.device)
        found.append(derive(build.scatter, (nothing, place, vector), 0, Ops.STORE, True))
    return [ahead, *found]


def _beginnings(made: list[Any]) -> list[Any]:
    """The elements for which a flag holds, of what `_gathered` gave."""
    ahead, *found = made
    count = int(ahead[-1].item())
    return [_beginning(vector, count) for vector in found]


def _beginning(vector: Any, count: int) -> Any:
    """The first elements of a vector; a copy where it is much longer, which then need not stay."""
    short = vector[:count]
    return short if count * KEPT >= vector.shape[0] else short.contiguous()
