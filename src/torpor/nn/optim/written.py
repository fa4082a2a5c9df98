"""Optimisers that users write as for PyTorch: `super().__init__(params, defaults)`, and a `step`
that changes the parameters of `self.param_groups` and what `self.state[parameter]` holds.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Mapping
from typing import Any

from torpor.base.errors import ShapeError
from torpor.nn.optim.given import by_number, check_apart, groups_of, numbers_of, parameters_of
from torpor.nn.optim.hooked import with_hooks
from torpor.tensor import Tensor
from torpor.tensor.watch import is_watched


class Written:
    """What such an optimiser has in place of what the rules of others need: groups and state are
    plain dicts.
    """

    defaults: dict[str, Any]
    param_groups: list[Any]
    _written: Any

    @property
    def state(self) -> Any:
        """What the step keeps, by parameter and name; nothing at first."""
        return self._written

    @state.setter
    def state(self, value: Any) -> None:
        self._written = value

    @property
    def params(self) -> list[Tensor]:
        """All parameters."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """More parameters: `{"params": [...], name: value, ...}`."""
        group = parameters_of(self.defaults | dict(param_group), whole=True)
        if not group["params"]:
            raise ShapeError(f"{type(self).__name__} got no parameters")
        check_apart(group["params"], self.param_groups, "param_names" in group)
        self.param_groups.append(group)

    def tensors(self) -> list[Tensor]:
        """All that a step changes."""
        kept = [one for kept in self._written.values() for one in kept.values()]
        return [*self.params, *(one for one in kept if isinstance(one, Tensor))]

    @with_hooks
    def step(self, closure: Any = None) -> Any:
        """The class's own step; what it changed is realised then."""
        own: Any = super()
        made = own.step() if closure is None else own.step(closure)
        if not is_watched():
            first, *rest = self.tensors()
            first.realize(*rest)
        return made

    @with_hooks
    def state_dict(self) -> dict[str, Any]:
        """State by the parameters' numbers, and the groups, as PyTorch lays them out."""
        places, groups = by_number(self)
        state = {places[id(one)]: dict(kept) for one, kept in self._written.items()}
        return {"state": state, "param_groups": groups}

    @with_hooks
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, for as many parameters in the same order."""
        groups = state_dict["param_groups"]
        numbers = numbers_of(groups, self.param_groups)
        for group, other in zip(self.param_groups, groups, strict=True):
            group.update({name: value for name, value in other.items() if name != "params"})
        for parameter, number in zip(self.params, numbers, strict=True):
            kept = state_dict["state"].get(number, {})
            self._written[parameter] = {
                name: value.detach().clone() if isinstance(value, Tensor) else value
                for name, value in kept.items()
            }


@functools.cache
def _kind(base: Any) -> Any:
    return type(base.__name__, (Written, base), {"__module__": base.__module__})


def begin_written(optimiser: Any, params: Any, defaults: Mapping[str, Any]) -> None:
    """Make the optimiser one that is written so."""
    own: Any = type(optimiser)
    optimiser.__class__ = _kind(own)
    optimiser.defaults, optimiser.param_groups = dict(defaults), []
    optimiser._written = collections.defaultdict(dict)
    for group in groups_of(params):
        optimiser.add_param_group(group)
