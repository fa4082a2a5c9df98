"""WGSL, the shading language of WebGPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle import CStyleRenderer, bare
from torpor.source.linear import Signature, signature

_SPECIAL = {"INFINITY": "0x7f800000u", "NAN": "0x7fc00000u"}


class WGSLRenderer(CStyleRenderer):
    """Writes `@compute fn name(...)`.

    Bindings of group 0: the memory parameters by slot, then each variable as a uniform, then the
    error word as `array<i32>`. Memory is read and written by scalars: a bool is an i32 there, 0 or
    1. WGSL lets implementations assume that no NaN occurs.
    """

    types = {"bool": "bool", "int32": "i32", "uint32": "u32", "float32": "f32"}
    suffixes = {"float32": "f", "uint32": "u"}
    vector_ops = frozenset({
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.AND, Ops.OR, Ops.XOR, Ops.CAST, Ops.BITCAST,
        Ops.SQRT, Ops.FLOOR, Ops.TRUNC, Ops.RINT,
    })  # fmt: skip
    barrier_text = "workgroupBarrier();"
    groups = {
        "gidx0": "gid.x", "gidx1": "gid.y", "gidx2": "gid.z",
        "lidx0": "lid.x", "lidx1": "lid.y", "lidx2": "lid.z",
    }  # fmt: skip

    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        group = f"@compute @workgroup_size({', '.join(map(str, shape))})"
        builtins = (
            "@builtin(workgroup_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>"
        )
        return f"{group}\nfn {name}({builtins}) {{"

    def outside(self, nodes: Sequence[UOp]) -> list[str]:
        """Parameters and local memory belong to the module."""
        takes = signature(nodes)
        storage = "var<storage,read_write>"
        bindings = [
            (n, f"{storage} data{n}: array<{self.memory_type(p.dtype)}>;")
            for n, p in takes.parameters
            if p is not None
        ]
        for number, v in enumerate(takes.variables, len(takes.parameters)):
            bindings.append((number, f"var<uniform> {v.arg[0]}: {self.type(v.dtype)};"))
        if takes.checks:
            last = len(takes.parameters) + len(takes.variables)
            bindings.append((last, f"{storage} error: array<i32>;"))
        lines = [f"@group(0) @binding({n}) {text}" for n, text in bindings]
        lines += [
            f"var<workgroup> local{n.arg.slot}: array<{self.memory_type(n.dtype)}, {n.arg.size}>;"
            for n in nodes
            if n.op is Ops.DEFINE_LOCAL
        ]
        return lines

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        """A constant expression must be finite, so infinity comes from a variable."""
        return [
            f"var<private> {name.lower()}_bits: u32 = {bits};"
            for name, bits in _SPECIAL.items()
            if name in self.features
        ]

    def memory_type(self, dtype: DType) -> str:
        return "i32" if dtype.kind == "bool" else self.type(dtype)

    def vector_type(self, dtype: DType) -> str:
        return f"vec{dtype.count}<{self.types[dtype.scalar().name]}>"

    def moves_vectors(self, node: UOp) -> bool:
        return False  # memory is an array of scalars, and there are no pointer casts

    def float_number(self, dtype: DType, value: float) -> str:
        if math.isfinite(value):
            return super().float_number(dtype, value)
        name = "NAN" if math.isnan(value) else "INFINITY"
        self.features.add(name)
        text = f"bitcast<f32>({name.lower()}_bits)"
        return f"(-{text})" if value < 0 else text

    def vector(self, dtype: DType, lanes: tuple[str, ...]) -> str:
        chosen = lanes[:1] if all(n == lanes[0] for n in lanes) else lanes
        return f"{self.type(dtype)}({', '.join(chosen)})"

    def convert(self, source: DType, result: DType, text: str) -> str:
        return f"{self.type(result)}({bare(text)})"

    def bitcast(self, source: DType, result: DType, text: str) -> str:
        return f"bitcast<{self.type(result)}>({bare(text)})"

    def where(self, condition: str, yes: str, no: str) -> str:
        return f"select({bare(no)}, {bare(yes)}, {bare(condition)})"

    def function(self, name: str, dtype: DType, operands: tuple[str, ...]) -> str:
        return super().function("round" if name == "rint" else name, dtype, operands)

    def wrapping(self, infix: str, dtype: DType, operands: tuple[str, ...]) -> str:
        return f"({operands[0]}{infix}{operands[1]})"  # integers wrap in WGSL

    def shift_count(self, dtype: DType, text: str) -> str:
        if dtype.kind == "uint":
            return text
        return f"{text}u" if text.isdigit() else f"u32({bare(text)})"

    def extremum(self, op: Ops, dtype: DType, operands: tuple[str, ...]) -> str:
        """max(a, b) = a if a > b or a is NaN else b"""
        if not dtype.is_float:
            word = "max" if op is Ops.MAX else "min"
            return f"{word}({', '.join(bare(o) for o in operands)})"
        sign, name = (">", "maximum_f32") if op is Ops.MAX else ("<", "minimum_f32")
        self.helper(name, (
            f"fn {name}(a: f32, b: f32) -> f32 {{\n"
            f"  return select(b, a, a {sign} b || a != a);\n}}"
        ))  # fmt: skip
        return f"{name}({', '.join(bare(o) for o in operands)})"

    def floor_division(self, quotient: bool, dtype: DType, operands: tuple[str, ...]) -> str:
        """A // b = q - (r != 0 and r ^ b < 0), a % b = r + b where so; in WGSL the least // -1
        is the least, and its remainder 0.
        """
        name = f"floor_{'divide' if quotient else 'modulo'}_i32"
        below = "rest != 0 && (rest < 0) != (b < 0)"
        result = f"a / b - select(0, 1, {below})" if quotient else f"rest + select(0, b, {below})"
        self.helper(name, (
            f"fn {name}(a: i32, b: i32) -> i32 {{\n"
            f"  let rest = a % b;\n  return {result};\n}}"
        ))  # fmt: skip
        return f"{name}({', '.join(bare(o) for o in operands)})"

    def declare(self, dtype: DType, name: str, text: str, mutable: bool = False) -> str:
        return f"{'var' if mutable else 'let'} {name}: {self.type(dtype)} = {bare(text)};"

    def loop(self, dtype: DType, name: str, begin: str, end: str) -> str:
        kind = self.type(dtype)
        return f"for (var {name}: {kind} = {begin}; {name} < {end}; {name}++) {{"

    def local_memory(self, dtype: DType, name: str, size: int) -> str:
        return ""

    def special(self, node: UOp) -> str:
        return f"{self.type(node.dtype)}({super().special(node)})"

    def read(self, dtype: DType, place: UOp, memory: str, index: str) -> str:
        text = f"{memory}[{bare(index)}]"
        return f"({text}!=0)" if dtype.kind == "bool" else text

    def assign(self, dtype: DType, place: UOp, memory: str, index: str, value: str) -> str:
        text = f"select(0, 1, {bare(value)})" if dtype.kind == "bool" else bare(value)
        return f"{memory}[{bare(index)}] = {text};"

    def guarded_read(
        self, dtype: DType, place: UOp, memory: str, index: str, condition: str
    ) -> str:
        """Both sides of a `select` are computed: element 0 is read where nothing is wanted."""
        safe = self.where(condition, index, "0")
        return self.where(condition, self.read(dtype, place, memory, safe), self.number(dtype, 0))
