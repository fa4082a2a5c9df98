"""Parameter limit: which values are stored where a kernel has more parameters than a target takes.

before  a + b + c + d + e + f + g + h       8 operands and a result, where a kernel takes 8
after   t = a + b + c + d + e + f + g       8
        t + h                               3
"""

from __future__ import annotations

from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.schedule.fusion_state import FusionState
from torpor.schedule.region import STORED, Region

Reads = frozenset[UOp]
NOTHING: Reads = frozenset()


def parameters(item: ScheduleItem) -> int:
    """How many parameters the item's kernel has: memory, variables and the error word."""
    return len(item.buffers) + len(item.variables) + bool(item.checks)


def apart(state: FusionState, region: Region, item: ScheduleItem, limit: int) -> list[UOp]:
    """What must be stored by kernels of its own, so that the region's kernel has at most `limit`
    parameters: first the outputs that merely joined it, then values on the way to its output.
    """
    joined = [node for node in region.outputs if node.op not in STORED]
    if len(joined) > 1:
        return [node for node in joined if node not in state.apart]
    room = limit - (parameters(item) - len(item.buffers)) - len(region.outputs)
    return cuts(state, region, room)


def cuts(state: FusionState, region: Region, room: int) -> list[UOp]:
    """Values to store, so that none in the region is computed from more than `room` others."""
    chosen: dict[UOp, None] = {}
    reads: dict[UOp, Reads] = {}
    for node in needs(state, region):
        if node.op is Ops.BUFFER or state.home.get(node, region) is not region:
            reads[node] = frozenset({node})
            continue
        parts = {source: reads[source] for source in node.src}
        while len(NOTHING.union(*parts.values())) > room:
            most = max(parts, key=lambda source: len(parts[source]))
            if len(parts[most]) == 1:
                break  # as few as the operation has operands
            below = most.below(MOVEMENT)
            chosen[below] = None
            reads[below] = parts[most] = frozenset({below})
        reads[node] = NOTHING.union(*parts.values())
    return list(chosen)


def needs(state: FusionState, region: Region) -> list[UOp]:
    """What the region's kernel computes, and what it reads; operands first."""
    found = set(region.outputs)
    for node in reversed(state.order):
        if node in found and state.home.get(node, region) is region:
            found.update(node.src)
    return [node for node in state.order if node in found]
