"""`Handle`: a storage and a path to the view of it that this handle is; what all families use.

Building an operation is the hot path. A handle keeps the node that it stands for and derives it
anew only when its storage has changed.
"""

from __future__ import annotations

import math
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from torpor.base.dtypes import DType, Scalar, dtypes
from torpor.base.errors import DeviceError, DTypeError, TorporError
from torpor.base.promotion import promote, weak_dtype
from torpor.base.site import Site, decode, here
from torpor.device import named
from torpor.graph import build
from torpor.graph.bare import UNRECORDED
from torpor.ir.infer import JOINT, Shape, shape_of, shaped
from torpor.ir.ops import COMPARE, Ops
from torpor.ir.uop import UOp
from torpor.tensor.mode import default_float, grad_enabled, keeps_graphs, with_tangents
from torpor.tensor.path import FORWARD, Step, extended, forward, unrecorded
from torpor.tensor.size import Size
from torpor.tensor.storage import DEEP, Storage, note_made
from torpor.tensor.watch import Traced, active, told, watcher

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

MAXIMUM_ORIGINS: Final = 8
_NUMBERS: Final = frozenset({int, float, bool})
_ARRAYS: Final = (np.ndarray, UOp)
_CACHED_CONSTANTS: Final = 4096
# Start and stop along each axis, the lengths between, and those of the axes that are left.
Box = tuple[tuple[tuple[int, int], ...], tuple[int, ...], tuple[int, ...]]
_constants: dict[tuple[bytes | Scalar, type, DType, Shape], UOp] = {}


class Handle:
    """What a tensor is made of. Everything that users call is in the families (see `tensor.py`)."""

    __slots__ = ("_storage", "_path", "_node", "_stamp", "_site", "grad", "__weakref__", "__dict__")

    _type: ClassVar[type[Any]]
    _pairs: ClassVar[type[Any]]  # of complex numbers, which are two tensors
    _deepened: ClassVar[Callable[[Any], None]]  # told of tensors that many in a row lead to
    is_pair: ClassVar[bool] = False
    _storage: Storage
    _path: Step | None
    _node: UOp
    _stamp: int
    _site: Site | None
    grad: Tensor | None

    if TYPE_CHECKING:

        def __getitem__(self, key: Any) -> Tensor: ...  # of `Indexing`, for every family

    # --- what it stands for now -------------------------------------------------------------------
    def _current(self) -> UOp:
        """The node that it stands for now."""
        if active:
            touch(self)
        storage = self._storage
        if self._stamp != storage.stamp:
            stamp, base = storage.stamp, storage.base
            self._node, self._stamp = forward(self._path, base), stamp
        return self._node

    def _operand(self) -> UOp:
        """Its node as an operand: no gradient flows through it inside `no_grad`."""
        node = self._current()
        if node.dtype.kind == "packed":
            what = f"{node.dtype.name} is for keeping numbers; cast them to compute, to int8 say"
            raise located(DTypeError(what), (self,))
        if self.requires_grad and not grad_enabled():
            return unrecorded(node)
        return node

    def _become(self, other: Any) -> None:
        """Look at what `other` looks at."""
        self._storage, self._path = other._storage, other._path
        self._node, self._stamp, self._site = other._node, other._stamp, other._site

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The real tensors that it is made of: itself, or two of a complex one."""
        return (self,)

    def _of(self, parts: Any) -> Any:
        """What is made of these as it is of its parts; None where all are None."""
        return parts[0]

    @property
    def requires_grad(self) -> bool:
        """Whether it is, or depends on, a leaf whose gradient is asked for. May be set on
        leaves.
        """
        path = self._path
        if path is None or path.requires is None:
            return self._storage.requires
        return path.requires

    @property
    def shape(self) -> Size:
        """The lengths of its axes: integers, or nodes where they are symbolic."""
        if active:
            return Size(told(shape_of(self._current())))
        node = self._node if self._stamp == self._storage.stamp else self._current()
        return Size(shape_of(node))

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(shape_of(self._current()))

    @property
    def dtype(self) -> DType:
        """The format of its elements."""
        return self._current().dtype

    @property
    def device(self) -> Any:
        """Canonical name of where it lives; a tuple of names for one over several devices."""
        name = self._storage.device
        return tuple(map(named, name.split(JOINT))) if JOINT in name else named(name)


def touch(*handles: Any) -> None:
    """Tell whoever watches this thread that the tensors are about to be looked at."""
    watching = watcher()
    if watching is not None:
        for handle in handles:
            if isinstance(handle, Handle):
                watching.touch(handle)


# --- making results -------------------------------------------------------------------------------
def paired(x: Any, y: Any) -> Any:
    """The complex tensor of these parts."""
    made = object.__new__(Handle._pairs)
    made._re, made._im = x, y
    return made


def make(
    node: UOp, device: str, requires: bool = False, storage: Storage | None = None,
    path: Step | None = None, depth: int = 0, site: Site | None = None,
) -> Tensor:  # fmt: skip
    """A handle: of a fresh storage whose value is `node`, or a view of `storage`. `depth`: see
    `Storage`; `site`: the user's line, where it is known already.
    """
    made = object.__new__(Handle._type)
    noted = None
    if storage is None:
        if node.held:
            node = apart(node)
        storage = Storage(node, device, requires)
        node.held = reference = weakref.ref(storage)
        if depth and not active:
            storage.depth = depth
            noted = reference
    made._storage, made._path = storage, path
    made._node, made._stamp = node, storage.stamp
    made.grad = None
    if active and path is not None and (watching := watcher()) is not None:
        watching.viewed(made)
    made._site = site = site or here(2)  # whoever calls this is part of torpor
    if site is not None:
        origins = node.origins
        if not origins:
            node.origins = (site,)
            if node.op is Ops.RESHAPE and not (below := node.src[0]).origins and below.src:
                below.origins = (site,)  # a sum's, say, which outlives this shape of it
        elif site not in origins and len(origins) < MAXIMUM_ORIGINS:
            node.origins = (*origins, site)
    if depth >= DEEP and not requires and not active:
        Handle._deepened(made)
    if noted is not None:
        note_made(noted)
    return made


def apart(node: UOp) -> UOp:
    """The value of a node that another tensor stands for: a gradient can be asked for either."""
    if not node.dtype.is_float:
        return node
    return shaped(build.again(node, build.identity()), shape_of(node))


def renamed(node: UOp) -> UOp:
    """The value of a node for a tensor that is made of it: a gradient flows through to the node."""
    if not node.dtype.is_float:
        return node
    return shaped(build.alias(node, build.identity()), shape_of(node))


def standing_for(node: UOp, device: str, requires: bool = False) -> Tensor:
    """A handle for a node that others may stand for too: a gradient flows through to it."""
    return make(renamed(node) if node.held else node, device, requires)


def with_rule(
    value: Tensor, operands: Sequence[Handle], name: str, *numbers: Scalar | str
) -> Tensor:
    """The value, with the gradient for `operands` by the rule of this name in
    `torpor.graph.gradient_function`.
    """
    return derive(_ruled, (value, *operands), name, numbers)


def flat(value: Any, *operands: Handle) -> Any:
    """The value, with the gradient 0 for the operands."""
    smooth = [part for one in operands for part in one._parts if part.dtype.is_float]
    return with_rule(value, smooth, "step") if smooth and not value.is_pair else value


def _ruled(value: UOp, *rest: Any) -> UOp:
    *operands, name, numbers = rest
    return build.function(value, operands, name, *numbers)


def derive(function: Callable[..., UOp], operands: Sequence[Handle], *arguments: Any) -> Tensor:
    """A new tensor: `function` of the operands' nodes and `arguments`."""
    device = common_device(operands) if len(operands) > 1 else operands[0]._storage.device
    nodes: list[UOp] = []
    requires, depth = False, 0
    for operand in operands:
        storage = operand._storage
        node = operand._current()
        if node.dtype.kind == "packed":
            node = operand._operand()  # which raises
        if storage.requires if operand._path is None else operand.requires_grad:
            requires = keeps_graphs()
            if not grad_enabled():
                node = unrecorded(node)
        if storage.device is not device and storage.device != device:
            node = build.copy_to(node, device)
        if storage.depth > depth:
            depth = storage.depth
        nodes.append(node)
    try:
        made = function(*nodes, *arguments)
    except TorporError as error:
        raise located(error, operands) from None
    if made in nodes:  # nothing was to be done
        made = renamed(made)
    return make(made, device, requires and made.dtype.kind == "float", depth=depth + 1)


def view(handle: Handle, kind: str, arg: Any) -> Tensor:
    """A view of `handle`: the same storage, one step further."""
    return viewed(handle, ((kind, arg),))


def viewed(handle: Handle, steps: Sequence[tuple[str, Any]]) -> Tensor:
    """A view of `handle`: the same storage, some steps further."""
    moved = handle._current()
    path = handle._path
    try:
        for kind, arg in steps:
            before, moved = moved, FORWARD[kind](moved, arg)
            if moved is not before:
                path = extended(path, kind, arg, before)
    except TorporError as error:
        raise located(error, (handle,)) from None
    return _seen(handle, moved, path)


def boxed(handle: Handle, box: Box) -> Tensor:
    """As `viewed`, of a box."""
    boxes, lengths, left = box
    node = moved = handle._current()
    path = handle._path
    if lengths != shape_of(node):
        path = extended(path, "shrink", boxes, node)
        moved = shaped(UOp(Ops.SHRINK, node.dtype, (node,), boxes), lengths)
    if lengths != left:
        path = Step(path, "reshape", left, moved)
        moved = shaped(UOp(Ops.RESHAPE, node.dtype, (moved,), left), left)
    return _seen(handle, moved, path)


def _seen(handle: Handle, moved: UOp, path: Step | None) -> Tensor:
    """The view of a handle that a path leads to."""
    node, storage = handle._node, handle._storage
    requires = storage.requires if handle._path is None else handle.requires_grad
    if moved.dtype.is_float and (moved.held or (requires and moved is node)):
        name, identity = "alias" if moved is node else "again", build.identity()
        path = Step(path, name, identity, moved)
        moved = shaped(FORWARD[name](moved, identity), shape_of(moved))
    moved.held = True
    if requires and not grad_enabled():
        path = Step(path, "detach", UNRECORDED, moved)
        moved = unrecorded(moved)
    return make(moved, storage.device, False, storage, path)


def weak_constant(value: Scalar, dtype: DType, shape: Shape = ()) -> UOp:
    """The Python number in every element of `shape`."""
    kind = type(value)
    if kind is not float and kind is not int and isinstance(value, Traced):
        check_fits(value._value, dtype)
        return number_node(value, dtype, shape)
    key = (struct.pack("<d", value) if kind is float else value, kind, dtype, shape)
    known = _constants.get(key)
    if known is None:
        check_fits(value, dtype)
        if len(_constants) >= _CACHED_CONSTANTS:
            _constants.clear()
        known = _constants[key] = build.constant(value, dtype, shape)
    return known


def number_node(value: Scalar, dtype: DType, shape: Shape) -> UOp:
    """The number as the format holds it in every element of `shape`."""
    if isinstance(value, Traced):
        return value._constant(dtype, shape)
    return build.constant(value, dtype, shape)


def _holds(dtype: DType, value: int) -> bool:
    """Whether the format holds the number, or is none of whole numbers."""
    whole = dtype.is_int or dtype.kind == "packed"
    return not whole or dtype.min <= value <= dtype.max


def check_fits(value: Scalar, dtype: DType) -> None:
    """A Python integer that the tensor's format cannot hold is an error, not a surprise."""
    if type(value) is int and not _holds(dtype, value):
        raise DTypeError(f"{value} does not fit into {dtype}, which ends at {dtype.max}")


def as_number(size: Any, device: Any) -> Any:
    """A length, or another whole number, as it is; as a 0-d int64 tensor where it is symbolic."""
    return make(size.cast(dtypes.int64), device) if isinstance(size, UOp) else size


# --- arithmetic -----------------------------------------------------------------------------------
def binary(op: Ops, left: Handle, right: Any, swapped: bool = False) -> Tensor:
    """`left op right`, promoted and broadcast; with `swapped`, `right op left`."""
    if active:
        touch(left, right)
    storage = left._storage
    node = left._node if left._stamp == storage.stamp else left._current()
    requires = storage.requires if left._path is None else left.requires_grad
    device, depth = storage.device, storage.depth
    dtype = node.dtype
    if isinstance(right, Handle):
        if right.is_pair:
            return right._meet(op, left, not swapped)
        storage = right._storage
        other = right._node if right._stamp == storage.stamp else right._current()
        if storage.device is not device and storage.device != device:
            return _binary_across(op, left, right, swapped)
        if storage.depth > depth:
            depth = storage.depth
        if other.dtype is not dtype:
            common = promote(dtype, other.dtype)
            node, other = node.cast(common), other.cast(common)
        if not requires:
            requires = storage.requires if right._path is None else right.requires_grad
    else:
        if type(right) not in _NUMBERS:
            if isinstance(right, complex | np.complexfloating):
                return Handle._pairs.with_real(left)._meet(op, complex(right), swapped)
            if isinstance(right, _ARRAYS):
                return binary(op, left, Handle._type(right, device=device), swapped)
            right = as_scalar(right)
        if op in COMPARE and type(right) is int and not _holds(dtype, right):
            node, right = node.cast(dtypes.float32), math.copysign(math.inf, right)
        elif dtype.kind != "float":  # a float's format is every number's
            node = node.cast(weak_dtype(right, dtype, default_float()))
        other = weak_constant(right, node.dtype, shape_of(node))
    if requires and not grad_enabled():
        node, other, requires = unrecorded(node), unrecorded(other), with_tangents()
    try:
        made = build.elementwise(op, other, node) if swapped else build.elementwise(op, node, other)
    except TorporError as error:
        raise located(error, (left, right)) from None
    requires = requires and op not in COMPARE and made.dtype.kind == "float"
    return make(made, device, requires, None, None, depth + 1)


def _binary_node(left: UOp, right: UOp, op: Ops, swapped: bool) -> UOp:
    if left.dtype is not right.dtype:
        common = promote(left.dtype, right.dtype)
        left, right = left.cast(common), right.cast(common)
    return build.elementwise(op, *((right, left) if swapped else (left, right)))


def _binary_across(op: Ops, left: Handle, right: Handle, swapped: bool) -> Tensor:
    return derive(_binary_node, (left, right), op, swapped)


def unary(op: Ops, operand: Handle) -> Tensor:
    """`op` of each element; integers and bools become the default float first."""
    if active:
        touch(operand)
    node = operand._node if operand._stamp == operand._storage.stamp else operand._current()
    requires = operand.requires_grad
    if requires and not grad_enabled():
        node, requires = unrecorded(node), with_tangents()
    if node.dtype.kind != "float":
        node = operand._operand().cast(default_float())
    storage = operand._storage
    made = UOp(op, node.dtype, (node,))
    return make(made, storage.device, requires, None, None, storage.depth + 1)


def number_or_tensor(value: Any, device: str) -> Any:
    """Arrays and bound variables as tensors on `device`; everything else as it is."""
    return Handle._type(value, device=device) if isinstance(value, np.ndarray | UOp) else value


def as_scalar(value: Any) -> Scalar:
    """The Python number that `value` is; NumPy's scalars count as Python's."""
    if type(value) in _NUMBERS:
        return value
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        value = item()
    if isinstance(value, bool | int | float):
        return value
    raise DTypeError(f"a tensor cannot be combined with {type(value).__name__} {value!r}")


# --- devices --------------------------------------------------------------------------------------
def common_device(operands: Sequence[Handle]) -> str:
    """The device of all operands, 0-d ones on the CPU aside; a `DeviceError` names two."""
    first = operands[0]
    device = first._storage.device
    for operand in operands[1:]:
        other = operand._storage.device
        if other is device or other == device or _moves_along(operand):
            continue
        if _moves_along(first):
            first, device = operand, other
            continue
        names = f"{first.device} and {operand.device}"
        error = DeviceError(f"operands are on different devices, {names}; use .to()")
        raise located(error, (first, operand))
    return device


def _moves_along(operand: Handle) -> bool:
    return operand._storage.device == "CPU" and not operand.shape


def node_on(device: str, operand: Handle) -> UOp:
    """The operand's node, copied to `device` if it lives elsewhere."""
    node, own = operand._operand(), operand._storage.device
    return node if own is device or own == device else build.copy_to(node, device)


# --- errors ---------------------------------------------------------------------------------------
def located(error: TorporError, operands: Sequence[Any]) -> TorporError:
    """The same error with a line for each operand: its shape, dtype and where it was made."""
    lines = [str(error)]
    for operand in operands:
        if isinstance(operand, Handle):
            place = f", made at {decode(operand._site)}" if operand._site else ""
            shape = render_shape(operand.shape)
            lines.append(f"  {shape} {operand.dtype.name} on {operand.device}{place}")
    return type(error)("\n".join(lines))


def render_shape(shape: Shape) -> str:
    """The shape as text: symbolic sizes as expressions."""
    sizes = [s.render() if isinstance(s, UOp) else str(s) for s in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def float_dtype(dtype: DType) -> DType:
    """The format itself if it is a float's or complex, else the default float."""
    if dtype.kind == "packed":
        raise DTypeError(f"{dtype.name} is for keeping numbers; cast them to compute, to int8 say")
    return dtype if dtype.kind in ("float", "complex") else default_float()


def floats(operand: Any) -> Any:
    """The tensor in its float format: see `float_dtype`."""
    return operand.cast(float_dtype(operand.dtype))
