"""PyTorch's files: `save` writes the zip form of today, `torch_load` reads it and the older one.

Both hold a pickle that names the classes of what it holds. No code that a file names is ever
executed: of all classes and functions only those in `_KNOWN` are understood, by what stands here.
https://docs.pytorch.org/docs/stable/notes/serialization.html describes the form.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, ParseError
from torpor.base.files import replacing
from torpor.tensor import Tensor

_MAGIC: Final = 0x1950A86A20F9469CFC6C  # the first pickle of the older form
_STORAGES: Final = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool, "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}  # fmt: skip
_STORAGE_OF: Final = {dtype: name for name, dtype in _STORAGES.items()}
_DAMAGE: Final = (
    pickle.UnpicklingError, zipfile.BadZipFile, EOFError, struct.error, AttributeError, IndexError,
    KeyError, TypeError, ValueError, RecursionError, OverflowError,
)  # fmt: skip
_NESTED: Final = 100  # lists in lists: more than any state has, fewer than Python's stack holds


class _Name(NamedTuple):
    """A class of PyTorch's that is only a word here."""

    text: str


class _Storage(NamedTuple):
    """Memory of one format that tensors look at."""

    dtype: DType | None  # None: bytes
    key: str
    data: list[NDArray[np.uint8]]  # filled when it is read


def _tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False, *_: Any
) -> Tensor:
    return _viewed(storage, storage.dtype, offset, shape, strides, requires_grad)


def _typed_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, _: Any, dtype: Any,
    *__: Any,
) -> Tensor:  # fmt: skip
    if not isinstance(dtype, DType):
        raise ParseError(f"a tensor has the format {dtype}, which torpor does not have")
    return _viewed(storage, dtype, offset, shape, strides, requires_grad)


def _viewed(
    storage: Any, dtype: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any
) -> Tensor:
    if not isinstance(storage, _Storage) or not isinstance(dtype, DType):
        raise ParseError("a tensor has no memory")
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ParseError(f"a tensor has a damaged shape: {shape}, strides {strides}, from {offset}")
    if not storage.data:
        raise ParseError(f"the memory {storage.key!r} is missing")
    memory = storage.data[0]
    if memory.size % dtype.itemsize:
        raise ParseError(f"the memory {storage.key!r} ends within a number")
    flat = memory.view(dtype.numpy)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if math.prod(shape) == 0:
        return Tensor(np.empty(tuple(shape), dtype.numpy), requires_grad=bool(requires_grad))
    if last >= flat.size:
        raise ParseError(f"a tensor of shape {tuple(shape)} reaches beyond its memory")
    steps = tuple(step * dtype.itemsize for step in strides)
    view = np.lib.stride_tricks.as_strided(flat[offset:], tuple(shape), steps)
    return Tensor(view, requires_grad=bool(requires_grad) and dtype.is_float)


def _parameter(tensor: Any, requires_grad: Any = True, *_: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ParseError("a parameter is no tensor")
    return tensor.requires_grad_(bool(requires_grad))


def _size(values: Any = ()) -> tuple[Any, ...]:
    return tuple(values)


_KNOWN: Final[dict[str, Any]] = {
    "torch._utils._rebuild_tensor": lambda storage, *view: _tensor(storage, *view),
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": _size,
    "torch.device": lambda *words: ":".join(map(str, words)),
    "torch.storage.UntypedStorage": _Name("UntypedStorage"),
    "collections.OrderedDict": OrderedDict,
    **{f"torch.{name}": _Name(name) for name in _STORAGES},
    **{f"torch.{dtype.name}": dtype for dtype in _STORAGE_OF},
    **{f"torch.{name}": getattr(dtypes, name) for name in ("uint16", "uint32", "uint64")},
}


class _Unpickler(pickle._Unpickler):
    """Reads tensors, numbers, texts and containers of them; refuses every other class by name."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # what each opcode does

    def __init__(self, file: Any, storage: Callable[[Any], Any]):
        super().__init__(file)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get(f"{module}.{name}")
        if known is None:
            raise ParseError(f"it holds a {module}.{name}, whose code is not executed")
        return known

    def persistent_load(self, pid: Any) -> Any:
        return self._storage(pid)

    def load_build(self) -> None:
        """Attributes for an object: only those of ordered dictionaries occur, and are left out."""
        self.stack.pop()  # type: ignore[attr-defined]
        if not isinstance(self.stack[-1], OrderedDict):  # type: ignore[attr-defined]
            raise ParseError("it sets attributes of what has none")

    dispatch[pickle.BUILD[0]] = load_build


def load(path: str | os.PathLike[str]) -> Any:
    """What `save`, PyTorch or safetensors wrote to a file, told apart by how it begins: tensors,
    numbers and texts in dicts and lists. `ParseError` says what is wrong with a damaged one, and
    names the class where it holds anything else.
    """
    from torpor.nn.safetensors import safe_load

    with Path(path).open("rb") as file:
        start = file.read(2)
    return torch_load(path) if start in (b"PK", b"\x80\x02") else safe_load(path)


def torch_load(path: str | os.PathLike[str]) -> Any:
    """What PyTorch's `save` wrote: a `state_dict`, or any tensors, numbers and texts in dicts and
    lists. No code is executed; whatever needs some is a `ParseError` that names it.
    """
    try:
        with Path(path).open("rb") as file:
            zipped = file.read(2) == b"PK"
            file.seek(0)
            return _read_zip(file) if zipped else _read_older(file)
    except ParseError as error:
        raise ParseError(f"{os.fspath(path)!r} cannot be read: {error}") from None
    except _DAMAGE as error:
        raise ParseError(f"{os.fspath(path)!r} is damaged: {error}") from None


def _read_zip(file: Any) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        found = [name for name in names if name.endswith("/data.pkl")]
        if len(found) != 1:
            raise ParseError("it is a zip file, but none of PyTorch's")
        root = found[0].removesuffix("data.pkl")
        if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
            raise ParseError("its numbers are big endian")
        kept: dict[str, _Storage] = {}

        def storage(pid: Any) -> _Storage:
            made = _declared(pid)
            if made.key not in kept:
                data = np.frombuffer(archive.read(f"{root}data/{made.key}"), np.uint8)
                kept[made.key] = made._replace(data=[data])
            return kept[made.key]._replace(dtype=made.dtype)

        return _Unpickler(io.BytesIO(archive.read(found[0])), storage).load()


def _declared(pid: Any) -> _Storage:
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        raise ParseError(f"it refers to {pid!r}")
    kind, key = pid[1], pid[2]
    if not isinstance(kind, _Name) or not isinstance(key, str):
        raise ParseError(f"it refers to {pid!r}")
    return _Storage(_STORAGES.get(kind.text), key, [])


def _read_older(file: Any) -> Any:
    """Four pickles (a number, the version, the machine, the object), a list of keys, and for each
    its count and numbers. Tensors are made when the memory is there: the object is read twice.
    """

    def none(pid: Any) -> Any:
        raise ParseError(f"it refers to {pid!r}")

    if _Unpickler(file, none).load() != _MAGIC:
        raise ParseError("it is no file of PyTorch's")
    _Unpickler(file, none).load()
    _Unpickler(file, none).load()
    kept: dict[str, _Storage] = {}
    start = file.tell()
    for _ in pickletools.genops(file):  # steps over the object without making anything
        pass
    end = file.tell()
    sizes = dict(_sizes_named(file, start, end))
    file.seek(end)
    for key in _Unpickler(file, none).load():
        (count,) = struct.unpack("<q", file.read(8))
        width = sizes[key]
        data = np.frombuffer(file.read(count * width), np.uint8)
        if data.size != count * width:
            raise ParseError(f"it ends within the memory {key!r}")
        kept[key] = _Storage(None, key, [data])

    def storage(pid: Any) -> _Storage:
        made = _declared(pid)
        return made._replace(data=kept[made.key].data)

    file.seek(start)
    return _Unpickler(file, storage).load()


def _sizes_named(file: Any, start: int, end: int) -> Iterator[tuple[str, int]]:
    """The bytes of a number of each memory that the object refers to."""
    found: list[tuple[str, int]] = []

    def note(pid: Any) -> Any:
        made = _declared(pid)
        if made.dtype is None:
            raise ParseError("memory without a format in a file of the older form")
        found.append((made.key, made.dtype.itemsize))
        return made._replace(data=[np.zeros(0, np.uint8)])

    class Sizes(_Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            known = super().find_class(module, name)
            plain = isinstance(known, _Name | DType) or known is OrderedDict
            return known if plain else lambda *_: Tensor(0.0)

    file.seek(start)
    Sizes(io.BytesIO(file.read(end - start)), note).load()
    yield from found


# --- writing --------------------------------------------------------------------------------------
def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write tensors, numbers and texts, in dicts, lists and tuples, so that `load` and PyTorch's
    `load` read them; the file appears whole or not at all. A tensor that occurs twice is written
    once.
    """
    writer = _Pickle()
    writer.write(obj, 0)
    with replacing(Path(path)) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", writer.finished())
        archive.writestr("archive/byteorder", b"little")
        for key, array in enumerate(writer.arrays):
            archive.writestr(f"archive/data/{key}", array.tobytes())
        archive.writestr("archive/version", b"3\n")


class _Pickle:
    """A pickle of protocol 2, written by hand: it names PyTorch's classes, which are not here."""

    def __init__(self) -> None:
        self.text, self.arrays = bytearray(b"\x80\x02"), list[NDArray[Any]]()
        self._known: dict[int, tuple[int, Any]] = {}  # places in the memo, by identity

    def finished(self) -> bytes:
        return bytes(self.text) + b"."

    def write(self, value: Any, depth: int) -> None:
        """Append one value."""
        if depth > _NESTED:
            raise DTypeError(f"save takes containers up to {_NESTED} deep")
        if isinstance(value, Tensor):
            self._remembered(value, lambda: self._tensor(value))
        elif isinstance(value, Mapping):
            self._remembered(value, lambda: self._pairs(value, depth))
        elif isinstance(value, list):
            self._remembered(value, lambda: self._listed(value, depth))
        elif isinstance(value, tuple):
            self.text += b"("
            for one in value:
                self.write(one, depth + 1)
            self.text += b"t"
        elif isinstance(value, DType):
            self._global("torch", value.name)
        else:
            self._plain(value)

    def _plain(self, value: Any) -> None:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None:
            self.text += b"N"
        elif isinstance(value, bool):
            self.text += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            width = value.bit_length() // 8 + 1
            if width > 255:
                raise DTypeError("save takes integers of up to 2,032 bits")
            self.text += b"\x8a" + bytes([width]) + value.to_bytes(width, "little", signed=True)
        elif isinstance(value, float):
            self.text += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            self.text += b"X" + struct.pack("<I", len(data)) + data
        else:
            raise DTypeError(
                f"save takes tensors, numbers, texts, dicts, lists and tuples, not a "
                f"{type(value).__name__}; save a model's state_dict()"
            )

    def _remembered(self, value: Any, write: Callable[[], None]) -> None:
        if id(value) in self._known:
            self.text += b"j" + struct.pack("<I", self._known[id(value)][0])
            return
        write()

    def _keep(self, value: Any) -> None:
        self._known[id(value)] = len(self._known), value
        self.text += b"r" + struct.pack("<I", len(self._known) - 1)

    def _pairs(self, value: Mapping[Any, Any], depth: int) -> None:
        self.text += b"}"
        self._keep(value)
        self.text += b"("
        for key, one in value.items():
            self.write(key, depth + 1)
            self.write(one, depth + 1)
        self.text += b"u"

    def _listed(self, value: list[Any], depth: int) -> None:
        self.text += b"]"
        self._keep(value)
        self.text += b"("
        for one in value:
            self.write(one, depth + 1)
        self.text += b"e"

    def _global(self, module: str, name: str) -> None:
        self.text += f"c{module}\n{name}\n".encode()

    def _tensor(self, value: Tensor) -> None:
        numbers = value.detach().numpy()
        array = np.ascontiguousarray(numbers).reshape(numbers.shape)  # which makes 0 axes 1
        typed = value.dtype in _STORAGE_OF
        self._global("torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
        self.text += b"("  # the function's arguments
        self.text += b"("  # the memory
        self._plain("storage")
        if typed:
            self._global("torch", _STORAGE_OF[value.dtype])
        else:
            self._global("torch.storage", "UntypedStorage")
        self._plain(str(len(self.arrays)))
        self._plain("cpu")
        self._plain(array.size if typed else array.nbytes)
        self.text += b"tQ"
        strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
        self._plain(0)
        self.write(tuple(array.shape), 0)
        self.write(tuple(strides), 0)
        self._plain(value.requires_grad)
        self._global("collections", "OrderedDict")
        self.text += b")R"
        if not typed:
            self._global("torch", value.dtype.name)
        self.text += b"tR"
        self._keep(value)
        self.arrays.append(array)
