"""What holds for a while: gradients recorded or not, training or not, the default float format.

All of it is context-local: threads and asynchronous tasks do not see each other's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, TypeVar

from torpor.base import settings
from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_grad_enabled: Final[ContextVar[bool]] = ContextVar("torpor_grad_enabled", default=True)
_training: Final[ContextVar[bool]] = ContextVar("torpor_training", default=False)
_default_float: Final[ContextVar[DType]] = ContextVar("torpor_float", default=dtypes.float32)

grad_enabled = _grad_enabled.get
training = _training.get
default_float = _default_float.get


class _Flag:
    """Sets a context-local flag inside a `with` block, or while a decorated function runs."""

    flag: ContextVar[bool]

    def __init__(self, value: bool):
        self._value = value
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> _Flag:
        self._tokens.append(self.flag.set(self._value))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flag.reset(self._tokens.pop())

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            with type(self)(self._value):
                return function(*arguments, **options)

        return wrapped  # type: ignore[return-value]


class no_grad(_Flag):
    """Nothing is recorded for gradients inside: `with no_grad(): ...` or `@no_grad()`."""

    flag = _grad_enabled

    def __init__(self, value: bool = False):
        super().__init__(value)


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


class device(settings.Context):
    """Tensors that name no device are made on `name` inside: `with device("CPU:1"): ...`."""

    def __init__(self, name: str):
        super().__init__(DEVICE=name)


def set_default_dtype(dtype: DType | str | type) -> None:
    """The format of Python floats and of integer `/` from here on, in this context."""
    chosen = as_dtype(dtype)
    if not chosen.is_float:
        raise DTypeError(f"the default dtype must be a float format, not {chosen}")
    _default_float.set(chosen)
