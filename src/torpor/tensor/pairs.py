"""Complex tensors: pairs of real ones, of the real and of the imaginary parts.

Everything is expressed through the parts, so that nothing below the tensor knows of complex
numbers: views are views of both parts, writes write to both, and the gradient of a real number L is
dL/dx + i dL/dy, which is PyTorch's. What is not written here for complex numbers is refused: no
operation takes a pair for a real tensor.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from torpor.base.attributes import attributes
from torpor.base.dtypes import DType, as_dtype, dtypes
from torpor.base.errors import DTypeError, GradientError
from torpor.base.promotion import complex_of
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, located
from torpor.tensor.handle import paired as paired
from torpor.tensor.host import Array
from torpor.tensor.mode import default_float
from torpor.tensor.realisation import realize, value_of
from torpor.tensor.tensor import Tensor
from torpor.tensor.watch import told


class Refused:
    """What a pair has not: an operation that asks for it is one for real tensors."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        frame, name = sys._getframe(1), ""
        while frame is not None and frame.f_globals.get("__name__", "").startswith("torpor."):
            code, frame = frame.f_code, frame.f_back  # type: ignore[assignment]
            name = name if "<locals>" in code.co_qualname else code.co_name  # not what wraps it
        what = f"{name} does not take complex numbers; take x.real and x.imag, or x.abs()"
        raise located(DTypeError(what), (instance,))

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        self.__get__(instance, None)
        raise AssertionError


NUMBERS: Final = (int, float, complex, np.number, np.bool_)


class Pair(Tensor):
    """What a complex tensor is, and its ways in and out. Its arithmetic is in `complex.py`."""

    __slots__ = ("_re", "_im")
    _storage = _path = _node = _stamp = Refused()
    is_pair = True
    _re: Any
    _im: Any

    def _take(self, data: Any, dtype: DType | None, device: str | None) -> None:
        self._become(_made_from(data, dtype, device))

    def _become(self, other: Any) -> None:
        self._re, self._im = other._parts

    @staticmethod
    def of(real: Any, imag: Any) -> Any:
        """A view of parts, of one float format and broadcast, as complex numbers."""
        y = beside(imag, real)
        if real.dtype is not y.dtype or real.dtype not in (dtypes.float32, dtypes.float64):
            what = f"parts are both float32 or both float64, not {real.dtype} and {y.dtype}"
            raise located(DTypeError(what), (real, y))
        shape = Tensor.broadcast_shapes(real.shape, y.shape)
        return paired(real.expand(*shape), y.expand(*shape))

    @staticmethod
    def with_real(value: Any) -> Any:
        """A real tensor as a complex one; a complex one as it is."""
        return as_complex(value)

    def view_as_real(self) -> Tensor:
        """(..., 2) of the parts; unlike PyTorch's a tensor of its own."""
        return Tensor.stack([self._re, self._im], dim=-1)

    # --- what it is -------------------------------------------------------------------------------
    shape = property(lambda self: told(self._re.shape))
    ndim = property(lambda self: self._re.ndim)
    device = property(lambda self: self._re.device)
    _parts = property(lambda self: (self._re, self._im))
    is_leaf = property(lambda self: self._re.is_leaf)
    grad_fn = property(lambda self: self._re.grad_fn)
    _site = property(lambda self: self._re._site)

    @property
    def dtype(self) -> DType:
        return complex_of(self._re.dtype)

    @property
    def real(self) -> Tensor:
        """The real parts: a view."""
        return self._re

    @real.setter
    def real(self, value: Any) -> None:
        self._re.copy_(value) if isinstance(value, Handle) else self._re.__setitem__(..., value)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts: a view."""
        return self._im

    @imag.setter
    def imag(self, value: Any) -> None:
        self._im.copy_(value) if isinstance(value, Handle) else self._im.__setitem__(..., value)

    def _data(self) -> Any:
        """A view through which no gradient flows, to be written to and given as of real tensors."""
        return self.detach()

    data = property(_data, Tensor.data.fset)

    def _gradient(self) -> Any:
        """dL/dx + i dL/dy after `backward`."""
        return self._of((self._re.grad, self._im.grad))

    def _of(self, parts: Any) -> Any:
        if all(part is None for part in parts):
            return None
        return paired(*(self._re.zeros_like() if part is None else part for part in parts))

    def _set_gradient(self, value: Any) -> None:
        self._re.grad, self._im.grad = (None, None) if value is None else parts_of(value)

    grad = property(_gradient, _set_gradient)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """As of real tensors: gradients are asked for both parts."""
        self._re.requires_grad_(requires_grad)
        self._im.requires_grad_(requires_grad)
        return self

    def _require(self, asked: bool) -> None:
        self.requires_grad_(asked)

    requires_grad = property(
        lambda self: self._re.requires_grad or self._im.requires_grad, _require
    )

    def backward(self, gradient: Any = None, *arguments: Any, **options: Any) -> Tensor:
        """As of real tensors; a complex number has no gradient of its own: `gradient` is needed."""
        self._beside_gradient(gradient).backward(None, *arguments, **options)
        return self

    def gradient(self, *targets: Any, gradient: Any = None, materialize: bool = True) -> list[Any]:
        """As of real tensors; a complex number has no gradient of its own: `gradient` is needed."""
        return self._beside_gradient(gradient).gradient(*targets, materialize=materialize)

    def _beside_gradient(self, gradient: Any) -> Any:
        """The real number whose gradient for both parts is the one given."""
        if gradient is None:
            what = "a gradient starts from a real number; take abs() or real, or give gradient="
            raise located(GradientError(what), (self,))
        x, y = parts_of(beside(gradient, self._re))
        return (self._re * x + self._im * y).sum()

    def by_parts(self, function: Callable[..., Any], *others: Any) -> Tensor:
        """`function` of the real parts of this and of other complex tensors, and of the imaginary
        ones.
        """
        pairs = (self, *others)
        return paired(function(*[p._re for p in pairs]), function(*[p._im for p in pairs]))

    # --- to the host ------------------------------------------------------------------------------
    def realize(self, *more: Tensor) -> Tensor:
        """Compute both parts, together with `more`; itself."""
        realize(*[part for one in (self, *more) for part in one._parts])
        return self

    def numpy(self, copy: bool = True) -> Array:
        """The elements as an array of their own."""
        realize(self._re, self._im)
        made = np.empty(value_of(self._re).shape, self.dtype.numpy)
        made.real, made.imag = value_of(self._re), value_of(self._im)
        return made

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return value_of(self._re).__dlpack_device__()

    def item(self) -> complex:
        """The only element as a Python number; `ShapeError` if there are more or none."""
        return complex(self._re.item(), self._im.item())

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        return self.numpy().tolist()

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def __reduce__(self) -> tuple[Any, ...]:
        return paired, (self._re, self._im), attributes(self) or None

    def __copy__(self) -> Tensor:
        made = paired(self._re.__copy__(), self._im.__copy__())
        attributes(made).update(attributes(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = paired(self._re.__deepcopy__(memo), self._im.__deepcopy__(memo))
        attributes(made).update(copy.deepcopy(attributes(self), memo))
        return made

    # --- formats ----------------------------------------------------------------------------------
    def cast(self, dtype: Any) -> Tensor:
        """In another complex format; as bools, whether they are not 0; in a real format their real
        part, with a warning that the imaginary one is dropped.
        """
        kind = as_dtype(dtype)
        if kind.kind == "bool":
            return self.ne(0)
        if not kind.is_complex:
            what = f"{kind} holds no imaginary part: take x.real, x.imag, x.abs() or x.angle()"
            warnings.warn(what, np.exceptions.ComplexWarning, stacklevel=2)
            return self._re.clone().cast(kind)
        if kind is self.dtype:
            return self
        return paired(self._re.cast(kind.part), self._im.cast(kind.part))

    def isreal(self) -> Tensor:
        """Whether the imaginary part is 0."""
        return self._im.eq(0)

    def conj(self) -> Tensor:
        """x - iy; unlike PyTorch's a tensor of its own."""
        return paired(self._re.clone(), -self._im)

    conj_physical = conj

    # --- in place ---------------------------------------------------------------------------------
    def copy_(self, source: Any) -> Tensor:
        """Take the value of `source`, broadcast and cast; itself."""
        x, y = self._apart(*parts_of(source))
        self._re.copy_(x)
        self._im.copy_(y)
        return self

    def _take_result(self, result: Any) -> Tensor:
        """Take what a function made where this was given as `out`."""
        x, y = self._apart(*parts_of(result))
        self._re._take_result(x)
        self._im._take_result(y if isinstance(y, Handle) else x.zeros_like())
        return self

    def _apart(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Parts to be written, the second one as it is before the first is."""
        shares = isinstance(y, Handle) and y._storage is self._re._storage
        return x, y.clone() if shares else y

    def assign(self, value: Any) -> Tensor:
        """Take the value of a tensor of the same shape and format; itself."""
        x, y = self._apart(*parts_of(beside(value, self._re)))
        self._re.assign(x)
        self._im.assign(y)
        return self

    def fill_(self, value: Any) -> Tensor:
        """Every element becomes `value`; itself."""
        return self.copy_(value)

    def __setitem__(self, key: Any, value: Any) -> None:
        """`x[key] = value`, as of real tensors."""
        given = beside(value, self._re) if isinstance(value, np.ndarray | list) else value
        x, y = self._apart(*parts_of(given))
        self._re[key] = x
        self._im[key] = y


# --- pairs ----------------------------------------------------------------------------------------
def as_complex(value: Any) -> Any:
    """A real tensor as a complex one; a complex one as it is."""
    if value.is_pair:
        return value
    part = complex_of(value.dtype if value.dtype.is_float else default_float()).part
    real = value.cast(part)
    return paired(real, real.zeros_like())


def parts_of(value: Any) -> tuple[Any, Any]:
    """The real and imaginary part of a tensor or number."""
    if isinstance(value, Handle):
        pair: Any = as_complex(value)
        return pair._re, pair._im
    number = complex(value)
    return number.real, number.imag


def _made_from(data: Any, dtype: DType | None, device: str | None) -> Any:
    if dtype is not None and not dtype.is_complex:
        raise DTypeError(f"complex numbers do not fit into {dtype}")
    if isinstance(data, list | tuple) and any(isinstance(part, Handle) for part in data):
        data = Tensor.stack([part if isinstance(part, Handle) else Tensor(part) for part in data])
    if isinstance(data, Handle):
        pair = as_complex(data)
        made = paired(*(Tensor(part, device=device) for part in (pair._re, pair._im)))
    else:
        array = np.asarray(data)
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"no tensor can be made of {type(data).__name__} {data!r:.60}")
        known = isinstance(data, np.ndarray | np.generic) or hasattr(data, "__array__")
        own = dtypes.from_numpy(array.dtype) if known else default_float()
        kind = complex_of(own.part) if dtype is None else dtype
        array = np.ascontiguousarray(array, kind.numpy).reshape(array.shape)
        whole = array.reshape(-1).view(kind.part.numpy).reshape(*array.shape, 2)
        made = Tensor(whole, device=device).view_as_complex()
    return made if dtype is None else made.cast(dtype)
