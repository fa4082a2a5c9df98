"""Layers, optimisers, losses, state and data (floor 8).

Shapes are PyTorch's: x[batch, feature], x[batch, channel, height, width], x[length, batch,
feature]. A size or a number of axes that does not fit is a `ShapeError`, an argument out of its
range a `ValueRangeError`, a class or an index that does not exist an `OutOfBoundsError` when what
depends on it is realised.
"""

import importlib
from typing import TYPE_CHECKING, Any

from torpor.base.missing import names_of
from torpor.nn import func, functional, init, lazy, losses, optim, state, stateless, utils
from torpor.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from torpor.nn.attention import MultiheadAttention
from torpor.nn.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from torpor.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from torpor.nn.layers import Bilinear, Embedding, EmbeddingBag, Linear, PReLU
from torpor.nn.lazy import *  # noqa: F403 (a layer for each that has a width)
from torpor.nn.module import Buffer, Module, Parameter
from torpor.nn.norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
    SyncBatchNorm,
)
from torpor.nn.quantised import Quantised, QuantisedLinear, quantise
from torpor.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from torpor.nn.stateless import *  # noqa: F403 (a module for each function)
from torpor.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

if TYPE_CHECKING:
    from torpor.nn import data as data

    def __getattr__(name: str) -> Any: ...
else:
    _absent = names_of("torpor.nn", lambda: __all__)

    def __getattr__(name: str) -> Any:
        """`data`, which takes a while to import, when it is asked for."""
        return importlib.import_module("torpor.nn.data") if name == "data" else _absent(name)


__all__ = [
    "AdaptiveLogSoftmaxWithLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear", "Buffer",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "Embedding", "EmbeddingBag", "GRU", "GRUCell", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LSTM", "LSTMCell", "LayerNorm", "Linear", "Module", "ModuleDict",
    "ModuleList", "MultiheadAttention", "PReLU", "Parameter", "ParameterDict", "ParameterList",
    "Quantised", "QuantisedLinear", "RMSNorm", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    "Sequential", "SyncBatchNorm", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer", "data", "func", "functional", "init", "losses",
    "optim", "quantise", "state", "utils",
]  # fmt: skip
__all__ += stateless.__all__ + lazy.__all__
