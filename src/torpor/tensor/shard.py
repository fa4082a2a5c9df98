"""One tensor over several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torpor.base.errors import ShapeError
from torpor.device import Device
from torpor.graph import build
from torpor.graph.multi import chunk
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.differentiate import leaf_before, make_leaf
from torpor.tensor.handle import Handle, make
from torpor.tensor.mode import no_grad
from torpor.tensor.realisation import realize


class Sharding(Handle):
    """Spreading a tensor over devices."""

    __slots__ = ()

    def shard(self, devices: str | Sequence[str], axis: int | None = None) -> Tensor:
        """This tensor in equal parts along `axis`, one on each of `devices`; None: whole on each.

        Operations on it run on all of the devices. The axis' length must be a multiple of their
        number, else a `ShapeError`. `.device` is the tuple of their names.
        """
        listed = (devices,) if isinstance(devices, str) else tuple(devices)
        names = tuple(Device.canonicalize(name) for name in listed)
        shape = self.shape
        if len(set(names)) != len(names) or not names:
            raise ShapeError(f"shard needs one device or more, each once, not {listed}")
        if axis is not None:
            if type(axis) is not int or not -len(shape) <= axis < len(shape):
                raise ShapeError(f"shard along axis {axis!r} of a tensor of shape {shape}")
            axis %= len(shape)
            if not isinstance(shape[axis], int) or shape[axis] % len(names):
                raise ShapeError(
                    f"axis {axis} of length {shape[axis]} (shape {shape}) cannot be cut into "
                    f"equal parts for {len(names)} devices {names}"
                )
        if len(names) == 1:
            return self.to(names[0]).clone()
        realize(self)
        node = self._operand()
        parts = []
        for number, name in enumerate(names):
            part = node if axis is None else chunk(node, axis, number, len(names))
            part = build.contiguous(part)
            parts.append(part if name == self._storage.device else build.copy_to(part, name))
        multi = UOp(Ops.MULTI, node.dtype, tuple(parts), (axis, names))
        made = make(multi, Device.canonicalize(names), self.requires_grad)
        if not self.requires_grad:
            realize(made)
        return made

    def shard_(self, devices: str | Sequence[str], axis: int | None = None) -> Tensor:
        """Spread this tensor itself over devices, as `shard` does; gives the tensor."""
        with no_grad():
            return become(self, self.detach().shard(devices, axis))


def become(handle: Any, value: Handle) -> Tensor:
    """Let `handle` stand for another value, on any device and in any format; gives the handle.
    Whoever holds it sees the new value; views of the old one stay what they are.
    """
    requires = handle.requires_grad
    for part, given in zip(handle._parts, value._parts, strict=True):
        leaf = leaf_before(part)
        part._storage, part._path = given._storage, given._path
        part._node, part._stamp = given._node, given._stamp
        if leaf is not None:
            make_leaf(part, identity=leaf)
    return handle if requires else handle.requires_grad_(False)
