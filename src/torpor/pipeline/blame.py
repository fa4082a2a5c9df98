"""Which index of the user's was out of bounds, looked for once a kernel has said that one was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torpor.base.errors import TorporError
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import CheckSite
from torpor.ir.uop import UOp
from torpor.pipeline.run import Refused

Compute = Callable[[Sequence[tuple[UOp, str]]], list[UOp]]


def index_of(site: CheckSite, device: str, compute: Compute) -> int | None:
    """The first index that fails what `site` asks, as it was given: before one that counts from the
    end was made positive. None where the site is not about an index, or its operands are not there.
    """
    check = site.node if site.node.op is Ops.CHECK else site.node.src[1].below(MOVEMENT)
    if (
        JOINT in device
        or site.looped
        or site.kind == "division"
        or check.op is not Ops.CHECK
        or check.arg.kind != "index"
    ):
        return None
    value, holds = check.src[0], asked_of_each(check.src[1])
    given = as_given_of(value)
    try:
        nodes = compute([(node, device) for node in (value, given, holds)])
    except (TorporError, Refused):  # what the index is made of fails itself
        return None
    numbers, as_given, inside = (node.below(MOVEMENT).arg.numpy() for node in nodes)
    if site.node is not check:
        length = shape_of(site.node.src[0])[axis_of(site.node)]
        inside = inside & (numbers >= 0) & (numbers < (site.size or length))
    found = as_given[~inside]
    return int(found[0]) if found.size else None


def as_given_of(index: UOp) -> UOp:
    """What an index was before it was counted from the front: i of i < 0 ? i + n : i."""
    if index.op is Ops.WHERE and index.src[1].op is Ops.ADD and index.src[2] in index.src[1].src:
        return index.src[2]
    return index


def asked_of_each(condition: UOp) -> UOp:
    """What is asked of each index, where it is then asked of all together."""
    below = condition.below(MOVEMENT)
    return below.src[0] if below.op is Ops.REDUCE_AXIS else condition


def axis_of(node: UOp) -> int:
    """The axis that a GATHER or SCATTER goes along."""
    return int(node.arg if node.op is Ops.GATHER else node.arg[1])
