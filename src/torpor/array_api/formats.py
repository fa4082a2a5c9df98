"""Formats: casts, promotion, limits, and what the namespace has."""

from __future__ import annotations

from typing import Any, Final

from torpor.base.dtypes import SMALL_FLOATS, DType, dtypes
from torpor.base.errors import DTypeError
from torpor.base.promotion import promote
from torpor.tensor import Tensor
from torpor.tensor.formats import finfo, format_of, iinfo, result_type

KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (dtypes.bool,),
    "signed integer": (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
    "unsigned integer": (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64),
    "real floating": (dtypes.float32, dtypes.float64, *SMALL_FLOATS),
    "complex floating": (dtypes.complex64, dtypes.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """x in another format; a copy also where nothing changes, unless `copy` is off."""
    made = (x if device is None else x.to(device)).cast(dtype)
    return made.clone() if made is x and copy else made


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether the format promotes to another one by the standard, which leaves open what bools and
    integers promote to but each other.
    """
    one = format_of(from_)
    if one.is_integral and (one.is_int, to.is_integral) != (to.is_int, True):
        return False
    try:
        return promote(one, to) is to
    except DTypeError:
        return False


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a format is one, of a kind ("bool", "integral", "real floating", …), or of any of
    several.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise DTypeError(f"no kind of formats {kind!r}; there are {', '.join(KINDS)}")
        return dtype in KINDS[kind]
    return dtype is kind


class Info:
    """What there is in the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts there are."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where arrays live unless told otherwise."""
        return str(Tensor.empty(0).device)

    def devices(self) -> list[str]:
        """Where arrays can live."""
        return [self.default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The formats of Python's numbers and of indices."""
        return {"real floating": dtypes.float32, "complex floating": dtypes.complex64,
                "integral": dtypes.int64, "indexing": dtypes.int64}  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The formats by name, of a kind if one is given."""
        every = KINDS["bool"] + KINDS["integral"] + KINDS["real floating"][:2]
        every += KINDS["complex floating"]
        return {one.name: one for one in every if kind is None or isdtype(one, kind)}


def __array_namespace_info__() -> Info:
    """What there is in the namespace."""
    return Info()


__all__ = [
    "__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip
