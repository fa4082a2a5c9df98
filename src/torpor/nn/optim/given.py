"""What an optimiser is given: parameters, groups of them, and numbers, looked at."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torpor.base.errors import DTypeError, GradientError, ValueRangeError
from torpor.tensor import Tensor
from torpor.tensor.differentiate import leaf_number
from torpor.tensor.spelling import within


def groups_of(params: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """The groups: those given, or one of all parameters."""
    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        what = f"takes a sequence of parameters, not {type(params).__name__}; write [parameter]"
        raise DTypeError(f"an optimiser {what}")
    given = list(params)
    plain = not given or not all(isinstance(one, Mapping) for one in given)
    yield from [{"params": given}] if plain else given


def parameters_of(group: Mapping[str, Any], whole: bool = False) -> dict[str, Any]:
    """A group with a list of its parameters: the real tensors that they are made of, or `whole`.
    Pairs of a name and a parameter leave the names in "param_names", one for each of those.
    """
    given = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
    named = [one for one in given if isinstance(one, tuple) and len(one) == 2]
    if named and len(named) < len(given):
        raise ValueRangeError("either all parameters have names, or none has")
    tensors = [one[1] for one in named] or given
    parts = [[one] if whole else _checked(one) for one in tensors]
    made = {**group, "params": [part for each in parts for part in each]}
    if len({id(one) for one in made["params"]}) < len(made["params"]):
        what = "a group has a parameter several times, which makes as many steps at once"
        warnings.warn(what, stacklevel=2)
    if named:
        pairs = zip(named, parts, strict=True)
        made["param_names"] = [name for (name, _), each in pairs for _ in each]
    return made


def check_apart(params: Iterable[Any], groups: Sequence[Mapping[str, Any]], named: bool) -> None:
    """Raise where one of the parameters is in these groups, or only some groups have names."""
    others = {id(one) for group in groups for one in group["params"]}
    if any(id(one) in others for one in params):
        raise ValueRangeError("a parameter is in two groups")
    if any(("param_names" in group) is not named for group in groups):
        raise ValueRangeError("either the parameters of all groups have names, or none has")


def _checked(parameter: Any) -> Sequence[Tensor]:
    if not isinstance(parameter, Tensor):
        raise DTypeError(f"an optimiser takes tensors, not {type(parameter).__name__}")
    parts: Sequence[Tensor] = parameter._parts
    if any(part.requires_grad and leaf_number(part) is None for part in parts):
        raise GradientError("an optimiser changes leaves, not what is computed from them")
    return parts


def by_number(optimiser: Any) -> tuple[dict[int, int], list[dict[str, Any]]]:
    """Which number each parameter has, by identity, and the groups, of such numbers."""
    places = {id(parameter): place for place, parameter in enumerate(optimiser.params)}
    groups = optimiser.param_groups
    return places, [{**one, "params": [places[id(p)] for p in one["params"]]} for one in groups]


def numbers_of(groups: Sequence[Any], own: Sequence[Any]) -> list[Any]:
    """The parameters' numbers in a state's groups, which are as large as the optimiser's own."""
    sizes = [len(group["params"]) for group in groups]
    if sizes != [len(group["params"]) for group in own]:
        raise ValueRangeError(f"the state is of groups of {sizes} parameters")
    return [number for group in groups for number in group["params"]]


def check_betas(betas: Any) -> None:
    """Raise unless they are two numbers from 0 to below 1."""
    if not isinstance(betas, Sequence) or len(betas) != 2:
        raise ValueRangeError(f"betas are two numbers, not {betas}")
    for beta in betas:
        within("each of the betas", beta, 0, 1)
    if 1 in betas:
        raise ValueRangeError(f"each of the betas is at least 0 and less than 1, not {betas}")


def a_number(name: str, value: Any) -> float:
    """A hyperparameter that is not negative."""
    within(name, value, 0)
    return float(value)
