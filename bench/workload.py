"""What a workload is: inputs, one function for each library, and what the answer is in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
Function = Callable[..., Any]

DEFAULT_PEERS = ("torch", "torch out=", "torch compiled", "jax")


@dataclass(frozen=True)
class Workload:
    """One thing to time.

    name:      `family/what`, by which `--only` chooses.
    inputs:    from a generator to NumPy arrays; called once for each set of inputs.
    functions: by library (`torpor`, `torch`, `torch out=`, `jax`, `numpy`, `tinygrad`), a function
               of the library's module and its arrays that gives an array or a tuple of arrays.
               `torch out=` and `numpy` get the outputs to write into as the keyword `out`;
               `onnx` is a function of `onnx.helper` that gives a list of nodes from x0, x1, ... to
               y0, y1, ....
    reference: of float64 arrays: the answer, or a tuple of them. None where only what comes out is
               looked at (steps of training, whose state the libraries keep for themselves).
    against:   the contenders that the ratio counts; all others are only shown.
    flops, bytes: of one call, at least: each input and output passes through memory once.
    mix:       which measured bandwidth the bytes are compared with.
    tolerance: largest relative L2 error.
    builds:    the functions get only the module, once, and give the function that is timed: for
               training steps, which own a model.
    notes:     by library, why it has no function.
    """

    name: str
    inputs: Callable[[np.random.Generator], Arrays]
    functions: Mapping[str, Function]
    reference: Callable[..., Any] | None
    flops: float = 0.0
    bytes: float = 0.0
    against: Sequence[str] = DEFAULT_PEERS
    mix: str = "copy"
    tolerance: float = 1e-5
    quick: bool = False
    builds: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]


def randoms(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[..., Arrays]:
    """Inputs of these shapes, standard normal."""

    def make(generator: np.random.Generator) -> Arrays:
        return tuple(generator.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)

    return make


def count(*shapes: tuple[int, ...]) -> int:
    """Elements of arrays of these shapes together."""
    return sum(int(np.prod(shape)) for shape in shapes)
