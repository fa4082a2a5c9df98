"""Tensors of modules that are computed from others whenever they are read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from torpor.base.attributes import attribute, attributes
from torpor.base.errors import ShapeError
from torpor.nn.containers import ModuleDict, ModuleList
from torpor.nn.module import Module
from torpor.nn.trained import Buffer, Parameter, parameter
from torpor.tensor import Tensor, no_grad
from torpor.tensor.mode import held

# In `cached`: what has been computed.
_kept: Final[ContextVar[dict[Any, Any] | None]] = ContextVar("torpor_parametrised", default=None)


# --- attributes that are computed -----------------------------------------------------------------
@dataclass(frozen=True)
class Way:
    """How the attribute `name` is computed: base of classes with `read`, which can be compared."""

    name: str
    options: tuple[Any, ...] = ()
    prefix: ClassVar[str] = ""  # of the class of modules that have it

    def read(self, module: Any) -> Any:
        """What the attribute is."""
        raise NotImplementedError

    def write(self, module: Any, value: Any) -> None:
        """Let the attribute be this value."""
        raise AttributeError(f"{self.name} is computed from other tensors")


@functools.cache
def _kind(base: Any, ways: tuple[Any, ...]) -> type[Any]:
    members: dict[str, Any] = {way.name: property(way.read, way.write) for way in ways}
    members |= {
        "_ways": (base, ways), "__module__": base.__module__, "__doc__": base.__doc__,
        "__reduce_ex__": lambda self, _: (_blank, (base, ways), attributes(self)),
    }  # fmt: skip
    return type(f"{ways[0].prefix}{base.__name__}", (base,), members)


def _blank(base: Any, ways: tuple[Any, ...]) -> Any:
    return object.__new__(_kind(base, ways))


def ways_of(module: Any) -> tuple[Any, tuple[Any, ...]]:
    """The module's class without what is computed, and how that is."""
    found: tuple[Any, tuple[Any, ...]] = attribute(type(module), "_ways", (type(module), ()))
    return found


def compute(module: Any, way: Any) -> None:
    """Compute an attribute, which must not be there."""
    base, ways = ways_of(module)
    module.__class__ = _kind(base, (*ways, way))


def settle(module: Any, name: str, value: Any) -> None:
    """Let the attribute be this value, no longer computed."""
    base, ways = ways_of(module)
    left = tuple(way for way in ways if way.name != name)
    module.__class__ = _kind(base, left) if left else base
    attributes(module)[name] = value


def taken(module: Any, name: str) -> Tensor:
    """The tensor of this name, no longer the module's."""
    tensor = attributes(module).pop(name, None)
    if not isinstance(tensor, Tensor):
        raise AttributeError(f"{type(module).__name__} has no tensor {name!r} of its own")
    return tensor


# --- parametrisations -----------------------------------------------------------------------------
class _Parametrised(Way):
    prefix = "Parametrized"

    def read(self, module: Any) -> Any:
        makers = module.parametrizations[self.name]
        kept, key = _kept.get(), (id(module), self.name)
        if kept is None:
            return makers()
        if key not in kept:
            kept[key] = makers()
        return kept[key]

    def write(self, module: Any, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


def _back(modules: Any, value: Any) -> Any:
    """What the modules would make this value of, as far as they say."""
    found = value
    for one in reversed(list(modules)):
        try:
            found = one.right_inverse(found)
        except NotImplementedError:
            return value
    return found


def _have_inverses(modules: Any) -> bool:
    return all(hasattr(one, "right_inverse") for one in modules)


class ParametrizationList(ModuleList):
    """Modules one after the other that make a tensor of `original`, or of `original0`, ..."""

    def __init__(self, modules: Any, original: Tensor, unsafe: bool = False):
        with no_grad():
            values = _back(modules, original) if _have_inverses(modules) else original
        single = isinstance(values, Tensor)
        self._names = ("original",) if single else tuple(f"original{n}" for n in range(len(values)))
        trained = isinstance(original, Parameter)
        for name, value in zip(self._names, (values,) if single else values, strict=True):
            kept = parameter(value, original.requires_grad) if trained else Buffer(value)
            setattr(self, name, original if value is original else kept)
        super().__init__(modules)
        self.unsafe = unsafe

    def originals(self) -> list[Tensor]:
        """The tensors that the first module gets."""
        return [attribute(self, name) for name in self._names]

    def forward(self) -> Any:
        first, *rest = self
        value = first(*self.originals())
        for one in rest:
            value = one(value)
        return value

    def right_inverse(self, value: Any) -> None:
        """Let the originals be such that the tensor becomes this value, as far as it can."""
        if not _have_inverses(self):
            raise NotImplementedError("a parametrisation without right_inverse cannot be set")
        with no_grad():
            found = _back(self, value)
            given = (found,) if isinstance(found, Tensor) else found
            for own, one in zip(self.originals(), given, strict=True):
                own.assign(one.cast(own.dtype))


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Let `parametrization(original)` be the tensor of this name; gives the module. The state has
    `parametrizations.NAME.original` instead. A second one is applied to what the first makes. Where
    it has `right_inverse`, the original becomes that of the tensor; if that gives several tensors,
    they are `original0`, ..., and the parametrisation's arguments. Unless `unsafe`, what is made
    has to have the shape and format of the tensor.
    """
    if is_parametrized(module, tensor_name):
        makers = module.parametrizations[tensor_name]
        before = attribute(module, tensor_name)
        _check(parametrization(before), before, unsafe)
        makers.append(parametrization)
        return module
    original = taken(module, tensor_name)
    try:
        makers = ParametrizationList([parametrization], original, unsafe)
        _check(makers(), original, unsafe)
    except BaseException:
        attributes(module)[tensor_name] = original
        raise
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = makers
    compute(module, _Parametrised(tensor_name))
    return module


def _check(made: Tensor, like: Tensor, unsafe: bool) -> None:
    if not unsafe and (made.shape, made.dtype) != (like.shape, like.dtype):
        what = f"{made.dtype} {made.shape} of {like.dtype} {like.shape}"
        raise ShapeError(f"the parametrisation makes {what}; unsafe=True allows it")


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether the tensor of this name, or any, is made by parametrisations."""
    makers = attributes(module).get("parametrizations")
    return isinstance(makers, ModuleDict) and (tensor_name is None or tensor_name in makers)


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor a plain one again: what the parametrisations make, or its original; gives the
    module.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{tensor_name} of {type(module).__name__} is not parametrised")
    makers = module.parametrizations[tensor_name]
    originals = makers.originals()
    first = originals[0]
    if leave_parametrized:
        with no_grad():
            value = attribute(module, tensor_name).detach()
            if len(originals) == 1 and (value.shape, value.dtype) == (first.shape, first.dtype):
                first.assign(value)  # an optimiser that holds it goes on
            else:
                first = parameter(value) if isinstance(first, Parameter) else Buffer(value)
    elif len(originals) > 1:
        raise ValueError("several originals are not the tensor; leave_parametrized=True")
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    settle(module, tensor_name, first)
    return module


def type_before_parametrizations(module: Module) -> type[Any]:
    """The module's class without what parametrisations add."""
    base: type[Any] = ways_of(module)[0]
    return base


@contextmanager
def cached() -> Iterator[None]:
    """Within it each parametrised tensor is computed once."""
    kept = _kept.get()
    with held(_kept, {} if kept is None else kept):
        yield


__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "type_before_parametrizations",
]  # fmt: skip
