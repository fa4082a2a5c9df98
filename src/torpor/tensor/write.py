"""Writing: a value put through a view makes a new version of the storage that every view shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DeviceError, DTypeError, GradientError, ShapeError, TorporError
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.computing import pipeline
from torpor.tensor.creation import as_tensor, beside, check_one
from torpor.tensor.handle import (
    Handle,
    apart,
    as_scalar,
    located,
    make,
    node_on,
    renamed,
    render_shape,
    weak_constant,
)
from torpor.tensor.host import known_shape, memory_of
from torpor.tensor.mode import grad_enabled, keeps_graphs
from torpor.tensor.path import backward, detached, unrecorded
from torpor.tensor.pending import compute_waiting, is_waiting, wait
from torpor.tensor.storage import MOST_WRITES, WRITE, Storage, remember, without_known
from torpor.tensor.watch import active, is_watched, watcher

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "complex": 4, "packed": 1}


def write(target: Handle, value: Any, of_itself: bool = False) -> None:
    """Put `value` (a tensor or a number, broadcast and cast) where `target` looks. What is written
    over has the gradient 0, but where the value is made `of_itself`.
    """
    if active and (watching := watcher()) is not None:
        watching.writing(target)
    path = target._path
    if path is not None and path.leaf and grad_enabled():
        what = "cannot write to a leaf that requires a gradient (or a view of one)"
        raise located(GradientError(f"{what}; do it inside torpor.no_grad()"), (target,))
    storage = target._storage
    if isinstance(value, Handle) and value._storage is storage and _is_there(target, value):
        return
    node, requires = _value_node(target, value)
    if storage.depth >= WRITE and is_waiting(storage) and not is_watched() and is_long(storage):
        compute_waiting()
        if not requires:
            (node,) = without_known([node])
    try:
        moved, mask = backward(path, node, storage.base)
    except TorporError as error:
        if 0 in target.shape:
            return  # nothing is written
        raise located(error, (target,)) from None
    if mask is not None:
        moved = build.elementwise(Ops.WHERE, mask, moved, storage.base)
    if not keeps_graphs() or (path is not None and path.requires is False):
        if storage.requires:  # the gradient goes on to what the tensor was made of
            moved = build.function(detached(moved), (storage.base,), "same")
        elif requires:
            moved = unrecorded(moved)
        requires = storage.requires
    elif storage.requires:
        moved = moved if grad_enabled() else unrecorded(moved)
        requires = True
        if mask is None and not of_itself:
            moved = build.over(moved, storage.base)
    storage.requires = requires
    if isinstance(value, Handle) and moved is value._current():
        moved = renamed(moved)
    elif moved.held:
        moved = apart(moved)
    storage.replace(moved)
    storage.base.held = True
    if storage.external is not None:
        _write_through(target)
    else:
        wait(storage)


def is_long(storage: Storage) -> bool:
    """Whether so many writes wait that the next is one too many: any, of a line whose graphs of
    several writes were new again and again, as where it writes to ever other places.
    """
    return storage.depth >= MOST_WRITES * WRITE or pipeline().is_restless()


def as_it_is(tensor: Any) -> Any:
    """Another tensor of this value: neither changes by writes to the other."""
    if tensor.is_pair:
        return tensor.by_parts(as_it_is)
    node = build.alias(tensor._current(), build.identity())
    return make(node, tensor._storage.device, tensor.requires_grad)


def hand_over(target: Handle, made: Handle) -> None:
    """As `assign`, of a tensor that nobody else will hold: its node is the target's now."""
    storage, path, node = target._storage, target._path, made._current()
    is_whole = path is None or (path.kind == "leaf" and path.previous is None)
    alike = storage.base.dtype is node.dtype and shape_of(storage.base) == shape_of(node)
    plain = made._path is None and storage.device == made._storage.device
    waits = storage.depth >= MOST_WRITES * WRITE or storage.external is not None
    graph = made.requires_grad or storage.requires
    if active or waits or graph or not (is_whole and alike and plain):
        write(target, made)
        return
    storage.replace(node)
    node.held = True
    wait(storage)


@contextmanager
def restored_on_failure(tensors: Sequence[Handle]) -> Iterator[None]:
    """Writes inside are undone where what they wrote cannot be computed: of a batch with an index
    that is out of bounds, say; the next may be right.
    """
    before = [(one._storage, one._storage.base, one._storage.requires) for one in tensors]
    try:
        yield
    except (TorporError, MemoryError):
        for storage, base, requires in before:
            storage.requires = requires
            storage.replace(base)
        raise


def _is_there(target: Handle, value: Handle) -> bool:
    """Whether the value stands there already: `x[0] += 1` ends by putting x[0] into x[0]."""
    return value._current() is target._current()


def _value_node(target: Handle, value: Any) -> tuple[UOp, bool]:
    shape, dtype = target.shape, target.dtype
    if not isinstance(value, Handle):
        if isinstance(value, np.ndarray | list | tuple):
            value = beside(value, target)
        else:
            return weak_constant(as_scalar(value), dtype, shape), False
    if value.dtype.kind == "packed":
        value = value.cast(dtypes.int8)
    device, own = target._storage.device, value._storage.device
    if own is not device and own != device and (value.shape or own != "CPU"):
        what = f"cannot write a value on {value.device} to a tensor on {target.device}; use .to()"
        raise located(DeviceError(what), (target, value))
    try:
        node = build.broadcast_to(build.cast(node_on(device, value), dtype), shape)
    except ShapeError:
        what = f"a value of shape {render_shape(value.shape)} does not fit {render_shape(shape)}"
        raise located(ShapeError(what), (target, value)) from None
    return node, value.requires_grad and keeps_graphs() and dtype.is_float


def _write_through(target: Handle) -> None:
    """Compute the new value at once and put it into the host's array.

    Graphs that were built before keep the old value: their buffer is replaced by a copy of it.
    """
    from torpor.tensor.computing import compute

    storage = target._storage
    old = storage.external
    assert old is not None, "only aliases of host memory are written through"
    (value,) = compute([(storage.base, storage.device)])
    array, shape = memory_of(old), shape_of(value)
    kept = Buffer(old.device, old.size, old.dtype).allocate().copyin(array)
    fresh = Buffer(old.device, old.size, old.dtype).allocate(array)
    result = value.arg if value.op is Ops.BUFFER else value.src[0].arg
    array[:] = memory_of(result)
    remember(UOp(Ops.BUFFER, old.dtype, (), old), UOp(Ops.BUFFER, old.dtype, (), kept))
    storage.external = fresh
    storage.requires = False
    storage.replace(buffer_node(fresh, shape))


def _check_fits(target: Handle, result: Any) -> None:
    """An in-place result must have the target's shape and a format that it can take."""
    if result.shape != target.shape:
        what = f"an in-place result of shape {result.shape} does not fit {target.shape}"
        raise located(ShapeError(what), (target, result))
    _check_kind(target, result.dtype)


def _check_kind(target: Handle, dtype: DType) -> None:
    if _RANK[dtype.kind] > _RANK[target.dtype.kind] and not (dtype.is_int and target.dtype.is_int):
        what = f"a result of {dtype} cannot be written to a tensor of {target.dtype} in place"
        raise located(DTypeError(what), (target,))


def _is_one(value: Any) -> bool:
    """Whether the value is a number, or a tensor of one element."""
    return not isinstance(value, Handle) or all(size == 1 for size in value.shape)


def update(target: Any, result: Any) -> Any:
    """Write the result of an in-place operation; the target."""
    _check_fits(target, result)
    write(target, result, of_itself=True)
    return target


class Write(Handle):
    """What changes a tensor in place. The other forms (`add_`, `+=`) are made in `tensor.py`."""

    __slots__ = ()

    def _take_result(self, result: Any) -> Tensor:
        """Take what a function made where this was given as `out`; without elements it takes the
        shape too.
        """
        if self.numel() or self.shape == result.shape:
            return update(self, result)
        _check_kind(self, result.dtype)
        self._become(result.cast(self.dtype))
        return self  # type: ignore[return-value]

    def assign(self, value: Any) -> Tensor:
        """Take the value of a tensor of the same shape (`ShapeError`) and format (`DTypeError`);
        itself.
        """
        given = as_tensor(value, self.dtype if not isinstance(value, Handle) else None, self.device
                          if not isinstance(value, Handle) else None)  # fmt: skip
        if given.shape != self.shape or given.dtype is not self.dtype:
            what = (
                f"assign needs shape {render_shape(self.shape)} and {self.dtype}, got "
                f"{render_shape(given.shape)} and {given.dtype}"
            )
            kind = DTypeError if given.shape == self.shape else ShapeError
            raise located(kind(what), (self, given))
        write(self, given)
        return self  # type: ignore[return-value]

    def copy_(self, source: Any) -> Tensor:
        """Take the value of `source`, broadcast to this shape, cast, and copied from its device;
        itself.
        """
        if isinstance(source, Handle) and source.device != self.device:
            source = source.to(self.device)
        write(self, source)
        return self  # type: ignore[return-value]

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Put what a function of Python numbers gives for each element in its place, one after the
        other, at the call; itself. A function of tensors is much quicker. `GradientError` if it
        requires a gradient.

        >>> Tensor([1, 2]).apply_(lambda value: 10 * value).tolist()
        [10, 20]
        """
        if self.requires_grad:
            what = "apply_ of a tensor that requires a gradient: x.detach().apply_(...)"
            raise located(GradientError(what), (self,))
        flat: Any = self.detach()
        values = [callable(value) for value in flat.flatten().tolist()]
        return self.copy_(as_tensor(values).reshape(self.shape) if values else self)

    def fill_(self, value: Any) -> Tensor:
        """Every element becomes `value`, a number or a 0-d tensor; itself."""
        if isinstance(value, Handle):
            check_one(value)
        write(self, value)
        return self  # type: ignore[return-value]

    def zero_(self) -> Tensor:
        """Every element becomes 0; itself."""
        return self.fill_(0)

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """The elements whose indices are equal become `fill_value`; with `wrap` those of a tall
        matrix go on below, one row left out; itself.
        """
        if self.ndim < 2:
            raise located(ShapeError("fill_diagonal_ is of two axes or more"), (self,))
        made: Any = self
        if self.ndim > 2 and len({*self.shape}) > 1:
            what = "fill_diagonal_ of more than two axes needs them to be of one length"
            raise located(ShapeError(what), (self,))
        height, width = known_shape(self.shape[:2])
        step = width + 1 if wrap and self.ndim == 2 else max(height, 1)
        for start in range(0, height, step):
            part = made.narrow(0, start, height - start)
            while part.ndim > 1:
                part = part.diagonal(0, 0, 1)
            part.fill_(fill_value)
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        """`x[key] = value` for basic keys, and for one mask of bools."""
        if isinstance(value, np.ndarray | list | tuple):
            value = beside(value, self)
        if isinstance(key, np.ndarray) and key.dtype == np.bool_:
            key = beside(key, self)
        if isinstance(key, Handle) and key.dtype.kind == "bool" and _is_one(value):
            mask: Any = key
            mask = mask.reshape(*key.shape, *(1,) * (self.ndim - key.ndim))
            number = value.reshape(()) if isinstance(value, Handle) else value
            write(self, self.masked_fill(mask, number), of_itself=True)
            return
        self._written_at(key, value)
