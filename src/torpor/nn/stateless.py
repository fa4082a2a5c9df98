"""Modules that only compute a function, with PyTorch's names and constructor arguments: each is
made of its function, whose arguments behind the tensors its constructor takes.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torpor.base.attributes import attribute, attributes
from torpor.nn import functional as F
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.spelling import bound_to, spelled, with_reduction, within


class Stateless(Module):
    """A function of `inputs` tensors whose other arguments are attributes."""

    function: ClassVar[Callable[..., Any]]
    names: ClassVar[tuple[str, ...]]
    inputs: ClassVar[int]
    is_noisy: ClassVar[bool]  # whether it computes another thing in training

    def __init__(self, *arguments: Any, **options: Any):
        if "reduction" in self.names:
            if (told_apart := attribute(type(self).function, "told_apart", None)) is not None:
                arguments, named = told_apart(arguments, self.inputs)
                options = {**options, **named}
            options = with_reduction(options)
        given = bound_to(self, inspect.signature(type(self)), arguments, options)
        given.apply_defaults()
        if given.arguments.get("stride", 0) is None and "norm_type" not in self.names:
            given.arguments["stride"] = given.arguments["kernel_size"]  # that stays, as PyTorch's
        attributes(self).update(given.arguments)
        if self.is_noisy and "p" in self.names:
            within("dropout's probability", given.arguments["p"], 0, 1)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The function of these tensors."""
        known = {name: attribute(self, name) for name in self.names}
        if self.is_noisy:
            known["training"] = self.training
        return type(self).function(*inputs, **known, **options)


class _Loss(Module):
    """What PyTorch's losses, and those that programs write, are made of: their `reduction`."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"):
        super().__init__()
        older = {"size_average": size_average, "reduce": reduce}
        self.reduction = with_reduction({"reduction": reduction, **older})["reduction"]


def module_of(
    name: str, function: Callable[..., Any], inputs: int = 1, first: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Any:  # fmt: skip
    """The class `name` of modules that compute a function. Its constructor takes what the function
    takes behind its `inputs`, `without` some; those named `first` come first.
    """
    known = list(inspect.signature(function).parameters.values())
    taken = [p for p in known[inputs:] if p.name not in (*without, "training")]
    taken.sort(key=lambda p: first.index(p.name) if p.name in first else len(first))
    members = {
        "function": staticmethod(function),
        "names": tuple(p.name for p in taken),
        "inputs": inputs,
        "is_noisy": any(p.name == "training" for p in known),
        "__signature__": inspect.Signature(taken),
        "__doc__": f"`functional.{function.__name__}` as a module.\n\n{function.__doc__}",
        "__module__": __name__,
    }
    return type(name, (Stateless,), members)


# By how many tensors their functions take: modules called as their functions, but for `_OTHERS`.
_MODULES: Final = {
    1: """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d
        AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d CELU
        ChannelShuffle Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout Fold
        FractionalMaxPool2d FractionalMaxPool3d GELU GLU Hardshrink Hardsigmoid Hardswish
        Hardtanh LPPool1d LPPool2d LPPool3d LeakyReLU LocalResponseNorm LogSigmoid LogSoftmax
        MaxPool1d MaxPool2d MaxPool3d Mish PixelShuffle PixelUnshuffle RReLU ReLU ReLU6 SELU
        SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold
        Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d
    """,
    2: """
        BCELoss BCEWithLogitsLoss CosineSimilarity CrossEntropyLoss HingeEmbeddingLoss
        HuberLoss KLDivLoss L1Loss MSELoss MaxUnpool1d MaxUnpool2d MaxUnpool3d
        MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d
        PairwiseDistance PoissonNLLLoss SmoothL1Loss SoftMarginLoss
    """,
    3: """
        CosineEmbeddingLoss GaussianNLLLoss MarginRankingLoss TripletMarginLoss
        TripletMarginWithDistanceLoss
    """,
    4: """
        CTCLoss
    """,
}
_OTHERS: Final = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CrossEntropyLoss": "cross_entropy",
    "KLDivLoss": "kl_div",
    "NLLLoss2d": "nll_loss",
    "Upsample": "interpolate",
    "UpsamplingBilinear2d": "upsample_bilinear",
    "UpsamplingNearest2d": "upsample_nearest",
}
_WITHOUT: Final = {
    **dict.fromkeys(("LogSoftmax", "Softmax", "Softmin"), ("dtype",)),
    **dict.fromkeys(("MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"), ("output_size",)),
    "Upsample": ("antialias",),
}
_INDICES: Final = ("kernel_size", "stride", "padding", "dilation", "return_indices")


def _modules() -> Iterator[tuple[str, Any]]:
    known = {n.replace("_", ""): f for n, f in vars(F).items() if not n.endswith("_")}
    for inputs, names in _MODULES.items():
        for name in names.split():
            function = known[_OTHERS.get(name, name).replace("_", "").lower()]
            first = _INDICES if name.startswith("MaxPool") else ()
            yield name, module_of(name, function, inputs, first, _WITHOUT.get(name, ()))
    kinds = {"Circular": "circular", "Constant": "constant", "Reflection": "reflect",
             "Replication": "replicate", "Zero": "constant"}  # fmt: skip
    for (kind, mode), axes in itertools.product(kinds.items(), (1, 2, 3)):
        name, without = f"{kind}Pad{axes}d", ("value",) if kind == "Zero" else ()
        yield name, module_of(name, _pads(axes, mode), without=without)


def softmax2d(x: Tensor) -> Tensor:
    """Softmax over the channels of x[batch, channel, height, width]."""
    return x.softmax(-3)


@spelled
def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Axes from `start_dim` to `end_dim` as one."""
    return x.flatten(start_dim, end_dim)


@spelled
def _unflatten(x: Tensor, dim: int, unflattened_size: Any) -> Tensor:
    """One axis as several, of these sizes."""
    return x.unflatten(dim, unflattened_size)


def _pads(axes: int, mode: str) -> Callable[..., Any]:
    def with_value(x: Tensor, padding: Any, value: float = 0.0) -> Tensor:
        sides = [padding] * (2 * axes) if isinstance(padding, int) else padding
        return x.pad(tuple(sides), mode, value)

    def without(x: Tensor, padding: Any) -> Tensor:
        return with_value(x, padding)

    made = spelled(with_value if mode == "constant" else without)
    made.__doc__ = f"The last {axes} axes longer by `padding` at both ends, filled by {mode!r}."
    made.__name__ = "pad"
    return made


class Identity(Module):
    """x; arguments of the constructor say nothing."""

    def __init__(self, *_arguments: object, **_options: object):
        pass

    def forward(self, x: Any) -> Any:
        return x


def _across_channels(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x divided by (k + alpha / size * sum)**beta, the sum of the squares of the channels less than
    (size + 1) // 2 away and, as PyTorch has it, of the first channel for all behind it.
    """
    reach, place = (size + 1) // 2, Tensor.arange(x.shape[1], device=x.device)
    apart = place - place.unsqueeze(1)
    near = (apart < reach) & ((apart > -reach) | (place == 0))
    total = (near.cast(x.dtype) @ x.square().flatten(2)).reshape(x.shape)
    return x / (total * (alpha / size) + k) ** beta


CrossMapLRN2d = module_of("CrossMapLRN2d", _across_channels)
Softmax2d = module_of("Softmax2d", softmax2d)
Flatten = module_of("Flatten", _flatten)
Unflatten = module_of("Unflatten", _unflatten)
_made: Final = dict(_modules())
globals().update(_made)
__all__ = sorted([*_made, "CrossMapLRN2d", "Flatten", "Identity", "Softmax2d", "Unflatten"])

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
