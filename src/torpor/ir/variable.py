"""`Variable`: an integer known only at launch; and writing an expression out over its ranges."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.base.site import is_inside
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def Variable(name: str, low: int, high: int) -> UOp:
    """An integer between `low` and `high`, both included; `.bind(value)` says which this time."""
    if low > high:
        raise ShapeError(f"Variable {name!r} has no value: {low} > {high}")
    return UOp.variable(name, low, high)


def bind(variable: UOp, value: int) -> UOp:
    """`variable` with the value it has this time; out of its bounds is a `ShapeError`."""
    if variable.op is not Ops.VARIABLE:
        raise ShapeError(f"only a Variable can be bound, not {variable.op}")
    name, low, high = variable.arg
    if not low <= value <= high:
        raise ShapeError(f"Variable {name!r} is between {low} and {high}; it cannot be {value}")
    return UOp(Ops.BIND, dtypes.index, (variable, UOp.index_const(value)))


def unbind(bound: UOp) -> tuple[UOp, int]:
    """The variable and the value of what `bind` made."""
    if bound.op is not Ops.BIND:
        raise ShapeError(f"only a bound Variable can be unbound, not {bound.op}")
    return bound.src[0], bound.src[1].arg


def is_above(size: object) -> bool:
    """Whether a size is a bound variable, or one with a number added: see `above`."""
    if not isinstance(size, UOp) or size.op is Ops.BIND:
        return isinstance(size, UOp)
    return size.op is Ops.ADD and (size.src[0].op, size.src[1].op) == (Ops.BIND, Ops.CONST)


def above(size: UOp) -> tuple[UOp, int]:
    """The bound variable in a size that `is_above` one, and the number that is added."""
    return (size, 0) if size.op is Ops.BIND else (size.src[0], int(size.src[1].arg))


def expand(expression: UOp, *ranges: UOp) -> list[UOp]:
    """The simplified expression for every value of the `ranges` that it contains.

    The last range varies fastest. Ranges that do not occur in the expression do not multiply it.
    """
    below = expression.toposort()
    present = [r for r in ranges if r in below]
    values = [range(r.vmin, r.vmax + 1) for r in present]
    return [
        expression.substitute(
            {r: UOp.const(r.dtype, v) for r, v in zip(present, point, strict=True)}
        ).simplify()
        if present
        else expression
        for point in itertools.product(*values)
    ]


def holds(node: UOp) -> bool:
    """Whether a condition on bound variables holds this time, where the user's own code asks for
    it; a `ValueRangeError` for one on variables that have no value yet. Every other node is true,
    and all are within torpor, which asks so whether there is one.
    """
    if node.dtype is not dtypes.bool or is_inside(sys._getframe(1)):
        return True
    order = node.toposort()
    leaves = {below.op for below in order if not below.src or below.op is Ops.RANGE}
    if not {Ops.VARIABLE} <= leaves <= {Ops.VARIABLE, Ops.CONST}:
        return True
    now = {below: below.src[1] for below in order if below.op is Ops.BIND}
    found = node.substitute(now).simplify()
    if found.op is not Ops.CONST:
        what = f"whether {node.render()} holds is not known before the variables are bound"
        raise ValueRangeError(what)
    return bool(found.arg)


_methods: dict[str, Callable[..., object]] = {"bind": bind, "unbind": unbind, "__bool__": holds}
for _name, _function in _methods.items():
    setattr(UOp, _name, _function)
