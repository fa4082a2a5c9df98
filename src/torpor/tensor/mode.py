"""What holds for a while: gradients recorded or not, training or not, the default float format.

All of it is context-local: threads and asynchronous tasks do not see each other's.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from typing import Any, Final, TypeVar

from torpor.base import settings
from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError
from torpor.device import Device
from torpor.device.registry import DeviceName

_Function = TypeVar("_Function", bound=Callable[..., Any])

_grad_enabled: Final[ContextVar[bool]] = ContextVar("torpor_grad_enabled", default=True)
_anomaly: Final[ContextVar[bool]] = ContextVar("torpor_anomaly", default=False)
_training: Final[ContextVar[bool]] = ContextVar("torpor_training", default=False)
_tangents: Final[ContextVar[bool]] = ContextVar("torpor_with_tangents", default=False)
_default_float: Final[ContextVar[DType]] = ContextVar("torpor_float", default=dtypes.float32)

grad_enabled = _grad_enabled.get
anomaly = _anomaly.get
training = _training.get
default_float = _default_float.get
with_tangents = _tangents.get  # whether tensors may carry tangents, which flow under `no_grad` too


def get_default_dtype() -> DType:
    """The format of Python floats and of integer `/`, in this context."""
    return default_float()


def keeps_graphs() -> bool:
    """Whether graphs are kept of what depends on leaves."""
    return grad_enabled() or with_tangents()


@contextlib.contextmanager
def held(variable: ContextVar[Any], value: Any) -> Iterator[Any]:
    """The variable has this value inside."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def carrying_tangents() -> Any:
    """Tensors may carry tangents inside."""
    return held(_tangents, True)


def is_grad_enabled() -> bool:
    """Whether gradients are recorded, in this context."""
    return grad_enabled()


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` holds, in this context."""
    return anomaly()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing: a program gives the same numbers at each run, whatever is asked for here."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: see `use_deterministic_algorithms`."""
    return True


class _Flag:
    """Sets a context-local flag inside a `with` block, or while a decorated function runs."""

    flag: ContextVar[bool]

    def __init__(self, value: bool):
        self._value = value
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> _Flag:
        self._tokens.append(self.flag.set(self._value))
        return self

    def __exit__(self, *_: object) -> None:
        self.flag.reset(self._tokens.pop())

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            return self._held(function, *arguments, **options)

        @functools.wraps(function)
        def generating(*arguments: Any, **options: Any) -> Any:
            generator = function(*arguments, **options)
            advance: Callable[..., Any] = functools.partial(next, generator)
            while True:
                try:
                    made = self._held(advance)
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield made
                except BaseException as error:  # as GeneratorExit is, where it is closed
                    advance = functools.partial(generator.throw, error)
                else:
                    advance = functools.partial(generator.send, sent)

        made: Any = generating if inspect.isgeneratorfunction(function) else wrapped
        return made

    def _held(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the function gives where the flag is set."""
        token = self.flag.set(self._value)
        try:
            return function(*arguments, **options)
        finally:
            self.flag.reset(token)


class set_grad_enabled(_Flag):
    """Gradients are recorded, or not, from here on; in a `with` block until its end."""

    flag = _grad_enabled

    def __init__(self, mode: bool):
        super().__init__(mode)
        self._tokens.append(self.flag.set(bool(mode)))

    def __enter__(self) -> _Flag:
        return self

    def __call__(self, function: _Function) -> _Function:
        self.flag.reset(self._tokens.pop())
        return super().__call__(function)


class set_detect_anomaly(set_grad_enabled):
    """As `detect_anomaly`, or not, from here on; in a `with` block until its end."""

    flag = _anomaly

    def __init__(self, mode: bool, check_nan: bool = True):
        super().__init__(mode and check_nan)


class detect_anomaly(_Flag):
    """Inside, gradients are computed as soon as they are taken, and where a NaN appears first is a
    `GradientError` that names the line whose gradient it is. For looking only: it is slow.
    """

    flag = _anomaly

    def __init__(self, check_nan: bool = True):
        super().__init__(check_nan)


class no_grad(_Flag):
    """Nothing is recorded for gradients inside: `with no_grad(): ...`, `@no_grad`."""

    flag = _grad_enabled

    def __new__(cls, function: Any = None, **_options: Any) -> Any:
        return cls()(function) if callable(function) else super().__new__(cls)

    def __init__(self, value: bool = False):
        super().__init__(value)


class inference_mode(no_grad):
    """As `no_grad`; with `mode` False as it is outside."""

    def __init__(self, mode: bool = True):
        super().__init__(not mode and grad_enabled())


class enable_grad(no_grad):
    """Undoes an outer `no_grad` inside."""

    def __init__(self, value: bool = True):
        super().__init__(value)


class train(_Flag):
    """`Tensor.training` holds inside: dropout drops, batch norm uses the batch's statistics."""

    flag = _training

    def __init__(self, value: bool = True):
        super().__init__(value)


def set_training(value: bool) -> None:
    """Set the training flag of this context for good."""
    _training.set(bool(value))


class device(DeviceName):
    """A device's name, as `x.device` is: `device("CPU:1")`, `device("cpu", 1)`. As a context:
    tensors that name no device are made on it inside.
    """

    def __new__(cls, type: str, index: int | None = None) -> device:
        name = type if index is None else f"{type}:{index}"
        made = str.__new__(cls, Device.canonicalize(name))
        made._context = settings.Context(DEVICE=str(made))
        return made

    _context: settings.Context

    def __enter__(self) -> device:
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)


def get_default_device() -> device:
    """The device of tensors that name none."""
    return device(Device.DEFAULT)


def set_default_device(name: str) -> None:
    """Tensors that name no device are made on this one from here on, in this context."""
    device(name).__enter__()


@contextlib.contextmanager
def made_as(name: str | None, dtype: DType | str | type | None) -> Iterator[None]:
    """Tensors that say nothing else are made on this device inside, and floats in this format."""
    kind = default_float() if dtype is None else _float_format(dtype)
    here = contextlib.nullcontext() if name is None else device(str(name))
    with held(_default_float, kind), here:
        yield


def set_default_dtype(dtype: DType | str | type) -> None:
    """The format of Python floats and of integer `/` from here on, in this context."""
    _default_float.set(_float_format(dtype))


def _float_format(dtype: DType | str | type) -> DType:
    chosen = as_dtype(dtype)
    if not chosen.is_float:
        raise DTypeError(f"the default dtype must be a float format, not {chosen}")
    return chosen
