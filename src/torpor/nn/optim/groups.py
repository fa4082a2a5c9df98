"""Groups of parameters with their hyperparameters, and what steps read of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ValueRangeError
from torpor.base.unseen import Unseen
from torpor.nn.optim.given import a_number, parameters_of
from torpor.tensor import Tensor
from torpor.tensor.wide import wide_dtype


class Settings:
    """What steps read of a group: parameters, numbers that stay as they were given, and in tensors
    the rate and the numbers that have been set since. Steps do not read the group itself, which a
    jitted step would be guarded by.
    """

    def __init__(self, options: Mapping[str, Any]):
        self.params: list[Tensor] = options["params"]
        named = (_parts(k, v) for k, v in options.items() if k not in ("params", "lr"))
        self.fixed = {key: part for parts in named for key, part in parts}
        self.rate, self.live = self.scalar(options["lr"]), dict[str, Tensor]()

    def scalar(self, value: float) -> Tensor:
        """A number beside the parameters, in the widest format of their steps."""
        if not self.params:
            return Tensor(value, dtype=self.rate.dtype, device=self.rate.device).realize()
        wide = {wide_dtype(parameter.dtype) for parameter in self.params}
        dtype = dtypes.float64 if dtypes.float64 in wide else dtypes.float32
        return Tensor(value, dtype=dtype, device=self.params[0].device).realize()

    def widen(self, group: Mapping[str, Any]) -> None:
        """Hold a group's numbers in a wider format, if its parameters have one now."""
        rate = self.scalar(group["lr"])
        if rate.dtype is not self.rate.dtype:
            numbers = dict(part for name in group for part in _parts(name, group[name]))
            self.rate, self.live = rate, {name: self.scalar(numbers[name]) for name in self.live}

    def change(self, key: str, value: Any) -> None:
        """Set a number where it lives; what is none, or was none, is written down again."""
        if type(value) not in (int, float) or type(self.fixed[key]) not in (int, float):
            self.fixed[key] = value
        elif key in self.live:
            self.live[key].assign(self.scalar(value))
        else:
            self.live[key] = self.scalar(value)

    def numbers(self, dtype: DType) -> dict[str, Any]:
        """The hyperparameters beside the rate, as rules take them."""
        live = {name: value.cast(dtype) for name, value in self.live.items()}
        return {name: v for name, v in (self.fixed | live).items() if name != "maximize"}


class Group(MutableMapping[str, Any]):
    """Parameters with their hyperparameters by name, which may be set at any time. `lr` is held in
    a tensor, and so is each other number from when it is set for the first time: setting it then
    compiles nothing, and reaches jitted steps.
    """

    def __init__(self, settings: Settings, options: Mapping[str, Any]):
        self.settings, self._unseen = settings, Unseen(options)

    def __getitem__(self, name: str) -> Any:
        return self._unseen.values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            self.settings.params[:] = value = parameters_of({"params": value})["params"]
        elif name == "lr":
            value = a_number(name, value)
            self.settings.rate.assign(self.settings.scalar(value))
        elif name in self._unseen.values:
            before = dict(_parts(name, self._unseen.values[name]))
            for key, part in _parts(name, value):
                if key in self.settings.fixed and part != before[key]:
                    self.settings.change(key, part)
        self._unseen.values[name] = value

    def __delitem__(self, name: str) -> None:
        if name == "initial_lr":  # a schedule's, and not of the steps
            del self._unseen.values[name]
            return
        raise ValueRangeError(f"a group keeps its {name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._unseen.values)

    def __len__(self) -> int:
        return len(self._unseen.values)

    def __repr__(self) -> str:
        return repr(self._unseen.values)

    def copy(self) -> dict[str, Any]:
        """A dictionary of it: setting its values changes no step."""
        return dict(self)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A hyperparameter by its name, and each part of a tuple by its place."""
    if isinstance(value, tuple | list):
        yield from ((f"{name}_{place}", part) for place, part in enumerate(value))
    else:
        yield name, value
