"""C11, with GCC's and Clang's vector extension where the program has vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.base.dtypes import DType, dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle import CStyleRenderer
from torpor.source.cstyle_language import EXTREMA, bare
from torpor.source.linear import Signature

_ARITHMETIC: Final = frozenset({
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.CAST,
    Ops.BITCAST,
})  # fmt: skip
C_SUFFIXES: Final = {"float32": "f", "float16": "f", "bfloat16": "f", "uint32": "u"}
_SIGNED: Final = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


class CRenderer(CStyleRenderer):
    """Writes `void name(float* data0, ...)`; compiles with `-std=c11 -Wall` without warnings."""

    types = {
        "bool": "bool", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
        "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "unsigned int", "uint64": "uint64_t",
        "float16": "_Float16", "float32": "float", "float64": "double",
    }  # fmt: skip
    suffixes = {**C_SUFFIXES, "int64": "ll", "uint64": "ull"}
    widths = frozenset({2, 4, 8, 16, 32})
    vector_ops = _ARITHMETIC
    memory_text = "{}* restrict data{}"
    error_text = "int64_t* error"
    local_text = "_Alignas(64) {} {}[{}];"
    vector_text = "(({}){{{}}})"

    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        arguments = self.arguments(takes)
        if takes.thread is not None:
            arguments += ["int64_t thread_begin", "int64_t thread_end"]
        self.features.add("stdint" if takes.checks or takes.thread is not None else "")
        return f"void {name}({', '.join(arguments) or 'void'}) {{"

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        text = "\n".join([*self.helpers.values(), *self.formats])
        lines = []
        if "bool" in self.formats or "bool " in text:
            lines.append("#include <stdbool.h>")
        if "stdint" in self.features or any("_t" in self.types.get(f, "") for f in self.formats):
            lines.append("#include <stdint.h>")
        if self.features & {"math", "INFINITY", "NAN"}:
            lines.append("#include <math.h>")
        return lines + sorted(f for f in self.features if f.startswith("typedef"))

    def keeps(self, node: UOp) -> bool:
        small = any(
            d.scalar().name == "float16" for d in (node.dtype, *(s.dtype for s in node.src))
        )
        return not small and super().keeps(node)

    def vector_type(self, dtype: DType) -> str:
        scalar = self.type(dtype.scalar())
        self.features.add("stdint" if scalar.endswith("_t") else "")
        size = f"vector_size({dtype.itemsize})"
        self.features.add(f"typedef {scalar} {dtype.name} __attribute__(({size}));")
        return dtype.name

    def pointer(self, dtype: DType, place: UOp) -> str:
        """A type that may stand at any element and reads memory of other types."""
        scalar = dtype.scalar()
        traits = f"vector_size({dtype.itemsize}), aligned({scalar.itemsize}), may_alias"
        name = f"{dtype.name}_unaligned"
        self.features.add(f"typedef {self.type(scalar)} {name} __attribute__(({traits}));")
        return f"{name}*"

    def lane(self, dtype: DType, text: str, number: int) -> str:
        return f"{text}[{number}]"

    def convert(self, source: DType, result: DType, text: str) -> str:
        if source.count > 1:
            return f"__builtin_convertvector({bare(text)}, {self.type(result)})"
        return super().convert(source, result, text)

    def bitcast(self, source: DType, result: DType, text: str) -> str:
        if source.count > 1:
            return f"(({self.type(result)}){text})"
        return super().bitcast(source, result, text)

    def function(self, name: str, dtype: DType, operands: tuple[str, ...]) -> str:
        self.features.add("math")
        if dtype.bits == 16:
            wide = tuple(f"(float){o}" for o in operands)
            return f"(({self.type(dtype)}){super().function(name + 'f', dtype, wide)})"
        return super().function(name if dtype.bits == 64 else f"{name}f", dtype, operands)

    def narrowed(self, dtype: DType, text: str) -> str:
        small = dtype.name == "float16" or (dtype.is_int and dtype.bits < 32 and dtype.count == 1)
        return f"(({self.type(dtype)}){text})" if small else text

    def extremum(self, op: Ops, dtype: DType, operands: tuple[str, ...]) -> str:
        """max(a, b) = a if a > b or a is NaN else b; on vectors by masks.

        Then it is a macro: GCC warns of functions that take vectors wider than the machine's.
        """
        if dtype.count == 1:
            return super().extremum(op, dtype, operands)
        kind = self.type(dtype)
        bits = dtypes.int8 if dtype.bits == 8 else _SIGNED[dtype.bits]
        mask = self.type(bits.vec(dtype.count))
        sign, word = EXTREMA[op]
        name = f"{word}_{kind}"
        test = f"(a {sign} b) | (a != a)" if dtype.is_float else f"a {sign} b"
        wrapped = tuple(f"(({bare(o)}))" for o in operands)
        return self.helper(name, wrapped, (
            f"#define {name}(x, y) __extension__ ({{ {kind} a = x, b = y; \\\n"
            f"  {mask} keep = ({mask})({test}); \\\n"
            f"  ({kind})((keep & ({mask})a) | (~keep & ({mask})b)); }})"
        ))  # fmt: skip

    def guarded_read(
        self, dtype: DType, place: UOp, memory: str, index: str, condition: str
    ) -> str:
        if dtype.count == 1:
            return super().guarded_read(dtype, place, memory, index, condition)
        text = f"({self.type(dtype)}){self.read(dtype, place, memory, index)}"
        return self.where(condition, text, self.number(dtype, 0))
