"""What an optimiser is given: parameters, groups of them, and numbers, looked at."""

from __future__ import annotations

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
    plain = not all(isinstance(one, Mapping) for one in given)
    yield from [{"params": given}] if plain else given


def each_once(params: Any) -> list[Tensor]:
    """The real tensors that the parameters are made of, each once."""
    given = [params] if isinstance(params, Tensor) else list(params)
    return list({id(one): one for each in given for one in _checked(each)}.values())


def _checked(given: Any) -> Sequence[Tensor]:
    parameter = given[1] if isinstance(given, tuple) and len(given) == 2 else given
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
