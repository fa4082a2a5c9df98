"""Arithmetic as expressions of C-like languages."""

from __future__ import annotations

from typing import Final

from torpor.base.errors import ContractError
from torpor.ir.ops import COMPARE, ROUNDED, Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle_language import Language
from torpor.source.linear import constant, stays_in_range

INFIX: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.AND: "&", Ops.OR: "|",
    Ops.XOR: "^", Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
    Ops.IDIV: "/", Ops.MOD: "%",  # of numbers from 0 on: others are written out
}  # fmt: skip
BOOL: Final = {
    Ops.ADD: "||", Ops.MUL: "&&", Ops.MAX: "||", Ops.MIN: "&&", Ops.AND: "&&", Ops.OR: "||",
    Ops.XOR: "!=", Ops.SUB: "!=", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip
FUNCTIONS: Final = {
    Ops.SQRT: "sqrt", Ops.FLOOR: "floor", Ops.TRUNC: "trunc", Ops.RINT: "rint", Ops.EXP: "exp",
    Ops.EXP2: "exp2", Ops.LOG: "log", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.COS: "cos",
    Ops.TANH: "tanh", Ops.ERF: "erf", Ops.POW: "pow",
}  # fmt: skip
_WRAPPING: Final = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})


def expression(language: Language, node: UOp, operands: tuple[str, ...]) -> str:
    """The text of an ALU node from its operands' texts; every infix expression in parentheses."""
    op, dtype = node.op, node.dtype
    if op is Ops.WHERE:
        return language.where(*operands)
    if op is Ops.CAST:
        return cast(language, node, operands[0])
    if op is Ops.BITCAST:
        return language.bitcast(node.src[0].dtype, dtype, operands[0])
    if node.src[0].dtype.kind == "bool":
        return _on_bools(node, operands)
    if op in COMPARE:
        return f"({operands[0]}{INFIX[op]}{operands[1]})"
    if op in FUNCTIONS:
        return language.function(FUNCTIONS[op], dtype, operands)
    if op in (Ops.MAX, Ops.MIN):
        return language.extremum(op, dtype, operands)
    if op in (Ops.SHL, Ops.SHR):
        return _shift(language, node, operands)
    if node.arg == ROUNDED and dtype.name in language.rounded_differences:
        return f"{language.rounded_differences[dtype.name]}({', '.join(operands)})"
    if op in INFIX:
        if op in _WRAPPING and dtype.is_int and not stays_in_range(node):
            return language.wrapping(INFIX[op], dtype, operands)
        if op is Ops.ADD and dtype.kind == "int" and operands[1].startswith("(-"):
            value = constant(node.src[1])
            if (
                isinstance(value, int) and value > dtype.min
            ):  # x + -5 reads better as x - 5; neither wraps here
                return f"({operands[0]}-{language.number(dtype, -value)})"
        return language.narrowed(dtype, f"({operands[0]}{INFIX[op]}{operands[1]})")
    raise ContractError(f"{language.target.name} has no {op} on {dtype}")


def _on_bools(node: UOp, operands: tuple[str, ...]) -> str:
    """A + b is or, a * b is and; a ^ true is not a; a < b is not a and b."""
    left, right = operands
    if node.op is Ops.CMPLT:
        return f"(!{left}&&{right})"
    if node.op is Ops.XOR and node.src[1].op is Ops.CONST and node.src[1].arg:
        return f"(!{left})"
    if node.op not in BOOL:
        raise ContractError(f"no {node.op} on bool")
    return f"({left}{BOOL[node.op]}{right})"


def cast(language: Language, node: UOp, operand: str) -> str:
    """A conversion; to bool it asks whether the number is other than 0."""
    source, result = node.src[0].dtype, node.dtype
    if result.kind == "bool" and source.kind != "bool":
        return f"({operand}!={language.number(source, 0)})"
    return operand if source is result else language.convert(source, result, operand)


def _shift(language: Language, node: UOp, operands: tuple[str, ...]) -> str:
    dtype = node.src[0].dtype
    count = language.shift_count(node.src[1].dtype, operands[1])
    if node.op is Ops.SHR:
        return language.narrowed(dtype, f"({operands[0]}>>{count})")
    if stays_in_range(node):
        return language.narrowed(dtype, f"({operands[0]}<<{count})")
    return language.wrapping("<<", dtype, (operands[0], count))
