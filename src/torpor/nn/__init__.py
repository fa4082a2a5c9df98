"""Floor 8: layers, optimisers, losses, state and data."""

from torpor.nn import init, losses, optim, state
from torpor.nn.layers import BatchNorm2d, Conv2d, Dropout, Flatten, Linear, MaxPool2d, ReLU
from torpor.nn.module import Module, ModuleList, ParameterList, Sequential
from torpor.nn.norms import GroupNorm, LayerNorm, RMSNorm

__all__ = [
    "BatchNorm2d",
    "Conv2d",
    "Dropout",
    "Flatten",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "init",
    "losses",
    "optim",
    "state",
]
