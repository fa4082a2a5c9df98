"""Errors: what an example's function says to arguments that it does not take, found by trying.

Rows of `refused.txt`, which are as those of `calls.txt`, are calls that raise what nothing that is
tried here does.
"""

from __future__ import annotations

import ast
import functools
import re
import traceback
from collections.abc import Iterator
from typing import Final, NamedTuple

from tools.reference import samples
from tools.reference.listing import Entry
from tools.reference.trying import NO_FLOATS, PLACES, core
from torpor.base.errors import TorporError

SHOWN: Final = 3
# In place of a tensor, and of a number or a text that an example gives.
TENSORS: Final = (
    "Tensor.ones(3, 5, 7)", 'NAME.cast("complex64")', 'NAME.cast("int64")', "Tensor.ones(2)",
    "Tensor(0.5)", "NAME.bool()", "(-NAME)",
)  # fmt: skip
INDICES: Final = ("(NAME + 9)", "NAME.float()")
WRONG_LITERALS: Final = {str: ('"no"',), int: ("9", "-9"), float: ("-1.0", "2.0")}
# What parameters do not take, where the example does not give them.
WRONG: Final = {
    "dim": "9", "axis": "9", "dtype": '"float33"', "reduction": '"no"', "mode": '"no"',
    "norm": '"no"', "lr": "-1.0", "p": "-1.0", "momentum": "-1.0", "eps": "-1.0",
    "groups": "9", "padding": "-1", "dilation": "0", "size": "-1", "weight_decay": "-1.0",
}  # fmt: skip


class Refusal(NamedTuple):
    """A call, the class of the error that it raises, and the first line of what that says."""

    call: str
    kind: type[Exception]
    message: str


def _replacements(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name) and node.id in samples.VALUES:
        texts = INDICES if node.id in PLACES else () if node.id in NO_FLOATS else TENSORS
        return tuple(text.replace("NAME", node.id) for text in texts)
    value = node.value if isinstance(node, ast.Constant) else None
    return WRONG_LITERALS.get(type(value), ())


def _own(entry: Entry, nodes: list[ast.AST]) -> ast.Call | None:
    """The call of the entry itself among the nodes of its example."""
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return next((one for one in calls if ast.unparse(one.func).endswith(entry.name)), None)


def _literals(call: ast.Call) -> Iterator[ast.AST]:
    """What an example writes down for the parameters themselves."""
    for node in (*call.args, *(one.value for one in call.keywords)):
        yield from node.elts if isinstance(node, ast.Tuple | ast.List) else (node,)


def _variations(entry: Entry, call: str) -> Iterator[str]:
    """Calls in which one thing is otherwise."""
    nodes = [] if "with " in call else list(ast.walk(ast.parse(call)))
    own = _own(entry, nodes)
    literals = [*_literals(own)] if own else []
    for node in [*(node for node in nodes if isinstance(node, ast.Name)), *literals]:
        for text in _replacements(node) if isinstance(node, ast.Name | ast.Constant) else ():
            yield call[: node.col_offset] + text + call[node.end_col_offset :]
    end = own.end_col_offset or 0 if own else 0
    comma = ", " if own and (own.args or own.keywords) else ""
    for name in re.findall(r"(\w+)(?=[:=])", entry.signature) if own else ():
        if name in WRONG:
            yield f"{call[: end - 1]}{comma}{name}={WRONG[name]}{call[end - 1 :]}"


def _tried(call: str, *, computed: bool) -> Refusal | None:
    """The error of a call, if it is one that is raised on purpose."""
    try:
        made = samples.evaluate(call)
        if computed:
            repr(made)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        meant = isinstance(error, TorporError) or (last.line or "").startswith("raise")
        message = str(error).split("\n")[0]
        meant = meant and "multiple values" not in message
        return Refusal(call, type(error), message) if meant else None
    return None


@functools.cache
def calls(entry: Entry) -> tuple[str, ...]:
    """What is tried: rows of the table, and the example with one thing otherwise."""
    written = samples.rows("refused.txt").get(samples.key(entry), ())
    call = core(entry)
    rows = tuple(samples.spelled(entry, row) for row in written)
    return (*rows, *(_variations(entry, call) if call else ()))


@functools.cache
def every(entry: Entry) -> tuple[Refusal, ...]:
    """What is refused, one call for each text of an error."""
    told = "(-" if "realisation" in entry.text or "raise" in entry.text else " + 9"
    found = [_tried(one, computed=told in one or " + 9" in one) for one in calls(entry)]
    return tuple({one[1:]: one for one in reversed(found) if one is not None}.values())[::-1]


def told(entry: Entry) -> str:
    """A call for each kind of error, as Markdown; nothing where nothing could be tried."""
    kinds: dict[type, Refusal] = {}
    for one in every(entry):
        kinds.setdefault(one.kind, one)
    shown = [*kinds.values()][:SHOWN]
    lines = [f">>> {one.call}\n{one.kind.__name__}: {one.message}" for one in shown]
    if lines:
        return "\n".join(["**Errors**, among them:\n", "```pycon", *lines, "```"])
    count = len(calls(entry))
    return f"**Errors:** none was met in {count} calls with other arguments." if count else ""
