"""Arithmetic as LLVM instructions: one function a family of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import DType
from torpor.base.errors import ContractError
from torpor.ir.ops import ROUNDED, Ops
from torpor.ir.uop import UOp
from torpor.source.linear import constant, stays_in_range
from torpor.source.llvm_text import Body, mangled, number_text, type_of

Operands = tuple[str, ...]

_FLOAT: Final = {Ops.ADD: "fadd", Ops.SUB: "fsub", Ops.MUL: "fmul"}
_INTEGER: Final = {
    Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.AND: "and", Ops.OR: "or", Ops.XOR: "xor",
    Ops.IDIV: "udiv", Ops.MOD: "urem",  # of numbers from 0 on: others are written out
}  # fmt: skip
_BOOL: Final = {
    Ops.ADD: "or", Ops.MUL: "and", Ops.MAX: "or", Ops.MIN: "and", Ops.AND: "and", Ops.OR: "or",
    Ops.XOR: "xor", Ops.SUB: "xor",
}  # fmt: skip
# `rint` and not `roundeven`: equal under the default rounding mode, and where the machine has no
# instruction every C library has it.
_INTRINSICS: Final = {
    Ops.SQRT: "sqrt", Ops.FLOOR: "floor", Ops.TRUNC: "trunc", Ops.RINT: "rint", Ops.EXP: "exp",
    Ops.EXP2: "exp2", Ops.LOG: "log", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.COS: "cos",
    Ops.TANH: "tanh", Ops.POW: "pow",
}  # fmt: skip
_CONTRACTED: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})


def alu(body: Body, node: UOp, operands: Operands) -> str:
    """Append the instructions of one ALU node; the name of its value."""
    op, kind = node.op, node.dtype.kind
    if op in _RULES:
        return _RULES[op](body, node, operands)
    if kind == "bool" and op in _BOOL:
        return _binary(body, _BOOL[op], node, operands)
    if op in (Ops.MAX, Ops.MIN):
        extremum = _float_extremum if kind == "float" else _integer_extremum
        return extremum(body, node, operands)
    if op in _INTRINSICS and kind == "float":
        return _intrinsic(body, node, operands)
    if kind == "float" and op is Ops.FDIV:
        return _quotient(body, node, operands)
    if kind == "float" and op in _FLOAT:
        licence = node.arg != ROUNDED and not settings.number("STRICT_FLOAT")
        return _binary(body, _FLOAT[op] + (" contract" if licence else ""), node, operands)
    if node.dtype.is_int and op in _INTEGER:
        flag = no_wrap(node) if op in _CONTRACTED else ""
        return _binary(body, _INTEGER[op] + flag, node, operands)
    raise ContractError(f"LLVM IR has no {op} on {node.dtype}")


def _quotient(body: Body, node: UOp, operands: Operands) -> str:
    """a / b. LLVM (20 and before) takes a lane of a quotient of vectors for 0 where both operands
    are the constant 0, and leaves out a condition that makes it 0; but not where rounding and
    exceptions are named, though they are as usual.
    """
    dtype = node.dtype
    if dtype.count == 1 or constant(node.src[0]) is not None:
        return _binary(body, "fdiv", node, operands)
    kind = type_of(dtype)
    said = (("metadata", '!"round.tonearest"'), ("metadata", '!"fpexcept.ignore"'))
    name = f"llvm.experimental.constrained.fdiv.{mangled(dtype)}"
    return body.value("alu", body.call(name, kind, *((kind, o) for o in operands), *said))


def no_wrap(node: UOp) -> str:
    """What LLVM may assume of integer arithmetic that is proved not to wrap."""
    if not stays_in_range(node):
        return ""
    return " nsw" if node.dtype.kind == "int" else " nuw"


def _binary(body: Body, instruction: str, node: UOp, operands: Operands) -> str:
    kind = type_of(node.src[0].dtype)
    return body.value("alu", f"{instruction} {kind} {operands[0]}, {operands[1]}")


def select(body: Body, condition: UOp, dtype: DType, chosen: Operands) -> str:
    """chosen[1] where the condition (whose text is chosen[0]) holds, else chosen[2]."""
    kind = type_of(dtype)
    test = f"{type_of(condition.dtype)} {chosen[0]}"
    return body.value("alu", f"select {test}, {kind} {chosen[1]}, {kind} {chosen[2]}")


def _where(body: Body, node: UOp, operands: Operands) -> str:
    """where(c, a, b)"""
    return select(body, node.src[0], node.dtype, operands)


def _intrinsic(body: Body, node: UOp, operands: Operands) -> str:
    kind = type_of(node.dtype)
    name = f"llvm.{_INTRINSICS[node.op]}.{mangled(node.dtype)}"
    return body.value("alu", body.call(name, kind, *((kind, o) for o in operands)))


def _compare(body: Body, node: UOp, operands: Operands) -> str:
    """A < b, a == b: false on NaN; a != b: true on NaN."""
    dtype = node.src[0].dtype
    less = "slt" if dtype.kind == "int" else "ult"
    table = {Ops.CMPLT: less, Ops.CMPNE: "ne", Ops.CMPEQ: "eq"}
    if dtype.is_float:
        table = {Ops.CMPLT: "olt", Ops.CMPNE: "une", Ops.CMPEQ: "oeq"}
    instruction = f"{'fcmp' if dtype.is_float else 'icmp'} {table[node.op]}"
    return _binary(body, instruction, node, operands)


def _integer_extremum(body: Body, node: UOp, operands: Operands) -> str:
    sign = "s" if node.dtype.kind == "int" else "u"
    kind = type_of(node.dtype)
    name = f"llvm.{sign}{'max' if node.op is Ops.MAX else 'min'}.{mangled(node.dtype)}"
    return body.value("alu", body.call(name, kind, *((kind, o) for o in operands)))


def _float_extremum(body: Body, node: UOp, operands: Operands) -> str:
    """max(a, b) = a if a is NaN else (a if a > b else b)

    `select (a > b), a, b` is one x86 instruction, which gives b where either is NaN. So only a
    needs a look, and not if it is a constant: constants go first. `llvm.maximum` also orders the
    zeros, which NumPy does not ask for, and takes twice as many instructions.
    """
    first, second = node.src
    left, right = operands
    if constant(first) is None and constant(second) is not None:
        first, left, right = second, right, left
    kind = type_of(node.dtype)
    order = "ogt" if node.op is Ops.MAX else "olt"
    tests = type_of(node.src[0].dtype).replace(type_of(node.dtype.scalar()), "i1")
    above = body.value("alu", f"fcmp {order} {kind} {left}, {right}")
    found = body.value("alu", f"select {tests} {above}, {kind} {left}, {kind} {right}")
    value = constant(first)
    if value is not None and value == value:
        return found
    missing = body.value("alu", f"fcmp uno {kind} {left}, {left}")
    return body.value("alu", f"select {tests} {missing}, {kind} {left}, {kind} {found}")


def _shift(body: Body, node: UOp, operands: Operands) -> str:
    """A << n, a >> n (arithmetic where signed); n may have another format than a."""
    dtype, counts = node.src[0].dtype, node.src[1].dtype
    amount = operands[1]
    if counts is not dtype:
        amount = convert(body, amount, counts, dtype)
    instruction = "ashr" if dtype.kind == "int" else "lshr"
    if node.op is Ops.SHL:
        instruction = "shl" + no_wrap(node)
    return body.value("alu", f"{instruction} {type_of(dtype)} {operands[0]}, {amount}")


# --- conversion -----------------------------------------------------------------------------------
def convert(body: Body, value: str, source: DType, result: DType) -> str:
    """`value` of format `source` as `result`; floats that become integers are in range."""
    if source is result:
        return value
    old, new = type_of(source), type_of(result)
    if result.kind == "bool":
        zero = "zeroinitializer" if source.count > 1 else number_text(source, 0)
        test = "fcmp une" if source.is_float else "icmp ne"
        return body.value("cast", f"{test} {old} {value}, {zero}")
    both = source.is_float and result.is_float
    if both and source.bits == result.bits:  # half and bfloat meet in float
        middle = old.replace("bfloat", "float").replace("half", "float")
        wide = body.value("cast", f"fpext {old} {value} to {middle}")
        return body.value("cast", f"fptrunc {middle} {wide} to {new}")
    instruction = _conversion(source, result)
    if not instruction:  # signed and unsigned of one width
        return value
    return body.value("cast", f"{instruction} {old} {value} to {new}")


def _conversion(source: DType, result: DType) -> str:
    signed = source.kind == "int"
    if result.is_float:
        if source.is_float:
            return "fpext" if result.bits > source.bits else "fptrunc"
        return "sitofp" if signed else "uitofp"
    if source.is_float:
        return "fptosi" if result.kind == "int" else "fptoui"
    if source.kind == "bool":
        return "zext"
    if source.bits == result.bits:
        return ""
    return "trunc" if source.bits > result.bits else "sext" if signed else "zext"


def _cast(body: Body, node: UOp, operands: Operands) -> str:
    return convert(body, operands[0], node.src[0].dtype, node.dtype)


def _bitcast(body: Body, node: UOp, operands: Operands) -> str:
    source, result = node.src[0].dtype, node.dtype
    if "bool" in (source.kind, result.kind) or type_of(source) == type_of(result):
        return convert(body, operands[0], source, result)
    return body.value("cast", f"bitcast {type_of(source)} {operands[0]} to {type_of(result)}")


_RULES: Final[dict[Ops, Callable[[Body, UOp, Operands], str]]] = {
    Ops.CAST: _cast,
    Ops.BITCAST: _bitcast,
    Ops.WHERE: _where,
    Ops.CMPLT: _compare,
    Ops.CMPNE: _compare,
    Ops.CMPEQ: _compare,
    Ops.SHL: _shift,
    Ops.SHR: _shift,
}
