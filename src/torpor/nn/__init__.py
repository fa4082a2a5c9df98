"""Floor 8: layers, optimisers, losses, state and data."""

from torpor.nn import init, losses, optim, state
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
from torpor.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d
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

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Dropout",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "MultiheadAttention",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "init",
    "losses",
    "optim",
    "state",
]
