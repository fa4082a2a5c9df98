"""Who watches a run, and errors of runs in the user's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Final

from torpor.base import settings
from torpor.base.errors import (
    DivisionByZeroError,
    LinAlgError,
    OutOfBoundsError,
    TorporError,
    ValueRangeError,
)
from torpor.base.phases import listeners
from torpor.base.site import decode
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import CheckSite, Requirement, ScheduleItem
from torpor.ir.trace import listener
from torpor.ir.uop import UOp
from torpor.pipeline.command import Prepared
from torpor.pipeline.compiled_graph import Failed
from torpor.pipeline.report import watched

Compute = Callable[[Sequence[tuple[UOp, str]]], list[UOp]]
# By kind of a requirement.
FAULTS: Final = {"index": OutOfBoundsError, "value": ValueRangeError, "matrix": LinAlgError}
# By thread: who wants to know what has been run (the jit, while it traces a function).
recorders: Final[dict[int, Callable[[Sequence[Prepared]], None]]] = {}


def recorded() -> bool:
    """Whether the jit traces what this thread runs."""
    return bool(recorders) and get_ident() in recorders


def record(ready: Sequence[Prepared]) -> None:
    """Tell the jit, if it traces this thread, what has been run."""
    if recorders and (recorder := recorders.get(get_ident())) is not None:
        recorder(ready)


def unseen() -> bool:
    """Whether nobody at all wants to know what runs, and how long it takes: mostly."""
    now = settings.snapshot()
    return not (recorders or now["DEBUG"] or now["VIZ"]) and listeners() is None is listener()


def observed(told: bool = False) -> bool:
    """Whether somebody wants to see the schedules that run: DEBUG, `measuring`, a trace, unless
    that is `told` of them already.
    """
    return recorded() or watched(told) or listener() is not None


class Refused(Exception):
    """A kernel says that what `site` asks does not hold."""

    def __init__(self, site: CheckSite):
        super().__init__(site)
        self.site = site

    @classmethod
    def of(cls, failed: Failed, items: Sequence[ScheduleItem]) -> Refused:
        """The check that failed in the run of these items."""
        return cls(items[failed.command].checks[failed.error - 1])


def requirement_of(site: CheckSite) -> Requirement | None:
    """What the failed check's operation says itself, or that which gave it its index."""
    node = site.node if site.kind == "requirement" else site.node.src[1].below(MOVEMENT)
    return node.arg if node.op is Ops.CHECK and site.kind != "division" else None


def error_of(site: CheckSite, found: int | None = None) -> Exception:
    """What a failed check means to the user; `found`: the index that failed it, if it is known."""
    where = "".join(f"\n  built at {decode(origin)}" for origin in site.node.origins)
    requirement = requirement_of(site)
    if requirement is not None:
        which = "" if found is None else f": {found}"
        return FAULTS[requirement.kind](f"{requirement.text}{which}{where}")
    shapes = ", ".join(str(shape_of(s)) for s in site.node.src)
    if site.kind == "index":
        source, index = (s.below(MOVEMENT) for s in site.node.src[:2])
        return OutOfBoundsError(
            f"an index is out of bounds for the axis that it selects from: {site.size} elements "
            f"of a tensor of shape {shape_of(source)}, indices of shape "
            f"{shape_of(index)}{where}"
        )
    name = {"IDIV": "//", "MOD": "%"}.get(site.node.op.name, "division in a kernel")
    return DivisionByZeroError(
        f"integer {name} by zero (operands of shapes {shapes}, {site.node.dtype.name}){where}"
    )


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
