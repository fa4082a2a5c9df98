"""The route: graph -> simplified graph -> schedule -> programs -> results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from torpor.base.collecting import uncollected
from torpor.base.phases import phase
from torpor.device import Buffer
from torpor.ir.infer import JOINT, Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program, ScheduleItem
from torpor.ir.trace import listener
from torpor.ir.uop import UOp
from torpor.pipeline import again, along, anew, calls, plans
from torpor.pipeline.along import Place
from torpor.pipeline.canonical import Canonical, canonical
from torpor.pipeline.command import Prepared, prepare
from torpor.pipeline.compile import make_ready, programs_of, target_named
from torpor.pipeline.compiled_graph import Failed
from torpor.pipeline.fill import filled
from torpor.pipeline.general import Made, exactly
from torpor.pipeline.journal import recording
from torpor.pipeline.likeness import generalised, known_form, note_numbers
from torpor.pipeline.pieces import in_pieces, is_varied, note_known, note_planned
from torpor.pipeline.recipe import (
    Recipe,
    Result,
    can_be_kept,
    counted_down,
    follow,
    keep,
    recipe_for,
    recipe_of,
)
from torpor.pipeline.report import measurements, show_schedule, watched
from torpor.pipeline.run import Refused, error_of, index_of, observed, record, recorded, unseen
from torpor.schedule.limit import limit_now

if TYPE_CHECKING:
    from torpor.schedule.plan import Plan, TargetOf

Roots = Sequence[tuple[UOp, str]]
Again = tuple[list[UOp], list[tuple[UOp, UOp, int]]]
Company = tuple[list[UOp], list[tuple[UOp, UOp]]]  # values of roots; (node, value) of others


class Later(NamedTuple):
    """Values in memory that holds nothing before `run` has been called; what that runs."""

    values: list[UOp]
    ready: Sequence[Prepared]
    run: Callable[[], None]


def planned(
    roots: Roots, target_of: TargetOf | None = None
) -> tuple[Plan, list[list[tuple[UOp, str]]], list[UOp]]:
    """As `planning.planned`, which is imported when a graph is first planned: with it comes the
    compiler.
    """
    from torpor.pipeline import planning

    return planning.planned(roots, target_of or planning.target_of)


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
    found = realize_along(roots)
    assert found is not None, "nobody was asked"
    return found[0]


def realize_along(roots: Roots, new: Callable[[Canonical], bool] | None = None) -> Company | None:
    """As `realize`; and what was computed along with the roots. `new` is told of a graph that has
    not been computed yet, and says whether it has changed it: None then.
    """
    planned_all = recorded() or bool(measurements()) or listener() is not None
    made_of_one = [] if planned_all else [filled(*root) for root in roots]
    if any(made_of_one):
        others = [root for root, one in zip(roots, made_of_one, strict=True) if one is None]
        found = realize_along(others, new) if others else ([], [])
        if found is None:
            return None
        rest = iter(found[0])
        return [next(rest) if one is None else one for one in made_of_one], found[1]
    try:
        with phase("launch"):
            return in_company(roots, new)
    except Refused as one:
        refused = one
    raise told(refused, roots)


def told(refused: Refused, roots: Roots) -> Exception:
    """What a failed check of these roots means to the user."""
    site = refused.site
    return error_of(site, index_of(site, roots[0][1], computed))


def realize_later(roots: Roots) -> Later:
    """As `realize`, as the jit has it while it traces; nothing runs yet."""
    if not roots:
        return Later([], (), lambda: None)
    with phase("launch"):
        form_of(roots)  # tells the jit of numbers
        later = planned_run(roots)

    def run() -> None:
        try:
            with phase("launch"):
                later.run()
                return
        except Refused as one:
            refused = one
        raise told(refused, roots)

    return later._replace(run=run)


def realize_again(roots: Roots) -> Again | None:
    """As `realize_along`, if the like has been computed before, of graphs in which what is known
    stands for itself; of what was computed along the third is its age (see `along.ages_of`). None
    else, and where a check fails in such a graph: it has to be there.
    """
    if not unseen() or limit_now() is not None or is_varied():
        return None
    small = again.named(*roots[0]) if len(roots) == 1 else None
    if small is not None and (value := again.value_of(small, roots[0][0])) is not None:
        return [value], []
    form = canonical(roots, known=True)
    if form is None:
        return None
    found = calls.form_without(form, roots)
    if found is None:
        return None
    own, wanted = found
    refused = None
    try:
        values = followed(wanted, own)
    except Failed as failed:
        if form.ages or form.calls or wanted is not roots:
            return None  # the graph that failed has to be written first
        refused = Refused.of(failed, planned(roots)[0].items)
    if refused is not None:
        raise told(refused, roots)
    if values is None:
        return None
    if wanted is roots:
        if small is not None:
            again.know(small, roots)
        return values, []
    nodes = [node for node, _ in wanted[len(roots) :]]
    extra = zip(nodes, values[len(roots) :], along.ages_of(form, nodes), strict=True)
    return values[: len(roots)], [*extra]


def take_along(place: Place) -> None:
    """From now on compute this node of graphs with this skeleton along with their roots."""
    again.forget_small()
    along.take_along(place)


def form_of(roots: Roots) -> Canonical | None:
    """The canonical form of roots that are planned as all are."""
    if limit_now() is not None:
        return None
    form = canonical(roots)
    if form is not None and recorded():
        note_numbers(form)
        return None
    return form


def in_company(roots: Roots, new: Callable[[Canonical], bool] | None = None) -> Company | None:
    """As `realize_along`, but that a failed check is `Refused`."""
    form = form_of(roots)
    if form is None:
        return first_run(roots, None), []
    own, wanted = along.with_company(form, roots)
    try:
        values = known_run(wanted, own)
        if values is None:
            if new is not None and new(form):
                return None
            values = new_run(wanted, own)
        else:
            note_known()
    except Refused:
        if wanted is roots:
            raise
        along.leave_alone(form)
        return in_company(roots)
    extra = zip(wanted[len(roots) :], values[len(roots) :], strict=True)
    return values[: len(roots)], [(node, value) for (node, _), value in extra]


def computed(roots: Roots) -> list[UOp]:
    """As `realize`, but that a failed check is `Refused`."""
    found = in_company(roots)
    assert found is not None, "nobody was asked"
    return found[0]


def known_run(roots: Roots, form: Canonical) -> list[UOp] | None:
    """As `followed`, but that a failed check is `Refused`; None where somebody wants to see it."""
    recipe = recipe_for(form)
    if observed(recipe is not None and recipe.told):
        return None
    try:
        return followed(roots, form)
    except Failed as failed:  # the lines to name are those of the graph that is here
        refused = Refused.of(failed, planned(roots)[0].items)
    raise refused


def followed(roots: Roots, form: Canonical) -> list[UOp] | None:
    """The values of roots with this form, if its like has been computed before."""
    recipe = recipe_for(form)
    if recipe is not None and recipe.left and not counted_down(form, recipe):
        recipe = None
    if recipe is not None:
        anew.ran()
        return follow(recipe, form, shapes_of(roots))
    known = known_form(form)
    if known is not None and (recipe := recipe_for(known[0])) is not None:
        anew.ran()
        own, row = known
        if row is not None and row.times == 2:  # not where sizes change at each pass
            row.does(recipe.graph.operations(own.values))
        with suppress(Failed):  # it fails again, where the graph is there to be blamed
            found = follow(recipe, own, shapes_of(roots))
            return found if row is None else [*map(exactly, found)]
    return None


def new_run(roots: Roots, form: Canonical) -> list[UOp]:
    """The values of roots, by kernels for numbers that vary if some do: sizes, places and
    constants. A line of the program whose graphs are planned again and again has its graphs
    computed in pieces; one that fails there is computed as a whole, which says why.
    """
    if observed():  # as a whole
        return general_run(roots, form)
    with suppress(Refused, Failed, MemoryError):
        found = in_pieces(roots, form, piece_run, general_run)
        if found is not None:
            return found
    values = general_run(roots, form)
    note_planned()
    return values


def piece_run(roots: Roots) -> list[UOp]:
    """As `computed`, of a piece."""
    form = canonical(roots)
    if form is None:
        return first_run(roots, None)
    found = followed(roots, form)
    return general_run(roots, form) if found is None else found


def general_run(roots: Roots, form: Canonical) -> list[UOp]:
    """As `new_run`, of a graph as a whole."""
    made = generalised(roots, form)
    if made is not None:  # what is refused names its own sizes below, and takes less memory
        with suppress(Refused, MemoryError), anew.because(made.why):
            return [*map(exactly, first_run(made.roots, made.own, shapes_of(roots), made))]
    return first_run(roots, form)


def shapes_of(roots: Roots) -> list[Shape]:
    return [shape_of(node) for node, _ in roots]


def first_run(
    roots: Roots,
    form: Canonical | None,
    shapes: Sequence[Shape] | None = None,
    general: Made | None = None,
) -> list[UOp]:
    """Plan and compute roots, of these shapes, and keep how under their form. Of a general graph
    that is its own; it is computed with what is there.
    """
    there = form if general is None else general.form
    if there is None:  # a trace, or within a limit
        later = planned_run(roots)
        later.run()
        record(later.ready)
        return later.values
    shapes = shapes_of(roots) if shapes is None else shapes
    lines = {} if form is None else plans.lines_of(form)  # planning hands them down
    items, results, kept = scheduled(roots, form, lines, shapes)
    recipe, memory = recipe_for(there), None
    if recipe is not None and len(recipe.graph.commands) != len(items):  # in pieces
        items = [command.item for command in recipe.graph.commands]
    show_schedule(items)
    try:
        if recipe is None:
            _, recipe, memory = compiled(form, items, results, lines)
        values = follow(recipe, there, shapes, items, memory)
        recipe.told = recording()
        if memory is not None and can_be_kept(results):
            keep(there, recipe)
        return values
    except Failed as failed:
        refused = Refused.of(failed, planned(roots)[0].items if kept else items)
    raise refused


def planned_run(roots: Roots) -> Later:
    """How roots are computed where nobody keeps it; a failed check is `Refused`."""
    items, results, kept = scheduled(roots, None, {}, shapes_of(roots))
    show_schedule(items)
    ready, recipe, memory = compiled(None, items, results, {})

    def run() -> None:
        try:
            recipe.graph.run((), memory, (), items)
            return
        except Failed as failed:
            refused = Refused.of(failed, planned(roots)[0].items if kept else items)
        raise refused

    return Later([result.node() for result in results], ready, run)


def scheduled(
    roots: Roots, form: Canonical | None, lines: plans.Lines, shapes: Sequence[Shape]
) -> tuple[Sequence[ScheduleItem], Sequence[Result], bool]:
    """The kernels for the roots, where these will lie, and whether that comes from the disk: then
    the kernels do not know what their checks mean.
    """
    name = None
    if not watched() and listener() is None and limit_now() is None:
        if form is None and (form := canonical(roots)) is not None:
            lines = plans.lines_of(form)
        name = None if form is None else plans.name_of(form, roots)
    if form is None or name is None:
        return (*planned_with_results(roots, shapes), False)
    with phase("schedule", "from disk"):
        found = plans.read(name, form)
    if found is not None:
        items, results = found
        return items, [one.shaped(shape) for one, shape in zip(results, shapes, strict=True)], True
    items, results = planned_with_results(roots, shapes)
    with phase("schedule", "to disk"):
        plans.write(name, form, lines, (items, results))
    return items, results, False


@uncollected()
def planned_with_results(roots: Roots, shapes: Sequence[Shape]) -> plans.Schedule:
    """The kernels that compute the roots, and where these will lie."""
    made, groups, simple = planned(roots)
    results = [
        result_of(made, group, node, shape, device)
        for group, node, shape, (_, device) in zip(groups, simple, shapes, roots, strict=True)
    ]
    return made.items, results


def compiled(
    form: Canonical | None, items: Sequence[ScheduleItem], results: Sequence[Result],
    lines: plans.Lines,
) -> tuple[Sequence[Prepared], Recipe, list[Buffer]]:  # fmt: skip
    """What was planned, ready to run; the recipe of it, and the memory planned for its results."""
    missing = make_ready(items)
    if not recorded():  # the jit knows by itself how often it traces
        anew.compiled(missing) if missing else anew.ran()
    ready = [prepare(item) for item in items]
    return ready, *recipe_of(form, ready, results, lines)


def result_of(
    made: Plan, group: list[tuple[UOp, str]], simple: UOp, shape: Shape, device: str
) -> Result:
    """Where a root's value lies; `group` is what was computed for it on each of its devices."""
    if JOINT not in device:
        return Result(((made.results[group[0][0]], shape),))
    joint = simple.arg if simple.op is Ops.MULTI else (None, tuple(one for _, one in group))
    return Result(tuple((made.results[part], shape_of(part)) for part, _ in group), joint)
