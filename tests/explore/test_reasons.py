"""Every reason of the schedule has words."""

import ast
import inspect

from torpor.explore.reasons import says
from torpor.schedule import fuse, loops, reasons


def texts(node):
    """The strings that an expression may be: of one that is put together, how it begins."""
    for below in [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]:
        first = below.values[0] if isinstance(below, ast.JoinedStr) else below
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def reasons_of(code):
    """Those that functions return, hand to `force`, or give a kernel."""
    for node in ast.walk(ast.parse(inspect.getsource(code))):
        if isinstance(node, ast.Return) and node.value is not None and code is reasons.Reasons:
            yield from texts(node.value)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "force":
                yield from texts(node.args[1])
            for keyword in node.keywords:
                if keyword.arg == "reason":
                    yield from texts(keyword.value)


def test_every_reason_is_explained():
    found = {one for code in (reasons.Reasons, fuse, loops) for one in reasons_of(code)}
    assert len(found) > 15
    assert {reason for reason in found if not says(reason)} == set()


def test_an_unknown_reason_has_none():
    assert says("because") == ""
