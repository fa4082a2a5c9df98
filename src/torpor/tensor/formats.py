"""What formats are and what they promote to, by PyTorch's names."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType, as_dtype, dtypes, kept_dtype
from torpor.base.errors import DTypeError
from torpor.base.promotion import promote, weak_dtype
from torpor.tensor.handle import Handle
from torpor.tensor.mode import default_float
from torpor.tensor.size import Size
from torpor.tensor.spelling import a_shape

NUMBERS: Final = (bool, int, float, complex)
_KINDS: Final = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


class FloatLimits(NamedTuple):
    """What `finfo` gives."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


def format_of(value: Any) -> DType:
    """The format of a tensor, or the one that is named."""
    return value.dtype if isinstance(value, Handle) else kept_dtype(value)


# What PyTorch's classes of tensors are called after, where not after the format.
CLASSES: Final = {
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint8": "Byte",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def class_name(dtype: DType) -> str:
    """What PyTorch's class of tensors of this format is called: "FloatTensor"."""
    return f"{CLASSES.get(dtype.name, dtype.name.capitalize())}Tensor"


class _ClassOfTensors(type):
    """PyTorch's older way to make tensors of one format: of values, or memory of given sizes. What
    it makes, and all tensors of the format, are instances.

    >>> torpor.LongTensor([1.5, 2.0]).tolist(), torpor.FloatTensor(2, 3).shape
    ([1, 2], (2, 3))
    """

    dtype: DType

    def __call__(cls, *given: Any, device: Any = None) -> Any:
        return tensor_of(given, cls.dtype, device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Handle) and instance.dtype is cls.dtype


def tensor_of(given: Any, dtype: DType, device: Any) -> Handle:
    """A tensor of values, or memory of the sizes that are given one by one or as a `Size`."""
    kind = Handle._type
    if len(given) == 1 and not isinstance(given[0], int | Size):
        return kind(given[0], device=device).cast(dtype)
    return kind.empty(a_shape(given or (0,)), dtype=dtype, device=device)


def _class_of(name: str) -> _ClassOfTensors:
    dtype = getattr(dtypes, name)
    text = (
        f"Tensors of {name}: made of values, or of sizes as memory with anything in it; a "
        "`ShapeError` where one is negative.\n\n"
        f">>> torpor.{class_name(dtype)}([1, 0]).dtype.name\n{name!r}"
    )
    members = {"dtype": dtype, "__module__": "torpor", "__doc__": text}
    return _ClassOfTensors(class_name(dtype), (), members)


HalfTensor, BFloat16Tensor, FloatTensor, DoubleTensor = map(
    _class_of, ("float16", "bfloat16", "float32", "float64")
)
CharTensor, ShortTensor, IntTensor, LongTensor, ByteTensor, BoolTensor = map(
    _class_of, ("int8", "int16", "int32", "int64", "uint8", "bool")
)


def format_of_class(named: Any) -> Any:
    """The format that "torch.FloatTensor", or the class, stands for; anything else as it is."""
    if isinstance(named, _ClassOfTensors):
        return named.dtype
    if not isinstance(named, str) or not named.endswith("Tensor"):
        return named
    kind = named.rpartition(".")[2].removesuffix("Tensor")
    return {word: name for name, word in CLASSES.items()}.get(kind, kind.lower())


def finfo(type: Any = None) -> FloatLimits:
    """The limits of a float format (of a complex one's parts; without argument of the default one).
    `DTypeError` for integers.

    >>> finfo(dtypes.float16).max
    65504.0
    """
    dtype = (default_float() if type is None else format_of(type)).part
    if not dtype.is_float:
        raise DTypeError(f"finfo is for floats, not {dtype}; use iinfo")
    eps, least = 2.0**-dtype.fraction, dtype.smallest_normal
    digits = int(dtype.fraction * 0.30103)
    return FloatLimits(
        dtype.bits, eps, dtype.largest, -dtype.largest, least, least, 10.0**-digits, dtype
    )


def iinfo(type: Any) -> IntegerLimits:
    """The limits of an integer format. `DTypeError` for floats.

    >>> iinfo("int8").min
    -128
    """
    dtype = format_of(type)
    if not dtype.is_int and dtype.kind != "packed":
        raise DTypeError(f"iinfo is for integers, not {dtype}")
    return IntegerLimits(dtype.bits, int(dtype.max), int(dtype.min), dtype)


def promote_types(type1: Any, type2: Any) -> DType:
    """The format that tensors of two formats meet in.

    >>> promote_types("int8", dtypes.uint8)
    dtypes.int16
    """
    return promote(as_dtype(type1), as_dtype(type2))


def result_type(*tensors: Any) -> DType:
    """The format that tensors, formats and numbers meet in; numbers of Python are weak.

    >>> result_type(dtypes.float16, 1.0)
    dtypes.float16
    """
    numbers = [one for one in tensors if isinstance(one, NUMBERS)]
    others = [format_of(one) for one in tensors if not isinstance(one, NUMBERS)]
    if not tensors:
        raise DTypeError("result_type needs a tensor, a format or a number")
    made = functools.reduce(promote, others) if others else dtypes.bool
    return functools.reduce(lambda to, one: weak_dtype(one, to, default_float()), numbers, made)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether an operation may put results of one format into a tensor of another (`out=`, `+=`):
    into its own kind (integers of any size, say), or one that holds more.

    >>> can_cast(dtypes.float32, dtypes.int64), can_cast(dtypes.int64, dtypes.float16)
    (False, True)
    """
    one, other = format_of(from_), format_of(to)
    return _KINDS[one.kind] <= _KINDS[other.kind]


def is_tensor(obj: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(obj, Handle)


def real(input: Any) -> Any:
    """The real parts: a view; of real tensors themselves."""
    return input.real


def imag(input: Any) -> Any:
    """The imaginary parts of complex numbers: a view."""
    return input.imag
