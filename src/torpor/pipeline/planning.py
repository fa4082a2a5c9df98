"""From a graph to the kernels that compute it: simplified, scheduled, cut up and put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from torpor.base.phases import phase
from torpor.base.target import Target
from torpor.device import Device
from torpor.graph import simplify_graph
from torpor.graph.fission import simplified
from torpor.graph.multi import resolve
from torpor.ir.contract_graph import GRAPH, RESOLVED
from torpor.ir.infer import JOINT
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem, Stored
from torpor.ir.uop import UOp
from torpor.kernel import (
    Arranged,
    Parted,
    Piece,
    arranged,
    checked_ahead,
    in_offsets,
    in_parts,
    in_phases,
    in_pieces,
    own_parameters,
)
from torpor.pipeline.compile import has_kernel
from torpor.pipeline.recipe import (
    make_buffer,
)
from torpor.pipeline.report import narrating, note_graph
from torpor.schedule.loops import Bodies, is_loop
from torpor.schedule.plan import Places, Plan, TargetOf, plan

Roots = Sequence[tuple[UOp, str]]
Rule = Callable[[UOp, Target], Any]  # what takes the place of a kernel; nothing if it does not
Items = Callable[[ScheduleItem, Any], list[ScheduleItem]]


def spread(node: UOp, device: str) -> list[tuple[UOp, str]]:
    """What has to be computed where: one value, or one on each of several devices."""
    if JOINT not in device:
        return [(node, device)]
    devices = device.split(JOINT)
    parts = node.src if node.op is Ops.MULTI else (node,) * len(devices)
    # Under the device's name, since a constant is one node on all of them.
    return [
        (UOp(Ops.CONTIGUOUS, part.dtype, (part,), Stored(device=one)), one)
        for part, one in zip(parts, devices, strict=True)
    ]


def target_of(device: str) -> Target:
    """What kernels for the device are generated for."""
    return Device[device].target


def planned(
    roots: Roots, target_of: TargetOf = target_of
) -> tuple[Plan, list[list[tuple[UOp, str]]], list[UOp]]:
    """The plan of the roots; for each what is computed where; and each simplified."""
    graph = UOp.sink(*(node for node, _ in roots))
    note_graph(graph)
    GRAPH.expect(graph)
    with narrating():
        with phase("graph"):
            sink = simplified(resolve(simplify_graph(graph)))
            RESOLVED.expect(sink)
        groups = [spread(node, device) for node, (_, device) in zip(sink.src, roots, strict=True)]
        with phase("schedule"):
            made = plan([pair for group in groups for pair in group], make_buffer, target_of)
            made = Plan(tuple(refined(made.items, target_of)), made.results)
    return made, groups, list(sink.src)


def refined(items: Sequence[ScheduleItem], target_of: TargetOf) -> Iterator[ScheduleItem]:
    """The items, their asts cut into phases and their operands put in order where that pays.

    Thousands of items may share one ast, blocks of a chain for example: each is looked at once.
    """
    phases, order, checks = cache(in_phases), cache(arranged), cache(checked_ahead)
    several = [(cache(rule), items_of) for rule, items_of in SEVERAL]

    def plan_body(roots: Roots) -> tuple[list[ScheduleItem], Places]:
        made = plan(roots, make_buffer, target_of)
        return list(refined(made.items, target_of)), made.results

    bodies = Bodies(plan_body, make_buffer)
    for item in items:
        if not has_kernel(item):
            yield item
            continue
        if is_loop(item):
            yield from bodies.kernels(item)
            continue
        target = target_of(item.buffers[0].arg.device)
        if item.checks:
            ahead = None if item.group is not None else checks(item.ast, target)
            yield from [item] if ahead is None else by_parts(item, ahead)
            continue
        copies: dict[tuple[UOp, UOp], UOp] = {}
        for ast in phases(item.ast):  # they write parts of its output
            part = item if ast is item.ast else of_piece(item, own_parameters(ast))
            ast = part.ast
            rules = several if item.group is None else []
            tried = ((rule(ast, target), items_of) for rule, items_of in rules)
            made = next((one for one in tried if one[0]), None)
            if made is None:
                yield from in_order(part, order(ast, target), copies)
            else:
                yield from made[1](part, made[0])


def by_parts(item: ScheduleItem, found: Parted) -> list[ScheduleItem]:
    """The item that computes what is needed first, with the checks, and the item that needs it."""
    memory = make_buffer(item.buffers[0].arg.device, found.size, found.dtype)
    read = (memory, *(item.buffers[n] for n in found.read))
    kept = (*(item.buffers[n] for n in found.kept), memory)
    reason = "checked first" if item.checks else "parts of a sum"
    first = ScheduleItem(found.first, read, reason=reason, checks=item.checks, origins=item.origins)
    rest = replace(item, ast=found.rest, buffers=kept, checks=())
    return [with_variables_of(item, first), with_variables_of(item, rest)]


def by_pieces(item: ScheduleItem, pieces: Sequence[Piece]) -> list[ScheduleItem]:
    """The items that write the pieces of an item's output."""
    return [of_piece(item, piece) for piece in pieces]


def of_piece(item: ScheduleItem, piece: Piece) -> ScheduleItem:
    """The item that writes a piece of an item's output."""
    buffers = tuple(item.buffers[n] for n in piece.slots)
    return with_variables_of(item, replace(item, ast=piece.ast, buffers=buffers))


def in_order(
    item: ScheduleItem, found: Arranged | None, copies: dict[tuple[UOp, UOp], UOp]
) -> list[ScheduleItem]:
    """The item, or a copy of an operand in the order in which it is read, and the item on it. What
    another phase has copied is not copied again: `copies` has the buffers of these.
    """
    if found is None:
        return [item]
    origin = item.buffers[found.slot]
    known = copies.get((found.copy, origin))
    copied = known or make_buffer(item.buffers[0].arg.device, found.size, origin.dtype)
    copies[found.copy, origin] = copied
    buffers = tuple(copied if n == found.slot else b for n, b in enumerate(item.buffers))
    if known is not None:
        return [replace(item, ast=found.rest, buffers=buffers)]
    copy = ScheduleItem(
        found.copy, (copied, origin), reason="order of use", origins=item.origins, group=item.group
    )
    return [with_variables_of(item, copy), replace(item, ast=found.rest, buffers=buffers)]


def with_variables_of(item: ScheduleItem, part: ScheduleItem) -> ScheduleItem:
    """The part with the values that the item gives its variables: the number of a block, say."""
    names = {node.arg[0] for node in part.ast.toposort() if node.op is Ops.VARIABLE}
    kept = [number for number, (name, _) in enumerate(item.variables) if name in names]
    return replace(
        part,
        variables=tuple(item.variables[number] for number in kept),
        bindings=tuple(item.bindings[number] for number in kept if item.bindings),
    )


# What may take the place of a kernel without checks, after `in_phases` and before `arranged`: the
# first that gains something does. Zero points come before split sums, which would leave sums of
# fewer terms; both before index sets, since these are for kernels that sum nothing.
SEVERAL: Final[tuple[tuple[Rule, Items], ...]] = (
    (in_offsets, by_parts),
    (in_parts, by_parts),
    (in_pieces, by_pieces),
)
