"""Graphs of programs that take ever other numbers of steps are computed step by step.

before  f(f(f(h, a), b), c), and the graph of the pass before was f(f(h, d), e)
after   h1 = f(h, a), h2 = f(h1, b), h3 = f(h2, c), all by the kernels of one step

Operations of one kind come from one line of the program. Where their number has changed, and some
depend on each other, one after the other, these tell steps apart; each node belongs to the last
step in which it can be computed. What later steps need of a step is computed together. The kernels
of all steps are the recipe of graphs that are the same again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.device import Buffer
from torpor.graph.sizes import is_plain
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import Canonical
from torpor.pipeline.command import Command, Prepared
from torpor.pipeline.general import Roots, Row
from torpor.pipeline.recipe import Recipe, Result, Run, keep, noted, recipe_of
from torpor.pipeline.remade import nodes_of

LEAST: Final = 8  # operations of one kind, one after the other, that are steps: a choice
TRIED: Final = 8  # kinds by which steps are told apart, until the best is taken
LARGEST: Final = 1 << 26  # bytes of what is kept of all steps
MOST: Final = 4096  # kinds of graphs that are remembered
UNSTORED: Final = MOVEMENT | {Ops.CONST, Ops.BUFFER, Ops.LEAF, Ops.DETACH, Ops.FUNCTION}

Kind = Hashable
Compute = Callable[[Roots], list[UOp]]


class Known(NamedTuple):
    """How many operations of each kind the first such graph had, and which graphs came."""

    counts: Mapping[Kind, int]
    row: Row


_came: Final[set[int]] = set()  # graphs that were computed in steps
_seen: Final[dict[int, Known]] = {}  # by the kinds of a graph's operations


def in_steps(roots: Roots, form: Canonical, compute: Compute) -> list[UOp] | None:
    """The values of roots, computed step by step; None where there are no steps, as many as there
    have been, or where the graph of this form stays as it is but for numbers.
    """
    device = roots[0][1]
    if noted.runs is not None or any(other != device or JOINT in other for _, other in roots):
        return None
    order = nodes_of(roots)[:-1]
    steps = steps_of(order, form.skeleton, {node for node, _ in roots})
    if steps is None or not all(is_plain(shape_of(node)) for step in steps for node in step):
        return None
    if sum(prod(shape_of(n)) * n.dtype.itemsize for step in steps for n in step) > LARGEST:
        return None
    stands: dict[UOp, UOp] = {}
    noted.runs = []  # which says, too, that this is inside of a graph in steps
    try:
        for step in (*steps, [node for node, _ in roots]):
            left = [node for node in step if node not in stands]
            sink = UOp.sink(*left).substitute(stands)
            values = compute([(node, device) for node in sink.src]) if left else []
            stands |= dict(zip(left, values, strict=True))
        found = [stands[node] for node, _ in roots]
        recipe = one_of(noted.runs, form, found) if comes_again(form) else None
    finally:
        noted.runs = None
    if recipe is not None:
        keep(form, recipe)
    return found


def comes_again(form: Canonical) -> bool:
    """Whether a graph came before with the same numbers, and has none that are not in its form."""
    if len(_came) >= MOST:
        _came.clear()
    name = hash(form.key)
    came = name in _came
    _came.add(name)
    return came and not form.bound


def one_of(runs: Sequence[Run], form: Canonical, values: Sequence[UOp]) -> Recipe | None:
    """The recipe of a graph with these values that does what these runs did; None where they read
    what neither the graph nor one of them holds, or a check of theirs names another graph.
    """
    known = set(map(id, form.buffers))
    ready: list[Prepared] = []
    for recipe, inputs, bound, made in runs:
        graph, memory = recipe.graph, [result.buffer for result in made]
        plain = not any(c.item.jump or (c.program and c.program.checks) for c in graph.commands)
        if not (plain and known.issuperset(map(id, inputs))) or graph.sections:
            return None
        table = graph.table(inputs, memory)
        ready += [placed(command, table, bound) for command in graph.commands]
        known.update(map(id, memory))
    results = [Result(((value.below((Ops.RESHAPE,)), shape_of(value)),)) for value in values]
    if not known.issuperset(id(one.parts[0][0].arg) for one in results):
        return None
    return recipe_of(form, ready, results)[0]


def placed(command: Command, table: Sequence[Buffer], bound: Sequence[int]) -> Prepared:
    """What a command does in this memory, with these numbers."""
    memory = (table[slot] for slot in command.slots)
    nodes = tuple([UOp(Ops.BUFFER, buffer.dtype, (), buffer) for buffer in memory])
    item = replace(command.item, buffers=nodes)
    if command.program is not None:
        names = (name for name, _ in command.program.variables)
        item = replace(item, variables=tuple(zip(names, command.values_in(bound), strict=True)))
    return Prepared(item, command.program, command.executable)


def steps_of(order: Sequence[UOp], name: Hashable, asked: set[UOp]) -> list[list[UOp]] | None:
    """What is to be computed in each step, of the nodes of a graph in order."""
    inside = {node.src[0] for node in order if node.op is Ops.PRIOR}  # without which it is nothing
    stored = [node for node in order if node.op not in UNSTORED and node.dtype is not dtypes.void]
    kinds = {node: kind_of(node) for node in stored if node not in inside}
    counts = Counter(kinds.values())
    if not counts or max(counts.values()) < LEAST:
        return None
    if len(_seen) >= MOST:
        _seen.clear()
    known = _seen.setdefault(hash(frozenset(counts)), Known(counts, Row()))
    others = [kind for kind, n in counts.items() if n >= LEAST and known.counts[kind] != n]
    if not others or known.row.is_steady(name):
        return None
    depths = [(depth_of(order, kinds, kind), kind) for kind in others[:TRIED]]
    long = sorted((one for one in depths if one[0] >= LEAST), key=lambda one: one[0])
    early = {node for node in asked if counts[kinds.get(node)] >= LEAST}
    found = (frontiers(order, kinds, kind, depth, early) for depth, kind in long)
    return next(filter(are_alike, found), None)


def are_alike(steps: Sequence[Sequence[UOp]]) -> bool:
    """Whether no step hands on far more than most do: then a kind tells all of them apart."""
    sizes = sorted(map(len, steps))
    return bool(sizes) and sizes[-1] <= 2 * sizes[len(sizes) // 2] + 2


def kind_of(node: UOp) -> Kind:
    """What operations that come again have in common: above all the line of the program."""
    return node.op, node.dtype, len(shape_of(node)), node.origins[:1]


def depths_of(order: Sequence[UOp], kinds: Mapping[UOp, Kind], kind: Kind) -> dict[UOp, int]:
    """How many operations of a kind that depend on each other each node has below."""
    depths: dict[UOp, int] = {}
    for node in order:
        below = [depths.get(one, 0) + (kinds.get(one) == kind) for one in node.src]
        depths[node] = max(below, default=0)
    return depths


def depth_of(order: Sequence[UOp], kinds: Mapping[UOp, Kind], kind: Kind) -> int:
    """How many operations of a kind depend on each other, one after the other."""
    depths = depths_of(order, kinds, kind)
    return max(n + (kinds.get(node) == kind) for node, n in depths.items())


def frontiers(
    order: Sequence[UOp], kinds: Mapping[UOp, Kind], kind: Kind, depth: int, early: set[UOp]
) -> list[list[UOp]]:
    """For each step but the last the nodes that later ones need. A step ends with operations of the
    kind. Those that are `early` are asked for, and computed as soon as they can be.
    """
    depths = depths_of(order, kinds, kind) if early else {}
    late = {node: depths[node] for node in early}
    needed = dict.fromkeys(early, depth)
    for node in reversed(order):
        step = late.setdefault(node, depth)
        until = step if node in kinds else max(step, needed.get(node, 0))  # views are not stored
        for source in node.src:
            own = step - (kinds.get(source) == kind)
            late[source] = min(late.get(source, depth), own)
            needed[source] = max(needed.get(source, 0), until)
    found: list[list[UOp]] = [[] for _ in range(depth + 1)]
    for node in order:
        if node in kinds and late[node] < needed.get(node, 0):
            found[late[node]].append(node)
    return [step for step in found if step]
