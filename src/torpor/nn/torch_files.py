"""PyTorch's files: `save` writes the zip form of today, `torch_load` reads it and the older one.

Both hold a pickle that names the classes of what it holds. No code that a file names is ever
executed: of all classes and functions only those in `_KNOWN` are understood, by what stands here.
https://docs.pytorch.org/docs/stable/notes/serialization.html describes the form.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, ParseError
from torpor.base.files import Source, named, opened, written
from torpor.tensor import Tensor, device
from torpor.tensor.spelling import spelled

_MAGIC: Final = 0x1950A86A20F9469CFC6C  # the first pickle of the older form
_STORAGES: Final = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool, "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}  # fmt: skip
_STORAGE_OF: Final = {dtype: name for name, dtype in _STORAGES.items()}
_UNTYPED: Final = (
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float8_e4m3fn, dtypes.float8_e5m2,
    dtypes.int4, dtypes.uint4,
)  # fmt: skip
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
    made: dict[Any, Tensor]  # of it, by how they look at it


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
    width = dtype.numpy.itemsize  # of int4, a byte for each number
    if memory.size % width:
        raise ParseError(f"the memory {storage.key!r} ends within a number")
    flat = memory.view(dtype.numpy)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if math.prod(shape) == 0:
        return Tensor(np.empty(tuple(shape), dtype.numpy), requires_grad=bool(requires_grad))
    if last >= flat.size:
        raise ParseError(f"a tensor of shape {tuple(shape)} reaches beyond its memory")
    look = (dtype, offset, tuple(shape), tuple(strides))
    known = storage.made.get(look)
    if known is not None and not known.requires_grad and not requires_grad:
        return known.view(shape)
    steps = tuple(step * width for step in strides)
    start = offset * width
    view: NDArray[Any] = np.ndarray(tuple(shape), dtype.numpy, memory.data, start, steps)
    made = Tensor(view, requires_grad=bool(requires_grad) and dtype.is_float)
    storage.made[look] = made
    return made


def _parameter(tensor: Any, requires_grad: Any = True, *_: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise ParseError("a parameter is no tensor")
    own = tensor if tensor._path is None else tensor.clone()  # parameters are leaves
    return own.requires_grad_(bool(requires_grad))


def _bytes(text: Any = "", _: Any = "latin1") -> bytes:
    return str(text).encode("latin1")


# Python's own, that Python 2 knew by these names; none runs code or takes memory by a number.
_PLAIN: Final[dict[str, Any]] = {
    "__builtin__.set": set, "__builtin__.complex": complex, "_codecs.encode": _bytes,
    "__builtin__.bytes": _bytes, "__builtin__.bytearray": lambda read=b"": bytearray().join([read]),
}  # fmt: skip
_KNOWN: Final[dict[str, Any]] = {
    **_PLAIN,
    "torch._utils._rebuild_tensor": lambda storage, *view: _tensor(storage, *view),
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": lambda values=(): tuple(values),
    "torch.device": lambda *words: ":".join(map(str, words)),
    "torch.storage.UntypedStorage": _Name("UntypedStorage"),
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": dict,
    **{f"torch.{name}": _Name(name) for name in _STORAGES},
    **{f"torch.{dtype.name}": dtype for dtype in _STORAGE_OF},
    **{f"torch.{dtype.name}": dtype for dtype in _UNTYPED},
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
            raise ParseError(
                f"it holds a {module}.{name}, whose code is not executed; save a state_dict"
            )
        return known

    def persistent_load(self, pid: Any) -> Any:
        return self._storage(pid)

    def load_build(self) -> None:
        """Attributes for an object: only those of ordered dictionaries occur, and are left out."""
        self.stack.pop()  # type: ignore[attr-defined]
        if not isinstance(self.stack[-1], OrderedDict):  # type: ignore[attr-defined]
            raise ParseError("it sets attributes of what has none")

    dispatch[pickle.BUILD[0]] = load_build


@spelled
def load(path: Source, map_location: str | None = None, *, weights_only: bool = True) -> Any:
    """What `save`, PyTorch, safetensors or NumPy (`.npz`, `.npy`) wrote to a file, which may be
    open, told apart by how it begins: tensors, numbers and texts in containers. `ParseError`
    says what is wrong with a damaged one, and names the class where it holds anything else,
    whatever `weights_only` is. Tensors are on the device `map_location`, else on the default one.
    """
    with contextlib.nullcontext() if map_location is None else device(map_location):
        return _load(path)


def _load(path: Source) -> Any:
    from torpor.nn.safetensors import safe_load

    with opened(path) as file:
        start = file.read(6)
        numpys = start == b"\x93NUMPY" or (start[:2] == b"PK" and _is_npz(file))
        file.seek(0)
        source = path if isinstance(path, str | os.PathLike) else file
        pickled = start[:2] == b"PK" or start[:1] == b"\x80"  # PyTorch's, of whatever protocol
        read = torch_load if pickled else safe_load
        return (_read_numpy if numpys else read)(source)


def _is_npz(file: Any) -> bool:
    """Whether a zip file holds arrays of NumPy's and nothing else."""
    try:
        with zipfile.ZipFile(file) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _read_numpy(path: Source) -> Any:
    """One tensor, or tensors by name; objects, which are pickled code, are refused."""
    try:
        found = np.load(cast(Any, path), allow_pickle=False)
        if isinstance(found, np.ndarray):
            return Tensor(found)
        with found:
            return {name: Tensor(found[name]) for name in found}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ParseError(f"{named(path)} cannot be read: {error}") from None


def torch_load(path: Source) -> Any:
    """What PyTorch's `save` wrote: a `state_dict`, or any tensors, numbers and texts in dicts and
    lists. No code is executed; whatever needs some is a `ParseError` that names it.
    """
    try:
        with opened(path) as file:
            zipped = file.read(2) == b"PK"
            file.seek(0)
            return _read_zip(file) if zipped else _read_older(file)
    except ParseError as error:
        raise ParseError(f"{named(path)} cannot be read: {error}") from None
    except _DAMAGE as error:
        raise ParseError(f"{named(path)} is damaged: {error}") from None


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
    return _Storage(_STORAGES.get(kind.text), key, [], {})


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
        kept[key] = _Storage(None, key, [data], {})

    def storage(pid: Any) -> _Storage:
        made = _declared(pid)
        return kept[made.key]._replace(dtype=made.dtype)

    file.seek(start)
    return _Unpickler(file, storage).load()


def _sizes_named(file: Any, start: int, end: int) -> Iterator[tuple[str, int]]:
    """The bytes of a number of each memory that the object refers to."""
    found: list[tuple[str, int]] = []

    def note(pid: Any) -> Any:
        made = _declared(pid)
        found.append((made.key, 1 if made.dtype is None else made.dtype.itemsize))
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
@spelled
def save(obj: Any, path: Source) -> None:
    """Write tensors, numbers, texts and bytes, in dicts, lists, tuples and sets, so that `load` and
    PyTorch's `load` read them; a path's file appears whole or not at all, an open one is written
    to. A tensor that occurs twice is written once.
    """
    text = io.BytesIO()
    writer = _Pickler(text)
    writer.dump(obj)
    with written(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", text.getvalue())
        archive.writestr("archive/byteorder", b"little")
        for key, array in enumerate(writer.arrays):
            archive.writestr(f"archive/data/{key}", array.tobytes())
        archive.writestr("archive/version", b"3\n")


class _Global(NamedTuple):
    """A class or a function by its name; nothing calls it here."""

    module: str
    name: str

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("it is only written")


class _Memory(NamedTuple):
    """A tensor's numbers: the class of its storage, where they are written, and how many."""

    kind: _Global
    key: str
    size: int


class _Empty:
    """An empty dictionary, in place of a tensor's hooks."""


class _Pickler(pickle._Pickler):
    """Writes PyTorch's names of classes, which are not here; `arrays` are the tensors' numbers."""

    def __init__(self, file: Any):
        super().__init__(file, protocol=2)
        self.file, self.arrays, self.depth = file, list[NDArray[Any]](), 0
        self.plain = dict[int, tuple[dict[Any, Any], Any]]()  # mappings of other kinds, by id

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        """Write one value."""
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, Mapping) and type(value) is not dict:
            value = self.plain.setdefault(id(value), (dict(value), value))[0]
        elif isinstance(value, DType):
            value = _Global("torch", value.name)
        if type(value) is _Global:
            self.file.write(f"c{value.module}\n{value.name}\n".encode())
            return
        self.depth += isinstance(value, dict | list | tuple)
        if self.depth > _NESTED:
            raise DTypeError(f"save takes containers up to {_NESTED} deep")
        super().save(value, save_persistent_id)  # type: ignore[misc]
        self.depth -= isinstance(value, dict | list | tuple)

    def persistent_id(self, value: Any) -> Any:
        if type(value) is not _Memory:
            return None
        return "storage", value.kind, value.key, "cpu", value.size

    def reducer_override(self, value: Any) -> Any:
        """How what Python has no way for is written."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if type(value) is _Empty:
            return _Global("collections", "OrderedDict"), ()
        if type(value) is set:
            return _Global("__builtin__", "set"), ([*value],)
        if type(value) is complex:
            return _Global("__builtin__", "complex"), (value.real, value.imag)
        if type(value) is bytes:
            return _Global("_codecs", "encode"), (value.decode("latin1"), "latin1")
        if type(value) is bytearray:
            return _Global("__builtin__", "bytearray"), (bytes(value),)
        if type(value) in (type(None), bool, int, float, str, dict, list, tuple):
            return NotImplemented
        raise DTypeError(
            f"save takes tensors, numbers, texts, bytes, dicts, lists, tuples and sets, not a "
            f"{type(value).__name__}; save a model's state_dict()"
        )

    def _tensor(self, value: Tensor) -> Any:
        numbers = value.detach().numpy()
        array = np.ascontiguousarray(numbers).reshape(numbers.shape)  # which makes 0 axes 1
        key, typed = str(len(self.arrays)), value.dtype in _STORAGE_OF
        self.arrays.append(array)
        if typed:
            memory = _Memory(_Global("torch", _STORAGE_OF[value.dtype]), key, array.size)
        else:
            memory = _Memory(_Global("torch.storage", "UntypedStorage"), key, array.nbytes)
        strides = tuple(math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim))
        view = memory, 0, tuple(array.shape), strides, value.requires_grad, _Empty()
        made = _Global("torch._utils", f"_rebuild_tensor_v{2 if typed else 3}")
        return made, view if typed else (*view, _Global("torch", value.dtype.name))
