"""Recipes: what computing a graph comes to, kept for graphs that recur.

A recipe has compiled kernels and how they are wired; neither values nor places in programs. Who
needs those, an error above all, plans the graph that is there. So a recipe serves every graph of
one canonical form, and keeps nothing of the graph alive that it was made for. Of memory it has only
that of small results that nobody holds any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from torpor.base.locks import recursive_lock, taken
from torpor.device import Buffer, copy_buffer
from torpor.device.base import Executable
from torpor.device.buffer import BufferMaker
from torpor.device.executor import Given
from torpor.ir.infer import Shape, shape_of, shaped
from torpor.ir.ops import Ops
from torpor.ir.records import Program, ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import reuse
from torpor.pipeline.canonical import Canonical
from torpor.pipeline.inplace import heirs
from torpor.pipeline.report import note_run, stripped, timing
from torpor.pipeline.run import Prepared, last_uses
from torpor.pipeline.together import AtOnce, Together, Wiring, at_once, together

MOST_BYTES: Final = 1 << 12  # of a result whose memory is kept: there may be many recipes
MOST_WORDS: Final = 1_000_000  # words in the keys and launches that are kept: tens of megabytes
Part = tuple[UOp, Shape]  # the BUFFER that holds it, and its shape


@dataclass(frozen=True)
class Result:
    """The value of one root: its parts, one a device, and how they are joined (the arg of a MULTI;
    None: there is one part).
    """

    parts: tuple[Part, ...]
    joint: Any = None

    def node(self) -> UOp:
        """The value as a graph node."""
        parts = [over_buffer(*part) for part in self.parts]
        return parts[0] if self.joint is None else joined(parts, self.joint)


def joined(parts: Sequence[UOp], joint: Any) -> UOp:
    """One value over several devices."""
    return UOp(Ops.MULTI, parts[0].dtype, tuple(parts), joint)


def over_buffer(buffer: UOp, shape: Shape) -> UOp:
    """The buffer's value in a shape."""
    if shape == (buffer.arg.size,):
        return buffer
    return shaped(UOp(Ops.RESHAPE, buffer.dtype, (buffer,), shape), shape)


class Launch(NamedTuple):
    """One kernel or copy (`executable` None). Memory goes by number: first what the graph reads,
    then what the recipe makes.

    memory: the kernel's parameters.
    bound:  its integer parameters: which of the graph's bound variables, or after them of the
            recipe's own numbers.
    last:   large memory that nobody reads later.
    heirs:  (large memory that it makes, that which it takes over).
    item, program: as it was planned, for measurements only.
    """

    executable: Executable | None
    item: ScheduleItem
    program: Program | None
    memory: tuple[int, ...]
    bound: tuple[int, ...]
    last: tuple[int, ...]
    heirs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Recipe:
    """takes:   give memory to be filled, with the node of a root's value.
    launches: in order.
    results:  for each root, its parts (memory and shape; None for the root's own) and joint.
    numbers:  integer parameters that are always the same.
    together: launches that threads may share in groups, by the number of the first.
    at_once:  all launches by one native call, where that can be.
    """

    takes: tuple[Callable[[], reuse.Result], ...]
    launches: tuple[Launch, ...]
    results: tuple[tuple[tuple[tuple[int, Shape | None], ...], Any], ...]
    numbers: tuple[int, ...] = ()
    together: Mapping[int, Together] = field(default_factory=dict)
    at_once: AtOnce | None = None
    lock: Any = field(default_factory=recursive_lock)  # of `takes`


class Failed(Exception):
    """A CHECK in launch number `launch` failed: `error` is its error word."""

    def __init__(self, launch: int, error: int):
        super().__init__(launch, error)
        self.launch, self.error = launch, error


_recipes: Final[dict[tuple[Any, ...], Recipe]] = {}
_lock: Final = recursive_lock()  # a finaliser may compute something while it is held
_words = 0


def recipe_for(form: Canonical) -> Recipe | None:
    """The recipe of a canonical form, if its like has been computed before."""
    return _recipes.get(form.key)


def keep(form: Canonical, recipe: Recipe) -> None:
    """Keep a recipe; too many are thrown away together."""
    global _words
    with _lock:
        _words += len(form.skeleton[-1]) + 32 * len(recipe.launches)
        if _words > MOST_WORDS:
            _recipes.clear()
            _words = 0
        _recipes[form.key] = recipe


def forget() -> None:
    """Throw all recipes away."""
    global _words
    with _lock:
        _recipes.clear()
        _words = 0


# --- writing one down -----------------------------------------------------------------------------
def recipe_of(
    form: Canonical, ready: Sequence[Prepared], results: Sequence[Result]
) -> Recipe | None:
    """What was just run, as a recipe; None where the parts of a value have symbolic shapes."""
    written = (one.item.buffers[n].arg for one in ready for n in one.item.outputs)
    fresh = list(dict.fromkeys(written))  # several kernels may write parts of one
    numbers = {buffer: number for number, buffer in enumerate((*form.buffers, *fresh))}
    bound = {node: number for number, node in enumerate(form.bound)}
    kept = frozenset(buffer for result in results for buffer, _ in result.parts)
    last = last_uses([one.item for one in ready], kept)
    large = {buffer for buffers in last.values() for buffer in buffers if not is_small(buffer.arg)}
    inherited = heirs([(one.program, one.item.buffers) for one in ready], large)
    launches = []
    fixed: list[int] = []
    for number, one in enumerate(ready):
        by_name = dict(zip((name for name, _ in one.item.variables), one.item.bindings))
        names = [name for name, _ in one.program.variables] if one.program is not None else []
        launches.append(
            Launch(
                one.executable,
                stripped(one.item),
                one.program,
                tuple(numbers[node.arg] for node in one.item.buffers),
                tuple(place_of(by_name[name], bound, fixed) for name in names),
                tuple(numbers[n.arg] for n in last.get(number, ()) if n in large),
                tuple((numbers[n.arg], numbers[o.arg]) for n, o in inherited.get(number, ())),
            )
        )
    values = []
    shapes: dict[int, Shape] = {}
    for result in results:
        single = result.joint is None
        if not single and any(isinstance(s, UOp) for _, shape in result.parts for s in shape):
            return None
        parts = tuple((numbers[b.arg], None if single else shape) for b, shape in result.parts)
        values.append((parts, result.joint))
        shapes |= {numbers[b.arg]: shape for b, shape in result.parts if single}
    takes = tuple(taking(b, shapes.get(n)) for n, b in enumerate(fresh, len(form.buffers)))
    words: list[int | Given] = [*map(Given, range(len(bound))), *fixed]
    wiring = Wiring(
        [launch.memory for launch in launches],
        [[words[n] for n in launch.bound] for launch in launches],
        [buffer for buffer in fresh if buffer not in {node.arg for node in kept}],
    )
    shared = together(ready, wiring, len(bound))
    whole = at_once(ready, wiring, len(bound))
    return Recipe(takes, tuple(launches), tuple(values), tuple(fixed), shared, whole)


def place_of(binding: UOp, bound: dict[UOp, int], fixed: list[int]) -> int:
    """Where a launch finds a number: among the graph's bound variables, or after them among those
    that are always the same.
    """
    if binding in bound:
        return bound[binding]
    fixed.append(binding.src[1].arg)
    return len(bound) + len(fixed) - 1


def taking(like: Buffer, shape: Shape | None) -> Callable[[], reuse.Result]:
    """A function that gives memory like a buffer's, and the node of its value in this shape. Large
    memory comes when it is filled.
    """
    if not is_small(like):
        return reuse.Later(like.device, like.size, like.dtype).take
    known = not any(isinstance(size, UOp) for size in shape or ())
    make = BufferMaker(like.device, like.size, like.dtype)
    node_over = partial(value_in, shape=shape) if shape is not None and known else None
    return reuse.Reused(make, node_over).take


def is_small(buffer: Buffer) -> bool:
    """Whether its memory is kept for the next run."""
    return buffer.nbytes <= MOST_BYTES


def value_in(buffer: Buffer, shape: Shape) -> UOp:
    """The node of the value in a buffer."""
    node = shaped(UOp(Ops.BUFFER, buffer.dtype, (), buffer), (buffer.size,))
    return over_buffer(node, shape)


# --- following it ---------------------------------------------------------------------------------
def carry_out(
    recipe: Recipe, inputs: Sequence[Buffer], bound: Sequence[int] = ()
) -> dict[int, reuse.Result]:
    """Run the launches on these inputs: what they make, results at least, by the number of its
    memory. A `Failed` says which check did not hold.
    """
    once = recipe.at_once
    if once is None or timing() or not taken(once.lock):
        return _one_by_one(recipe, inputs, [*bound, *recipe.numbers])
    try:
        return _at_once(recipe, once, inputs, bound)
    finally:
        once.lock.release()


def follow(recipe: Recipe, form: Canonical, shapes: Sequence[Shape]) -> list[UOp]:
    """Compute roots of these shapes, whose canonical form is `form`, as `carry_out`."""
    made = carry_out(recipe, form.buffers, [node.src[1].arg for node in form.bound])
    found: list[UOp] = []
    for (parts, joint), shape in zip(recipe.results, shapes, strict=True):
        if joint is None:
            ((n, _),) = parts
            node = made[n].node if n in made else None  # two roots may be one value in two shapes
            if node is None or shape_of(node) != shape:
                node = value_in(memory_at(n, form.buffers, made), shape)
            found.append(node)
        else:
            joining = [
                value_in(memory_at(n, form.buffers, made), shape if s is None else s)
                for n, s in parts
            ]
            found.append(joined(joining, joint))
    return found


def memory_at(number: int, inputs: Sequence[Buffer], made: Mapping[int, reuse.Result]) -> Buffer:
    """The memory of this number after a run."""
    return made[number].buffer if number in made else inputs[number]


def _at_once(
    recipe: Recipe, once: AtOnce, inputs: Sequence[Buffer], bound: Sequence[int]
) -> dict[int, reuse.Result]:
    """Run all launches by one call: the results, by the number of their memory."""
    count = len(inputs)
    with recipe.lock:
        made = {n: recipe.takes[n - count]() for n in once.needs if n >= count}
    needed = [memory_at(n, inputs, made) for n in once.needs]
    _have(needed)
    failed, error = once.run(needed, bound)
    if error:
        raise Failed(failed, error)
    return made


def _one_by_one(
    recipe: Recipe, inputs: Sequence[Buffer], values: Sequence[int]
) -> dict[int, reuse.Result]:
    """Run each launch by a call of its own: what the recipe makes, by the number of its memory."""
    with recipe.lock:
        made = [take() for take in recipe.takes]
    memory = [*inputs, *[result.buffer for result in made]]
    done = 0  # launches
    timed = timing()
    for number, launch in enumerate(recipe.launches):
        executable, item, program, places, bound, last, inherited = launch
        if number in recipe.together and not timed:
            done = _by_groups(recipe, number, memory, values) or done
        if number < done:
            continue
        for new, old in inherited:
            memory[new].share(memory[old])
        buffers = [memory[n] for n in places]
        _have(buffers)
        error, started = 0, time.perf_counter()
        if executable is None:
            copy_buffer(buffers[0], buffers[1])
        else:
            error = executable(buffers, [values[n] for n in bound])
        if timed:
            note_run(item, program, started, time.perf_counter() - started)
        if error:
            raise Failed(number, error)
        for n in last:
            memory[n].deallocate()
    return dict(enumerate(made, len(inputs)))


def _have(buffers: Iterable[Buffer]) -> None:
    """See to it that there is memory."""
    for buffer in buffers:
        if not buffer.place and not buffer.is_allocated():
            buffer.allocate()


def _by_groups(
    recipe: Recipe, number: int, memory: Sequence[Buffer], values: Sequence[int]
) -> int | None:
    """Run the launches from `number` on that threads share in groups, if that pays: the number of
    the launch after them.
    """
    shared = recipe.together[number]
    if not shared.pays():
        return None
    _have(memory[n] for n in shared.needs)
    outcome = shared.run(memory, values[: len(values) - len(recipe.numbers)])
    if outcome is None:
        return None
    failed, error = outcome
    if error:
        raise Failed(failed, error)
    for launch in recipe.launches[shared.first : shared.end]:
        for n in launch.last:
            if memory[n].is_allocated():
                memory[n].deallocate()
    return shared.end
