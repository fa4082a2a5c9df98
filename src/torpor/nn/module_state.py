"""The state of a module, with what the modules inside add to it: hooks, and more than tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from torpor.base.attributes import attribute
from torpor.nn import state
from torpor.nn.hooks import those

if TYPE_CHECKING:
    from torpor.nn.module import Module
    from torpor.tensor import Tensor

LOADS: Final = "_load_from_state_dict"
_EXTRA: Final = "_extra_state"  # PyTorch's name


def give(module: Module, found: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """Put a module's state into `found`: see `Module.state_dict`. A module inside whose class has a
    `state_dict` of its own is asked for its part.
    """
    inside = _inside(module, prefix)
    asked: dict[str, Module] = {}
    for start, one in inside[1:]:
        if not start.startswith(tuple(asked)) and _says(one, "state_dict"):
            asked[start] = one
    within = tuple(asked)
    inside = [(start, one) for start, one in inside if not start.startswith(within)]
    for start, one in inside:
        for hook in those(one, "saving"):
            hook(one, start, keep_vars)
    views: dict[int, Any] = {}  # tied tensors stay one
    for name, tensor in state.get_state_dict(module, prefix.removesuffix(".")).items():
        if not name.startswith(within):
            view = tensor if keep_vars else views.get(id(tensor))
            found[name] = views[id(tensor)] = tensor.detach() if view is None else view
        for start in [one for one in asked if name.startswith(one)]:
            asked.pop(start).state_dict(destination=found, prefix=start, keep_vars=keep_vars)
    for start, one in asked.items():  # those without tensors
        one.state_dict(destination=found, prefix=start, keep_vars=keep_vars)
    for start, one in inside:
        if _says(one, "_save_to_state_dict"):
            for name in own_tensors(one, start):
                found.pop(name, None)
            one._save_to_state_dict(found, start, keep_vars)
        if _says(one, "get_extra_state"):
            found[start + _EXTRA] = one.get_extra_state()
    for start, one in reversed(inside):
        for hook in those(one, "saved"):
            hook(one, found, start, {})


def take(module: Module, values: Mapping[str, Any], strict: bool, assign: bool) -> state.Misfit:
    """Take over a module's state: see `Module.load_state_dict`. A misfit is an error before
    anything is changed, unless a hook that is called after that may still say that it is none.
    """
    inside = _inside(module, "")
    extra = {f"{start}{_EXTRA}": one for start, one in inside if _says(one, "set_extra_state")}
    plain = not extra and not any(one._hooks or _says(one, LOADS) for _, one in inside)
    if plain or not isinstance(values, Mapping):
        return state.load_state_dict(module, values, strict, assign)
    values, misfit, errors = dict(values), state.Misfit([], []), list[str]()
    for start, one in inside:
        one._load_from_state_dict(values, start, {}, strict, *misfit, errors)
    further = {name: values.pop(name) for name in extra if name in values}
    misfit.missing_keys.extend(name for name in extra if name not in further)
    after = [(one, hook) for _, one in reversed(inside) for hook in those(one, "loaded")]
    if not after:
        state.refuse(misfit if strict else _NONE, *errors)
    state.take_over(module, values, assign)
    for name, value in further.items():
        extra[name].set_extra_state(value)
    for one, hook in after:
        hook(one, misfit)
    state.refuse(misfit if strict else _NONE, *errors)
    return misfit


def look(
    module: Module, values: dict[str, Any], prefix: str, meta: Any, strict: bool,
    missing: list[str], unexpected: list[str], errors: list[str],
) -> None:  # fmt: skip
    """Let hooks change the values of a module; add the names that do not fit, but for modules
    inside.
    """
    for hook in those(module, "loading"):
        hook(module, values, prefix, meta, strict, missing, unexpected, errors)
    own, within = own_tensors(module, prefix), _within(module, prefix)
    missing += [name for name in own if name not in values]
    unexpected += [
        name for name in values
        if name.startswith(prefix) and name not in own and not name.startswith(within)
        and name != f"{prefix}{_EXTRA}"
    ]  # fmt: skip


def own_tensors(module: Module, prefix: str) -> dict[str, Tensor]:
    """A module's tensors by name, but for those of modules inside."""
    within = _within(module, prefix)
    named = state.get_state_dict(module, prefix.removesuffix("."))
    return {name: one for name, one in named.items() if not name.startswith(within)}


def _within(module: Module, prefix: str) -> tuple[str, ...]:
    return tuple([start for start, _ in _inside(module, prefix)[1:]])


_NONE: Final = state.Misfit([], [])


def _inside(module: Module, prefix: str) -> list[tuple[str, Module]]:
    """The module and all inside, each with what its names begin with."""
    named = module.named_modules(None, prefix.removesuffix("."), remove_duplicate=False)
    return [(f"{name}." if name else "", one) for name, one in named]


def _says(module: Module, name: str) -> bool:
    """Whether a subclass has its own method of this name."""
    return attribute(type(module), name).__module__ != "torpor.nn.module"
