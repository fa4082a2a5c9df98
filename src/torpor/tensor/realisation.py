"""From a graph to values: realise, schedule, and the ways out to the host."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torpor.base.dtypes import SMALL_FLOATS, dtypes, names_format
from torpor.base.errors import DTypeError, ShapeError, TorporError
from torpor.device import Device
from torpor.graph import build
from torpor.ir.infer import JOINT, product
from torpor.ir.ops import Ops
from torpor.ir.records import Program, ScheduleItem, Stored
from torpor.ir.uop import UOp
from torpor.tensor.computing import compute, computed, pipeline
from torpor.tensor.dlpack import given
from torpor.tensor.formats import class_name, format_of_class
from torpor.tensor.handle import Handle, derive, located, make, paired, render_shape, touch
from torpor.tensor.host import Array, copy_of, is_moved, known_shape, number_in, read, stored
from torpor.tensor.path import RESTING, Step
from torpor.tensor.pending import (
    ALONE,
    are_waiting,
    computed_by,
    leave,
    let_graphs_go,
    note_computed,
    taken_along,
)
from torpor.tensor.size import Count
from torpor.tensor.storage import (
    Storage,
    age_of,
    is_buffer,
    is_settled,
    note_results,
    reads_memory,
    recall,
    settle,
    without_known,
)
from torpor.tensor.text import formatted, text_of
from torpor.tensor.watch import active, told, watcher

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor


def compute_all(roots: Sequence[tuple[UOp, str]]) -> list[UOp]:
    """As `compute`, and along with them what waits. Where that fails, the roots are computed alone,
    and then each that waits: one that fails is left to whoever asks for it.
    """
    let_graphs_go()
    note_computed()
    values = _computed_along(roots)
    let_graphs_go()  # before another graph is made of them
    return values


def _computed_along(roots: Sequence[tuple[UOp, str]]) -> list[UOp]:
    along = taken_along([node for node, _ in roots])
    if along:
        asked = {node for node, _ in roots}
        along = [one for one in along if one.base not in asked]
    if not along:
        return compute(roots) if roots else []
    nodes = [one.base for one in along]
    more = [(node, one.device) for node, one in zip(nodes, along, strict=True)]
    try:
        values = compute([*roots, *more])
    except (TorporError, MemoryError):
        values = compute(roots) if roots else []
        _compute_each(along)
        return values
    for storage, node, value in zip(along, nodes, values[len(roots) :], strict=True):
        storage.settle(node, value)
    return values[: len(roots)]


def compute_deep(storages: Sequence[Storage]) -> None:
    """Compute these, whose graphs grow; of those carried on from such to such the graphs are kept
    for a while (see `storage.settle`), since a gradient may be asked for.
    """
    nodes = [(one.base, one.device) for one in storages]
    try:
        values = compute_all(nodes)
    except (TorporError, MemoryError):
        _compute_each(storages)
        return
    ages: dict[UOp, int] = {}
    for storage, (node, _), value in zip(storages, nodes, values, strict=True):
        if reads_memory(node):
            settle(node, value, 1 + age_of(node, ages), storage)
        else:
            storage.settle(node, value)


def _compute_each(storages: Sequence[Storage]) -> None:
    """Compute one after the other; those that fail are left."""
    for storage in storages:
        node = storage.base
        try:
            (value,) = compute([(node, storage.device)])
            storage.settle(node, value)
        except (TorporError, MemoryError):
            leave(storage)


def realize(*tensors: Handle) -> None:
    """Compute these tensors together. Errors that depend on values raise before any is changed."""
    tensors = tuple([part for tensor in tensors for part in tensor._parts])
    if active:
        touch(*tensors)
    for tensor in tensors:
        _cut_loose(tensor)
    storages = [tensor._storage for tensor in tensors]
    note_results(storages)
    waiting = [(s, s.base) for s in storages if recall(s.base) is None and not is_buffer(s.base)]
    values = compute_all([(node, storage.device) for storage, node in waiting]) if waiting else ()
    for (storage, node), value in zip(waiting, values, strict=True):
        storage.settle(node, _of_its_own(storage, value))
    for storage in storages:
        if (known := recall(storage.base)) is not None:
            storage.settle(storage.base, _of_its_own(storage, known))


def _realize_alone(tensor: Handle) -> None:
    """As `realize`, of one tensor. One that is no view, while nobody watches, is the hot path."""
    if active or tensor._path is not None:
        realize(tensor)
        return
    storage = tensor._storage
    if is_settled(storage):
        return
    node = storage.base
    if storage.requires or are_waiting() or recall(node) is not None:
        realize(tensor)
        return
    value = computed(node, storage.device)
    if value is node:  # memory on several devices
        return
    storage.settle(node, _of_its_own(storage, value))


def _of_its_own(storage: Storage, value: UOp) -> UOp:
    """The value, copied if it is another storage's."""
    if not storage.would_share(value):
        return value
    apart = UOp(Ops.CONTIGUOUS, value.dtype, (value,), Stored("held by another tensor"))
    (copy,) = compute([(apart, storage.device)])
    return copy


def _cut_loose(tensor: Handle) -> None:
    """Give a view that shares storage with no other handle a storage of its own: so only what it
    sees is computed, and what it was cut from can go. A frozen leaf stays the leaf that it is.
    """
    storage, path = tensor._storage, tensor._path
    packed = tensor.dtype.kind == "packed"  # what is in memory is below it
    if packed or path is None or path.leaf or path.arg == RESTING:
        return
    if storage.external is not None or is_buffer(storage.base):
        return
    if sys.getrefcount(storage) <= ALONE:
        node, requires = tensor._current(), tensor.requires_grad
        tensor._storage = Storage(node, storage.device, requires)
        tensor._path, tensor._stamp = None, 0


def value_of(tensor: Handle, lent: bool = False) -> Array:
    """The elements as an array, which may share the tensor's memory (`lent`: and be written to)."""
    if tensor.dtype.kind == "packed":
        return value_of(_wide(tensor)).astype(tensor.dtype.numpy)
    if active and (watching := watcher()) is not None:
        watching.read(tensor, lent)
    node = tensor._current()
    array = read(node)
    if array is not None:
        return array
    if JOINT in tensor._storage.device:
        return value_of(tensor.to(tensor.device[0]), lent)
    if tensor._path is None or (tensor._path.kind == "leaf" and tensor._path.previous is None):
        _realize_alone(tensor)
        array = read(tensor._current())
    if array is None:
        (value,) = compute_all([(node, tensor._storage.device)])
        array = read(value)
    assert array is not None, "what was computed can be read"
    return array.reshape(known_shape(tensor.shape))


def _read_off(tensor: Handle, read_as: Callable[[UOp], Any]) -> Any:
    """What is read of a tensor's memory, computed if need be; None of a view, and of what is moved
    or constant and so needs no kernel.
    """
    if active or tensor._path is not None:
        return None
    storage = tensor._storage
    found = read_as(storage.base)
    if found is None and not is_moved(storage.base):
        _realize_alone(tensor)
        found = read_as(storage.base)
    return found


def values_in(storage: Storage) -> Array:
    """The elements of a storage's base as an array."""
    return value_of(make(storage.base, storage.device, storage.requires, storage))


def cut_axis(storage: Storage) -> int | None:
    """The axis along which a storage over several devices is cut; None if it is not."""
    if JOINT not in storage.device:
        return None
    realize(make(storage.base, storage.device, storage.requires, storage))
    base = recall(storage.base) or storage.base
    axis: int | None = base.arg[0] if base.op is Ops.MULTI else None
    return axis


def _reduced(storage: Storage) -> tuple[Any, ...]:
    """Values, never graphs. Pickle keeps what shares a storage tied."""
    return stored, (values_in(storage), storage.base.dtype, storage.device, cut_axis(storage))


copyreg.pickle(Storage, _reduced)
computed_by(compute_all, compute_deep)


class Operation(NamedTuple):
    """What `grad_fn` is."""

    op: str

    def name(self) -> str:
        """The operation's name in graphs."""
        return self.op


class Realisation(Handle):
    """Computing, and reading what was computed."""

    __slots__ = ()

    def realize(self, *more: Tensor) -> Tensor:
        """Compute this tensor, and `more` together with it; itself. Errors that depend on values,
        integer division by zero and indices out of bounds, raise here, and nothing is changed then.
        """
        if more:
            realize(self, *more)
        else:
            _realize_alone(self)
        return self  # type: ignore[return-value]

    def schedule(self, *more: Tensor) -> list[ScheduleItem]:
        """The kernels that realising would run, in order. Runs nothing and changes nothing."""
        tensors = (self, *more)
        nodes = without_known([_asked(tensor) for tensor in tensors])
        return pipeline().schedule(
            [(n, t._storage.device) for n, t in zip(nodes, tensors, strict=True)]
        )

    def schedule_with_vars(self, *more: Tensor) -> tuple[list[ScheduleItem], dict[str, int]]:
        """The schedule, and the values of the graph's bound variables in it, by name."""
        from torpor.schedule.tile_groups import counts_blocks

        items = self.schedule(*more)
        bound = [b for item in items for b in item.bindings if not counts_blocks(b.src[0])]
        return items, {node.src[0].arg[0]: node.src[1].arg for node in bound}

    # --- to the host ------------------------------------------------------------------------------
    def numpy(self, copy: bool = True) -> Array:
        """The elements as an array of their own, which may be written to; with copy=False one that
        may share the tensor's memory. Computes what is needed.
        """
        if not copy:
            return value_of(self, lent=True)
        made = _read_off(self, copy_of)
        return np.array(value_of(self), copy=True, order="C") if made is None else made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy(copy is None or copy)
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        array = value_of(self.realize(), lent=True)
        return given(array, self.dtype, options)  # of a constant its own

    def __dlpack_device__(self) -> tuple[int, int]:
        return value_of(self).__dlpack_device__()

    def item(self) -> Any:
        """The only element as a Python number; `ShapeError` if there are more or none."""
        only = _read_off(self, number_in)
        if only is not None:
            return only
        array = value_of(self)
        if array.size != 1:
            what = f"item() needs one element; shape {render_shape(self.shape)} has {array.size}"
            raise located(ShapeError(what), (self,))
        number = array.reshape(-1)[0]
        return float(number) if self.dtype.is_float else number.item()

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists; a number for a 0-d tensor."""
        array = value_of(self)
        return (array.astype(np.float32) if self.dtype in SMALL_FLOATS else array).tolist()

    def __bool__(self) -> bool:
        return bool(self._only("bool"))

    def __int__(self) -> int:
        return int(self._only("int"))

    def __float__(self) -> float:
        return float(self._only("float"))

    def __index__(self) -> int:
        if self.ndim or not (self.dtype.is_int or self.dtype.kind == "bool"):
            what = f"only a 0-d integer tensor is an index, not {self.dtype} with {self.ndim} axes"
            raise located(DTypeError(what), (self,))
        return int(self.item())

    def _only(self, what: str) -> Any:
        if self.shape and self.size != 1:
            problem = f"{what}() needs one element, not {int(self.size)}; use .any() or .all()"
            raise located(ShapeError(problem), (self,))
        return self.item()

    # --- size -------------------------------------------------------------------------------------
    @property
    def size(self) -> Any:
        """How many elements there are; called, the shape (or one axis of it) as in PyTorch."""
        count = product(shape := self.shape)
        return Count(shape, count) if isinstance(count, int) else told((count,))[0]

    def numel(self) -> Any:
        """How many elements there are."""
        return told((product(self.shape),))[0]

    nelement = numel

    def dim(self) -> int:
        """How many axes it has."""
        return self.ndim

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return told(((self.numel() * self.dtype.bits + 7) // 8,))[0]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return known_shape(self.shape[:1])[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("a 0-d tensor cannot be iterated over")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool(self.eq(value).any())

    # --- copies and places ------------------------------------------------------------------------
    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The same value in memory of its own, in row-major order, computed once: fusion ends here.
        Not a view: writes to it are not seen by this tensor.
        """
        return self.clone() if self.dtype.kind == "packed" else derive(build.contiguous, (self,))

    def clone(self, memory_format: Any = None) -> Tensor:
        """The same value, lazily; writes to either are not seen by the other."""
        if self._storage.external is not None:
            return derive(build.contiguous, (self.realize(),)).realize()
        if self.dtype.kind == "packed":
            return _wide(self).cast(self.dtype)
        return derive(_same, (self,))

    def to(self, *arguments: Any, **options: Any) -> Tensor:
        """On another device, in another format, or both, or as another tensor has them; itself if
        nothing changes.

        >>> Tensor([1.5]).to("int32").tolist()
        [1]
        """
        made: Any = self
        named = [("", value) for value in arguments] + list(options.items())
        for name, value in named:
            if isinstance(value, Handle):
                made = made.to(value.device).cast(value.dtype)
            elif isinstance(value, tuple) or (
                isinstance(value, str) and name != "dtype" and not names_format(value)
            ):
                made = _moved(made, Device.canonicalize(value))
            elif value is not None and not isinstance(value, bool):
                made = made.cast(value)
        return made.clone() if made is self and options.get("copy") else made

    def cpu(self) -> Tensor:
        """On the CPU."""
        return self.to("CPU")

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """In another format; without one the name of PyTorch's class of such tensors, which is
        taken for a format, too.

        >>> Tensor([1.5]).type(), Tensor([1.5]).type("torch.LongTensor").tolist()
        ('torch.FloatTensor', [1])
        """
        if dtype is None:
            room, kind = self.device.partition(":")[0].lower(), class_name(self.dtype)
            return f"torch.{'' if room == 'cpu' else room + '.'}{kind}"
        return self.to(format_of_class(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        """In the format of another tensor, and on its device."""
        return self.to(other)

    def is_floating_point(self) -> bool:
        """Whether its format is a float's."""
        return self.dtype.is_float

    @property
    def is_leaf(self) -> bool:
        """Whether no operation that a gradient flows through made it, as in PyTorch."""
        path: Step | None = self._path
        return not self.requires_grad or (path is not None and path.kind == "leaf")

    @property
    def grad_fn(self) -> Operation | None:
        """What made it, where a gradient flows through that: None for leaves."""
        return None if self.is_leaf else Operation(self._current().op.name)

    # --- text -------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return text_of(self)

    def __format__(self, specification: str) -> str:
        return formatted(self, specification)


def memoryview_of(tensor: Any) -> memoryview:
    """The elements as a memoryview, shared with the tensor where the host sees its memory;
    `DTypeError` for bfloat16 and floats of 8 bits, which it does not have.
    """
    if tensor.dtype.numpy.isbuiltin != 1:
        bits = f"x.bitcast('uint{max(tensor.dtype.bits, 8)}')"
        what = f"a memoryview has no {tensor.dtype.name}; use {bits}.data() or x.numpy()"
        raise located(DTypeError(what), (tensor,))
    return value_of(tensor, lent=True).data


def _same(node: UOp) -> UOp:
    return node


def _asked(tensor: Handle) -> UOp:
    """The node that is computed for a tensor: of packed numbers the memory that they are in."""
    return tensor._storage.base if tensor.dtype.kind == "packed" else tensor._current()


def _wide(tensor: Any) -> Any:
    """Packed numbers in 8 bits each."""
    return tensor.cast(dtypes.int8 if tensor.dtype.is_signed else dtypes.uint8)


def _moved(tensor: Any, device: str) -> Any:
    if tensor.device == device:
        return tensor
    if tensor.is_pair:
        return paired(*[_moved(part, device) for part in tensor._parts])
    if tensor.dtype.kind == "packed":
        return _moved(_wide(tensor), device).cast(tensor.dtype)
    return make(build.copy_to(tensor._operand(), device), device, tensor.requires_grad)


def lower(*tensors: Handle, target: str | None = None, opts: Any = None) -> list[Program]:
    """The programs that realising would run, compiled for a target and not run, with or without its
    device: "cpu", "c", "cuda", "cuda:sm_90a", "opencl", "metal" or "wgsl" (None: the tensors' own).

    opts: None lets the compiler choose, [] applies none, a list is applied as given.
    """
    nodes = without_known([_asked(tensor) for tensor in tensors])
    roots = [(node, tensor._storage.device) for node, tensor in zip(nodes, tensors, strict=True)]
    return pipeline().lower(roots, target, opts)
