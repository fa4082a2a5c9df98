"""Index expressions as Python text: what `UOp.render` gives. Those of launch sizes are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

_INFIX: Final = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.FDIV: "/", Ops.IDIV: "//", Ops.MOD: "%",
    Ops.POW: "**", Ops.AND: "&", Ops.OR: "|", Ops.XOR: "^", Ops.SHL: "<<", Ops.SHR: ">>",
    Ops.CMPLT: "<", Ops.CMPNE: "!=", Ops.CMPEQ: "==",
}  # fmt: skip
_WORDS: Final = {Ops.AND: " and ", Ops.OR: " or "}


def _chain(node: UOp, texts: dict[UOp, str]) -> str:
    """A sum, or a conjunction of bools, without the inner parentheses of its left operands."""
    left, right = (texts[s] for s in node.src)
    if node.src[0].op is node.op and node.src[0].dtype is node.dtype and left.startswith("("):
        left = left[1:-1]
    joint = _WORDS[node.op] if node.dtype.kind == "bool" and node.op in _WORDS else "+"
    return f"({left}{joint}{right})"


def _where(node: UOp, texts: dict[UOp, str]) -> str:
    condition, yes, no = (texts[s] for s in node.src)
    return f"({yes} if {condition} else {no})"


def _extremum(node: UOp, texts: dict[UOp, str]) -> str:
    left, right = (texts[s] for s in node.src)
    return f"({left} if {left}{'>' if node.op is Ops.MAX else '<'}{right} else {right})"


def _one(node: UOp, texts: dict[UOp, str]) -> str:
    op = node.op
    if op is Ops.CONST:
        return str(node.arg)
    if op is Ops.VARIABLE:
        return str(node.arg[0])
    if op is Ops.RANGE:
        return f"ridx{node.arg[0]}"
    if op is Ops.SPECIAL:
        return str(node.arg)
    if op in (Ops.CAST, Ops.BIND):
        return texts[node.src[0]]
    special: Callable[[UOp, dict[UOp, str]], str] | None = _SPECIAL.get(op)
    if special is not None and not (op in _WORDS and node.dtype.kind != "bool"):
        return special(node, texts)
    if op is Ops.XOR and node.dtype.kind == "bool" and node.src[1].arg is True:
        return f"(not {texts[node.src[0]]})"
    if op in _INFIX:
        return f"({texts[node.src[0]]}{_INFIX[op]}{texts[node.src[1]]})"
    return f"{op.name.lower()}({', '.join(texts[s] for s in node.src)})"


_SPECIAL: Final = {
    Ops.ADD: _chain, Ops.AND: _chain, Ops.OR: _chain, Ops.WHERE: _where, Ops.MAX: _extremum,
    Ops.MIN: _extremum,
}  # fmt: skip


def render_expression(root: UOp) -> str:
    """`root` as Python text: `((ridx0*2)+ridx1)`; variables and ranges by name."""
    texts: dict[UOp, str] = {}
    for node in root.toposort():
        texts[node] = _one(node, texts)
    return texts[root]
