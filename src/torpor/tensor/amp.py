"""PyTorch's `torch.amp`: products in a narrow format, and losses scaled so that gradients fit."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final, TypeVar

from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError
from torpor.base.missing import names_of
from torpor.device import Device
from torpor.tensor.grad_scaler import GradScaler
from torpor.tensor.handle import Handle
from torpor.tensor.mode import _Flag, held

_Function = TypeVar("_Function", bound=Callable[..., Any])
_lowest: Final[ContextVar[DType | None]] = ContextVar("torpor_autocast", default=None)

lowest = _lowest.get  # the format of products, inside of an autocast


class autocast(_Flag):
    """Inside, or in a function that it decorates, products (`matmul`, `linear`, convolutions,
    attention, `einsum`, the steps of an RNN) are of floats in `dtype`, bfloat16 unless given or, of
    a "cuda" device, float16; losses are of float32. Sums of products are taken in float32, as
    always. float64 stays what it is. With `enabled=False`, and where "cuda" is asked for and
    tensors are made elsewhere, formats are as without it.

    >>> with torpor.autocast("cpu", dtype=torpor.bfloat16):
    ...     made = Tensor.ones(1, 2) @ Tensor.ones(2, 1)
    >>> made.dtype
    dtypes.bfloat16
    """

    flag: Any = _lowest

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ):  # fmt: skip
        asked, there = (str(one).lower().split(":")[0] for one in (device_type, Device.DEFAULT))
        kind = dtypes.float16 if asked == "cuda" else dtypes.bfloat16
        kind = kind if dtype is None else as_dtype(dtype)
        if enabled and kind not in (dtypes.float16, dtypes.bfloat16, dtypes.float32):
            raise DTypeError(f"autocast is to float16 or bfloat16, not {kind}")
        if enabled and asked == "cuda" != there:
            warnings.warn(f"autocast('cuda') changes nothing on {there}", stacklevel=2)
        narrow = kind is not dtypes.float32 and (asked != "cuda" or asked == there)
        chosen: Any = kind if enabled and narrow else None
        super().__init__(chosen)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether an `autocast` holds here."""
    return lowest() is not None


def get_autocast_dtype(device_type: str = "cpu") -> DType:
    """The format of the `autocast` that holds, else that of one for this device."""
    return lowest() or (dtypes.float16 if device_type == "cuda" else dtypes.bfloat16)


def _cast(value: Any, dtype: DType) -> Any:
    if isinstance(value, Handle):
        small = value.dtype.is_float and value.dtype.bits <= dtypes.float32.bits
        return value.cast(dtype) if small else value
    return [_cast(one, dtype) for one in value] if type(value) in (list, tuple) else value


def _inside(function: _Function, chosen: Callable[[DType], DType]) -> _Function:
    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        narrow = lowest()
        if narrow is None:
            return function(*arguments, **options)
        dtype = chosen(narrow)
        with held(_lowest, None):
            named = {name: _cast(one, dtype) for name, one in options.items()}
            return function(*[_cast(one, dtype) for one in arguments], **named)

    return wrapped  # type: ignore[return-value]


def lowered(function: _Function) -> _Function:
    """A function whose operands are of the format of an `autocast` inside of it."""
    return _inside(function, lambda narrow: narrow)


def raised(function: _Function) -> _Function:
    """A function whose operands are of float32 inside of an `autocast`."""
    return _inside(function, lambda narrow: dtypes.float32)


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None
) -> Any:  # fmt: skip
    """Decorates `forward` of a `Function`: with `cast_inputs`, inside of an `autocast` its floats
    are of that format, and products are as outside of one.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *arguments: Any) -> Any:
        within, run = lowest(), fwd
        if within is not None and cast_inputs is not None:
            dtype, within = as_dtype(cast_inputs), None
            run = _inside(fwd, lambda narrow: dtype)
        ctx._within_autocast = within
        return run(ctx, *arguments)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorates `backward` of a `Function`, which is in the `autocast` that its forward was in."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *gradients: Any) -> Any:
        with held(_lowest, ctx._within_autocast):
            return bwd(ctx, *gradients)

    return backward


def _of_cuda(dtype: Any = None) -> ModuleType:
    """`torch.cuda.amp`: the same, of that device."""
    made: Any = ModuleType("torpor.cuda.amp")

    def of_cuda(enabled: bool = True, dtype: Any = dtype, cache_enabled: bool = True) -> autocast:
        return autocast("cuda", dtype, enabled, cache_enabled)

    made.autocast = of_cuda
    made.GradScaler = functools.partial(GradScaler, "cuda")
    made.custom_fwd, made.custom_bwd = custom_fwd, custom_bwd
    return made


cuda: Final = _of_cuda()
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__getattr__ = names_of("torpor.amp", lambda: __all__, __name__)
