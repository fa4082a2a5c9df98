"""Hooks of modules: functions that are called before and after `forward`, with gradients, and as
the state is given or taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torpor.base.attributes import attribute
from torpor.tensor import Tensor
from torpor.tensor.custom import Removable, between
from torpor.tensor.tree import flat_tree, map_tree

if TYPE_CHECKING:
    from torpor.nn.module import Module

Hook = Callable[..., Any]


class Hooks:
    """The hooks of one module by when they are called, in order: (hook, with keywords, always).
    Nothing in it is part of the module's state.
    """

    __slots__ = ("before", "after", "down", "up", "saving", "saved", "loading", "loaded")

    def __init__(self) -> None:
        for when in self.__slots__:
            setattr(self, when, [])

    def add(
        self, when: str, hook: Hook, first: bool, keywords: bool = False, always: bool = False
    ) -> Removable:
        """One hook more."""
        entry = hook, keywords, always
        return Removable(attribute(self, when), entry, 0 if first else None)


def called(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the module computes, and what hooks of all modules and its own make of it."""
    for hook, keywords, _ in _entries(module, "before"):
        given = hook(module, args, kwargs) if keywords else hook(module, args)
        if given is not None and keywords:
            args, kwargs = given
        elif given is not None:
            args = given if isinstance(given, tuple) else (given,)
    try:
        result = _differentiated(module, args, kwargs)
    except BaseException:
        for hook, keywords, always in _entries(module, "after"):
            if always:
                hook(module, args, kwargs, None) if keywords else hook(module, args, None)
        raise
    for hook, keywords, _ in _entries(module, "after"):
        given = hook(module, args, kwargs, result) if keywords else hook(module, args, result)
        result = result if given is None else given
    return result


def _differentiated(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    downwards, upwards = _entries(module, "down"), _entries(module, "up")
    if not upwards and not downwards:
        return module.forward(*args, **kwargs)
    seen: list[tuple[Any, ...]] = []

    def down(*gradients: Any) -> tuple[Any, ...]:
        for hook, *_ in downwards:
            gradients = _replaced(hook(module, gradients), gradients)
        seen[:] = [gradients]
        return gradients

    def up(*gradients: Any) -> tuple[Any, ...]:
        for hook, *_ in upwards:
            gradients = _replaced(hook(module, gradients, seen[0]), gradients)
        return gradients

    def down_alone(*gradients: Any) -> tuple[Any, ...]:
        gradients = down(*gradients)
        up(*[None for one in flat_tree(args) if isinstance(one, Tensor)])
        return gradients

    flows = any(map(_has_gradient, flat_tree(args)))
    args = _through(args, up)
    return _through(module.forward(*args, **kwargs), down if flows else down_alone)


def of(module: Module) -> Hooks:
    """The hooks of a module."""
    if module._hooks is None:
        module._hooks = Hooks()
    return module._hooks


def those(module: Module, when: str) -> list[Hook]:
    """The hooks of a module that are called then."""
    return [hook for hook, *_ in _entries(module, when)]


def _entries(module: Module, when: str) -> list[Any]:
    """What is called then, hooks of all modules first."""
    both = (module._everywhere, module._hooks)
    return [entry for hooks in both if hooks is not None for entry in attribute(hooks, when)]


def _replaced(given: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    if given is None:
        return gradients
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _through(tree: Any, hook: Callable[..., Any]) -> Any:
    """The tensors of a tree, whose gradients go through the hook together."""
    tensors = [one for one in flat_tree(tree) if isinstance(one, Tensor)]
    flows = list(filter(_has_gradient, tensors))
    marked = {id(t) for t in flows}

    def of_all(*gradients: Any) -> tuple[Any, ...]:
        each = iter(gradients)
        given = hook(*[next(each) if id(t) in marked else None for t in tensors])
        return tuple([one for one, t in zip(given, tensors, strict=True) if id(t) in marked])

    passed = iter(between(flows, of_all) if flows else ())
    return map_tree(lambda t: next(passed) if id(t) in marked else t, tree)


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and value.dtype.is_float
