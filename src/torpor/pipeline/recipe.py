"""Recipes: a compiled graph and how its results are shown, kept for graphs that recur.

A recipe keeps neither values nor places in programs: who needs those, an error above all, plans the
graph that is there. So it serves every graph of one canonical form, and keeps nothing of the graph
alive that it was made for. Of memory it has only that of small results that nobody holds any more,
and a small arena.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType
from torpor.base.locks import recursive_lock
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import reuse
from torpor.pipeline.canonical import Canonical
from torpor.pipeline.command import Prepared, Word
from torpor.pipeline.compiled_graph import (
    CompiledGraph,
    Kind,
    compiled_graph,
    kind_of,
)
from torpor.pipeline.report import timing

MOST_BYTES: Final = 1 << 12  # of a result whose memory is kept: there may be many recipes
MOST_WORDS: Final = 1_000_000  # words in the keys and commands that are kept: tens of megabytes
Part = tuple[UOp, Shape]  # the BUFFER that holds it, and its shape


@dataclass(frozen=True)
class Result:
    """The value of one root: its parts, one a device, and how they are joined (the arg of a MULTI;
    None: there is one part).
    """

    parts: tuple[Part, ...]
    joint: Any = None

    def shaped(self, shape: Shape) -> Result:
        """The value in a shape, if it is on one device."""
        return self if self.joint is not None else Result(((self.parts[0][0], shape),))

    def node(self) -> UOp:
        """The value as a graph node."""
        parts = [buffer_node(node.arg, shape) for node, shape in self.parts]
        return parts[0] if self.joint is None else joined(parts, self.joint)


def joined(parts: Sequence[UOp], joint: Any) -> UOp:
    """One value over several devices."""
    return UOp(Ops.MULTI, parts[0].dtype, tuple(parts), joint)


def make_buffer(device: str, size: int, dtype: DType) -> UOp:
    """The BUFFER node of a new buffer, which gets its memory when it is first written."""
    return UOp(Ops.BUFFER, dtype, (), Buffer(device, size, dtype))


@dataclass
class Recipe:
    """takes:   give memory to be filled, with the node of a root's value.
    results: for each root, its parts (slot and shape; None for the root's own) and joint.
    lines:   for each command, of which node of the graph it has its line, and which of the node's.
    used:    whether it has been since the cache was last full.
    told:    whether a trace (VIZ) has how it was planned.
    left:    how often it will still do, until such a graph is planned as a whole (0: for good).
    """

    graph: CompiledGraph
    takes: tuple[Callable[[], reuse.Result], ...]
    results: tuple[tuple[tuple[tuple[int, Shape | None], ...], Any], ...]
    lines: Sequence[tuple[int, int] | None] = ()
    words: int = 0
    used: bool = False
    told: bool = False
    left: int = 0
    lock: Any = field(default_factory=recursive_lock)  # of `takes`
    first: int = field(init=False)  # the slot of the first result

    def __post_init__(self) -> None:
        self.first = self.graph.memory.first_result


_recipes: Final[dict[tuple[Any, ...], Recipe]] = {}
_lock: Final = recursive_lock()  # a finaliser may compute something while it is held
_words = 0


def recipe_for(form: Canonical) -> Recipe | None:
    """The recipe of a canonical form, if its like has been computed before."""
    found = _recipes.get(form.key)
    if found is not None:
        found.used = True
    return found


def counted_down(form: Canonical, recipe: Recipe) -> bool:
    """Count a use of a recipe that does not do for good: whether it still does."""
    global _words
    recipe.left -= 1
    if recipe.left:
        return True
    with _lock:
        if _recipes.pop(form.key, None) is not None:
            _words -= recipe.words
    return False


def keep(form: Canonical, recipe: Recipe) -> None:
    """Keep a recipe. Where there are too many, the oldest that have not been used go."""
    global _words
    with _lock:
        recipe.words = len(form.skeleton[-1]) + 32 * len(recipe.graph.commands)
        known = _recipes.get(form.key)
        _words += recipe.words - (0 if known is None else known.words)
        _recipes[form.key] = recipe
        while _words > MOST_WORDS:
            key = next(iter(_recipes))
            oldest = _recipes.pop(key)
            if oldest.used:
                oldest.used = False
                _recipes[key] = oldest
            else:
                _words -= oldest.words


def forget() -> None:
    """Throw all recipes away."""
    global _words
    with _lock:
        _recipes.clear()
        _words = 0


# --- writing one down -----------------------------------------------------------------------------
def recipe_of(
    form: Canonical | None, ready: Sequence[Prepared], results: Sequence[Result],
    lines: Mapping[Any, tuple[int, int]] = MappingProxyType({}),
) -> tuple[Recipe, list[Buffer]]:  # fmt: skip
    """The recipe of what is ready to run, and the buffers that its results were planned for.
    Without a form everything but results is as it is now at each run. `lines`: where the form's
    nodes have which line of the program.
    """
    wanted = [node.arg for result in results for node, _ in result.parts]
    inputs, bound = ((), ()) if form is None else (form.buffers, form.bound)
    words = {node: Word(number) for number, node in enumerate(bound)}
    graph, slots = compiled_graph(ready, inputs, wanted, words.get, len(words))
    first = graph.memory.first_result
    fresh = {slots[id(buffer)]: buffer for buffer in wanted if slots[id(buffer)] >= first}
    alone = [result.parts[0] for result in results if result.joint is None]
    shapes = {slots[id(node.arg)]: shape for node, shape in alone}
    kinds = ((kind_of(buffer), shapes.get(slot)) for slot, buffer in sorted(fresh.items()))
    takes = tuple(taking(*pair) for pair in kinds)
    values = tuple(
        (
            tuple((slots[id(n.arg)], None if one.joint is None else s) for n, s in one.parts),
            one.joint,
        )
        for one in results
    )
    places = [next(map(lines.get, one.item.origins), None) for one in ready]
    return Recipe(graph, takes, values, places), [fresh[slot] for slot in sorted(fresh)]


def can_be_kept(results: Sequence[Result]) -> bool:
    """Whether another graph's results are shown like these: the parts of a value have no sizes that
    are variables.
    """
    return not any(
        isinstance(size, UOp)
        for result in results
        if result.joint is not None
        for _, shape in result.parts
        for size in shape
    )


def taking(kind: Kind, shape: Shape | None) -> Callable[[], reuse.Result]:
    """A function that gives memory of a kind, and the node of its value in this shape."""
    if shape is None or any(isinstance(size, UOp) for size in shape):
        return reuse.giving(kind, None, MOST_BYTES)
    return reuse.giving(kind, partial(buffer_node, shape=shape), MOST_BYTES)


# --- following it ---------------------------------------------------------------------------------
class Run(NamedTuple):
    """A recipe that was followed, and its memory."""

    recipe: Recipe
    inputs: Sequence[Buffer]
    bound: Sequence[int]
    made: Sequence[reuse.Result]


class _Noted(threading.local):
    runs: list[Run] | None = None  # while somebody wants to know which recipes are followed


noted: Final = _Noted()


def carry_out(
    recipe: Recipe, inputs: Sequence[Buffer], bound: Sequence[int] = (),
    items: Sequence[ScheduleItem] = (), memory: Sequence[Buffer] | None = None,
) -> list[reuse.Result]:  # fmt: skip
    """Run the graph on these inputs: its results, in `memory` if there is some for them. `items` is
    what to show of it.
    """
    with recipe.lock:
        made = [take() for take in recipe.takes] if memory is None else [*map(reuse.Result, memory)]
    buffers = [result.buffer for result in made]
    recipe.graph.run(inputs, buffers, bound, items)
    return made


def follow(
    recipe: Recipe, form: Canonical, shapes: Sequence[Shape], items: Sequence[ScheduleItem] = (),
    memory: Sequence[Buffer] | None = None,
) -> list[UOp]:  # fmt: skip
    """Compute roots of these shapes, whose canonical form is `form`, as `carry_out`."""
    if not items and timing():
        items = here(recipe, form)
    made = carry_out(recipe, form.buffers, form.values, items, memory)
    if noted.runs is not None:
        noted.runs.append(Run(recipe, form.buffers, form.values, made))
    found: list[UOp] = []
    first = recipe.first
    for (parts, joint), shape in zip(recipe.results, shapes):
        if joint is None:
            slot = parts[0][0]
            node = made[slot - first].node if slot >= first else None
            if node is None or shape_of(node) != shape:  # two roots may be one value in two shapes
                node = buffer_node(memory_at(recipe, slot, form.buffers, made), shape)
            found.append(node)
        else:
            joining = [
                buffer_node(memory_at(recipe, slot, form.buffers, made), shape if s is None else s)
                for slot, s in parts
            ]
            found.append(joined(joining, joint))
    return found


def here(recipe: Recipe, form: Canonical) -> list[ScheduleItem]:
    """What a recipe runs, as the lines have it that made this graph: another one of the same form
    was planned.
    """
    graph = list(form.order)
    if not graph or not recipe.lines:
        return []
    items = [command.item for command in recipe.graph.commands]
    for number, line in enumerate(recipe.lines):
        origins = () if line is None else graph[line[0]].origins[line[1] :]
        items[number] = replace(items[number], origins=origins or items[number].origins)
    return items


def memory_at(
    recipe: Recipe, slot: int, inputs: Sequence[Buffer], made: Sequence[reuse.Result]
) -> Buffer:
    """The memory in a slot after a run: an input's or a result's."""
    first = recipe.first
    return made[slot - first].buffer if slot >= first else inputs[slot]
