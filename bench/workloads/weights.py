"""The same weights for every library, so that what comes out of a model can be compared."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Build = Callable[[Any], Any]
PERIOD = 65537  # numbers that are drawn; large matrices repeat them, at another place in each row


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The parameter of this name: matrices and kernels normal, by the number of their inputs;
    scales 1, biases 0.
    """
    if len(shape) < 2:
        return np.full(shape, float(name.endswith("weight")), np.float32)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    some = generator.standard_normal(min(int(np.prod(shape)), PERIOD), np.float32)
    return np.resize(some / np.float32(math.sqrt(np.prod(shape[1:]))), shape)


def filled(library: Any, model: Any) -> Any:
    """The model with the weights of `drawn`, for PyTorch and torpor, whose names are the same."""
    with library.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(library.from_numpy(drawn(name, tuple(parameter.shape))))
            if hasattr(parameter, "realize"):
                parameter.realize()
    return model


def named(build: Build) -> dict[str, np.ndarray]:
    """The weights of a model by name, for libraries that have no modules."""
    import torpor

    return {name: drawn(name, p.shape) for name, p in build(torpor).named_parameters()}


def in_float64(prepare: Callable[[Any, Any], Any], build: Build) -> Callable[..., Any]:
    """A reference: what `prepare(torch, model)` gives on a model of float64. None, so that only
    finite results are asked for, where PyTorch is not installed.
    """

    def reference(*arrays: np.ndarray) -> Any:
        try:
            import torch
        except ImportError:
            return None
        step = prepare(torch, filled(torch, build(torch)).double())
        made = step(*map(torch.from_numpy, arrays))
        outputs = made if isinstance(made, tuple) else (made,)
        return tuple(x.detach().numpy() for x in outputs)

    return reference
