"""Layers that learn how wide their input is from the first one, with PyTorch's names."""

from __future__ import annotations

import inspect
from typing import Any, Final

from torpor.base.attributes import attributes
from torpor.base.errors import DTypeError
from torpor.nn import convolution, layers, norms
from torpor.nn.layer import Layer


class LazyModuleMixin:
    """What layers are that have no parameters until they know how wide their input is."""

    cls_to_become: Any = None

    def has_uninitialized_params(self) -> bool:
        """Whether they are still to be made: until the layer is called, and is of another class."""
        return self.cls_to_become is not None

    def initialize_parameters(self, x: Any) -> None:
        """Become the layer for inputs that are as wide as this one."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it becomes")


class _Uninitialized(type):
    def __call__(cls, *_: Any, **__: Any) -> Any:
        what = "a lazy layer has no parameters until it knows their shapes; make them where it does"
        raise DTypeError(f"there are no tensors without a shape: {what}")


class UninitializedParameter(metaclass=_Uninitialized):
    """PyTorch's parameters without a shape: no tensor is one, as lazy layers have none."""


class UninitializedBuffer(metaclass=_Uninitialized):
    """As `UninitializedParameter`, of buffers."""


def is_lazy(param: Any) -> bool:
    """False: every tensor has a shape."""
    return isinstance(param, UninitializedParameter | UninitializedBuffer)


def lazy_of(kind: type[Layer], axis: int, **defaults: Any) -> Any:
    """The class of layers that become those of `kind` when they are first called: the constructor's
    first argument is then the length of the input's `axis`. Until then there are no parameters.
    `defaults`: where they are other ones than those of `kind`.
    """
    first, *rest = inspect.signature(kind).parameters.values()
    signature = inspect.Signature(
        [one.replace(default=defaults.get(one.name, one.default)) for one in rest]
    )

    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        bound = signature.bind(*arguments, **options)
        given = bound.kwargs | dict(zip(signature.parameters, bound.args))
        attributes(self).update(_given=defaults | given)

    def initialize_parameters(self: Any, x: Any) -> None:
        given = attributes(self).pop("_given")
        self.__class__ = kind
        make: Any = kind.__init__
        make(self, x.shape[axis], **{"device": x.device, **given})

    def forward(self: Any, x: Any, *more: Any) -> Any:
        initialize_parameters(self, x)
        return self.forward(x, *more)

    what = f"`{kind.__name__}`, whose `{first.name}` is axis {axis} of the first input."
    members = {
        "forward": forward, "initialize_parameters": initialize_parameters, "__doc__": what,
        "cls_to_become": kind, "__module__": __name__, "__signature__": signature,
    }  # fmt: skip
    made: Any = type(f"Lazy{kind.__name__}", (LazyModuleMixin, kind), members)
    made.__init__ = begin  # later, so that nobody takes `device` and `dtype` before
    return made


LazyLinear = lazy_of(layers.Linear, -1)
LazyConv1d = lazy_of(convolution.Conv1d, -2)
LazyConv2d = lazy_of(convolution.Conv2d, -3)
LazyConv3d = lazy_of(convolution.Conv3d, -4)
LazyConvTranspose1d = lazy_of(convolution.ConvTranspose1d, -2)
LazyConvTranspose2d = lazy_of(convolution.ConvTranspose2d, -3)
LazyConvTranspose3d = lazy_of(convolution.ConvTranspose3d, -4)
LazyBatchNorm1d = lazy_of(norms.BatchNorm1d, 1)
LazyBatchNorm2d = lazy_of(norms.BatchNorm2d, 1)
LazyBatchNorm3d = lazy_of(norms.BatchNorm3d, 1)
_NORMED: Final = {"affine": True, "track_running_stats": True}  # as in PyTorch, where lazy
LazyInstanceNorm1d = lazy_of(norms.InstanceNorm1d, -2, **_NORMED)
LazyInstanceNorm2d = lazy_of(norms.InstanceNorm2d, -3, **_NORMED)
LazyInstanceNorm3d = lazy_of(norms.InstanceNorm3d, -4, **_NORMED)

__all__: Final = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "UninitializedBuffer", "UninitializedParameter", "is_lazy",
]  # fmt: skip
