"""The route: graph -> simplified graph -> schedule -> programs -> results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from torpor.base.dtypes import DType
from torpor.base.phases import phase
from torpor.base.target import Target
from torpor.device import Buffer, Device
from torpor.graph import simplify_graph
from torpor.graph.fission import simplified
from torpor.graph.multi import resolve
from torpor.ir.contract_graph import GRAPH, RESOLVED
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program, ScheduleItem, Stored
from torpor.ir.trace import listener
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
    over_met,
    own_parameters,
)
from torpor.pipeline import again, anew, plans
from torpor.pipeline.blame import index_of
from torpor.pipeline.boxes import known_form, with_places
from torpor.pipeline.canonical import Canonical, canonical
from torpor.pipeline.compile import has_kernel, make_ready, programs_of, target_named
from torpor.pipeline.compiled_graph import Failed, prepare
from torpor.pipeline.recipe import Result, can_be_kept, follow, keep, recipe_for, recipe_of
from torpor.pipeline.report import narrating, note_graph, show_schedule, watched
from torpor.pipeline.run import Refused, error_of, observed, record, recorded, unseen
from torpor.schedule import Plan, TargetOf, plan
from torpor.schedule.afresh import limit_now
from torpor.schedule.loops import Bodies, is_loop
from torpor.schedule.plan import Places

Roots = Sequence[tuple[UOp, str]]


def make_buffer(device: str, size: int, dtype: DType) -> UOp:
    """The BUFFER node of a new buffer, which gets its memory when it is first written."""
    return UOp(Ops.BUFFER, dtype, (), Buffer(device, size, dtype))


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
    phases, order, parts = cache(in_phases), cache(arranged), cache(in_two)
    checks, rounds, pieces = cache(checked_ahead), cache(over_met), cache(in_pieces)

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
        for ast in phases(rounds(item.ast)):  # they write parts of its output
            part = item if ast is item.ast else of_piece(item, own_parameters(ast))
            ast = part.ast
            if item.group is None and (found := parts(ast, target)) is not None:
                yield from by_parts(part, found)
            elif item.group is None and (cut := pieces(ast, target)):
                yield from (of_piece(part, piece) for piece in cut)
            else:
                yield from in_order(part, order(ast, target), copies)


def in_two(ast: UOp, target: Target) -> Parted | None:
    """A kernel as two: a long sum in parts, or a product of signed bytes as one of unsigned ones
    and what makes up for that.
    """
    return in_parts(ast, target) or in_offsets(ast, target)


def by_parts(item: ScheduleItem, found: Parted) -> list[ScheduleItem]:
    """The item that computes what is needed first, with the checks, and the item that needs it."""
    memory = make_buffer(item.buffers[0].arg.device, found.size, found.dtype)
    read = (memory, *(item.buffers[n] for n in found.read))
    kept = (*(item.buffers[n] for n in found.kept), memory)
    reason = "checked first" if item.checks else "parts of a sum"
    first = ScheduleItem(found.first, read, reason=reason, checks=item.checks, origins=item.origins)
    rest = replace(item, ast=found.rest, buffers=kept, checks=())
    return [with_variables_of(item, first), with_variables_of(item, rest)]


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


def schedule(roots: Roots) -> list[ScheduleItem]:
    """The kernels that would compute `roots` (graph node, device). Runs and changes nothing."""
    return list(planned(roots)[0].items)


def lower(
    roots: Roots, target: str | None = None, opts: Sequence[Opt] | None = None
) -> list[Program]:
    """The programs that would compute `roots` on `target` (by default that of the first root's
    device). Nothing runs, and the target's device need not be there.
    """
    wanted = target_named(target, roots[0][1].split(JOINT)[0])
    items = planned(roots, lambda _: wanted)[0].items
    return programs_of(items, wanted, opts)


def realize(roots: Roots) -> list[UOp]:
    """Compute `roots` (graph node, device); for each a node of its shape over the BUFFER that holds
    the value. Raises what an operation raises when it runs, and then nothing has changed.
    """
    small = again.named(*roots[0]) if len(roots) == 1 and unseen() else None
    if small is not None and (value := again.value_of(small, roots[0][0])) is not None:
        return [value]
    try:
        with phase("launch"):
            made = computed(roots)
        if small is not None:
            again.know(small, roots)
        return made
    except Refused as refused:
        site = refused.site
    raise error_of(site, index_of(site, roots[0][1], computed))


def computed(roots: Roots) -> list[UOp]:
    """As `realize`, but that a failed check is `Refused`."""
    apart = recorded() or limit_now() is not None  # it is planned in a way of its own
    form = None if apart else canonical(roots)
    seen = observed()
    if form is not None and form.boxes:
        known = None if seen else known_form(form)
        if known is not None and (recipe := recipe_for(known)) is not None:
            anew.ran()
            with suppress(Failed):  # it fails again below, where the graph is there to be blamed
                return follow(recipe, known, [shape_of(node) for node, _ in roots])
        roots, form = with_places(roots, form)
    recipe = None if form is None else recipe_for(form)
    shapes = [shape_of(node) for node, _ in roots]
    if form is not None and recipe is not None and not seen:
        anew.ran()
        try:
            return follow(recipe, form, shapes)
        except Failed as failed:  # the lines to name are those of the graph that is here
            refused = Refused.of(failed, planned(roots)[0].items)
        raise refused
    items, results, kept = scheduled(roots, form)
    show_schedule(items)
    try:
        if form is not None and recipe is not None:
            return follow(recipe, form, shapes, items)
        run_first(form, items, results)
        return [result.node() for result in results]
    except Failed as failed:
        refused = Refused.of(failed, planned(roots)[0].items if kept else items)
    raise refused


def scheduled(
    roots: Roots, form: Canonical | None
) -> tuple[Sequence[ScheduleItem], Sequence[Result], bool]:
    """The kernels for the roots, where these will lie, and whether that comes from the disk: then
    the kernels do not know what their checks mean.
    """
    if watched() or listener() is not None or limit_now() is not None:
        return (*planned_with_results(roots), False)
    form = form or canonical(roots)
    name = None if form is None else plans.name_of(form, roots)
    if form is None or name is None:
        return (*planned_with_results(roots), False)
    found = plans.read(name, form, make_buffer)
    if found is not None:
        return (*found, True)
    lines = plans.lines_of(form)
    items, results = planned_with_results(roots)
    plans.write(name, form, lines, (items, results))
    return items, results, False


def planned_with_results(roots: Roots) -> plans.Schedule:
    """The kernels that compute the roots, and where these will lie."""
    made, groups, simple = planned(roots)
    results = [
        result_of(made, group, node, *root)
        for group, node, root in zip(groups, simple, roots, strict=True)
    ]
    return made.items, results


def run_first(
    form: Canonical | None, items: Sequence[ScheduleItem], results: Sequence[Result]
) -> None:
    """Compile what was planned, run it into the memory that it was planned for, and keep it."""
    missing = make_ready(items)
    if not recorded():  # the jit knows by itself how often it traces
        anew.compiled(missing) if missing else anew.ran()
    ready = [prepare(item) for item in items]
    recipe, buffers = recipe_of(form, ready, results)
    inputs, bound = ((), ()) if form is None else (form.buffers, form.bound)
    recipe.graph.run(inputs, buffers, [node.src[1].arg for node in bound], items)
    record(ready)
    if form is not None and can_be_kept(results):
        keep(form, recipe)


def result_of(
    made: Plan, group: list[tuple[UOp, str]], simple: UOp, root: UOp, device: str
) -> Result:
    """Where a root's value lies; `group` is what was computed for it on each of its devices."""
    if JOINT not in device:
        return Result(((made.results[group[0][0]], shape_of(root)),))
    joint = simple.arg if simple.op is Ops.MULTI else (None, tuple(one for _, one in group))
    return Result(tuple((made.results[part], shape_of(part)) for part, _ in group), joint)
