"""How a view lies in the memory of its storage, and where."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from torpor.base.errors import OutOfBoundsError, ShapeError
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import largest, product, shape_of
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, located, make, view
from torpor.tensor.host import known_shape
from torpor.tensor.path import forward
from torpor.tensor.spelling import a_shape, one_axis

if TYPE_CHECKING:
    from torpor.view import View

_KINDS: Final = {"is_cpu": "CPU", "is_cuda": "CUDA", "is_mps": "METAL", "is_meta": "NULL"}


def cuda_device(device: Any = None) -> Any:
    """The device that `.cuda(device)` means: one by its number, or the first."""
    return "CUDA" if device is None else f"CUDA:{device}" if isinstance(device, int) else device


class Layout(Handle):
    """Where its elements are. What is computed lies as the compiler likes: strides are those of a
    view in the memory of the tensor that it is a view of, which counts as row-major.
    """

    __slots__ = ()

    # Of PyTorch's kinds of tensors there is one.
    layout = "strided"
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = False

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """On the device CUDA, or on the one given; a `DeviceError` where there is none.

        >>> Tensor([1.0]).cuda("CPU").tolist()
        [1.0]
        """
        return self.to(cuda_device(device))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether its elements stand in row-major order, without gaps, in what it is a view of."""
        if self._path is None:
            return True
        view = _one_view(self)
        return view is not None and view.create(view.shape, view.strides, 0, view.mask).contiguous

    def stride(self, dim: int | None = None) -> Any:
        """How many elements neighbours along each axis (or along `dim`) are apart. What has no
        such numbers, as a view of a view that had to be copied, counts as row-major.

        >>> Tensor.zeros(2, 3).t().stride()
        (1, 3)
        """
        found = strides_of(self)
        return found if dim is None else found[one_axis(dim, self.ndim)]

    def storage_offset(self) -> Any:
        """Where its first element stands in what it is a view of."""
        view = _one_view(self)
        return 0 if view is None or view.mask else view.offset

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        """A view out[i, j, …] = memory[offset + i * stride[0] + j * stride[1] + …] of what it is a
        view of (without an offset, where it begins itself), in row-major order. One whose elements
        may be the same ones cannot be written to.

        >>> Tensor.arange(6).as_strided((3, 2), (2, 1)).tolist()
        [[0, 1], [2, 3], [4, 5]]
        """
        shape, strides = known_shape(a_shape(size)), known_shape(tuple(stride))
        start = self.storage_offset() if storage_offset is None else int(storage_offset)
        if len(shape) != len(strides) or min((*shape, *strides, start), default=0) < 0:
            what = f"as_strided needs a stride for each size, none below 0: {shape}, {strides}"
            raise located(ShapeError(what), (self,))
        flat = memory_of(self)
        reach = sum((n - 1) * s for n, s in zip(shape, strides)) + 1 if math.prod(shape) else 0
        if start + reach > flat.shape[0]:
            what = f"as_strided takes {start + reach} elements of {flat.shape[0]}"
            raise located(OutOfBoundsError(what), (self,))
        if not reach:
            return flat.narrow(0, start, 0).reshape(shape)
        order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        made = _rows(flat, start, [(shape[axis], strides[axis]) for axis in order])
        return made.permute(tuple(order.index(axis) for axis in range(len(shape))))

    def as_strided_copy(self, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        """As `as_strided`, as a copy."""
        return self.as_strided(size, stride, storage_offset).clone()

    def as_strided_scatter(
        self, src: Any, size: Any, stride: Any, storage_offset: int | None = None
    ) -> Tensor:
        """A copy with `src` in that view of it."""
        made: Any = self.clone()
        made.as_strided(size, stride, storage_offset).copy_(src)
        return made

    def ndimension(self) -> int:
        """How many axes it has."""
        return self.ndim

    def get_device(self) -> int:
        """The number of its device among those of its kind; -1 on the CPU."""
        kind, _, number = self.device.partition(":")
        return -1 if kind == "CPU" else int(number or 0)

    def is_conj(self) -> bool:
        """False: conjugates are computed."""
        return False

    is_neg = is_inference = is_pinned = is_conj

    def dim_order(self) -> tuple[int, ...]:
        """The axes in the order in which they lie in memory, outermost first.

        >>> Tensor.zeros(2, 3).T.dim_order()
        (1, 0)
        """
        steps = self.stride()
        return tuple(sorted(range(self.ndim), key=lambda axis: -steps[axis]))


def _lies_on(kind: str) -> Any:
    return property(lambda self: self.device.partition(":")[0] == kind, doc=f"Is it on {kind}?")


for _name, _kind in _KINDS.items():
    setattr(Layout, _name, _lies_on(_kind))


def strides_of(handle: Any, each: int = 1) -> tuple[int, ...]:
    """How many elements neighbours along each axis are apart, of which one takes `each` places."""
    shape = known_shape(handle.shape)
    plain = [math.prod(max(n, 1) for n in shape[axis + 1 :]) for axis in range(len(shape))]
    view = _one_view(handle)
    own: list[Any] = plain
    if view is not None and not view.mask and 0 not in shape:
        own = [step // each for step in view.strides]
    # an axis of length 1 has any stride: the one that PyTorch gives to a fresh tensor
    return tuple(p if n == 1 else s for p, s, n in zip(plain, own, shape, strict=True))


def memory_of(handle: Any) -> Any:
    """What it is a view of, flat; gradients flow to the leaf that it is, or is a view of."""
    path = handle._path
    while path is not None and path.kind not in ("leaf", "detach"):
        path = path.previous
    storage = handle._storage
    made = make(forward(path, storage.base), handle.device, storage=storage, path=path)
    return made.reshape(-1)


def _rows(flat: Any, start: int, axes: list[tuple[int, int]]) -> Any:
    """Views of the last axis from `start` on by (size, stride), greatest stride first, that it has
    all elements of: parts side by side are rows of a matrix, others windows.
    """
    if not axes:
        return flat.select(-1, start)
    (size, stride), *rest = axes
    count, reach = flat.shape[-1], sum((n - 1) * s for n, s in rest) + 1
    if not stride or size == 1:
        made = flat.unsqueeze(-2)
        return _rows(made.expand(*made.shape[:-2], size, count), start, rest)
    if reach > stride:
        made = flat.narrow(-1, start, count - start).unfold(-1, reach, stride)
        return _rows(made.narrow(-2, 0, size), 0, rest)
    before = max(0, start + size * stride - count)  # what the first row has in front
    if before > min(start, stride - reach):  # the last row ends outside
        pairs = ((0, 0),) * (flat.ndim - 1) + ((0, before),)
        flat, before = view(flat, "pad", pairs), 0
    whole = flat.narrow(-1, start - before, size * stride)
    return _rows(whole.reshape(*flat.shape[:-1], size, stride), before, rest)


def _one_view(handle: Handle) -> View | None:
    """The view that it is of its storage, which is itself in row-major order; None where no single
    one says it.
    """
    from torpor.view import shapetracker_of  # of the compiler, which tensors do not need so far

    base = handle._storage.base
    shape = shape_of(base)
    memory = buffer_node(Buffer("NULL", largest(product(shape)), base.dtype), shape)
    _, tracker = shapetracker_of(forward(handle._path, memory, movements=True))
    return tracker.views[0] if len(tracker.views) == 1 else None
