"""WGSL, the shading language of WebGPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torpor.base.dtypes import DType
from torpor.base.errors import DTypeError
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle_language import EXTREMA, bare, call
from torpor.source.cstyle_vectors import GROUPS, VectorRenderer
from torpor.source.linear import Signature, signature, stays_in_range
from torpor.source.wgsl_integers import FUNCTIONS, PAIR, function, is_wide, kind, needs

_SPECIAL = {"INFINITY": "0x7f800000u", "NAN": "0x7fc00000u"}


class WGSLRenderer(VectorRenderer):
    """Writes `@compute fn name(...)`.

    Bindings of group 0: the memory parameters by slot, then each variable as a uniform, then the
    error word as `array<i32>`. Memory is read and written by scalars. Elements of 8 and 16 bits lie
    in words of 32, whose buffers are whole words long (their last word may have room to spare), and
    are computed in 32 bits. A parameter of such elements that is written is atomic: items that
    write parts of one word leave each other's parts alone. An integer of 64 bits is a vector of two
    words. WGSL lets implementations assume that no NaN occurs.

    The target `wgsl:f16` has float16 as WGSL does: a conversion to it may round either way.
    """

    types = {
        "bool": "bool", "int8": "i32", "int16": "i32", "int32": "i32", "int64": PAIR,
        "uint8": "u32", "uint16": "u32", "uint32": "u32", "uint64": PAIR, "float16": "f16",
        "float32": "f32",
    }  # fmt: skip
    suffixes = {"float32": "f", "float16": "h", "uint32": "u", "uint8": "u", "uint16": "u"}
    barrier_text = "workgroupBarrier();"
    groups = GROUPS
    vector_text = "{}({})"

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
            (n, f"{storage} data{n}: array<{self.word_type(p)}>;")
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
            f"var<workgroup> local{n.arg.slot}: array<{self.type(n.dtype)}, {n.arg.size}>;"
            for n in nodes
            if n.op is Ops.DEFINE_LOCAL
        ]
        return lines

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        """A constant expression must be finite, so infinity comes from a variable."""
        enabled = ["enable f16;"] if "float16" in self.formats else []
        return enabled + [
            f"var<private> {name.lower()}_bits: u32 = {bits};"
            for name, bits in _SPECIAL.items()
            if name in self.features
        ]

    def write(self, name: str, nodes: list[UOp]) -> str:
        places = (n.src[0] for n in nodes if n.op is Ops.STORE)
        self.written = {p.src[0] for p in places if p.op is Ops.INDEX}
        return super().write(name, nodes)

    def word_type(self, memory: UOp) -> str:
        """The element's type in the array that a parameter is."""
        if not packed(memory.dtype):
            return self.type(memory.dtype)
        return "atomic<u32>" if memory in self.written else "u32"

    def vector_type(self, dtype: DType) -> str:
        return f"vec{dtype.count}<{self.types[dtype.scalar().name]}>"

    def keeps(self, node: UOp) -> bool:
        wide = any(is_wide(one.dtype) for one in (node, *node.src))
        return not wide and super().keeps(node)

    def moves_vector(self, dtype: DType, place: UOp) -> bool:
        return False  # memory is an array of scalars, and there are no pointer casts

    def number(self, dtype: DType, value: bool | int | float) -> str:
        if not is_wide(dtype):
            return super().number(dtype, value)
        return f"{PAIR}({int(value) & 0xFFFFFFFF}u, {int(value) >> 32 & 0xFFFFFFFF}u)"

    def float_number(self, dtype: DType, value: float) -> str:
        self.type(dtype)  # an error where there is none
        if math.isfinite(value):
            text = str(dtype.numpy.type(value)) + self.suffixes[dtype.name]
            return f"({text})" if text.startswith("-") else text
        name = "NAN" if math.isnan(value) else "INFINITY"
        self.features.add(name)
        text = f"bitcast<f32>({name.lower()}_bits)"
        if dtype.name == "float16":
            text = f"f16({text})"
        return f"(-{text})" if value < 0 else text

    def expression(self, node: UOp, operands: tuple[str, ...]) -> str:
        if any(is_wide(one.dtype) for one in (node, *node.src)):
            text = self.wide_expression(node, operands)
        else:
            text = super().expression(node, operands)
        if not leaves(node):
            return text
        return f"extractBits({bare(text)}, 0u, {node.dtype.bits}u)"

    def wide_expression(self, node: UOp, operands: tuple[str, ...]) -> str:
        """Where an operand or the result is an integer of 64 bits."""
        op = node.op
        if op in (Ops.AND, Ops.OR, Ops.XOR, Ops.WHERE):
            return super().expression(node, operands)
        if op is Ops.CAST:
            return self.wide_cast(node.src[0].dtype, node.dtype, operands[0])
        if op is Ops.BITCAST:
            return operands[0]
        left, right = operands
        if op in (Ops.CMPEQ, Ops.CMPNE):
            return f"all({left}=={right})" if op is Ops.CMPEQ else f"any({left}!={right})"
        if op in (Ops.SHL, Ops.SHR):
            right = self.shift_count(node.src[1].dtype, right)
        part = {Ops.IDIV: ".xy", Ops.MOD: ".zw"}.get(op, "")
        return self.called(function(node), left, right) + part

    def wide_cast(self, source: DType, result: DType, text: str) -> str:
        """A conversion from or to an integer of 64 bits."""
        if is_wide(source) and is_wide(result):
            return text
        if result.kind == "bool":
            return f"any({text}!={self.number(source, 0)})"
        if result.is_float:
            single = self.called(f"f32_of_{kind(source)}", text)
            return single if result.name == "float32" else f"{self.type(result)}({single})"
        if is_wide(source):
            return f"{self.type(result)}({text}.x)"
        if source.is_float:
            return self.called(f"{kind(result)}_of_f32", f"f32({bare(text)})")
        if source.kind == "int":
            return self.called("i64_of_i32", text)
        return f"{PAIR}(u32({bare(text)}), 0u)"

    def called(self, name: str, *operands: str) -> str:
        """A call of a function of 64-bit integers, which is defined with all that it needs."""
        for needed in needs(name):
            self.helpers.setdefault(needed, FUNCTIONS[needed])
        return call(name, operands)

    def convert(self, source: DType, result: DType, text: str) -> str:
        return f"{self.type(result)}({bare(text)})"

    def bitcast(self, source: DType, result: DType, text: str) -> str:
        if "float16" not in (source.scalar().name, result.scalar().name):
            return f"bitcast<{self.type(result)}>({bare(text)})"
        return self.half_bits(source, result, text)

    def half_bits(self, source: DType, result: DType, text: str) -> str:
        """The bits of an f16 are half of an integer's, lane by lane."""
        into = result.scalar().name == "float16"
        lanes = ["x"]
        if source.count > 1:
            lanes = [self.lane(source, "x", n) for n in range(source.count)]
        one = self.type(result.scalar())
        parts = [
            f"f16(unpack2x16float(u32({n})).x)" if into
            else f"{one}(pack2x16float(vec2<f32>(f32({n}), 0f)))"
            for n in lanes
        ]  # fmt: skip
        whole = source if into else result
        name = f"{'half_of_bits' if into else 'bits_of_half'}_{whole.name}"
        kind = self.type(result)
        return self.helper(name, (text,), (
            f"fn {name}(x: {self.type(source)}) -> {kind} {{\n"
            f"  return {kind}({', '.join(parts)});\n}}"
        ))  # fmt: skip

    def where(self, condition: str, yes: str, no: str) -> str:
        return f"select({bare(no)}, {bare(yes)}, {bare(condition)})"

    def function(self, name: str, dtype: DType, operands: tuple[str, ...]) -> str:
        return super().function("round" if name == "rint" else name, dtype, operands)

    def narrowed(self, dtype: DType, text: str) -> str:
        return text  # see `leaves`

    def wrapping(self, infix: str, dtype: DType, operands: tuple[str, ...]) -> str:
        return f"({operands[0]}{infix}{operands[1]})"  # integers wrap in WGSL

    def shift_count(self, dtype: DType, text: str) -> str:
        if is_wide(dtype):
            return f"{text}.x"
        if dtype.kind == "uint":
            return text
        return f"{text}u" if text.isdigit() else f"u32({bare(text)})"

    def extremum(self, op: Ops, dtype: DType, operands: tuple[str, ...]) -> str:
        """max(a, b) = a if a > b or a is NaN else b"""
        if not dtype.is_float:
            return call("max" if op is Ops.MAX else "min", operands)
        kind, (sign, word) = self.type(dtype), EXTREMA[op]
        name = f"{word}_{kind}"
        return self.helper(name, operands, (
            f"fn {name}(a: {kind}, b: {kind}) -> {kind} {{\n"
            f"  return select(b, a, a {sign} b || a != a);\n}}"
        ))  # fmt: skip

    def declare(self, dtype: DType, name: str, text: str, mutable: bool = False) -> str:
        return f"{'var' if mutable else 'let'} {name}: {self.type(dtype)} = {bare(text)};"

    def loop(self, dtype: DType, name: str, begin: str, end: str) -> str:
        kind = self.counter(dtype)
        return f"for (var {name}: {kind} = {begin}; {name} < {end}; {name}++) {{"

    def special(self, node: UOp) -> str:
        return f"{self.counter(node.dtype)}({super().special(node)})"

    def counter(self, dtype: DType) -> str:
        """The type of a number of iterations or of work items."""
        if is_wide(dtype):
            raise DTypeError(f"{self.target.name} counts and finds its place in 32 bits only")
        return self.type(dtype)

    def position(self, dtype: DType, text: str) -> str:
        return f"i32({text}.x)" if is_wide(dtype) else text

    def read(self, dtype: DType, place: UOp, memory: str, index: str) -> str:
        if not self.in_words(place):
            return f"{memory}[{bare(index)}]"
        word, shift = _part(dtype, index)
        text = f"{memory}[{word}]"
        if place.src[0] in self.written:
            text = f"atomicLoad(&{text})"
        text = f"bitcast<i32>({text})" if dtype.kind == "int" else text
        text = f"extractBits({text}, {bare(shift)}, {dtype.bits}u)"
        return f"({text}!=0u)" if dtype.kind == "bool" else text

    def assign(self, dtype: DType, place: UOp, memory: str, index: str, value: str) -> str:
        """Of a part of a word: its bits are cleared, then set, while others may write theirs."""
        if not self.in_words(place):
            return f"{memory}[{bare(index)}] = {bare(value)};"
        word, shift = _part(dtype, index)
        mask = (1 << dtype.bits) - 1
        bits = value if dtype.kind == "uint" else f"(u32({bare(value)})&{mask}u)"
        return (
            f"atomicAnd(&{memory}[{word}], ~({mask}u<<{shift})); "
            f"atomicOr(&{memory}[{word}], {bits}<<{shift});"
        )

    def in_words(self, place: UOp) -> bool:
        """Whether the place is a part of a word of a parameter."""
        return place.src[0].op is Ops.PARAM and packed(place.dtype.scalar())

    def guarded_read(
        self, dtype: DType, place: UOp, memory: str, index: str, condition: str
    ) -> str:
        """Both sides of a `select` are computed: element 0 is read where nothing is wanted."""
        safe = self.where(condition, index, "0")
        return self.where(condition, self.read(dtype, place, memory, safe), self.number(dtype, 0))


def packed(dtype: DType) -> bool:
    """Whether memory has several elements in a word: WGSL has f16, and no other small formats."""
    return dtype.itemsize < 4 and not dtype.is_float


def leaves(node: UOp) -> bool:
    """Whether an integer of 8 or 16 bits may leave its range as it is computed in 32."""
    op, dtype, source = node.op, node.dtype.scalar(), node.src[-1]
    if not dtype.is_int or dtype.bits >= 32:
        return False
    if op is Ops.CAST:
        fits = dtype.min <= source.vmin and source.vmax <= dtype.max
        return source.dtype.is_int and not fits
    if op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.SHL):
        return not stays_in_range(node)
    return op is Ops.BITCAST


def _part(dtype: DType, index: str) -> tuple[str, str]:
    """(which word, how far up in it) element `index` lies."""
    each = 32 // dtype.bits
    shift = each.bit_length() - 1
    return f"{index}>>{shift}u", f"(u32({bare(index)}&{each - 1})*{dtype.bits}u)"
