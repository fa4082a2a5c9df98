"""What is public: every name of every public namespace, with its signature and its text."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torpor
from torpor import Tensor

# Namespaces in the order of their pages; the first that has a function is where it is explained.
NAMESPACES: Final = {
    "Tensor": "torpor.tensor.tensor",
    "nn": "torpor.nn",
    "nn.functional": "torpor.nn.functional",
    "nn.init": "torpor.nn.init",
    "nn.utils": "torpor.nn.utils",
    "nn.utils.prune": "torpor.nn.utils.prune",
    "nn.utils.rnn": "torpor.nn.utils.rnn",
    "nn.utils.parametrize": "torpor.nn.utils.parametrize",
    "nn.utils.parametrizations": "torpor.nn.utils.parametrizations",
    "nn.data": "torpor.nn.data",
    "nn.data.transforms": "torpor.nn.data.transforms",
    "optim": "torpor.nn.optim",
    "optim.lr_scheduler": "torpor.nn.optim.lr_scheduler",
    "optim.swa_utils": "torpor.nn.optim.swa_utils",
    "distributions": "torpor.nn.distributions",
    "random": "torpor.tensor.seeding",
    "testing": "torpor.tensor.testing",
    "linalg": "torpor.tensor.linalg",
    "fft": "torpor.tensor.fft",
    "masked": "torpor.tensor.masked",
    "special": "torpor.tensor.special_names",
    "func": "torpor.nn.func",
    "autograd": "torpor.tensor.autograd",
    "autograd.functional": "torpor.tensor.derivatives",
    "torpor": "torpor",
    "array_api": "torpor.array_api",
}
# Families of methods by the page that they are on; one that is not named is on the last page.
FAMILIES: Final = {
    "Making tensors": ("Creation", "Alike", "Random", "Distributions"),
    "Functions of one element": ("Functions", "Special"),
    "Functions of two": ("Arithmetic", "Numeric"),
    "Views, joining and splitting": ("Movement", "Joining", "Arranging", "Padding"),
    "Indexing, sorting and counting": ("Indexing", "Scatter", "Sorting", "Counting"),
    "Reductions": ("Reduce", "Scan", "Statistics"),
    "Matrices": ("Contraction", "Products", "Dense"),
    "Convolutions, pools and losses": ("Convolution", "Pooling", "Loss"),
    "The tensor itself": ("Tensor", "Realisation", "Differentiate", "Hooked", "Write", "Layout"),
}


class Entry(NamedTuple):
    """A public name: where it is found, what it is, and the class whose text it is part of."""

    space: str
    name: str
    value: Any
    family: type | None = None

    @property
    def path(self) -> str:
        """How it is written."""
        return f"{self.space}.{self.name}"

    @property
    def text(self) -> str:
        """Its docstring, without that of what it is an instance of."""
        own = getattr(self.value, "__doc__", None) or ""
        return inspect.cleandoc(own) if own != type(self.value).__doc__ else ""

    @property
    def is_property(self) -> bool:
        """Whether it is read without a call."""
        return not callable(self.value)

    @property
    def is_static(self) -> bool:
        """Whether it is a method that is of no tensor."""
        return isinstance(vars(self.family).get(self.name), staticmethod | classmethod)

    @property
    def signature(self) -> str:
        """Its parameters, without the tensor that a method is of, and without `Any`."""
        if self.is_property:
            return ""
        try:
            found = inspect.signature(self.value)
        except (TypeError, ValueError):
            return "(...)"
        parameters = [_plain(one) for one in found.parameters.values() if one.name != "self"]
        result = _Text(found.return_annotation)
        shown = found.replace(parameters=parameters, return_annotation=result)
        return re.sub(r"<function (\w+) at \w+>", r"\1", str(shown).removesuffix(" -> Any"))

    @property
    def identity(self) -> int:
        """One number for all the names of one thing."""
        return id(inspect.unwrap(self.value))


class _Text(str):
    """An annotation that is shown without quotation marks."""

    __slots__ = ()

    def __new__(cls, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            return annotation
        shown = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return super().__new__(cls, shown.replace("typing.", ""))

    def __repr__(self) -> str:
        return str(self)


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    annotation = _Text(parameter.annotation)
    untold = annotation == "Any" or parameter.kind is parameter.VAR_KEYWORD
    return parameter.replace(annotation=inspect.Parameter.empty if untold else annotation)


def _methods() -> Iterator[Entry]:
    """What a tensor has. Constants and what is told by Python's own types are left out."""
    for name in dir(Tensor):
        if name.startswith("_"):
            continue
        family = next(owner for owner in Tensor.__mro__ if name in vars(owner))
        value = vars(family)[name]
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if callable(value) or isinstance(value, property):
            yield Entry("Tensor", name, value, family)


def _names(module: Any) -> list[str]:
    """What a module says is public; else what is callable in it and is torpor's."""
    return sorted(set(getattr(module, "__all__", ())), key=lambda name: (name.casefold(), name))


def _members(space: str, module: Any) -> Iterator[Entry]:
    for name in _names(module):
        value = getattr(module, name)
        if inspect.ismodule(value):
            value = getattr(value, name, None)  # a room may be called, as `torpor.profile` is
        if callable(value) and not inspect.ismodule(value):
            yield Entry(space, name, value)


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every public function, class, method and property."""
    found = list(_methods())
    for space, module in NAMESPACES.items():
        if space != "Tensor":
            found += _members(space, importlib.import_module(module))
    in_place = [n for n in dir(Tensor) if n.endswith("_") and not n.startswith("_")]
    return (*found, *(Entry("torpor", name, getattr(torpor, name)) for name in in_place))


@functools.cache
def homes() -> dict[int, Entry]:
    """Where each thing is explained: what else has its `identity` is another name of it."""
    found: dict[int, Entry] = {}
    for entry in entries():
        found.setdefault(entry.identity, entry)
    return found
