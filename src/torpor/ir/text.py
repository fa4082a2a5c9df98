"""Graphs as text, one node a line, and back: `parse(show(node)) is node`.

    %0 = Ops.CONST index = 2
    %1 = Ops.RANGE index (%0) = (0, AxisType.LOOP)

The operand list is left out where there is none, and so is an arg of None. Args are Python
literals, ops, axis types and the records of `ir.records`.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from torpor.base.dtypes import from_name
from torpor.base.errors import ParseError
from torpor.base.target import Fragment
from torpor.ir import records
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp

_LINE: Final = re.compile(
    r"^\s*%(?P<number>\d+) = Ops\.(?P<op>\w+) (?P<dtype>\w+)"
    r"(?: \((?P<src>%\d+(?:, %\d+)*)\))?(?: = (?P<arg>.+))?$"
)
_NAMES: Final[dict[str, Any]] = {
    "Ops": Ops, "AxisType": AxisType, "OptOps": records.OptOps,
    "nan": math.nan, "inf": math.inf, "ParamArg": records.ParamArg, "Opt": records.Opt,
    "Stored": records.Stored, "Requirement": records.Requirement, "Loop": records.Loop,
    "HostCall": records.HostCall,
    "Rows": records.Rows, "Fragment": Fragment,
}  # fmt: skip


def show_lines(nodes: Iterable[UOp]) -> str:
    """The nodes, in the order given, each after its operands where those are among them."""
    numbers: dict[UOp, int] = {}
    lines = []
    for node in nodes:
        numbers[node] = len(numbers)
        lines.append(show_line(node, numbers))
    return "\n".join(lines)


def show_line(node: UOp, numbers: Mapping[UOp, int]) -> str:
    """One node; it and its operands have numbers."""
    return f"%{numbers[node]} = {show_node(node, numbers)}"


def show_node(node: UOp, numbers: Mapping[UOp, int]) -> str:
    """One node without its number; its operands have theirs."""
    source = ", ".join(f"%{numbers[s]}" for s in node.src)
    operands = f" ({source})" if source else ""
    arg = "" if node.arg is None else f" = {show_arg(node.arg)}"
    return f"{node.op} {node.dtype.name}{operands}{arg}"


def show_arg(arg: Any) -> str:
    """An arg on one line: nodes in it (sizes, a loop's body) are `node(text)`."""
    if isinstance(arg, UOp):
        return f"node({show(arg)!r})"
    if type(arg) is tuple:
        return f"({', '.join(map(show_arg, arg))}{',' * (len(arg) == 1)})"
    if isinstance(arg, records.Loop):
        fields = (
            f"{one.name}={show_arg(getattr(arg, one.name))}" for one in dataclasses.fields(arg)
        )
        return f"Loop({', '.join(fields)})"
    return repr(arg)


def show(root: UOp) -> str:
    """The graph below `root` as text; `root` is the last line."""
    return show_lines(root.toposort())


def parse(text: str) -> UOp:
    """The node that `show` wrote; `ParseError` names the line that cannot be read."""
    nodes = parse_all(text)
    if not nodes:
        raise ParseError("there is no node in the text")
    return next(reversed(nodes.values()))


def parse_all(text: str) -> dict[int, UOp]:
    """All nodes of a text by number, the last one last."""
    nodes: dict[int, UOp] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or match["op"] not in Ops.__members__:
            raise ParseError(f"line {number} is not a node: {line!r}")
        operands = [int(s[1:]) for s in match["src"].split(", ")] if match["src"] else []
        missing = [s for s in operands if s not in nodes]
        if missing:
            raise ParseError(f"line {number} uses '%{missing[0]}' before it is defined")
        arg = None if match["arg"] is None else _value(match["arg"], number)
        source = tuple(nodes[s] for s in operands)
        made = UOp(Ops[match["op"]], from_name(match["dtype"]), source, arg)
        nodes.pop(int(match["number"]), None)  # a number that is given anew is the last
        nodes[int(match["number"])] = made
    return nodes


_NAMES["node"] = parse


def _value(text: str, line: int) -> Any:
    try:
        return _literal(ast.parse(text, mode="eval").body)
    except (SyntaxError, KeyError, TypeError, AttributeError) as error:
        raise ParseError(f"line {line}: {text!r} is not an argument ({error})") from None


def _literal(node: ast.expr) -> Any:
    """The value of a literal expression; nothing is executed."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_literal(e) for e in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_literal(node.operand)
    if isinstance(node, ast.Name):
        return _NAMES[node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _NAMES[node.value.id][node.attr]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        keywords = {k.arg: _literal(k.value) for k in node.keywords if k.arg}
        return _NAMES[node.func.id](*map(_literal, node.args), **keywords)
    raise TypeError(f"unexpected {type(node).__name__}")
