"""OpenCL C 1.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import DType
from torpor.ir.ops import ROUNDED
from torpor.ir.uop import UOp
from torpor.source.cstyle_language import bare
from torpor.source.cstyle_vectors import VectorRenderer
from torpor.source.linear import Signature, alignment

_DIGITS: Final = "0123456789abcdef"  # lanes beyond w
_ALIGNMENT: Final = 64  # bytes: what buffers and local arrays are aligned to


class OpenCLRenderer(VectorRenderer):
    """Writes `__kernel void name(...)`. A bool is a byte in memory.

    Built with `-cl-fp32-correctly-rounded-divide-sqrt` division and square root are exact; without
    it OpenCL allows errors of 2.5 and 3 ulp.
    """

    types = {
        "bool": "bool", "int8": "char", "int16": "short", "int32": "int", "int64": "long",
        "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
        "float16": "half", "float32": "float", "float64": "double",
    }  # fmt: skip
    suffixes = {"float32": "f", "float16": "f", "uint32": "u", "int64": "L", "uint64": "UL"}
    widths = frozenset({2, 4, 8, 16})
    helper_prefix = ""
    barrier_text = "barrier(CLK_LOCAL_MEM_FENCE);"
    memory_text = "__global {}* data{}"
    error_text = "__global long* error"
    local_text = f"__local {{}} {{}}[{{}}] __attribute__((aligned({_ALIGNMENT})));"
    vector_text = "(({})({}))"
    convert_text, bitcast_text = "convert_{}({})", "as_{}({})"
    groups = {
        **{f"gidx{n}": f"get_group_id({n})" for n in range(3)},
        **{f"lidx{n}": f"get_local_id({n})" for n in range(3)},
    }

    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        group = f"__attribute__((reqd_work_group_size({', '.join(map(str, shape))})))"
        return f"__kernel {group}\nvoid {name}({', '.join(self.arguments(takes))}) {{"

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        lines = [
            f"#pragma OPENCL EXTENSION {extension} : enable"
            for name, extension in (("float64", "cl_khr_fp64"), ("float16", "cl_khr_fp16"))
            if name in self.formats
        ]
        if settings.number("STRICT_FLOAT") or any(n.arg == ROUNDED for n in nodes):
            lines.append("#pragma OPENCL FP_CONTRACT OFF")
        return lines

    def memory_type(self, dtype: DType) -> str:
        return "uchar" if dtype.kind == "bool" else self.type(dtype)

    def lane(self, dtype: DType, text: str, number: int) -> str:
        return (
            f"{text}.s{_DIGITS[number]}" if dtype.count > 4 else super().lane(dtype, text, number)
        )

    def is_aligned(self, dtype: DType, place: UOp) -> bool:
        """Whether a pointer to a vector may point there."""
        found = alignment(place.src[1], dtype.scalar().itemsize, _ALIGNMENT)
        return found >= min(dtype.itemsize, _ALIGNMENT)

    def read(self, dtype: DType, place: UOp, memory: str, index: str) -> str:
        if dtype.kind == "bool":
            return f"({memory}[{bare(index)}]!=0)"
        if dtype.count > 1 and not self.is_aligned(dtype, place):
            return f"vload{dtype.count}(0, {memory}+{index})"
        return super().read(dtype, place, memory, index)

    def assign(self, dtype: DType, place: UOp, memory: str, index: str, value: str) -> str:
        if dtype.kind == "bool":
            return f"{memory}[{bare(index)}] = {bare(value)};"
        if dtype.count > 1 and not self.is_aligned(dtype, place):
            return f"vstore{dtype.count}({bare(value)}, 0, {memory}+{index});"
        return super().assign(dtype, place, memory, index, value)
