"""Calls: what a template makes of operands, that is not made before somebody looks.

before  CALL(x, y), or PART 0 of it where it has several results
after   the nodes that the CALL's template makes of x and y, where gradients flow through them, a
        loop has them in its body, or a graph is planned
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.graph.reduce import AGAIN, again, identity
from torpor.ir.infer import shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

Origins = Callable[[int], tuple[Any, ...]]  # those of what comes of an input, by its number


class Call:
    """What a CALL does: arg of the node. `template`: a `Template`."""

    __slots__ = ("template", "origins")

    def __init__(self, template: Any, origins: Origins):
        self.template, self.origins = template, origins


def inputs_of(call: UOp) -> list[UOp]:
    """The inputs of a CALL's template; the CALL in place of those that are no operands."""
    template = call.arg.template
    inputs = [call] * template.count
    for number, node in zip(template.used, call.src, strict=True):
        inputs[number] = node
    return inputs


def made_by(call: UOp) -> list[UOp]:
    """All nodes of what a CALL is."""
    template = call.arg.template
    found: list[UOp] = template.values(inputs_of(call), call.arg.origins)[template.count :]
    return found


def is_result(node: UOp) -> bool:
    """Whether a node is a result of a CALL: a PART, or the CALL itself if it has only one."""
    return node.op is Ops.PART or (node.op is Ops.CALL and node.dtype is not dtypes.void)


def call_of(result: UOp) -> UOp:
    """The CALL whose result a node is."""
    return result if result.op is Ops.CALL else result.src[0]


def op_of(node: UOp) -> Ops:
    """The op of a node, as it is without calls."""
    if not is_result(node):
        return node.op
    found: Ops = call_of(node).arg.template.ops[0 if node.op is Ops.CALL else node.arg]
    return found


def written_out(result: UOp, done: dict[UOp, list[UOp | None]]) -> UOp:
    """What the result of a CALL is; `done`: CALLs that have been written out."""
    call = call_of(result)
    if call not in done:
        done[call] = call.arg.template.made(inputs_of(call), call.arg.origins)
    found: UOp | None = done[call][0 if result is call else result.arg]
    assert found is not None, "there is no other kind of PART"
    return found


def without_calls(
    roots: Sequence[UOp], apart: Sequence[UOp] = (), ends: Iterable[UOp] = ()
) -> dict[UOp, UOp]:
    """What each node below, down to the `ends`, is without calls. Those `apart` are nodes of their
    own: what is asked of one is not asked of what is made alike.
    """
    done = {node: node for node in ends}
    calls: dict[UOp, list[UOp | None]] = {}
    stack = [*roots]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        below = (written_out(node, calls),) if is_result(node) else node.src
        if more := [
            one for one in below if one not in done and (one.op is not Ops.CALL or is_result(one))
        ]:
            stack += more
            continue
        source = tuple([done.get(one, one) for one in below])
        if is_result(node):
            made = again(source[0], identity()) if node in apart else source[0]
        elif node.op is Ops.FUNCTION and node.arg[0] == AGAIN and is_result(node.src[0]):
            made = again(source[0], node.arg[1])
        else:
            made = node.over(source)
            made.origins = made.origins or node.origins
        done[node] = shaped(made, shape_of(node))
    return done
