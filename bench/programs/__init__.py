"""Whole programs, the same for every library: `modules` for PyTorch and torpor, `functions` for
JAX. What goes into a program, and how large it is, stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

STAGES: Final = ((64, 64, 1), (64, 128, 2), (128, 256, 2))  # channels in, out, stride
TOKENS: Final = 12  # that a call of `growing` gives
PROMPT: Final = 16  # tokens that it begins with
VOCABULARY: Final = 1000


class Transformer(NamedTuple):
    """The size of a causal transformer."""

    layers: int
    width: int
    heads: int
    length: int  # most positions


SMALL: Final = Transformer(4, 320, 5, 200)
LARGE: Final = Transformer(12, 768, 12, 128)  # 85 million parameters in its blocks
RECURRENT: Final = {"inputs": 96, "width": 192, "layers": 2}

Draw = Callable[[np.random.Generator], tuple[Any, ...]]


def labelled(*shape: int, classes: int, batch: int = 0) -> Draw:
    """Inputs of the shape, and a label for each of the axis `batch`."""
    return lambda draw: (
        draw.standard_normal(shape, np.float32), draw.integers(0, classes, shape[batch])
    )  # fmt: skip


def text(*shape: int) -> Draw:
    """Tokens [..., position], and the token that follows each."""

    def make(draw: np.random.Generator) -> tuple[Any, ...]:
        tokens = draw.integers(0, VOCABULARY, (*shape[:-1], shape[-1] + 1))
        return tokens[..., :-1].copy(), tokens[..., 1:].copy()

    return make


INPUTS: Final[dict[str, Draw]] = {
    "mlp": labelled(96, 600, classes=17),
    "resnet": labelled(12, 3, 40, 40, classes=10),
    "transformer": text(2, SMALL.length),
    "lstm": labelled(40, 12, RECURRENT["inputs"], classes=10, batch=1),
    "growing": lambda draw: (draw.integers(0, VOCABULARY, (1, PROMPT)),),
    "large": text(1, LARGE.length),
}
WHAT: Final = {
    "mlp": "MLP 600-300-300-17, AdamW, batch 96",
    "resnet": "small ResNet with batch norm, 12×3×40×40, SGD with momentum",
    "transformer": "causal transformer, 4 layers of 320, 2×200 tokens, AdamW",
    "lstm": "LSTM, 2 layers of 192, 12×40, Adam",
    "growing": "twelve tokens from a jitted function whose input grows by one",
    "large": "causal transformer, 12 layers of 768, 1×128 tokens, AdamW",
}
