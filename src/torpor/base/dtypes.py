"""Number formats. A `DType` is immutable and compared by identity; `dtypes` names them all."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from torpor.base.errors import DTypeError
from torpor.base.missing import did_you_mean

Scalar = bool | int | float
PARTS: Final = {"complex64": "float32", "complex128": "float64"}  # of numbers of two floats


class DType:
    """A number format, or a vector of `count` of them.

    `kind` is one of void, bool, int, uint, packed, float, complex, index. Packed ones are integers
    that are kept, several in a byte, and not computed with. `index` is the unbounded integer
    of index arithmetic: it becomes int32 or int64 once its bounds are proved. A complex number is
    two floats to everything below the tensor: no node has a complex format. A float has `exponent`
    bits of exponent; where it is not `infinite`, the largest exponent is one of numbers and all
    ones alone are NaN.
    """

    __slots__ = (
        "name", "bits", "kind", "count", "exponent", "infinite", "itemsize", "is_integral", "min",
        "max", "_vectors", "_scalar", "__weakref__",
    )  # fmt: skip

    itemsize: int  # bytes of one element in memory (all lanes)
    is_integral: bool  # whether it is an integer, a bool or an index: what has exact bounds
    min: int | float  # the least value (minus infinity for index and floats that have it)
    max: int | float  # the greatest value (infinity for index and floats that have it)

    def __init__(
        self, name: str, bits: int, kind: str, count: int = 1, scalar: DType | None = None,
        *, exponent: int = 0, infinite: bool = True,
    ):  # fmt: skip
        self.name, self.bits, self.kind, self.count = name, bits, kind, count
        self.exponent, self.infinite = exponent, infinite
        self._scalar = scalar
        self._vectors: dict[int, DType] = {}
        self.itemsize = (bits + 7) // 8 * count
        self.is_integral = kind in ("int", "uint", "bool", "index")
        self.min, self.max = self._limits()

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (from_name, (self.name,))

    def scalar(self) -> DType:
        """The format of one lane."""
        return self if self._scalar is None else self._scalar

    def vec(self, count: int) -> DType:
        """The vector of `count` lanes of this scalar format (itself for one lane)."""
        if self.count != 1:
            raise DTypeError(f"{self} is a vector already")
        if count == 1:
            return self
        made = self._vectors.get(count)
        if made is None:
            vector = DType(
                f"{self.name}x{count}", self.bits, self.kind, count, self,
                exponent=self.exponent, infinite=self.infinite,
            )  # fmt: skip
            made = self._vectors.setdefault(count, vector)
        return made

    def _limits(self) -> tuple[int | float, int | float]:
        if self.kind in ("float", "index"):
            most = math.inf if self.infinite else self.largest
            return -most, most
        if self.kind == "bool":
            return 0, 1
        return -(1 << (self.bits - 1)) if self.is_signed else 0, (
            1 << (self.bits - self.is_signed)
        ) - 1

    # --- floats -----------------------------------------------------------------------------------
    @property
    def fraction(self) -> int:
        """Bits of a float's fraction: those behind the leading one, which is not stored."""
        return self.bits - 1 - self.exponent

    @property
    def bias(self) -> int:
        """What a float's exponent is stored with more."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def largest(self) -> float:
        """The greatest finite float."""
        if self.infinite:
            return (2.0 - 2.0**-self.fraction) * 2.0**self.bias
        return (2.0 - 2.0 ** (1 - self.fraction)) * 2.0 ** (self.bias + 1)

    @property
    def smallest_normal(self) -> float:
        """The least float above 0 with all of its bits."""
        return 2.0 ** (1 - self.bias)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    is_floating_point = is_float

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def part(self) -> DType:
        """The format of the real and of the imaginary part; itself where there is one part."""
        return _BY_NAME[PARTS[self.name]] if self.kind == "complex" else self

    def to_real(self) -> DType:
        """The format of the real part: of real numbers their own.

        >>> dtypes.complex64.to_real()
        dtypes.float32
        """
        return self.part

    def to_complex(self) -> DType:
        """The format of complex numbers whose parts hold this format's, as far as there is one.

        >>> dtypes.float64.to_complex()
        dtypes.complex128
        """
        if self.kind == "complex":
            return self
        return dtypes.complex128 if self.name == "float64" else dtypes.complex64

    @property
    def is_int(self) -> bool:
        """Whether it is an integer that users see (signed or unsigned; neither bool nor index)."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether it is an integer that can be less than 0."""
        return self.kind == "int" or self.name == "int4"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of one lane (index as int64; what NumPy lacks through ml_dtypes)."""
        return _NUMPY[self.scalar().name]

    dtype = numpy  # NumPy takes what has one: np.zeros(3, dtype=torpor.float32)

    def array(self, values: Any) -> npt.NDArray[Any]:
        """Numbers as an array of this format, as NumPy rounds them. Of float8_e5m2's NaNs it is the
        one that processors make (PTX ISA, `cvt`), all ones but for the sign, not ml_dtypes'.
        """
        made: npt.NDArray[Any] = np.asarray(values).astype(self.numpy)
        if self.bits == 8 and self.is_float and self.infinite:
            bits = np.where(np.isnan(made), made.view(np.uint8) | 0x7F, made.view(np.uint8))
            return bits.view(self.numpy)
        return made

    def cast_scalar(self, value: Scalar) -> Scalar:
        """`value` as a Python number that this format holds exactly: wrapped, rounded or bool."""
        if self.kind == "bool":
            return bool(value)
        if self.kind == "index":
            return int(value)
        if self.kind == "float":
            return _round_float(self, float(value))
        if isinstance(value, float):
            return _saturate(self, value)
        wrapped = int(value) & ((1 << self.bits) - 1)
        return wrapped - (1 << self.bits) if self.kind == "int" and wrapped > self.max else wrapped


def _round_float(dtype: DType, value: float) -> float:
    if dtype.bits == 64 or math.isnan(value) or (math.isinf(value) and dtype.infinite):
        return value
    if dtype.bits == 32:
        try:
            return float(struct.unpack("f", struct.pack("f", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    beyond = math.copysign(math.inf if dtype.infinite else math.nan, value)
    if math.isinf(value):
        return beyond
    exponent = max(math.frexp(value)[1] - 1, 1 - dtype.bias)
    step = math.ldexp(1.0, exponent - dtype.fraction)
    rounded = math.copysign(round(value / step) * step, value)
    return rounded if abs(rounded) <= dtype.largest else beyond


def _saturate(dtype: DType, value: float) -> int:
    """Float to integer as docs/numbers.md says: truncate, saturate, NaN gives 0."""
    if math.isnan(value):
        return 0
    if math.isinf(value) or not dtype.min <= value <= dtype.max:
        return int(dtype.min if value < 0 else dtype.max)
    return int(value)


class dtypes:
    """Every number format by its standard name, with the usual short names."""

    void: Final = DType("void", 0, "void")
    index: Final = DType("index", 64, "index")
    bool: Final = DType("bool", 8, "bool")
    int4: Final = DType("int4", 4, "packed")
    uint4: Final = DType("uint4", 4, "packed")
    int8: Final = DType("int8", 8, "int")
    int16: Final = DType("int16", 16, "int")
    int32: Final = DType("int32", 32, "int")
    int64: Final = DType("int64", 64, "int")
    uint8: Final = DType("uint8", 8, "uint")
    uint16: Final = DType("uint16", 16, "uint")
    uint32: Final = DType("uint32", 32, "uint")
    uint64: Final = DType("uint64", 64, "uint")
    float8_e4m3fn: Final = DType("float8_e4m3fn", 8, "float", exponent=4, infinite=False)
    float8_e5m2: Final = DType("float8_e5m2", 8, "float", exponent=5)
    float16: Final = DType("float16", 16, "float", exponent=5)
    bfloat16: Final = DType("bfloat16", 16, "float", exponent=8)
    float32: Final = DType("float32", 32, "float", exponent=8)
    float64: Final = DType("float64", 64, "float", exponent=11)
    complex64: Final = DType("complex64", 64, "complex")
    complex128: Final = DType("complex128", 128, "complex")

    char, short, int, long = int8, int16, int32, int64
    uchar, ushort, uint, ulong = uint8, uint16, uint32, uint64
    half, float, double = float16, float32, float64
    cfloat, cdouble = complex64, complex128

    @staticmethod
    def from_numpy(dtype: object) -> DType:
        """The format of a NumPy dtype; a `DTypeError` for one that torpor does not have."""
        wanted = np.dtype(dtype)  # type: ignore[call-overload]
        for name, known in _NUMPY.items():
            if known == wanted and name != "index":
                return _BY_NAME[name]
        known_names = ", ".join(n for n in _NUMPY if n != "index")
        raise DTypeError(f"torpor has no format for NumPy's {wanted}; it has {known_names}")


_ALL: Final = [value for value in vars(dtypes).values() if isinstance(value, DType)]
_BY_NAME: Final[dict[str, DType]] = {dtype.name: dtype for dtype in _ALL}
_PYTHON: Final[dict[type, DType]] = {
    bool: dtypes.bool, int: dtypes.int64, float: dtypes.float32, complex: dtypes.complex64
}  # fmt: skip
_ALIASES: Final[dict[str, DType]] = {
    name: value for name, value in vars(dtypes).items() if isinstance(value, DType)
}
_NUMPY: Final[dict[str, np.dtype]] = {
    **{
        d.name: np.dtype(getattr(ml_dtypes, d.name, d.name))
        for d in _ALL
        if d.name not in ("void", "index")
    },
    "index": np.dtype("int64"),
}
SCALARS: Final[tuple[DType, ...]] = tuple(
    kind
    for kind in (_BY_NAME[name] for name in _NUMPY if name != "index")
    if kind.kind not in ("complex", "packed")
)

# Floats whose arithmetic is done in float32, each operation rounded.
SMALL_FLOATS: Final = tuple(d for d in SCALARS if d.is_float and d.bits < 32)


def from_name(name: str) -> DType:
    """The format called `name`: `float32`, a short name, or a vector such as `float32x8`."""
    found = _BY_NAME.get(name) or _ALIASES.get(name)
    if found is not None:
        return found
    base, _, count = name.rpartition("x")
    if base in _BY_NAME and count.isdigit():
        return _BY_NAME[base].vec(int(count))
    known = f"the known ones are {', '.join(n for n in _NUMPY if n != 'index')}"
    raise DTypeError(f"unknown dtype {name!r}{did_you_mean(name, _ALIASES)}; {known}")


def names_format(text: str) -> bool:
    """Whether a text is meant as the name of a format: it is one, or close to one."""
    name = text.removeprefix("torch.").removeprefix("dtypes.")
    return name in _ALIASES or (any(map(str.isdigit, name)) and bool(did_you_mean(name, _ALIASES)))


def as_dtype(value: object) -> DType:
    """The format of a tensor, from a `DType`, its name, a Python number type or a NumPy dtype."""
    found = kept_dtype(value)
    if found.kind == "packed":
        raise DTypeError(f"{found} is for keeping numbers: make the tensor in int8, and cast it")
    return found


def kept_dtype(value: object) -> DType:
    """As `as_dtype`, also of formats that numbers are kept in and not computed with."""
    found = _named(value)
    if found.kind in ("void", "index"):
        raise DTypeError(f"{found} is no format of a tensor")
    return found


def _named(value: object) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return from_name(value.removeprefix("torch.").removeprefix("dtypes."))
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, int):  # a size, as in Tensor(2, 3)
        raise DTypeError(f"a dtype is not {value!r}; sizes alone make a tensor by empty(2, 3)")
    try:
        return dtypes.from_numpy(value)
    except TypeError as error:
        raise DTypeError(f"unknown dtype {value!r}: {error}") from None
