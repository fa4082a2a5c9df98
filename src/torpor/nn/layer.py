"""`Layer`: modules of torpor that make tensors, on a device and in a format that they are told."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torpor.base.dtypes import as_dtype
from torpor.base.errors import ShapeError
from torpor.nn import state
from torpor.nn.module import Module, is_own
from torpor.nn.trained import parameter
from torpor.tensor import mode
from torpor.tensor.spelling import check_keywords


class Layer(Module):
    """Base of modules that make tensors: their constructors take `device` and `dtype` of them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith(__package__):
            setattr(cls, "__init__", _placed(cls.__init__))  # noqa: B010 (mypy: a method)


class Renewable(Layer):
    """Base of layers whose tensors can begin again."""

    _again: Callable[[], Renewable]  # makes another one

    def reset_parameters(self) -> None:
        """Let every tensor begin again, as the constructor makes it. A subclass that has a method
        of this name of its own is asked at the end of the constructor.
        """
        fresh = state.tensors_of(self._again())
        with mode.no_grad():
            for name, tensor in state.tensors_of(self).items():
                if name in fresh and fresh[name].shape == tensor.shape:
                    tensor.copy_(fresh[name].detach().to(tensor.device))


def _placed(make: Callable[..., None]) -> Callable[..., None]:
    """A constructor that takes `device` and `dtype`, and makes its tensors there and so."""

    @functools.wraps(make)
    def made(*arguments: Any, device: Any = None, dtype: Any = None, **options: Any) -> None:
        layer, *given = arguments
        check_keywords(layer, own, options)
        whole = None if dtype is None else as_dtype(dtype)
        with mode.made_as(device, whole and (whole.to_real() if whole.is_complex else whole)):
            make(*arguments, **options)
            if whole is not None and whole.is_complex:
                twin = object.__new__(type(layer))
                make(twin, *given, **options)
                _become_complex(layer, twin)
        if isinstance(layer, Renewable):
            kind, *_ = kinds = [one for one in type(layer).__mro__ if is_own(one)]
            makers = [vars(one)["__init__"] for one in kinds if "__init__" in vars(one)]
            if makers[0] is made:  # and none that another calls
                # without weights that were given, as `_weight`
                kept = {name: one for name, one in options.items() if not name.startswith("_")}
                layer._again = functools.partial(kind, *given, dtype=dtype, **kept)
                if type(layer).reset_parameters is not Renewable.reset_parameters:
                    layer.reset_parameters()

    own = inspect.signature(make)
    further = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("device", "dtype")
    ]
    signature = own.replace(parameters=[*own.parameters.values(), *further])
    made.__signature__ = signature  # type: ignore[attr-defined]
    return made


def _become_complex(layer: Layer, twin: Layer) -> None:
    """Have parameters with imaginary parts that are drawn as the real ones are, from a `twin`; what
    both have is no draw: its imaginary part is 0.
    """
    for one, other in zip(layer.modules(), twin.modules(), strict=True):
        for name, real in one.named_parameters(recurse=False):
            if not real.dtype.is_complex:
                drawn = other.get_parameter(name).detach()
                imaginary = drawn * real.ne(drawn).any()
                setattr(one, name, parameter(real.detach().complex(imaginary)))


def divide(what: str, parts: int, whole: int) -> None:
    """A `ShapeError` unless so many parts make the whole."""
    if parts < 1 or whole % parts:
        raise ShapeError(f"{parts} {what} do not divide {whole}")
