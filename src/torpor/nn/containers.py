"""Modules that hold others by number or by name, with PyTorch's names and methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from torpor.base.attributes import attributes
from torpor.base.errors import DeviceError, DTypeError
from torpor.nn.module import Module
from torpor.nn.trained import Parameter, parameter
from torpor.tensor import Tensor


class _Container(Module):
    """What is inside, by name; `state` names it as if these were attributes. An attribute that is
    set to something of the kind, or that has the name of something inside, goes inside.
    """

    _transparent = "_inside"
    _kind: ClassVar[Any] = Module  # what goes inside under names that nothing there has
    _inside: dict[str, Any]

    def _kept(self, value: Any) -> Any:
        if value is not None and not callable(value):
            raise DTypeError(f"a module or a function is expected, not {value!r}")
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        inside = attributes(self).get("_inside", {})
        if name in inside or (isinstance(value, self._kind) and "_inside" in attributes(self)):
            inside[name] = self._kept(value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._inside:
            del self._inside[name]
        else:
            super().__delattr__(name)

    def __getattr__(self, name: str) -> Any:
        # While the container is made or copied it has no inside yet.
        if name == "_inside" or name not in self._inside:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self._inside[name]

    def add_module(self, name: str, module: Any) -> None:
        """Put the module in under this name, which a dot cannot be in."""
        if not name or "." in name:
            raise KeyError(f"a name is not empty and has no dot, unlike {name!r}")
        self._inside[name] = module

    register_module = add_module

    def __len__(self) -> int:
        return len(self._inside)


class _List(_Container):
    """What is inside, by number."""

    def __init__(self, values: Iterable[Any] | None = None):
        self._inside = {}
        if values is not None:  # a subclass may have an `extend` that needs more than this
            self.extend(values)

    def _renumber(self, values: Iterable[Any]) -> None:
        self._inside = {str(number): value for number, value in enumerate(values)}

    def append(self, value: Any) -> Self:
        """One more at the end; itself."""
        return self.extend([value])

    def extend(self, values: Iterable[Any]) -> Self:
        """More at the end; itself."""
        for value in values:
            self._inside[str(len(self._inside))] = self._kept(value)
        return self

    def insert(self, index: int, value: Any) -> None:
        """One more before the one of this number."""
        values = list(self)
        values.insert(index, self._kept(value))
        self._renumber(values)

    def pop(self, index: int = -1) -> Any:
        """Take one out."""
        values = list(self)
        value = values.pop(index)
        self._renumber(values)
        return value

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self)[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, value: Any) -> None:
        self._inside[list(self._inside)[index]] = self._kept(value)

    def __delitem__(self, index: int | slice) -> None:
        values = list(self)
        del values[index]
        self._renumber(values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inside.values())

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __add__(self, values: Iterable[Any]) -> Self:
        return type(self)([*self, *values])


class Sequential(_List):
    """Modules or functions one after the other: given one by one, or by name in a dict."""

    def __init__(self, *layers: Any):
        super().__init__()
        named = layers[0] if len(layers) == 1 and isinstance(layers[0], Mapping) else {}
        self._inside.update(named)
        self.extend(() if named else layers)

    def forward(self, x: Any) -> Any:
        for layer in self:
            x = layer(x)
        return x

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._inside.items())[index]))
        return super().__getitem__(index)

    def __add__(self, values: Iterable[Callable[..., Any]]) -> Self:
        return type(self)(*self, *values)


class ModuleList(_List):
    """A list of modules."""

    def __init__(self, modules: Iterable[Any] | None = None):
        super().__init__(modules)


class DataParallel(Module):
    """The module, by the name that states of PyTorch's `DataParallel` have it: `module`. It is
    called with whole batches, on the device that it is on; for several, `shard` what it is given.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ):  # fmt: skip
        if device_ids is not None and len(device_ids) > 1:
            what = f"DataParallel over {len(device_ids)} devices; shard its input over them instead"
            raise DeviceError(what)
        self.module, self.dim = module, dim

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self.module(*inputs, **options)


class _Trained(_Container):
    """Whose tensors are made parameters."""

    _kind = ()

    def _kept(self, value: Any) -> Any:
        is_plain = isinstance(value, Tensor) and value.dtype.is_float
        return parameter(value) if is_plain and not isinstance(value, Parameter) else value


class ParameterList(_Trained, _List):
    """A list of parameters: tensors in it are made to require a gradient."""


class _Dict(_Container):
    """What is inside, by name."""

    def __init__(self, values: Any = None):
        self._inside = {}
        if values is not None:  # a subclass may have an `update` that needs more than this
            self.update(values)

    def update(self, values: Any) -> None:
        """Put in what a dict, or pairs of names and values, have."""
        for name, value in dict(values).items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._inside[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.add_module(name, self._kept(value))

    def __delitem__(self, name: str) -> None:
        del self._inside[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inside)

    def __contains__(self, name: str) -> bool:
        return name in self._inside

    def pop(self, name: str) -> Any:
        """Take one out."""
        return self._inside.pop(name)

    def clear(self) -> None:
        """Take all out."""
        self._inside.clear()

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._inside.keys()

    def values(self) -> Iterable[Any]:
        """What is inside."""
        return self._inside.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, what is inside)."""
        return self._inside.items()


class ModuleDict(_Dict):
    """A dict of modules."""

    def __init__(self, modules: Any = None):
        super().__init__(modules)


class ParameterDict(_Trained, _Dict):
    """A dict of parameters: tensors in it are made to require a gradient."""

    def __init__(self, parameters: Any = None):
        super().__init__(parameters)

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter of this name, else the default."""
        return self._inside.get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The parameter of this name, which is the default from now on if there was none."""
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Take the last one out: (name, parameter)."""
        return self._inside.popitem()

    def copy(self) -> ParameterDict:
        """A dict of the same parameters."""
        return ParameterDict(self._inside)


__all__ = [
    "DataParallel",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]
