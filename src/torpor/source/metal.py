"""Metal Shading Language."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.base.dtypes import DType
from torpor.ir.uop import UOp
from torpor.source.cstyle_vectors import GROUPS, VectorRenderer
from torpor.source.linear import Signature, alignment

_ALIGNMENT = 16  # bytes: the widest vector


class MetalRenderer(VectorRenderer):
    """Writes `kernel void name(...)`; to be compiled without fast math, which has no NaN."""

    types = {
        "bool": "bool", "int8": "char", "int16": "short", "int32": "int", "int64": "long",
        "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
        "float16": "half", "bfloat16": "bfloat", "float32": "float",
    }  # fmt: skip
    suffixes = {"float32": "f", "float16": "f", "bfloat16": "f", "uint32": "u", "int64": "l",
                "uint64": "ul"}  # fmt: skip
    barrier_text = "threadgroup_barrier(mem_flags::mem_threadgroup);"
    groups = GROUPS
    memory_text = "device {}* data{}"
    variable_text = "constant {}& {}"
    error_text = "device long* error"
    # Vectors are read from it at multiples of their size.
    local_text = f"alignas({_ALIGNMENT}) threadgroup {{}} {{}}[{{}}];"
    vector_text = "{}({})"
    bitcast_text = "as_type<{}>({})"
    local_space, global_space = "threadgroup", "device"

    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        arguments = [f"{text} [[buffer({n})]]" for n, text in enumerate(self.arguments(takes))]
        arguments += [
            "uint3 gid [[threadgroup_position_in_grid]]",
            "uint3 lid [[thread_position_in_threadgroup]]",
        ]
        return f"kernel void {name}({', '.join(arguments)}) {{"

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        return ["#include <metal_stdlib>", "using namespace metal;"]

    def moves_vector(self, dtype: DType, place: UOp) -> bool:
        found = alignment(place.src[1], dtype.scalar().itemsize, _ALIGNMENT)
        return found >= dtype.itemsize  # wider ones than 16 bytes would need more than buffers have
