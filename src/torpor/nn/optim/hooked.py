"""Hooks of optimisers: what is called around steps, and as their state is given or taken over."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from torpor.base.errors import ValueRangeError
from torpor.nn.hooks import Hook
from torpor.tensor.custom import Removable

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Hooked:
    """Registers hooks; `.remove()` of what that gives takes one back. Nothing of them is state."""

    _hooks: dict[str, list[tuple[Hook]]] | None = None

    def _register(self, when: str, hook: Hook, prepend: bool = False) -> Removable:
        if self._hooks is None:
            self._hooks = {}
        return Removable(self._hooks.setdefault(when, []), (hook,), 0 if prepend else None)

    def register_step_pre_hook(self, hook: Hook) -> Removable:
        """Call `hook(optimizer, args, kwargs)` before each step, the optimiser itself the first of
        the args; what it gives, unless None, are both.
        """
        return self._register("before step", hook)

    def register_step_post_hook(self, hook: Hook) -> Removable:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._register("after step", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Removable:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._register("before state_dict", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Removable:
        """Call `hook(optimizer, state_dict)` with what `state_dict` made; what it gives, unless
        None, is given instead.
        """
        return self._register("after state_dict", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Removable:
        """Call `hook(optimizer, state_dict)` before `load_state_dict` with a shallow copy of the
        state; what it gives, unless None, is taken over instead.
        """
        return self._register("before load_state_dict", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Removable:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._register("after load_state_dict", hook, prepend)


def with_hooks(method: _Method) -> _Method:
    """The method, with its hooks around it, once where one such method calls another."""
    name = method.__name__

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None or _first(type(self), name) is not wrapper:
            return method(self, *args, **kwargs)
        before, after = (
            [hook for (hook,) in self._hooks.get(f"{when} {name}", ())]
            for when in ("before", "after")
        )
        return _AROUND[name](method, before, after, self, args, kwargs)

    wrapper.with_hooks = True  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def _first(kind: type, name: str) -> Any:
    """The method of this name, with hooks, that is called first."""
    methods = (vars(base).get(name) for base in kind.__mro__)
    return next(one for one in methods if hasattr(one, "with_hooks"))


def _around_step(
    method: Any, before: list[Hook], after: list[Hook], optimiser: Any, args: Any, kwargs: Any
) -> Any:
    args = (optimiser, *args)
    for hook in before:
        given = hook(optimiser, args, kwargs)
        if given is not None and not (isinstance(given, tuple) and len(given) == 2):
            raise ValueRangeError(f"a hook before a step gives None or (args, kwargs), not {given}")
        args, kwargs = (args, kwargs) if given is None else given
    made = method(*args, **kwargs)
    for hook in after:
        hook(optimiser, args, kwargs)
    return made


def _around_saving(
    method: Any, before: list[Hook], after: list[Hook], optimiser: Any, args: Any, kwargs: Any
) -> Any:
    for hook in before:
        hook(optimiser)
    made = method(optimiser, *args, **kwargs)
    for hook in after:
        given = hook(optimiser, made)
        made = made if given is None else given
    return made


def _around_loading(
    method: Any, before: list[Hook], after: list[Hook], optimiser: Any, args: Any, kwargs: Any
) -> None:
    state = copy.copy([*args, *kwargs.values()][0])
    for hook in before:
        given = hook(optimiser, state)
        state = state if given is None else given
    method(optimiser, state)
    for hook in after:
        hook(optimiser)


_AROUND: Final[dict[str, Any]] = {
    "step": _around_step, "state_dict": _around_saving, "load_state_dict": _around_loading
}  # fmt: skip
