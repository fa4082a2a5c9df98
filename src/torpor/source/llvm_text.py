"""LLVM IR as text: types, constants, and the function under construction."""

from __future__ import annotations

import math
import struct
from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.names import Names

_FLOATS: Final = {"float16": "half", "bfloat16": "bfloat", "float32": "float", "float64": "double"}


def scalar_type(dtype: DType) -> str:
    """The type of one lane in a register; bool is i1."""
    if dtype.kind == "bool":
        return "i1"
    return _FLOATS.get(dtype.scalar().name) or f"i{dtype.bits}"


def vector(text: str, count: int) -> str:
    """`count` lanes of the scalar type `text`."""
    return text if count == 1 else f"<{count} x {text}>"


def type_of(dtype: DType) -> str:
    """The type in a register: `float`, `<8 x i1>`."""
    return vector(scalar_type(dtype), dtype.count)


def memory_type(dtype: DType) -> str:
    """The type in memory; bool is i8."""
    return vector("i8" if dtype.kind == "bool" else scalar_type(dtype), dtype.count)


def mangled(dtype: DType, memory: bool = False) -> str:
    """The type as a part of an intrinsic's name: `f32`, `v8i64`."""
    if dtype.is_float:
        scalar = "bf16" if dtype.scalar().name == "bfloat16" else f"f{dtype.bits}"
    else:
        scalar = ("i8" if memory else "i1") if dtype.kind == "bool" else f"i{dtype.bits}"
    return scalar if dtype.count == 1 else f"v{dtype.count}{scalar}"


def _float_text(dtype: DType, value: float) -> str:
    """The number's bits in hexadecimal, as LLVM writes each format."""
    if dtype.name == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if dtype.name == "bfloat16":
        return f"0xR{struct.unpack('<I', struct.pack('<f', value))[0] >> 16:04X}"
    if math.isnan(value):  # a single's NaN must have zeros in the bits that a double has more
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def number_text(dtype: DType, value: bool | int | float) -> str:
    """A scalar constant, exact."""
    if dtype.is_float:
        return _float_text(dtype.scalar(), float(value))
    if dtype.kind == "bool":
        return "true" if value else "false"
    return str(int(value))


def constant_text(node: UOp) -> str | None:
    """The text of a constant scalar or vector; None for anything else."""
    dtype = node.dtype
    if node.op is Ops.CONST:
        text = number_text(dtype, node.arg)
        return text if dtype.count == 1 else f"splat ({scalar_type(dtype)} {text})"
    numbers: list[bool | int | float]
    if node.op is Ops.LANES:
        numbers = list(range(dtype.count))
    elif node.op is Ops.VECTORIZE and all(s.op is Ops.CONST for s in node.src):
        if all(s is node.src[0] for s in node.src):
            return f"splat ({scalar_type(dtype)} {number_text(dtype, node.src[0].arg)})"
        numbers = [s.arg for s in node.src]
    else:
        return None
    scalar = scalar_type(dtype)
    return "<" + ", ".join(f"{scalar} {number_text(dtype, n)}" for n in numbers) + ">"


class Body:
    """The text of a function that grows: statements, registers in memory, declared intrinsics."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.registers: list[str] = []
        self.declared: dict[str, str] = {}
        self.names = Names({"entry"})
        self.block = "entry"
        self.depth = 1

    def line(self, text: str) -> None:
        """One statement."""
        self.lines.append("  " * self.depth + text)

    def label(self, name: str) -> None:
        """Start the block `name`."""
        self.lines.append(f"{name}:")
        self.block = name

    def value(self, prefix: str, text: str) -> str:
        """A statement that gives a value; its name."""
        name = f"%{self.names.numbered(prefix)}"
        self.line(f"{name} = {text}")
        return name

    def register(self, prefix: str, kind: str, align: int) -> str:
        """A place on the stack, made once at the function's entry; its name."""
        name = f"%{self.names.numbered(prefix)}"
        self.registers.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def call(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """The text of a call of the intrinsic `name` with (type, value) arguments."""
        kinds = ", ".join(kind for kind, _ in arguments)
        self.declared[name] = f"declare {result} @{name}({kinds})"
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return f"call {result} @{name}({values})"
