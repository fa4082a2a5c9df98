"""The route: graph -> simplified graph -> schedule -> programs -> results."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.base.dtypes import DType
from torpor.device import Buffer
from torpor.graph import simplify_graph
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program, ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline.compile import programs_of, target_named
from torpor.pipeline.report import note_graph
from torpor.pipeline.run import run
from torpor.schedule import Plan, plan

Roots = Sequence[tuple[UOp, str]]


def make_buffer(device: str, size: int, dtype: DType) -> UOp:
    """The BUFFER node of a new buffer, which gets its memory when it is first written."""
    return UOp(Ops.BUFFER, dtype, (), Buffer(device, size, dtype))


def planned(roots: Roots) -> tuple[Plan, list[UOp]]:
    """The plan of the roots, and the simplified root of each."""
    graph = UOp.sink(*(node for node, _ in roots))
    note_graph(graph)
    sink = simplify_graph(graph)
    simple = list(sink.src)
    pairs = [(node, device) for node, (_, device) in zip(simple, roots, strict=True)]
    return plan(pairs, make_buffer), simple


def schedule(roots: Roots) -> list[ScheduleItem]:
    """The kernels that would compute `roots` (graph node, device). Runs and changes nothing."""
    return list(planned(roots)[0].items)


def lower(
    roots: Roots, target: str | None = None, opts: Sequence[Opt] | None = None
) -> list[Program]:
    """The programs that would compute `roots` on `target` (by default that of the first root's
    device). Nothing runs, and the target's device need not be there.
    """
    return programs_of(schedule(roots), target_named(target, roots[0][1]), opts)


def realize(roots: Roots) -> list[UOp]:
    """Compute `roots` (graph node, device); for each a node of its shape over the BUFFER that holds
    the value. Raises what an operation raises when it runs, and then nothing has changed.
    """
    made, simple = planned(roots)
    run(made.items, keep=made.results.values())
    return [
        over_buffer(made.results[node], root) for node, (root, _) in zip(simple, roots, strict=True)
    ]


def over_buffer(buffer: UOp, like: UOp) -> UOp:
    """The buffer's value in the shape of `like`."""
    shape = shape_of(like)
    if shape == (buffer.arg.size,):
        return buffer
    return UOp(Ops.RESHAPE, buffer.dtype, (buffer,), shape)
