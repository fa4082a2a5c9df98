"""The state of models: tensors by dotted name, from any objects; and safetensors files of it.

No pickled code is ever executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from torpor.base.attributes import attribute, attributes
from torpor.base.errors import DTypeError, ShapeError, StateError
from torpor.nn.gguf import gguf_load
from torpor.nn.safetensors import safe_load, safe_save
from torpor.nn.torch_files import torch_load
from torpor.tensor import Tensor, as_tensor, no_grad
from torpor.tensor.differentiate import is_parameter
from torpor.tensor.shard import become

__all__ = [
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load_state_dict",
    "safe_load",
    "safe_save",
    "torch_load",
]


class Misfit(NamedTuple):
    """The names that only the model has, and those that only the values given have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"missing keys: {self.missing_keys}; unexpected keys: {self.unexpected_keys}"


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of what is directly inside; the members of containers stand for them."""
    if isinstance(value, list | tuple):
        yield from ((str(i), v) for i, v in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((str(k), v) for k, v in value.items())
    else:
        transparent = attribute(type(value), "_transparent", None)
        for name, inner in attributes(value).items():
            if name == transparent:
                yield from members(inner)
            elif name != "grad":
                yield name, inner


def modules_inside(value: Any, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """(dotted name, module) of the modules that are attributes, or in lists and dicts that are.
    Others may take their places meanwhile.
    """
    for name, inner in tuple(members(value)):
        if isinstance(inner, kind):
            yield name, inner
        elif isinstance(inner, list | tuple | dict):
            yield from ((f"{name}.{below}", one) for below, one in modules_inside(inner, kind))


def put(owner: Any, name: str, value: Any) -> None:
    """Let `value` be the member of this name."""
    if isinstance(owner, list):
        owner[int(name)] = value
        return
    transparent = attribute(type(owner), "_transparent", None)
    inside = owner if isinstance(owner, dict) else attributes(owner)
    (inside if transparent is None else inside[transparent])[name] = value


def take_out(owner: Any, name: str) -> None:
    """Let there be no member of this name."""
    transparent = attribute(type(owner), "_transparent", None)
    inside = attributes(owner)
    del (inside if transparent is None else inside[transparent])[name]


def put_inside(model: Any, name: str, value: Any) -> None:
    """Let `value` be the member of this dotted name."""
    *path, last = name.split(".")
    for part in path:
        model = dict(members(model))[part]
    put(model, last, value)


def tensors_of(model: Any, prefix: str = "", passing: bool = True) -> dict[str, Tensor]:
    """Every tensor reachable through attributes, lists and dicts, by dotted name, but those that
    are computed from what requires a gradient and no registered buffers. Tied tensors appear under
    each of their names; buffers that are not persistent only if `passing`. A module's parameters
    come first, then its buffers, then what is inside of its other attributes.
    """
    found: dict[str, Tensor] = {}
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, model, ())]
    while stack:
        name, value, path = stack.pop()
        if isinstance(value, Tensor):
            found[name] = value
        elif id(value) not in path and not isinstance(value, type | ModuleType):
            buffers = buffers_of(value)
            inside = [
                (key, one) for key, one in members(value)
                if (is_kept(one) or key in buffers)
                and (passing or _is_saved(one, buffers.get(key)))
            ]  # fmt: skip
            if attribute(type(value), "register_buffer", None) is not None:
                inside.sort(key=lambda one: (
                    1 - is_trained(one[1]) if isinstance(one[1], Tensor) else 2))  # fmt: skip
            for key, inner in reversed(inside):
                stack.append((f"{name}.{key}" if name else key, inner, (*path, id(value))))
    return found


def buffers_of(owner: Any) -> Mapping[str, bool]:
    """By the name of each registered buffer whether it is persistent."""
    found: Mapping[str, bool] = attribute(owner, "_registered", {})
    return found


def _is_saved(member: Any, persistent: bool | None) -> bool:
    """Whether a member is in the state: a buffer as it was registered, others as they say."""
    if persistent is None:
        return not isinstance(member, Tensor) or bool(attribute(member, "persistent", True))
    return persistent


def is_trained(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter, and not computed from such."""
    return tensor.is_leaf and is_parameter(tensor)


def is_kept(member: Any) -> bool:
    """Whether a member is of the state by itself: no tensor that is computed from others."""
    return not isinstance(member, Tensor) or member.is_leaf


def get_state_dict(model: Any, prefix: str = "") -> dict[str, Tensor]:
    """The tensors that are saved, by dotted name: those that are reachable through attributes,
    lists and dicts. Tied tensors appear under each of their names.
    """
    return tensors_of(model, prefix, False)


def get_parameters(model: Any) -> list[Tensor]:
    """Every tensor of the model that is trained, once."""
    return list({id(t): t for t in get_state_dict(model).values() if is_trained(t)}.values())


def _like(tensor: Tensor, given: Any) -> Tensor:
    """A tensor or array, in the format of `tensor` and on its device."""
    value = given.detach() if isinstance(given, Tensor) else Tensor(np.asarray(given))
    return value.cast(tensor.dtype).to(tensor.device).contiguous()


def load_state_dict(
    model: Any, values: Mapping[str, Any], strict: bool = True, assign: bool = False
) -> Misfit:
    """Copy `values` (tensors or arrays by name) into the model's tensors.

    With `strict`, names that only one side has are an error; shapes must always agree. Nothing is
    changed when an error is raised. With `assign` the model's tensors take the values' formats.
    """
    if not isinstance(values, Mapping):
        raise DTypeError(f"a state is tensors by name, not {type(values).__name__}")
    misfit = misfit_of(model, values)
    if strict and any(misfit):
        refuse(misfit, *mismatches(get_state_dict(model), values))
    take_over(model, values, assign)
    return misfit


def misfit_of(model: Any, values: Mapping[str, Any]) -> Misfit:
    """Which names only one side has."""
    own = get_state_dict(model)
    missing = [name for name in own if name not in values]
    return Misfit(missing, [name for name in values if name not in own])


def refuse(misfit: Misfit, *further: str) -> None:
    """A `StateError` if there are names that only one side has, or more to say."""
    kinds = {"Missing key(s)": misfit.missing_keys, "Unexpected key(s)": misfit.unexpected_keys}
    parts = [f"{kind}: {', '.join(map(repr, names))}" for kind, names in kinds.items() if names]
    if parts or further:
        raise StateError("\n  ".join(["the state does not fit:", *parts, *further]))


def mismatches(own: Mapping[str, Tensor], values: Mapping[str, Any]) -> list[str]:
    """Which tensors of a model are given values of another shape, in words."""
    shapes = [
        (name, tuple(own[name].shape), np.shape(values[name])) for name in own if name in values
    ]
    return [
        f"size mismatch for {name}: the model has shape {shape}, the value given has {given}"
        for name, shape, given in shapes
        if shape != given
    ]


def take_over(model: Any, values: Mapping[str, Any], assign: bool = False) -> None:
    """Copy the values of which the model has the names: see `load_state_dict`."""
    own = get_state_dict(model)
    both = own.keys() & values.keys()
    if wrong := mismatches(own, values):
        raise ShapeError("\n  ".join(["the state does not fit:", *wrong]))
    with no_grad():
        for name in both if assign else ():
            given = as_tensor(values[name]).detach()
            become(own[name], given.to(own[name].device).clone())
        made = {name: _like(own[name], values[name]) for name in both if not assign}
        for name, value in made.items():
            own[name].assign(value)
    chosen = [own[name] for name in both]
    if chosen:
        chosen[0].realize(*chosen[1:])
