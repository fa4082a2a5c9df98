"""Floor 8: layers, optimisers, losses, state and data."""

from typing import TYPE_CHECKING

from torpor.base.missing import names_of
from torpor.nn import functional, init, losses, optim, state, utils
from torpor.nn.activations import (
    ELU,
    GELU,
    Identity,
    LeakyReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from torpor.nn.attention import MultiheadAttention
from torpor.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from torpor.nn.layers import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Dropout,
    Embedding,
    Flatten,
    Linear,
    MaxPool2d,
)
from torpor.nn.module import Module, ModuleList, ParameterList, Sequential
from torpor.nn.norms import GroupNorm, LayerNorm, RMSNorm
from torpor.nn.quantised import Quantised, QuantisedLinear, quantise
from torpor.nn.recurrent import GRU, LSTM, RNN

if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn", lambda: __all__)

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "GRU",
    "GroupNorm",
    "Identity",
    "LSTM",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "MultiheadAttention",
    "ParameterList",
    "Quantised",
    "QuantisedLinear",
    "RMSNorm",
    "RNN",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "functional",
    "init",
    "losses",
    "optim",
    "quantise",
    "state",
    "utils",
]
