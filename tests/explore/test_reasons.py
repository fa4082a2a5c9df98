"""Every reason of the schedule has words."""

import ast
import inspect

from torpor.explore.reasons import says
from torpor.schedule import reasons


def test_every_reason_is_explained():
    tree = ast.parse(inspect.getsource(reasons.Reasons))
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.Return):
            values = [function.value]
            if isinstance(function.value, ast.IfExp):
                values = [function.value.body, function.value.orelse]
            found |= {v.value for v in values if isinstance(v, ast.Constant)}
    found = {reason for reason in found if isinstance(reason, str)}
    assert len(found) > 10
    assert {reason for reason in found if not says(reason)} == set()


def test_an_unknown_reason_has_none():
    assert says("because") == ""
