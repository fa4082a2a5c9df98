"""How a C-like language spells types, constants, arithmetic, memory and statements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import ContractError, DTypeError
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.lanes import is_masked
from torpor.source.linear import Signature
from torpor.source.renderer import Renderer

# (sign, word): the extremum of a and b is a where `a sign b`, or where a is NaN.
EXTREMA: Final = {Ops.MAX: (">", "maximum"), Ops.MIN: ("<", "minimum")}


class Language(Renderer):
    """What languages override. While a program is written, `helpers` has the functions that it
    needs, by name, `features` what else, and `formats` the names of its formats.
    """

    types: ClassVar[dict[str, str]] = {}  # dtype name -> the language's name of a register
    rounded_differences: ClassVar[dict[str, str]] = {}  # dtype name -> function, never contracted
    suffixes: ClassVar[dict[str, str]] = {}  # dtype name -> what follows an integer constant
    widths: ClassVar[frozenset[int]] = frozenset({2, 4})
    vector_ops: ClassVar[frozenset[Ops]] = frozenset()  # what is said of whole vectors
    helper_prefix: ClassVar[str] = "static inline "
    barrier_text: ClassVar[str] = ""
    # With places to fill: a parameter for memory (type, number), for a variable (type, name) and
    # for the error word; memory of a group (type, name, size); a vector (type, lanes).
    memory_text: ClassVar[str] = "{}* data{}"
    variable_text: ClassVar[str] = "{} {}"
    error_text: ClassVar[str] = ""
    local_text: ClassVar[str] = ""
    vector_text: ClassVar[str] = "({})({})"
    groups: ClassVar[dict[str, str]] = {}  # gidx0 -> the language's expression

    helpers: dict[str, str]
    features: set[str]
    formats: set[str]

    # --- what a language overrides ----------------------------------------------------------------
    def head(self, name: str, takes: Signature, shape: tuple[int, int, int]) -> str:
        """The function's head, up to its opening brace; `shape`: the work items of a group."""
        raise NotImplementedError

    def expression(self, node: UOp, operands: tuple[str, ...]) -> str:
        """The text of an ALU node from its operands' texts."""
        raise NotImplementedError

    def arguments(self, takes: Signature) -> list[str]:
        """The function's parameters: memory, variables, and the error word if it has checks."""
        memory = ((self.memory_type(p.dtype) if p else "void", n) for n, p in takes.parameters)
        variables = ((self.type(v.dtype), v.arg[0]) for v in takes.variables)
        return [
            *(self.memory_text.format(*filled) for filled in memory),
            *(self.variable_text.format(*filled) for filled in variables),
            *([self.error_text] if takes.checks else []),
        ]

    def prelude(self, nodes: Sequence[UOp]) -> list[str]:
        """Lines before everything else; `features` and `formats` say what the program needs."""
        return []

    def outside(self, nodes: Sequence[UOp]) -> list[str]:
        """Declarations between the helper functions and the function."""
        return []

    def keeps(self, node: UOp) -> bool:
        """Whether the language says this vector node as a whole (else: lane by lane)."""
        count = max(node.dtype.count, *(s.dtype.count for s in node.src), 1)
        formats = (node.dtype, *(s.dtype for s in node.src))
        if count not in self.widths or any(f.kind == "bool" for f in formats):
            return False
        if node.op is Ops.ACC or (node.src and node.src[0].op is Ops.ACC):
            return bool(self.vector_ops)
        if node.op in (Ops.LOAD, Ops.STORE):
            value, place = node.src[1] if node.op is Ops.STORE else node, node.src[0]
            return not is_masked(place) and self.moves_vector(value.dtype, place)
        if node.dtype.is_int and node.op in (Ops.MUL, Ops.ADD, Ops.SUB, Ops.SHL):
            return node.op in self.vector_ops and node.dtype.kind == "uint"
        return node.op in self.vector_ops

    def moves_vector(self, dtype: DType, place: UOp) -> bool:
        """Whether an unmasked access of a vector at an INDEX can be one."""
        return True

    def type(self, dtype: DType) -> str:
        """The name of a register's type."""
        name = self.types.get(dtype.scalar().name)
        if name is None and dtype.scalar() is dtypes.float64:
            raise DTypeError(f"{self.target.name} has no float64: cast to float32 first")
        if name is None:
            raise ContractError(f"{self.target.name} has no {dtype}")
        return name if dtype.count == 1 else self.vector_type(dtype)

    def memory_type(self, dtype: DType) -> str:
        """The name of an element's type in memory."""
        return self.type(dtype)

    def vector_type(self, dtype: DType) -> str:
        """The name of the type of vectors."""
        return f"{self.types[dtype.scalar().name]}{dtype.count}"

    def number(self, dtype: DType, value: bool | int | float) -> str:
        """A constant, exact; on a vector format, in every lane."""
        if dtype.count > 1:
            return self.vector(dtype, (self.number(dtype.scalar(), value),) * dtype.count)
        if dtype.kind == "bool":
            return "true" if value else "false"
        if dtype.is_float:
            return self.float_number(dtype, float(value))
        if value == dtype.min and dtype.kind == "int":  # the sign is no part of the constant
            return f"({self.number(dtype, int(value) + 1)}-{self.number(dtype, 1)})"
        text = f"{int(value)}{self.suffixes.get(dtype.name, '')}"
        return f"({text})" if value < 0 else text

    def float_number(self, dtype: DType, value: float) -> str:
        """A floating-point constant, exact."""
        if math.isnan(value):
            return self.special_number(dtype, "NAN")
        if math.isinf(value):
            text = self.special_number(dtype, "INFINITY")
            return text if value > 0 else f"(-{text})"
        text = str(np.float32(value)) if dtype.name == "float32" else repr(value)
        text += self.suffixes.get(dtype.name, "")
        if dtype.bits == 16:
            text = f"({self.type(dtype)})({text})"
        return f"({text})" if text.startswith("-") else text

    def special_number(self, dtype: DType, name: str) -> str:
        """INFINITY or NAN."""
        self.features.add(name)
        return name if dtype.name == "float32" else f"(({self.type(dtype)})({name}))"

    def vector(self, dtype: DType, lanes: tuple[str, ...]) -> str:
        """A vector of these scalars."""
        return self.vector_text.format(self.type(dtype), ", ".join(lanes))

    def lane(self, dtype: DType, text: str, number: int) -> str:
        """One scalar of a vector."""
        return f"{text}.{'xyzw'[number]}"

    def convert(self, source: DType, result: DType, text: str) -> str:
        """The same number in another format."""
        return f"(({self.type(result)})({bare(text)}))"

    def bitcast(self, source: DType, result: DType, text: str) -> str:
        """The same bits as another format: through a union, which compilers see through."""
        name = f"bits_{_word(self.type(source))}_to_{_word(self.type(result))}"
        return self.helper(name, (text,), (
            f"{self.helper_prefix}{self.type(result)} {name}({self.type(source)} from) {{\n"
            f"  union {{ {self.type(source)} from; {self.type(result)} to; }} bits;\n"
            "  bits.from = from;\n  return bits.to;\n}"
        ))  # fmt: skip

    def where(self, condition: str, yes: str, no: str) -> str:
        """One of two values, by a bool."""
        return f"({condition}?{yes}:{no})"

    def function(self, name: str, dtype: DType, operands: tuple[str, ...]) -> str:
        """A function of the language's mathematics library."""
        return call(name, operands)

    def narrowed(self, dtype: DType, text: str) -> str:
        """The result of arithmetic that C does in int, back in its format."""
        small = dtype.is_int and dtype.bits < 32 and dtype.count == 1
        return f"(({self.type(dtype)}){text})" if small else text

    def wrapping(self, infix: str, dtype: DType, operands: tuple[str, ...]) -> str:
        """Arithmetic on user's integers, which wrap: in C only unsigned ones do."""
        if dtype.kind == "uint" and dtype.bits >= 32:
            return f"({operands[0]}{infix}{operands[1]})"
        name = self.type(unsigned(dtype) if dtype.bits >= 32 else dtypes.uint32)
        left = f"({name}){operands[0]}"
        right = operands[1] if infix == "<<" else f"({name}){operands[1]}"
        return f"(({self.type(dtype)})({left}{infix}{right}))"

    def shift_count(self, dtype: DType, text: str) -> str:
        """How far to shift, as the language wants it said."""
        return text

    def extremum(self, op: Ops, dtype: DType, operands: tuple[str, ...]) -> str:
        """max(a, b) = a if a > b or a is NaN else b"""
        kind, (sign, word) = self.type(dtype), EXTREMA[op]
        name = f"{word}_{_word(kind)}"
        test = f"a {sign} b || a != a" if dtype.is_float else f"a {sign} b"
        return self.helper(name, operands, (
            f"{self.helper_prefix}{kind} {name}({kind} a, {kind} b) {{\n"
            f"  return {test} ? a : b;\n}}"
        ))  # fmt: skip

    def helper(self, name: str, operands: tuple[str, ...], definition: str) -> str:
        """A call of a function of torpor's own, which is defined once if the program needs it."""
        self.helpers.setdefault(name, definition)
        return call(name, operands)

    # --- statements -------------------------------------------------------------------------------
    def declare(self, dtype: DType, name: str, text: str, mutable: bool = False) -> str:
        """A variable; `mutable`: one that is assigned later."""
        return f"{self.type(dtype)} {name} = {bare(text)};"

    def loop(self, dtype: DType, name: str, begin: str, end: str) -> str:
        """The line that opens a loop."""
        kind = self.type(dtype)
        return f"for ({kind} {name} = {begin}; {name} < {end}; {name}++) {{"

    def condition(self, text: str) -> str:
        """The line that opens a block for where the condition holds."""
        return f"if ({bare(text)}) {{"

    def local_memory(self, dtype: DType, name: str, size: int) -> str:
        """Memory that the work items of a group share; empty if it is declared elsewhere."""
        return self.local_text.format(self.memory_type(dtype), name, size)

    def special(self, node: UOp) -> str:
        """The number of a work item or group as an expression of the node's format."""
        if node.arg not in self.groups:
            raise ContractError(f"{self.target.name} has no {node.arg}")
        return self.groups[node.arg]

    def position(self, dtype: DType, text: str) -> str:
        """The number of an element in memory, from an integer of some format."""
        return text

    def read(self, dtype: DType, place: UOp, memory: str, index: str) -> str:
        """Element `index`, or the vector that starts there; `place` is the INDEX."""
        if dtype.count == 1:
            return f"{memory}[{bare(index)}]"
        return f"*(({self.pointer(dtype, place)})({memory}+{index}))"

    def assign(self, dtype: DType, place: UOp, memory: str, index: str, value: str) -> str:
        """A store where `read` reads."""
        return f"{self.read(dtype, place, memory, index)} = {bare(value)};"

    def pointer(self, dtype: DType, place: UOp) -> str:
        """The type of a pointer to vectors in the place's memory."""
        return f"{self.type(dtype)}*"

    def guarded_read(
        self, dtype: DType, place: UOp, memory: str, index: str, condition: str
    ) -> str:
        """What stands there where the condition holds, else 0; then nothing is read."""
        text = self.read(dtype, place, memory, index)
        return self.where(condition, text, self.number(dtype, 0))

    def check(self, condition: str, number: int) -> list[str]:
        """Set the error word where the condition does not hold and it is still 0."""
        return [f"if (!{condition} && error[0] == 0) {{ error[0] = {number + 1}; }}"]

    def group_shape(self, nodes: Sequence[UOp]) -> tuple[int, int, int]:
        """Work items of a group along its three dimensions."""
        sizes = {n.arg: int(n.src[0].vmax) for n in nodes if n.op is Ops.SPECIAL}
        return sizes.get("lidx0", 1), sizes.get("lidx1", 1), sizes.get("lidx2", 1)


def call(name: str, operands: tuple[str, ...]) -> str:
    """A call of a function."""
    return f"{name}({', '.join(map(bare, operands))})"


def bare(text: str) -> str:
    """The expression without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for character in text[:-1]:
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text
    return text[1:-1]


def _word(text: str) -> str:
    """A type's name as part of a function's."""
    return text.replace(" ", "_").replace("<", "_").replace(">", "")


def unsigned(dtype: DType) -> DType:
    """The unsigned integer of the same size and count."""
    scalar = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits]
    return scalar.vec(dtype.count)
