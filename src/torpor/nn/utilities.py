"""PyTorch's `torch.utils` by its names: data, and checkpoints of gradients."""

from __future__ import annotations

import importlib
from typing import Final

from torpor.base.missing import names_of
from torpor.nn import data

checkpoint: Final = importlib.import_module("torpor.tensor.checkpoint")  # a function's name too

__all__ = ["checkpoint", "data"]
__getattr__ = names_of("torpor.utils", lambda: __all__)
