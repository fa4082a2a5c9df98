"""The state of models: tensors by dotted name, from any objects; and safetensors files.

No pickled code is ever executed. The format of a file is the public safetensors one: a header of
eight bytes (length of the JSON that follows, little endian), the JSON, then the data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ParseError, ShapeError
from torpor.tensor import Tensor, no_grad

# Containers whose elements PyTorch names directly by number.
_TRANSPARENT: Final = {"Sequential": "layers", "ModuleList": "items", "ParameterList": "items"}
_FORMATS: Final[dict[str, DType]] = {
    "BOOL": dtypes.bool, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16,
    "I16": dtypes.int16, "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64,
    "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64,
}  # fmt: skip
_FORMAT_OF: Final = {dtype: name for name, dtype in _FORMATS.items()}
HEADER_LIMIT: Final = 100_000_000  # bytes: what the format's own reader accepts


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        yield from ((str(i), v) for i, v in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((str(k), v) for k, v in value.items())
    elif hasattr(value, "__dict__"):
        transparent = _TRANSPARENT.get(type(value).__name__)
        for name, inner in vars(value).items():
            if name == transparent:
                yield from _members(inner)
            elif name != "grad":
                yield name, inner


def get_state_dict(model: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor reachable through attributes, lists and dicts, by dotted name. Tied tensors
    appear under each of their names.
    """
    found: dict[str, Tensor] = {}
    stack: list[tuple[str, Any, tuple[int, ...]]] = [(prefix, model, ())]
    while stack:
        name, value, path = stack.pop()
        if isinstance(value, Tensor):
            found[name] = value
        elif id(value) not in path:
            inside = list(_members(value))
            for key, inner in reversed(inside):
                stack.append((f"{name}.{key}" if name else key, inner, (*path, id(value))))
    return found


def get_parameters(model: Any) -> list[Tensor]:
    """Every tensor of the model that requires a gradient, once."""
    unique = {id(t): t for t in get_state_dict(model).values() if t.requires_grad}
    return list(unique.values())


def load_state_dict(model: Any, values: Mapping[str, Any], strict: bool = True) -> None:
    """Copy `values` (tensors or arrays by name) into the model's tensors.

    With `strict`, names that only one side has are an error; shapes must always agree. Nothing is
    changed when an error is raised.
    """
    own = get_state_dict(model)
    missing, unexpected = sorted(own.keys() - values.keys()), sorted(values.keys() - own.keys())
    if strict and (missing or unexpected):
        raise KeyError(f"the state does not fit: missing {missing}, unexpected {unexpected}")
    for name in own.keys() & values.keys():
        if tuple(values[name].shape) != tuple(own[name].shape):
            raise ShapeError(
                f"{name!r} has shape {tuple(own[name].shape)}, the value given has "
                f"{tuple(values[name].shape)}"
            )
    with no_grad():
        for name in own.keys() & values.keys():
            given = values[name]
            value = given.detach() if isinstance(given, Tensor) else Tensor(np.asarray(given))
            own[name].assign(value.cast(own[name].dtype).to(own[name].device).contiguous())
    chosen = [own[name] for name in own.keys() & values.keys()]
    if chosen:
        chosen[0].realize(*chosen[1:])


def safe_save(values: Mapping[str, Tensor], path: str | Path, metadata: Any = None) -> None:
    """Write tensors to a safetensors file; the file appears whole or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays = []
    offset = 0
    for name, tensor in values.items():
        array = tensor.numpy()
        end = offset + array.nbytes
        header[name] = {
            "dtype": _FORMAT_OF[tensor.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        arrays.append(array)
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    final = Path(path)
    temporary = final.with_name(final.name + ".part")
    with temporary.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays:
            file.write(array.tobytes())
    temporary.replace(final)


def safe_load(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; `ParseError` says what is wrong with a damaged one."""
    data = Path(path).read_bytes()
    if len(data) < 8:
        raise ParseError(f"{path} is too short for a safetensors file")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(HEADER_LIMIT, len(data) - 8):
        raise ParseError(f"{path} has a header of {length} bytes but only {len(data)} in all")
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise ParseError(f"{path} has a damaged header: {error}") from None
    if not isinstance(header, dict):
        raise ParseError(f"{path} has a damaged header: {header!r:.60}")
    body = memoryview(data)[8 + length :]
    return {
        name: _tensor_of(name, entry, body)
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _tensor_of(name: str, entry: dict[str, Any], body: memoryview) -> Tensor:
    try:
        text, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(isinstance(n, int) and n >= 0 for n in (*shape, start, end))
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ParseError(f"{name!r} has a damaged entry: {entry!r:.80}")
    dtype = _FORMATS.get(text)
    if dtype is None:
        raise ParseError(f"{name!r} has format {text}, which torpor does not have")
    count = int(np.prod(shape, dtype=np.int64))
    if not 0 <= start <= end <= len(body) or end - start != count * dtype.itemsize:
        raise ParseError(f"{name!r} lies at bytes {start} to {end}, which does not fit its shape")
    return Tensor(np.frombuffer(body[start:end], dtype.numpy).reshape(shape))
