"""How a view lies in the memory of its storage, and where."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import largest, product, shape_of
from torpor.tensor.handle import Handle
from torpor.tensor.host import known_shape
from torpor.tensor.path import forward
from torpor.tensor.spelling import one_axis

if TYPE_CHECKING:
    from torpor.view import View

_KINDS: Final = {"is_cpu": "CPU", "is_cuda": "CUDA", "is_mps": "METAL", "is_meta": "NULL"}


class Layout(Handle):
    """Where its elements are. What is computed lies as the compiler likes: strides are those of a
    view in the memory of the tensor that it is a view of, which counts as row-major.
    """

    __slots__ = ()

    # Of PyTorch's kinds of tensors there is one.
    layout = "strided"
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = False

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
        shape = known_shape(self.shape)
        plain = [math.prod(max(n, 1) for n in shape[axis + 1 :]) for axis in range(len(shape))]
        view = _one_view(self)
        own = plain if view is None or view.mask or 0 in shape else view.strides
        # an axis of length 1 has any stride: the one that PyTorch gives to a fresh tensor
        found = tuple(p if n == 1 else s for p, s, n in zip(plain, own, shape, strict=True))
        return found if dim is None else found[one_axis(dim, self.ndim)]

    def storage_offset(self) -> Any:
        """Where its first element stands in what it is a view of."""
        view = _one_view(self)
        return 0 if view is None or view.mask else view.offset

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

    is_neg = is_inference = is_conj


def _lies_on(kind: str) -> Any:
    return property(lambda self: self.device.partition(":")[0] == kind, doc=f"Is it on {kind}?")


for _name, _kind in _KINDS.items():
    setattr(Layout, _name, _lies_on(_kind))


def _one_view(handle: Handle) -> View | None:
    """The view that it is of its storage, which is itself in row-major order; None where no single
    one says it.
    """
    from torpor.view import shapetracker_of  # of the compiler, which tensors do not need so far

    base = handle._storage.base
    shape = shape_of(base)
    memory = buffer_node(Buffer("NULL", largest(product(shape)), base.dtype), shape)
    _, tracker = shapetracker_of(forward(handle._path, memory))
    return tracker.views[0] if len(tracker.views) == 1 else None
