"""Layers, optimisers, losses, state and data (floor 8).

Shapes are PyTorch's: x[batch, feature], x[batch, channel, height, width], x[length, batch,
feature]. A size or a number of axes that does not fit is a `ShapeError`, an argument out of its
range a `ValueRangeError`, a class or an index that does not exist an `OutOfBoundsError` when what
depends on it is realised.
"""

import importlib
from typing import TYPE_CHECKING, Any

from torpor.base.missing import names_of
from torpor.nn import func, functional, init, losses, optim, state, utils
from torpor.nn.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
from torpor.nn.attention import MultiheadAttention as MultiheadAttention
from torpor.nn.containers import *  # noqa: F403
from torpor.nn.convolution import *  # noqa: F403
from torpor.nn.layers import *  # noqa: F403
from torpor.nn.lazy import *  # noqa: F403 (a layer for each that has a width)
from torpor.nn.module import Module
from torpor.nn.norms import *  # noqa: F403
from torpor.nn.norms import BatchNorm as _BatchNorm  # noqa: F401 (what programs ask for)
from torpor.nn.quantised import Quantised, quantise
from torpor.nn.quantised import QuantisedLinear as QuantisedLinear
from torpor.nn.recurrent import *  # noqa: F403
from torpor.nn.stateless import *  # noqa: F403 (a module for each function)
from torpor.nn.stateless import _Loss  # noqa: F401 (what programs make theirs of)
from torpor.nn.trained import Buffer, Parameter
from torpor.nn.transformer import *  # noqa: F403

if TYPE_CHECKING:
    from torpor.nn import data as data

    def __getattr__(name: str) -> Any: ...
else:
    _absent = names_of("torpor.nn", lambda: __all__)

    def __getattr__(name: str) -> Any:
        """`data`, which takes a while to import, when it is asked for."""
        return importlib.import_module("torpor.nn.data") if name == "data" else _absent(name)


__all__ = [
    "Buffer", "Parameter", "Quantised", "data", "func", "functional", "init", "losses", "optim",
    "quantise", "state", "utils",
    *(
        name for name, kind in globals().items()
        if isinstance(kind, type) and issubclass(kind, Module) and not name.startswith("_")
    ),
]  # fmt: skip
