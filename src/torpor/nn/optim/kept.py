"""What an optimiser keeps of each parameter: dictionaries by PyTorch's names, which may be set."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from torpor.base.errors import ShapeError, StateError
from torpor.tensor import Tensor
from torpor.tensor.wide import wide_dtype


class Count:
    """Steps of parameters that have made the same number, and numbers that follow from it. Those
    whose names begin with an underscore are computed at each step, and not part of a saved state.
    """

    def __init__(self, settings: Any, values: Mapping[str, float]):
        self.values = {name: settings.scalar(value) for name, value in values.items()}

    def copy(self) -> Count:
        made = copy.copy(self)
        made.values = {name: value.detach().clone() for name, value in self.values.items()}
        return made

    def shown(self) -> dict[str, Tensor]:
        """What is part of a saved state."""
        return {name: one for name, one in self.values.items() if not name.startswith("_")}


class Kept(MutableMapping[str, Any]):
    """What is kept of one parameter: memory for the rule, by name, the count of its steps, and what
    others than the rule have put there. Memory of another shape takes the place of what there was:
    a parameter of that shape may come next. The rule's memory cannot be deleted name by name.
    """

    def __init__(self, parameter: Tensor, slots: Mapping[str, Tensor], count: Count):
        self.parameter, self.count = parameter, count
        self.slots, self.others = dict(slots), dict[str, Any]()
        self.is_new = False  # memory of another shape
        self.own: Count | None = None  # a count that no other parameter has

    def __getitem__(self, name: str) -> Any:
        if name in self.count.shown():
            return self._own_count().values[name]
        return self.all()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name in self.count.shown():
            number = self._own_count().values[name]
            number.assign(fitting(name, value, number))
        elif name in self.slots:
            made, before = _detached(value), self.slots[name]
            if tuple(made.shape) == tuple(before.shape):
                before.assign(made.cast(before.dtype).to(before.device))
            else:
                self.slots[name] = made.cast(before.dtype).to(before.device).contiguous()
                self.is_new = True
        else:
            self.others[name] = value

    def __delitem__(self, name: str) -> None:
        if name not in self.others:
            raise StateError(f"a step needs {name!r}; del state[parameter] has all begin anew")
        del self.others[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.count.shown(), *self.slots, *self.others])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(self.all())

    def all(self) -> dict[str, Any]:
        """All that is kept, by name."""
        return {**self.count.shown(), **self.slots, **self.others}

    def _own_count(self) -> Count:
        """The count, which is of this parameter alone from now on: it may be written to."""
        if self.own is not self.count:
            self.count = self.own = self.count.copy()
        return self.count

    def take_others(self, values: Mapping[str, Any], rules: Collection[str]) -> None:
        """Keep what a state has under names that are none of the rule's."""
        known = {*rules, *self.slots, *self.count.values}
        self.others = {k: v for k, v in values.items() if k not in known and v is not None}

    def given_to(self, parameter: Tensor) -> Kept:
        """The same of another parameter."""
        made = copy.copy(self)
        made.parameter, made.is_new = parameter, True
        return made

    def check(self, wanted: Mapping[str, Tensor]) -> None:
        """Raise unless the memory has the shapes that the parameter's begins with."""
        for name, one in wanted.items():
            fitting(name, self.slots[name], one)
        self.is_new = False


def share_counts(kept: Sequence[Kept]) -> None:
    """One count for all of a group that made the same number of steps, if some were set apart."""
    if any(one.own is one.count for one in kept):
        shared = dict[tuple[float, ...], Count]()
        for one in kept:
            numbers = tuple(float(value.item()) for value in one.count.shown().values())
            one.count, one.own = shared.setdefault(numbers, one.count), None


class State(MutableMapping[Tensor, Any]):
    """What an optimiser keeps, by parameter. What is deleted begins anew with the next step."""

    def __init__(self, optimiser: Any):
        self._optimiser = optimiser

    def __getitem__(self, parameter: Tensor) -> Any:
        return self._optimiser.kept_of(parameter)

    def __setitem__(self, parameter: Tensor, kept: Mapping[str, Any]) -> None:
        self._optimiser.keep(parameter, kept)

    def __delitem__(self, parameter: Tensor) -> None:
        self._optimiser.forget(parameter)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._optimiser.kept_parameters())

    def __len__(self) -> int:
        return len(self._optimiser.kept_parameters())

    def __contains__(self, parameter: object) -> bool:
        return any(one is parameter for one in self)

    def __repr__(self) -> str:
        return repr(dict(self))


def fitting(name: str, value: Any, target: Tensor) -> Tensor:
    """What is given for a number or memory, as that has it; a `ShapeError` if it does not fit."""
    made = _detached(value)
    if target.ndim and tuple(made.shape) != tuple(target.shape):
        raise ShapeError(f"{name!r} has shape {target.shape}, not {made.shape}")
    return made.reshape(target.shape).cast(target.dtype).to(target.device)


def filled_like(parameter: Tensor, value: float = 0.0) -> Tensor:
    """Memory of the parameter's shape in the format of its steps."""
    dtype = wide_dtype(parameter.dtype)
    return Tensor.full(parameter.shape, value, dtype=dtype, device=parameter.device).contiguous()


def _detached(value: Any) -> Tensor:
    alone = value.detach() if hasattr(value, "detach") else value
    return alone if isinstance(alone, Tensor) else Tensor(np.asarray(alone))
