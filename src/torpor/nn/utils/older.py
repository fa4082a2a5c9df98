"""`weight_norm` and `spectral_norm` as they were before parametrisations: with other names in the
state.
"""

from __future__ import annotations

from typing import Any

from torpor.base.attributes import attribute, attributes
from torpor.nn.trained import parameter
from torpor.nn.utils.parametrizations import (
    as_matrix,
    by_norm,
    lengths,
    power_steps,
    singular_vectors,
    spectral_axis,
    with_lengths,
)
from torpor.nn.utils.parametrize import Way, compute, settle, taken, ways_of


class _WeightNorm(Way):
    def read(self, module: Any) -> Any:
        g, v = (attribute(module, f"{self.name}_{part}") for part in "gv")
        return with_lengths(g, v, *self.options)


class _SpectralNorm(Way):
    def read(self, module: Any) -> Any:
        weight, u, v = (attribute(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        count, eps, dim = self.options
        if module.training:
            power_steps(as_matrix(weight, dim).mT, v, u, count, eps)  # v first, then u
        return by_norm(weight, dim, u, v)


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """As `parametrizations.weight_norm`, with NAME_g and NAME_v in the state."""
    v = taken(module, name)
    own = {f"{name}_g": parameter(lengths(v.detach(), dim)), f"{name}_v": v}
    attributes(module).update(own)
    compute(module, _WeightNorm(name, (dim,)))
    return module


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """As `parametrizations.spectral_norm`, with NAME_orig, NAME_u and NAME_v in the state."""
    axis, weight = spectral_axis(module, dim), taken(module, name)
    u, v = singular_vectors(as_matrix(weight, axis), 15, eps)
    attributes(module).update({f"{name}_orig": weight, f"{name}_u": u, f"{name}_v": v})
    compute(module, _SpectralNorm(name, (n_power_iterations, eps, axis)))
    return module


def _removed(kind: type[Way], module: Any, name: str) -> Any:
    if not any(isinstance(way, kind) and way.name == name for way in ways_of(module)[1]):
        raise ValueError(f"{name} of {type(module).__name__} is not computed so")
    was_training, module.training = module.training, False
    value = attribute(module, name).detach()
    module.training = was_training
    for part in ("g", "v", "u", "orig"):
        attributes(module).pop(f"{name}_{part}", None)
    settle(module, name, parameter(value))
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again; gives the module."""
    return _removed(_WeightNorm, module, name)


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again; gives the module."""
    return _removed(_SpectralNorm, module, name)
