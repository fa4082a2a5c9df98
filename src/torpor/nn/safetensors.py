"""Files of tensors in the public safetensors format: eight bytes (the length of the JSON that
follows, little endian), the JSON, then the data.

What is read is checked first, before memory is asked for: the header, and that its tensors tile
the data without holes and overlaps, as the format says.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import IO, Any, Final, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, ParseError
from torpor.base.files import Source, named, opened, replacing
from torpor.tensor import Tensor

HEADER_LIMIT: Final = 100_000_000  # bytes: what the format's own reader accepts
AXES_LIMIT: Final = 64  # of NumPy's arrays
_METADATA: Final = "__metadata__"
_FORMATS: Final[dict[str, DType]] = {
    "BOOL": dtypes.bool, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16,
    "I16": dtypes.int16, "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64,
    "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64, "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2,
    "C64": dtypes.complex64,
}  # fmt: skip
_FORMAT_OF: Final = {dtype: name for name, dtype in _FORMATS.items()}


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies: from byte `start` to `end` of the data."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


# --- writing --------------------------------------------------------------------------------------
def safe_save(
    values: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors, and texts by name as `metadata`; the file appears whole or not at all."""
    header: dict[str, Any] = {_METADATA: _texts(metadata)} if metadata else {}
    arrays = []
    offset = 0
    for name, tensor in values.items():
        _check_name(name)
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"safe_save takes tensors; {name!r} is a {type(tensor).__name__}")
        if tensor.dtype not in _FORMAT_OF:
            raise DTypeError(f"safetensors files hold no {tensor.dtype}, which {name!r} has")
        array = tensor.numpy()
        end = offset + array.nbytes
        facts = {"dtype": _FORMAT_OF[tensor.dtype], "shape": list(array.shape)}
        header[name] = {**facts, "data_offsets": [offset, end]}
        arrays.append(array)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(Path(path)) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays:
            file.write(array.reshape(-1).view(np.uint8).data)


def _check_name(name: Any) -> None:
    if not _is_text(name):
        raise DTypeError(f"a tensor in a file is named by a text, not {name!r}")
    if name == _METADATA:
        raise ParseError(f"{_METADATA!r} is the format's own name; no tensor can have it")


def _texts(metadata: Any) -> dict[str, str]:
    """The metadata, if it is texts by name."""
    texts = dict(metadata)
    for name, text in texts.items():
        if not _is_text(name) or not _is_text(text):
            raise DTypeError(f"metadata of a file is texts by name, got {name!r}: {text!r}")
    return texts


def _is_text(value: Any) -> bool:
    """Whether a value is a text that UTF-8 can write: no half of a surrogate pair is."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


# --- reading --------------------------------------------------------------------------------------
def safe_load(path: Source) -> dict[str, Tensor]:
    """The tensors of a file by name; `ParseError` says what is wrong with a damaged one."""
    with opened(path) as file:
        try:
            entries = _entries(file)
            origin = file.tell()
            return {name: Tensor(_read(file, origin, name, entry)) for name, entry in entries}
        except ParseError as error:
            raise ParseError(f"{named(path)} is no whole safetensors file: {error}") from None


def _entries(file: IO[bytes]) -> list[tuple[str, Entry]]:
    """Names and places of the tensors as they follow in the header; the file then stands at the
    first byte of data.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < 8:
        raise ParseError(f"it has {size} bytes")
    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(HEADER_LIMIT, size - 8):
        raise ParseError(f"it speaks of a header of {length} bytes, and has {size} in all")
    header = _header(file.read(length))
    texts = header.pop(_METADATA, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ParseError(f"{_METADATA!r} is not texts by name: {brief(texts)}")
    entries = [(name, _entry(name, fields)) for name, fields in header.items()]
    _check_places(entries, size - 8 - length)
    return entries


def _header(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except RecursionError:
        raise ParseError("its header is nested too deep") from None
    except ValueError as error:
        raise ParseError(f"its header is damaged: {error}") from None
    if not isinstance(header, dict):
        raise ParseError(f"its header is damaged: {brief(header)}")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {brief(name)} stands there twice")
        found[name] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _entry(name: str, fields: Any) -> Entry:
    """What the header says about a tensor; sizes and places are integers from 0 on."""
    if not isinstance(fields, dict):
        raise ParseError(f"{brief(name)} has a damaged entry: {brief(fields)}")
    text, shape, places = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(text, str) or text not in _FORMATS:
        raise ParseError(f"{brief(name)} has format {brief(text)}, which torpor does not have")
    if not _is_sizes(shape) or len(shape) > AXES_LIMIT:
        raise ParseError(f"{brief(name)} has a damaged shape: {brief(shape)}")
    if not _is_sizes(places) or len(places) != 2:
        raise ParseError(f"{brief(name)} has a damaged place: {brief(places)}")
    entry = Entry(_FORMATS[text], tuple(shape), *places)
    if entry.end - entry.start != math.prod(shape) * entry.dtype.itemsize:
        raise ParseError(
            f"{brief(name)} lies at bytes {brief(entry.start)} to {brief(entry.end)}, which does "
            f"not fit {entry.dtype.name} of shape {brief(entry.shape)}"
        )
    return entry


def _is_sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def _check_places(entries: Sequence[tuple[str, Entry]], size: int) -> None:
    """The tensors lie one behind the other and fill `size` bytes."""
    end = 0
    for name, entry in sorted(entries, key=lambda pair: (pair[1].start, pair[1].end)):
        if entry.start != end:
            what = "lies over what" if entry.start < end else "leaves a hole behind what"
            raise ParseError(
                f"{brief(name)} at byte {brief(entry.start)} {what} ends at byte {brief(end)}"
            )
        end = entry.end
    if end != size:
        raise ParseError(f"its tensors have {brief(end)} bytes, but {size} follow the header")


def _read(file: IO[bytes], origin: int, name: str, entry: Entry) -> NDArray[Any]:
    """The numbers of a tensor; the data begin at byte `origin` of the file."""
    try:
        array = np.empty(entry.shape, entry.dtype.numpy)
    except ValueError:  # other sizes beside a 0 can be too large together
        raise ParseError(f"{brief(name)} has a shape that no array has: {entry.shape}") from None
    file.seek(origin + entry.start)
    if cast(Any, file).readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
        raise ParseError(f"it ends within {brief(name)}")
    return array
