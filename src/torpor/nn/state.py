"""The state of models: tensors by dotted name, from any objects; and safetensors files of it.

No pickled code is ever executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from torpor.base.errors import ShapeError
from torpor.nn.safetensors import safe_load, safe_save
from torpor.nn.torch_files import torch_load
from torpor.tensor import Tensor, no_grad

__all__ = [
    "get_parameters",
    "get_state_dict",
    "load_state_dict",
    "safe_load",
    "safe_save",
    "torch_load",
]

# Containers whose elements PyTorch names directly by number.
_TRANSPARENT: Final = {"Sequential": "layers", "ModuleList": "items", "ParameterList": "items"}


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        yield from ((str(i), v) for i, v in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((str(k), v) for k, v in value.items())
    elif hasattr(value, "__dict__"):
        transparent = _TRANSPARENT.get(type(value).__name__)
        for name, inner in vars(value).items():
            if name == transparent:
                yield from _members(inner)
            elif name != "grad":
                yield name, inner


def get_state_dict(model: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor reachable through attributes, lists and dicts, by dotted name. Tied tensors
    appear under each of their names.
    """
    found: dict[str, Tensor] = {}
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, model, ())]
    while stack:
        name, value, path = stack.pop()
        if isinstance(value, Tensor):
            found[name] = value
        elif id(value) not in path:
            inside = list(_members(value))
            for key, inner in reversed(inside):
                stack.append((f"{name}.{key}" if name else key, inner, (*path, id(value))))
    return found


def get_parameters(model: Any) -> list[Tensor]:
    """Every tensor of the model that requires a gradient, once."""
    unique = {id(t): t for t in get_state_dict(model).values() if t.requires_grad}
    return list(unique.values())


def _like(tensor: Tensor, given: Any) -> Tensor:
    """A tensor or array, in the format of `tensor` and on its device."""
    value = given.detach() if isinstance(given, Tensor) else Tensor(np.asarray(given))
    return value.cast(tensor.dtype).to(tensor.device).contiguous()


def load_state_dict(model: Any, values: Mapping[str, Any], strict: bool = True) -> None:
    """Copy `values` (tensors or arrays by name) into the model's tensors.

    With `strict`, names that only one side has are an error; shapes must always agree. Nothing is
    changed when an error is raised.
    """
    own = get_state_dict(model)
    missing, unexpected = sorted(own.keys() - values.keys()), sorted(values.keys() - own.keys())
    if strict and (missing or unexpected):
        raise KeyError(f"the state does not fit: missing {missing}, unexpected {unexpected}")
    for name in own.keys() & values.keys():
        if np.shape(values[name]) != tuple(own[name].shape):
            raise ShapeError(
                f"{name!r} has shape {tuple(own[name].shape)}, the value given has "
                f"{np.shape(values[name])}"
            )
    with no_grad():
        made = {name: _like(own[name], values[name]) for name in own.keys() & values.keys()}
        for name, value in made.items():
            own[name].assign(value)
    chosen = [own[name] for name in own.keys() & values.keys()]
    if chosen:
        chosen[0].realize(*chosen[1:])
