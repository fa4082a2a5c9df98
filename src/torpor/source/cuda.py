"""CUDA C++: one kernel, vectors only where memory is read and written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.c import C_SUFFIXES
from torpor.source.cstyle import CStyleRenderer
from torpor.source.linear import Signature, alignment

ALIGNMENT: Final = 16  # bytes: the widest access of one thread
_SMALL: Final = ("float16", "bfloat16")
_VECTORS: Final = {
    "int8": "char", "int16": "short", "int32": "int", "int64": "longlong", "uint8": "uchar",
    "uint16": "ushort", "uint32": "uint", "uint64": "ulonglong", "float32": "float",
    "float64": "double",
}  # fmt: skip


class CUDARenderer(CStyleRenderer):
    """Writes `extern "C" __global__ void name(...)`.

    The kernel is to be compiled without `--use_fast_math`, and with `--fmad=false` where
    `STRICT_FLOAT` is set. Parameters are aligned to 16 bytes.
    """

    types = {
        "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int",
        "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short",
        "uint32": "unsigned int", "uint64": "unsigned long long", "float16": "half",
        "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    }  # fmt: skip
    suffixes = {**C_SUFFIXES, "int64": "ll", "uint64": "ull"}
    rounded_differences = {"float32": "__fsub_rn", "float64": "__dsub_rn", "float16": "__hsub_rn"}
    helper_prefix = "static __device__ __forceinline__ "
    barrier_text = "__syncthreads();"
    error_text = "long long* error"
    local_text = f"__shared__ __align__({ALIGNMENT}) {{}} {{}}[{{}}];"
    vector_text = "make_{}({})"
    groups = {
        "gidx0": "blockIdx.x", "gidx1": "blockIdx.y", "gidx2": "blockIdx.z",
        "lidx0": "threadIdx.x", "lidx1": "threadIdx.y", "lidx2": "threadIdx.z",
    }  # fmt: skip

    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        bounds = f"__launch_bounds__({math.prod(shape)})"
        return f'extern "C" __global__ void {bounds} {name}({", ".join(self.arguments(takes))}) {{'

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        lines = []
        if "float16" in self.formats:
            lines.append("#include <cuda_fp16.h>")
        if "bfloat16" in self.formats:
            lines.append("#include <cuda_bf16.h>")
        if "INFINITY" in self.features:
            lines.append("#define INFINITY (__int_as_float(0x7f800000))")
        if "NAN" in self.features:
            lines.append("#define NAN (__int_as_float(0x7fffffff))")
        return lines

    def keeps(self, node: UOp) -> bool:
        moves = node.op in (Ops.LOAD, Ops.STORE) and node.src[0].op is Ops.INDEX
        return moves and super().keeps(node)

    def moves_vector(self, dtype: DType, place: UOp) -> bool:
        scalar = dtype.scalar()
        if scalar.name not in _VECTORS or dtype.itemsize > ALIGNMENT:
            return False
        return alignment(place.src[1], scalar.itemsize, ALIGNMENT) >= dtype.itemsize

    def vector_type(self, dtype: DType) -> str:
        return f"{_VECTORS[dtype.scalar().name]}{dtype.count}"

    def convert(self, source: DType, result: DType, text: str) -> str:
        """Small floats convert by way of float, which is exact except from other numbers to them,
        where it is the same.
        """
        if source.name in _SMALL or (result.name in _SMALL and source.bits <= 16):
            text = f"((float){text})"
        return super().convert(source, result, text)

    def function(self, name: str, dtype: DType, operands: tuple[str, ...]) -> str:
        if dtype.bits == 16:
            wide = tuple(f"(float){o}" for o in operands)
            return f"(({self.type(dtype)}){super().function(name + 'f', dtype, wide)})"
        return super().function(name if dtype.bits == 64 else f"{name}f", dtype, operands)
