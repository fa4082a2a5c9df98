"""From a graph to the kernels that compute it: simplified, scheduled, cut up and put in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torpor.base.phases import phase
from torpor.base.target import Target
from torpor.device import Device
from torpor.graph import simplify_graph
from torpor.graph.call import without_calls
from torpor.graph.fission import simplified
from torpor.graph.multi import resolve
from torpor.ir.contract_graph import GRAPH, RESOLVED
from torpor.ir.infer import JOINT
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem, Stored
from torpor.ir.uop import UOp
from torpor.kernel import OF_CHECKS, OF_GROUPS, RULES, Parted, Piece, Rule
from torpor.pipeline.beside import beside, expect
from torpor.pipeline.compile import expense, has_kernel
from torpor.pipeline.recipe import (
    make_buffer,
)
from torpor.pipeline.report import narrating, note_graph
from torpor.schedule.loops import Bodies, is_loop
from torpor.schedule.plan import Places, Plan, TargetOf, plan

Roots = Sequence[tuple[UOp, str]]
# By kernel, rules and target: how many rules were asked, and what the last one makes.
Divisions = dict[tuple[UOp, tuple[Rule, ...], Target], tuple[int, Parted | Sequence[Piece]]]
Copies = dict[tuple[UOp, tuple[UOp, ...]], UOp]  # what was stored already: by kernel, of what


def spread(node: UOp, device: str) -> list[tuple[UOp, str]]:
    """What has to be computed where: one value, or one on each of several devices."""
    if JOINT not in device:
        return [(node, device)]
    devices = device.split(JOINT)
    parts = node.src if node.op is Ops.MULTI else (node,) * len(devices)
    # Under the device's name, since a constant is one node on all of them.
    return [
        (UOp(Ops.CONTIGUOUS, part.dtype, (part,), Stored("output", one)), one)
        for part, one in zip(parts, devices, strict=True)
    ]


def target_of(device: str) -> Target:
    """What kernels for the device are generated for."""
    return Device[device].target


def planned(
    roots: Roots, target_of: TargetOf = target_of
) -> tuple[Plan, list[list[tuple[UOp, str]]], list[UOp]]:
    """The plan of the roots; for each what is computed where; and each simplified."""
    there = without_calls([node for node, _ in roots])
    graph = UOp.sink(*(there[node] for node, _ in roots))
    expect(len(graph.toposort()))
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
    """The items, those with kernels that are better done as several as these.

    Thousands of items may share one ast, blocks of a chain for example: each is looked at once.
    """
    known = divisions_of([item for item in items if has_kernel(item)], target_of)

    def plan_body(roots: Roots) -> tuple[list[ScheduleItem], Places]:
        made = plan(roots, make_buffer, target_of)
        return list(refined(made.items, target_of)), made.results

    def divided(item: ScheduleItem, rules: Sequence[Rule], copies: Copies) -> list[ScheduleItem]:
        """The items in the place of one, by the first rule that gains something."""
        number, found = known[item.ast, tuple(rules), target_of(item.buffers[0].arg.device)]
        if isinstance(found, Parted):
            return by_parts(item, found, copies)
        pieces = [of_piece(item, piece) for piece in found]
        return [one for p in pieces for one in divided(p, rules[number:], copies)] or [item]

    bodies = Bodies(plan_body, make_buffer)
    for item in items:
        if not has_kernel(item):
            yield item
        elif is_loop(item):
            yield from bodies.kernels(item)
        else:
            yield from divided(item, rules_for(item), {})


def rules_for(item: ScheduleItem) -> tuple[Rule, ...]:
    """The rules by which the item may become several."""
    if item.group is not None:
        return () if item.checks else OF_GROUPS
    return OF_CHECKS if item.checks else RULES


def divisions_of(items: Sequence[ScheduleItem], target_of: TargetOf) -> Divisions:
    """What rules make of the items' kernels: each is asked once, what takes long in two processes
    if the other one runs.
    """
    wanted = {
        (item.ast, rules_for(item), target_of(item.buffers[0].arg.device)): None
        for item in items
        if not is_loop(item)
    }
    order = sorted(wanted, key=lambda one: expense(one[0]), reverse=True)
    known: Divisions = {}
    for found in beside(divisions, order, starts=False):
        known |= found
    return known


def divisions(ast: UOp, rules: tuple[Rule, ...], target: Target) -> Divisions:
    """What rules make of a kernel, and of each of its pieces: the number of the first that gains
    something, with what it makes.
    """
    for number, rule in enumerate(rules, 1):
        if found := rule(ast, target):
            known: Divisions = {(ast, rules, target): (number, found)}
            if not isinstance(found, Parted):
                for piece in found:
                    known |= divisions(piece.ast, rules[number:], target)
            return known
    return {(ast, rules, target): (len(rules), ())}


def by_parts(item: ScheduleItem, found: Parted, copies: Copies) -> list[ScheduleItem]:
    """The item that computes what is needed first, with the checks, and the item that needs it.
    What was stored for another piece of the same item (`copies`) is not stored again.
    """
    key = found.first.ast, tuple(item.buffers[n] for n in found.first.slots[1:])
    known = copies.get(key)
    memory = known or make_buffer(
        item.buffers[0].arg.device, found.memory.arg.size, found.memory.dtype
    )
    copies[key] = memory
    first = replace(item, reason=found.reason, outputs=(0,))
    rest = of_piece(replace(item, checks=()), found.rest, memory)
    return [rest] if known else [of_piece(first, found.first, memory), rest]


def of_piece(item: ScheduleItem, piece: Piece, *memory: UOp) -> ScheduleItem:
    """The item that does a piece of another's work, with the values that this gives variables: the
    number of a block, say. Memory between two pieces has the number -1.
    """
    names = {node.arg[0] for node in piece.ast.toposort() if node.op is Ops.VARIABLE}
    kept = [number for number, (name, _) in enumerate(item.variables) if name in names]
    return replace(
        item,
        ast=piece.ast,
        buffers=tuple((*item.buffers, *memory)[n] for n in piece.slots),
        variables=tuple(item.variables[number] for number in kept),
        bindings=tuple(item.bindings[number] for number in kept if item.bindings),
    )
