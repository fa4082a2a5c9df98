"""Modules that only compute a function, with PyTorch's names and constructor arguments: each is
made of its function, whose arguments behind the tensors its constructor takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from torpor.nn import functional as F
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.spelling import within

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "BCELoss", "BCEWithLogitsLoss", "CELU", "CTCLoss", "ChannelShuffle", "CircularPad1d",
    "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout",
    "Dropout1d", "Dropout2d", "Dropout3d", "ELU", "FeatureAlphaDropout", "Flatten", "Fold",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "GELU", "GLU", "GaussianNLLLoss", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity",
    "KLDivLoss", "L1Loss", "LPPool1d", "LPPool2d", "LPPool3d", "LeakyReLU", "LocalResponseNorm",
    "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss", "MaxPool1d", "MaxPool2d",
    "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PairwiseDistance",
    "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss", "RReLU", "ReLU", "ReLU6", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "SELU", "SiLU", "Sigmoid", "SmoothL1Loss", "SoftMarginLoss", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Stateless(Module):
    """A function of `inputs` tensors whose other arguments are attributes."""

    function: ClassVar[Callable[..., Any]]
    names: ClassVar[tuple[str, ...]]
    is_noisy: ClassVar[bool]  # whether it computes another thing in training

    def __init__(self, *arguments: Any, **options: Any):
        given = inspect.signature(type(self)).bind(*arguments, **options)
        given.apply_defaults()
        vars(self).update(given.arguments)
        if self.is_noisy and "p" in self.names:
            within("dropout's probability", given.arguments["p"], 0, 1)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The function of these tensors."""
        known = {name: getattr(self, name) for name in self.names}
        if self.is_noisy:
            known["training"] = self.training
        return type(self).function(*inputs, **known, **options)


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
        "is_noisy": any(p.name == "training" for p in known),
        "__signature__": inspect.Signature(taken),
        "__doc__": f"`functional.{function.__name__}` as a module.\n\n{function.__doc__}",
        "__module__": __name__,
    }
    return type(name, (Stateless,), members)


# --- activations ----------------------------------------------------------------------------------
CELU = module_of("CELU", F.celu)
ELU = module_of("ELU", F.elu)
GELU = module_of("GELU", F.gelu)
GLU = module_of("GLU", F.glu)
Hardshrink = module_of("Hardshrink", F.hardshrink)
Hardsigmoid = module_of("Hardsigmoid", F.hardsigmoid)
Hardswish = module_of("Hardswish", F.hardswish)
Hardtanh = module_of("Hardtanh", F.hardtanh)
LeakyReLU = module_of("LeakyReLU", F.leaky_relu)
LogSigmoid = module_of("LogSigmoid", F.logsigmoid)
LogSoftmax = module_of("LogSoftmax", F.log_softmax, without=("dtype",))
Mish = module_of("Mish", F.mish)
RReLU = module_of("RReLU", F.rrelu)
ReLU = module_of("ReLU", F.relu)
ReLU6 = module_of("ReLU6", F.relu6)
SELU = module_of("SELU", F.selu)
SiLU = module_of("SiLU", F.silu)
Sigmoid = module_of("Sigmoid", F.sigmoid)
Softmax = module_of("Softmax", F.softmax, without=("dtype",))
Softmin = module_of("Softmin", F.softmin, without=("dtype",))
Softplus = module_of("Softplus", F.softplus)
Softshrink = module_of("Softshrink", F.softshrink)
Softsign = module_of("Softsign", F.softsign)
Tanh = module_of("Tanh", F.tanh)
Tanhshrink = module_of("Tanhshrink", F.tanhshrink)
Threshold = module_of("Threshold", F.threshold)


def softmax2d(x: Tensor) -> Tensor:
    """Softmax over the channels of x[batch, channel, height, width]."""
    made: Tensor = x.softmax(-3)
    return made


Softmax2d = module_of("Softmax2d", softmax2d)


class Identity(Module):
    """x; arguments of the constructor say nothing."""

    def __init__(self, *_arguments: object, **_options: object):
        pass

    def forward(self, x: Any) -> Any:
        return x


# --- dropout --------------------------------------------------------------------------------------
AlphaDropout = module_of("AlphaDropout", F.alpha_dropout)
Dropout = module_of("Dropout", F.dropout)
Dropout1d = module_of("Dropout1d", F.dropout1d)
Dropout2d = module_of("Dropout2d", F.dropout2d)
Dropout3d = module_of("Dropout3d", F.dropout3d)
FeatureAlphaDropout = module_of("FeatureAlphaDropout", F.feature_alpha_dropout)

# --- windows and shapes ---------------------------------------------------------------------------
_INDICES: Final = ("kernel_size", "stride", "padding", "dilation", "return_indices")
AdaptiveAvgPool1d = module_of("AdaptiveAvgPool1d", F.adaptive_avg_pool1d)
AdaptiveAvgPool2d = module_of("AdaptiveAvgPool2d", F.adaptive_avg_pool2d)
AdaptiveAvgPool3d = module_of("AdaptiveAvgPool3d", F.adaptive_avg_pool3d)
AdaptiveMaxPool1d = module_of("AdaptiveMaxPool1d", F.adaptive_max_pool1d)
AdaptiveMaxPool2d = module_of("AdaptiveMaxPool2d", F.adaptive_max_pool2d)
AdaptiveMaxPool3d = module_of("AdaptiveMaxPool3d", F.adaptive_max_pool3d)
AvgPool1d = module_of("AvgPool1d", F.avg_pool1d)
AvgPool2d = module_of("AvgPool2d", F.avg_pool2d)
AvgPool3d = module_of("AvgPool3d", F.avg_pool3d)
FractionalMaxPool2d = module_of("FractionalMaxPool2d", F.fractional_max_pool2d)
FractionalMaxPool3d = module_of("FractionalMaxPool3d", F.fractional_max_pool3d)
LPPool1d = module_of("LPPool1d", F.lp_pool1d)
LPPool2d = module_of("LPPool2d", F.lp_pool2d)
LPPool3d = module_of("LPPool3d", F.lp_pool3d)
MaxPool1d = module_of("MaxPool1d", F.max_pool1d, first=_INDICES)
MaxPool2d = module_of("MaxPool2d", F.max_pool2d, first=_INDICES)
MaxPool3d = module_of("MaxPool3d", F.max_pool3d, first=_INDICES)
MaxUnpool1d = module_of("MaxUnpool1d", F.max_unpool1d, 2, without=("output_size",))
MaxUnpool2d = module_of("MaxUnpool2d", F.max_unpool2d, 2, without=("output_size",))
MaxUnpool3d = module_of("MaxUnpool3d", F.max_unpool3d, 2, without=("output_size",))
ChannelShuffle = module_of("ChannelShuffle", F.channel_shuffle)
Fold = module_of("Fold", F.fold)
PixelShuffle = module_of("PixelShuffle", F.pixel_shuffle)
PixelUnshuffle = module_of("PixelUnshuffle", F.pixel_unshuffle)
Unfold = module_of("Unfold", F.unfold)
Upsample = module_of("Upsample", F.interpolate, without=("antialias",))
UpsamplingBilinear2d = module_of("UpsamplingBilinear2d", F.upsample_bilinear)
UpsamplingNearest2d = module_of("UpsamplingNearest2d", F.upsample_nearest)


def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Axes from `start_dim` to `end_dim` as one."""
    return x.flatten(start_dim, end_dim)


def _unflatten(x: Tensor, dim: int, unflattened_size: Any) -> Tensor:
    """One axis as several, of these sizes."""
    return x.unflatten(dim, unflattened_size)


Flatten = module_of("Flatten", _flatten)
Unflatten = module_of("Unflatten", _unflatten)


# --- padding --------------------------------------------------------------------------------------
def _pads(axes: int, mode: str) -> Callable[..., Any]:
    def with_value(x: Tensor, padding: Any, value: float = 0.0) -> Tensor:
        sides = [padding] * (2 * axes) if isinstance(padding, int) else padding
        return x.pad(tuple(sides), mode, value)

    def without(x: Tensor, padding: Any) -> Tensor:
        return with_value(x, padding)

    made = with_value if mode == "constant" else without
    made.__doc__ = f"The last {axes} axes longer by `padding` at both ends, filled by {mode!r}."
    made.__name__ = "pad"
    return made


CircularPad1d = module_of("CircularPad1d", _pads(1, "circular"))
CircularPad2d = module_of("CircularPad2d", _pads(2, "circular"))
CircularPad3d = module_of("CircularPad3d", _pads(3, "circular"))
ConstantPad1d = module_of("ConstantPad1d", _pads(1, "constant"))
ConstantPad2d = module_of("ConstantPad2d", _pads(2, "constant"))
ConstantPad3d = module_of("ConstantPad3d", _pads(3, "constant"))
ReflectionPad1d = module_of("ReflectionPad1d", _pads(1, "reflect"))
ReflectionPad2d = module_of("ReflectionPad2d", _pads(2, "reflect"))
ReflectionPad3d = module_of("ReflectionPad3d", _pads(3, "reflect"))
ReplicationPad1d = module_of("ReplicationPad1d", _pads(1, "replicate"))
ReplicationPad2d = module_of("ReplicationPad2d", _pads(2, "replicate"))
ReplicationPad3d = module_of("ReplicationPad3d", _pads(3, "replicate"))
ZeroPad1d = module_of("ZeroPad1d", _pads(1, "constant"), without=("value",))
ZeroPad2d = module_of("ZeroPad2d", _pads(2, "constant"), without=("value",))
ZeroPad3d = module_of("ZeroPad3d", _pads(3, "constant"), without=("value",))

# --- norms and distances --------------------------------------------------------------------------
CosineSimilarity = module_of("CosineSimilarity", F.cosine_similarity, 2)
LocalResponseNorm = module_of("LocalResponseNorm", F.local_response_norm)
PairwiseDistance = module_of("PairwiseDistance", F.pairwise_distance, 2)

# --- losses ---------------------------------------------------------------------------------------
BCELoss = module_of("BCELoss", F.binary_cross_entropy, 2)
BCEWithLogitsLoss = module_of("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, 2)
CTCLoss = module_of("CTCLoss", F.ctc_loss, 4)
CosineEmbeddingLoss = module_of("CosineEmbeddingLoss", F.cosine_embedding_loss, 3)
CrossEntropyLoss = module_of("CrossEntropyLoss", F.cross_entropy, 2)
GaussianNLLLoss = module_of("GaussianNLLLoss", F.gaussian_nll_loss, 3)
HingeEmbeddingLoss = module_of("HingeEmbeddingLoss", F.hinge_embedding_loss, 2)
HuberLoss = module_of("HuberLoss", F.huber_loss, 2)
KLDivLoss = module_of("KLDivLoss", F.kl_div, 2)
L1Loss = module_of("L1Loss", F.l1_loss, 2)
MSELoss = module_of("MSELoss", F.mse_loss, 2)
MarginRankingLoss = module_of("MarginRankingLoss", F.margin_ranking_loss, 3)
MultiLabelMarginLoss = module_of("MultiLabelMarginLoss", F.multilabel_margin_loss, 2)
MultiLabelSoftMarginLoss = module_of("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, 2)
MultiMarginLoss = module_of("MultiMarginLoss", F.multi_margin_loss, 2)
NLLLoss = module_of("NLLLoss", F.nll_loss, 2)
NLLLoss2d = module_of("NLLLoss2d", F.nll_loss, 2)
PoissonNLLLoss = module_of("PoissonNLLLoss", F.poisson_nll_loss, 2)
SmoothL1Loss = module_of("SmoothL1Loss", F.smooth_l1_loss, 2)
SoftMarginLoss = module_of("SoftMarginLoss", F.soft_margin_loss, 2)
TripletMarginLoss = module_of("TripletMarginLoss", F.triplet_margin_loss, 3)
TripletMarginWithDistanceLoss = module_of(
    "TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss, 3
)
