"""Files of llama.cpp (GGUF): what they say about a model, and its tensors.

A file has the letters GGUF, a version (2 or 3), how many tensors and how many facts; the facts,
each a name, a kind and a value; a name, sizes (the last axis first), a format and a place for each
tensor; and, at the next multiple of `general.alignment`, the data. Everything is little endian.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

Weights lie in blocks of some formats, which `gguf_blocks.py` turns to numbers.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from reprlib import repr as brief
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import ParseError
from torpor.nn.gguf_blocks import BLOCKS, Block
from torpor.tensor import Tensor

VERSIONS: Final = (2, 3)
AXES_LIMIT: Final = 64  # of NumPy's arrays
ALIGNMENT: Final = 32  # bytes, where the file does not say
_NUMBERS: Final = dict(enumerate("BbHhIif?--Qqd"))  # kinds of facts, as `struct` has them
_TEXT, _LIST = 8, 9
_PLAIN: Final = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip
_UNREADABLE: Final = {
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 29: "IQ1_M",
}  # fmt: skip


class Entry(NamedTuple):
    """What the file says about a tensor; `start` counts from the first byte of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int


class Reader:
    """The bytes of a file, from its start on."""

    def __init__(self, data: Any):
        self.data, self.position = data, 0

    def take(self, length: int) -> bytes:
        if length > len(self.data) - self.position:
            raise ParseError(f"it ends within what begins at byte {self.position}")
        self.position += length
        return bytes(self.data[self.position - length : self.position])

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        """A fact of some kind: a number, a text, or a list of facts of one kind."""
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            if kind not in _NUMBERS:
                raise ParseError(f"a fact has kind {kind}, which the format does not have")
            return self.number(_NUMBERS[kind])
        inner, count = self.number("I"), self.number("Q")
        if inner in (_TEXT, _LIST):
            return [self.value(inner) for _ in range(count)]
        if inner not in _NUMBERS:
            raise ParseError(f"a list has kind {inner}, which the format does not have")
        code = np.dtype("<" + _NUMBERS[inner])
        return np.frombuffer(self.take(count * code.itemsize), code).tolist()

    def entry(self) -> Entry:
        """What the file says about a tensor."""
        name, rank = self.text(), self.number("I")
        if rank > AXES_LIMIT:
            raise ParseError(f"{brief(name)} has {rank} axes")
        sizes = [self.number("Q") for _ in range(rank)]
        return Entry(name, tuple(reversed(sizes)), self.number("I"), self.number("Q"))


def gguf_load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(facts, tensors) of a GGUF file, both by name; `ParseError` says what is wrong with one.

    Tensors in blocks (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0,
    MXFP4) are float32, computed where they are used: a product with a few rows reads the codes
    themselves. No file makes torpor run code or take more memory than its own length.
    """
    data = np.memmap(path, np.uint8, "r") if os.stat(path).st_size else np.empty(0, np.uint8)
    try:
        return _load(Reader(data))
    except (ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"{os.fspath(Path(path))!r} is no whole GGUF file: {error}") from None


def _load(reader: Reader) -> tuple[dict[str, Any], dict[str, Tensor]]:
    magic, version = reader.take(4), reader.number("I")
    if magic != b"GGUF" or version not in VERSIONS:
        raise ParseError(f"it begins with {magic!r}, version {version}")
    count, length = reader.number("Q"), reader.number("Q")
    facts = {reader.text(): reader.value(reader.number("I")) for _ in range(length)}
    entries = [reader.entry() for _ in range(count)]
    if len(facts) < length or len({entry.name for entry in entries}) < count:
        raise ParseError("a name stands there twice")
    step = facts.get("general.alignment", ALIGNMENT)
    if type(step) is not int or step < 1 or step & (step - 1):
        raise ParseError(f"general.alignment is {brief(step)}, no power of two")
    data = reader.data[-(-reader.position // step) * step :]
    return facts, {entry.name: _tensor(data, entry) for entry in entries}


def _tensor(data: Any, entry: Entry) -> Tensor:
    count, kind = math.prod(entry.shape), entry.kind
    if kind in _PLAIN:
        block = Block(1, [("value", _PLAIN[kind].numpy, (1,))], lambda value: value)
    elif kind in BLOCKS:
        block = BLOCKS[kind]
    else:
        named = _UNREADABLE.get(kind, f"number {kind}")
        raise ParseError(f"{brief(entry.name)} has format {named}, which torpor does not read")
    if (entry.shape[-1:] and entry.shape[-1] % block.size) or count % block.size:
        whole = f"that are no whole blocks of {block.size}: {brief(entry.shape)}"
        raise ParseError(f"{brief(entry.name)} has rows {whole}")
    form = np.dtype(block.fields)
    end = entry.start + count // block.size * form.itemsize
    if end > len(data):
        raise ParseError(f"it ends within {brief(entry.name)}")
    blocks = np.frombuffer(data[entry.start : end], form)
    try:
        fields = {name: Tensor(np.ascontiguousarray(blocks[name])) for name in form.names or ()}
        return block.numbers(**fields).reshape(*entry.shape)
    except ValueError:
        raise ParseError(f"{brief(entry.name)} has a shape that no array has") from None
