"""What is counted, and results whose length depends on the values: those compute them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, located, make
from torpor.tensor.host import known_shape
from torpor.tensor.iota import iota
from torpor.tensor.radix import placed

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

NEGATIVE: Final = Requirement("index", "bincount counts no negative numbers")


class Kinds(NamedTuple):
    """What `unique` found: the values that occur, for each element which of them it is, and how
    often each occurs.
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
        flat = _where_true(self.reshape(-1).bool())
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
        places = _where_true(mask.expand(shape).reshape(-1))
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
        Computed at the call; `dim` is not there yet (`ShapeError`).

        >>> Tensor([3, 1, 3]).unique(return_counts=True)[1].tolist()
        [1, 2]
        """
        if dim is not None:
            raise located(ShapeError("unique compares elements; dim is not there yet"), (self,))
        flat: Any = self.reshape(-1)
        order = flat.argsort(0).contiguous()
        values = flat.take(order).contiguous()
        values.realize(order)  # once, for all that follows
        found = _runs(values)
        inverse = placed(found.inverse.reshape(1, -1), order.reshape(1, -1)).reshape(self.shape)
        return _asked(found, inverse, return_inverse, return_counts)

    def unique_consecutive(self, return_inverse: bool = False, return_counts: bool = False) -> Any:
        """As `unique`, of neighbours only, in their order.

        >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
        [1, 2, 1]
        """
        found = _runs(self.reshape(-1))
        return _asked(found, found.inverse.reshape(self.shape), return_inverse, return_counts)


def _asked(found: Kinds, inverse: Any, return_inverse: bool, return_counts: bool) -> Any:
    parts = [found.values]
    parts += [inverse] if return_inverse else []
    parts += [found.counts] if return_counts else []
    return tuple(parts) if len(parts) > 1 else parts[0]


def _runs(flat: Any) -> Kinds:
    """Equal neighbours of a vector as one."""
    length = flat.shape[0]
    first = flat.ones_like(dtype=dtypes.bool)
    if length > 1:
        first = (flat[1:].ne(flat[:-1])).pad([(1, 0)], value=True)
    inverse = (first.cumsum(0) - 1).contiguous()
    starts = _where_true(first)
    ends = starts[1:].cat(first.full_like(length, dtype=dtypes.int64)[:1])
    return Kinds(flat.take(starts), inverse, ends - starts)


def _where_true(flags: Any) -> Any:
    """The numbers of the elements of a vector that hold, int64. The count is computed at once."""
    length, where = flags.shape[0], flags.device
    if not length:
        return make(build.constant(0, dtypes.int64, (0,)), where)
    ahead = flags.cumsum(0).realize()
    count = int(ahead[-1].item())
    places = flags.where(ahead - 1, count)  # those that do not hold go to one place, cut away
    zeros = make(build.constant(0, dtypes.int64, (count + 1,)), where)
    number = make(iota(length, where), where)
    return derive(build.scatter, (zeros, places, number), 0)[:count].contiguous()
