"""Layers that learn how wide their input is from the first one, with PyTorch's names."""

from __future__ import annotations

import inspect
from typing import Any, Final

from torpor.base.attributes import attributes
from torpor.nn import convolution, layers, norms
from torpor.nn.layer import Layer


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

    def forward(self: Any, x: Any, *more: Any) -> Any:
        given = attributes(self).pop("_given")
        self.__class__ = kind
        make: Any = kind.__init__
        make(self, x.shape[axis], **{"device": x.device, **given})
        return self.forward(x, *more)

    what = f"`{kind.__name__}`, whose `{first.name}` is axis {axis} of the first input."
    members = {
        "forward": forward, "__doc__": what, "__module__": __name__, "__signature__": signature
    }  # fmt: skip
    made: Any = type(f"Lazy{kind.__name__}", (kind,), members)
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
]  # fmt: skip
