"""Graphs that are new, of pieces that are not, are computed piece by piece.

before  loss and gradients of steps that were drawn by a coin: hardly ever the same graph twice
after   one kernel or a few for each product of it and what else is used there alone, compiled for
        the graphs before

A program that chooses what it does next by its data, or by chance, makes ever other graphs of the
same operations, as does one that goes round a loop more or less often. Where a graph is cut depends
on what is near: what is used at several places is stored, as is what a product sums, so that a new
combination has pieces that are known. The kernels of all pieces are the recipe of graphs that are
the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod
from typing import Any, Final, NamedTuple

from torpor.base.recent import forget_oldest
from torpor.base.site import Site, here
from torpor.device import Buffer
from torpor.graph.sizes import is_plain
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import ALU, LOOPED, MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import NUMBERED, Canonical, canonical, settings_now
from torpor.pipeline.command import Command, Prepared
from torpor.pipeline.general import STEADY, Roots, exactly
from torpor.pipeline.likeness import came_before, known_form
from torpor.pipeline.recipe import Recipe, Result, Run, follow, keep, noted, recipe_for, recipe_of
from torpor.pipeline.remade import nodes_of

FRESH: Final = 3  # graphs of a line that are planned before one is computed in pieces: a choice
FAMILIAR: Final = 2  # graphs that had a piece, before it is known: a choice
SHARE: Final = 0.75  # of a graph's pieces that are known if it is computed by them: a choice
MANY: Final = 16  # pieces of each kind, from which one new graph says what the next is of: a choice
MOST_OPS: Final = 32  # of a piece: a choice
TERM: Final = 8  # operations that a term counts as, so that long sums have few forms: a choice
LARGEST: Final = 1 << 26  # bytes of what pieces hand on
MOST: Final = 4096  # lines, and graphs, that are remembered
MOST_KINDS: Final = 1 << 11  # of pieces, that are remembered: those that came last
MOST_READY: Final = 64  # numbers of each
# Times that the recipe of all pieces of a graph serves, before it is planned as a whole: a choice.
WHOLE: Final = 64
# Computed wherever they are used.
PASSING: Final = MOVEMENT | {Ops.LEAF, Ops.DETACH, Ops.FUNCTION, Ops.CHECK, Ops.BUFFER}
CHEAP: Final = frozenset(
    {Ops.ADD, Ops.SUB, Ops.MUL, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.CAST, Ops.WHERE}
)
GIVEN: Final = LOOPED | {Ops.PRIOR}  # by what is below, which may give several such
# An enumeration is slow to ask for its members.
_ADD, _BUFFER, _BIND, _CONST = Ops.ADD, Ops.BUFFER, Ops.BIND, Ops.CONST
_FUNCTION, _PAD, _VARIABLE, _WHERE = Ops.FUNCTION, Ops.PAD, Ops.VARIABLE, Ops.WHERE
_TOLD: Final = frozenset({Ops.LEAF, Ops.CHECK})

Compute = Callable[[Roots], list[UOp]]


@dataclass(eq=False, slots=True)
class Piece:
    """What is computed together, for other pieces or because it is asked for.

    place:    in the order of the graph.
    size:     how many operations it has.
    has_sum:  whether one of them sums products.
    released: what no later piece needs.
    """

    place: int
    outputs: list[UOp] = field(default_factory=list)
    size: int = 0
    has_sum: bool = False
    released: list[UOp] = field(default_factory=list)


class Ready(NamedTuple):
    """How a piece is computed: which of its inputs, or what else, is where in a recipe's memory,
    and which of its bound variables, or what number, is where among the values.
    """

    recipe: Recipe
    memory: Sequence[int | Buffer]
    bound: Sequence[int]
    values: Sequence[int]


@dataclass(eq=False, slots=True)
class Kind:
    """Pieces that are the same but for the memory that they read, values of variables and numbers.

    graphs: how many had one; `last`: the number of the last of them.
    ready:  by numbers.
    """

    graphs: int = 0
    last: int = 0
    ready: dict[tuple[Any, ...], Ready] = field(default_factory=dict)


class Named(NamedTuple):
    """Of what kind a piece is, its numbers, what it reads and which variables are bound in it."""

    kind: Kind
    numbers: tuple[Any, ...]
    inputs: Sequence[UOp]
    bound: Sequence[UOp]


_fresh: Final[dict[Site | None, int]] = {}  # by line: graphs that were planned
_varied: Final[set[Site | None]] = set()  # lines whose last graph was computed in pieces
# By skeleton, and by it and numbers: graphs that were computed in pieces.
_came: Final[dict[int, int]] = {}
_numbers: Final = count(1)
_kinds: Final[dict[tuple[Any, ...], Kind]] = {}


def is_varied() -> bool:
    """Whether the last graph that this line of the program asked for was computed in pieces."""
    return bool(_varied) and here() in _varied


def is_restless() -> bool:
    """Whether this line of the program once had graph after graph planned."""
    return bool(_fresh) and _fresh.get(here(), 0) >= FRESH


def note_known() -> None:
    """Note that a graph which this line asks for is known."""
    if _varied:
        _varied.discard(here())


def note_planned() -> None:
    """Note that a graph which this line asks for is new, and was planned."""
    line = here()
    _varied.discard(line)
    if len(_fresh) >= MOST:
        _fresh.clear()
    _fresh[line] = _fresh.get(line, 0) + 1


def in_pieces(
    roots: Roots, form: Canonical, compute: Compute, whole: Callable[[Roots, Canonical], list[UOp]]
) -> list[UOp] | None:
    """The values of roots, computed piece by piece, or as a `whole` if this came often, or before
    but for numbers; None where the line has made few new graphs, or pieces are not known.
    """
    device = roots[0][1]
    line = here()
    fresh = _fresh.get(line, 0)
    if not fresh:
        return None
    if came_before(form) and line not in _varied:
        return None if fresh < FRESH else whole(roots, form)
    if any(other != device or JOINT in other for _, other in roots):
        return None
    if len(_came) >= MOST:
        _came.clear()
    *others, words = form.skeleton
    alike = hash((*others, words.content))  # of what is not kept
    again = hash((alike, form.numbers))
    if max(_came.get(alike, 0), _came.get(again, 0)) >= STEADY:
        return whole(roots, form)
    graph = Graph(roots)
    if any(node.op is Ops.MULTI for node in graph.order):
        return None
    for fine in (False, True):
        pieces = graph.pieces(fine)
        heads = {node for piece in pieces for node in piece.outputs}
        if not are_small(heads):
            return None
        named = [graph.named(piece.outputs, heads) for piece in pieces]
        known = sum([one.kind.graphs > FAMILIAR for one in named])
        if fresh >= FRESH and known >= SHARE * len(named):
            break
        if not graph.levels and len(named) >= MANY * len({id(one.kind) for one in named}):
            break
    else:
        return None
    if len(_varied) >= MOST:
        _varied.clear()
    _varied.add(line)
    noted.runs = [] if again in _came and not form.bound else None
    try:
        stands = values_of(graph, pieces, named, compute)
        values = [stands[node] for node, _ in roots]
        recipe = None if noted.runs is None else one_of(noted.runs, form, values)
    finally:
        noted.runs = None
    _came[alike] = _came.get(alike, 0) + 1
    _came[again] = _came.get(again, 0) + 1
    if recipe is not None:
        recipe.left, _came[again] = WHOLE, STEADY
        keep(form, recipe)
    return values


def are_small(heads: Collection[UOp]) -> bool:
    """Whether what pieces hand on has numbers for sizes, and takes little memory."""
    total = 0
    for node in heads:
        shape = shape_of(node)
        if not is_plain(shape):
            return False
        total += prod(shape) * node.dtype.itemsize
    return total <= LARGEST


# --- cutting --------------------------------------------------------------------------------------
class Graph:
    """A graph that is cut into pieces.

    passing: what is computed wherever it is used: what moves, what reads no memory, bits of random
             numbers, and one cheap operation of one value.
    sums:    how often each sum is used.
    levels:  of choices that lay two values end to end: how many such are on one way below.
    """

    def __init__(self, roots: Roots):
        self.order = nodes_of(roots)[:-1]
        self.asked = {node for node, _ in roots}
        self.device = roots[0][1]
        self.number = next(_numbers)
        self.passing: set[UOp] = set()
        self.sums: dict[UOp, int] = {}
        self.levels: dict[UOp, int] = {}
        cheap: set[UOp] = set()  # and what moves it
        reading: set[UOp] = set()
        for node in self.order:
            below, op = operands(node), node.op
            for one in below:
                if one.op is _ADD:
                    self.sums[one] = self.sums.get(one, 0) + 1
            if op is _WHERE and below[1].op is below[2].op is _PAD:
                ends = [one.src[0].below(MOVEMENT) for one in below[1:]]
                self.levels[node] = 1 + max([self.levels.get(one, 0) for one in ends])
            reads = [one for one in below if one in reading]
            if reads or op is _BUFFER:
                reading.add(node)
            is_cheap = op in CHEAP and len(reads) == 1 and reads[0] not in cheap
            if is_cheap or (op in MOVEMENT and not cheap.isdisjoint(below)):
                cheap.add(node)
            is_bits = op in ALU and node.dtype.is_int and not node.dtype.is_signed
            if not reads or op in PASSING or is_bits or is_cheap:
                self.passing.add(node)

    def is_long(self, node: UOp) -> bool:
        """Whether a sum has three terms or more."""
        return node.op is _ADD and any(self.sums.get(one.below(MOVEMENT)) == 1 for one in node.src)

    def pieces(self, fine: bool = False) -> list[Piece]:
        """The pieces in an order in which each has what it needs. What one piece alone uses is part
        of it, but for a second sum of products, the terms of a sum of three and more, and what is
        laid end to end with more than one other value, in fours; where they are to be `fine`, a
        second operation that is not cheap is none either.
        """
        users: dict[UOp, set[Piece]] = {node: set() for node in self.order}
        given: dict[UOp, Piece] = {}  # by what gives something
        found: list[Piece] = []
        terms: set[UOp] = set()
        for place in range(len(self.order) - 1, -1, -1):
            node = self.order[place]
            used, is_part = users[node], False
            owner = node.src[0] if node.op in GIVEN else node
            piece = given.get(owner)
            if piece is not None or owner is not node:
                if piece is None:
                    piece = given[owner] = Piece(place, has_sum=True)
                    found.append(piece)
                if node.op is not Ops.LOOP and (owner is not node or used - {piece}):
                    piece.outputs.append(node)
                piece.place, used = place, {piece}
            elif node in self.asked or node not in self.passing:
                is_sum = node.op is Ops.REDUCE_AXIS and node.src[0].op is Ops.MUL
                is_sum |= fine and node.op not in CHEAP
                level = self.levels.get(node)
                is_term = node in terms and node.op is not _ADD
                is_term = is_term if level is None else level % 2 == 0
                piece = next(iter(used)) if len(used) == 1 and not is_term else None
                if piece is None or piece.size >= MOST_OPS or (is_sum and piece.has_sum):
                    piece = Piece(place, [node])
                    found.append(piece)
                else:
                    piece.outputs += [node] * (node in self.asked)
                    is_part = True
                piece.size += TERM if node in terms else 1
                piece.has_sum |= is_sum
                used = {piece}
            inner = node in terms and (node in self.passing or is_part)
            if inner or self.is_long(node) or self.levels.get(node, 0) > 1:
                terms.update(node.src)
            for source in operands(node):
                users[source] |= used
        return released(found, users)

    def named(self, outputs: Sequence[UOp], heads: Collection[UOp]) -> Named:
        """Of what kind a piece is: as `canonical` writes a graph down, but for numbers in bodies,
        which are words.
        """
        words: list[Any] = []
        numbers: list[Any] = []
        inputs: list[UOp] = []
        bound: list[UOp] = []
        places: dict[UOp, int] = {}
        stack = [*reversed(outputs)]
        own = frozenset(outputs)
        while stack:
            node = stack.pop()
            place = places.setdefault(node, new := len(places))
            if place != new:
                words.append(place)
                continue
            op, source = node.op, node.src
            if op is _BUFFER:
                inputs.append(node)
                words += (op, node.dtype, node.arg.device)
                numbers.append(node.arg.size)
            elif node in heads and node not in own:
                inputs.append(node)
                words.append(node.dtype)
                numbers.append(shape_of(node))
            elif op in NUMBERED:
                words += (op, node.dtype)
                numbers.append(node.arg)
                stack.append(source[0])
            elif op is _CONST:
                words += (op, node.dtype)
                numbers.append(node)
            elif op is _FUNCTION:
                stack.append(source[0])
            elif not source:
                words.append((op, node.dtype, node.arg[1:] if op is _VARIABLE else node.arg))
            elif op is _BIND:
                bound.append(node)
                words.append(op)
                stack.append(source[0])
            else:
                words += (op, node.dtype, None if op in _TOLD else node.arg, len(source))
                stack += source[::-1]
        key = (settings_now(), self.device, *words)
        known = _kinds.pop(key, None)
        kind = _kinds[key] = known or Kind()
        forget_oldest(_kinds, MOST_KINDS)
        if kind.last != self.number:
            kind.last = self.number
            kind.graphs += 1
        return Named(kind, (*numbers,), inputs, bound)


def operands(node: UOp) -> Sequence[UOp]:
    """What the value of a node is made of."""
    return node.src[:1] if node.op is _FUNCTION else node.src


def released(pieces: list[Piece], users: Mapping[UOp, set[Piece]]) -> list[Piece]:
    """The pieces in order, which know after which of them each output is needed no more."""
    pieces.sort(key=lambda piece: piece.place)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    for number, piece in enumerate(pieces):
        for node in piece.outputs:
            last = max([numbers[user] for user in users[node]], default=number)
            pieces[max(last, number)].released.append(node)
    return pieces


# --- computing ------------------------------------------------------------------------------------
def values_of(
    graph: Graph, pieces: Sequence[Piece], named: Sequence[Named], compute: Compute
) -> dict[UOp, UOp]:
    """The values of all outputs that are asked for."""
    stands: dict[UOp, UOp] = {}
    for piece, own in zip(pieces, named, strict=True):
        values = value_of(piece, own, stands, graph.device, compute)
        stands |= zip(piece.outputs, values, strict=True)
        for node in piece.released:
            if node not in graph.asked:
                del stands[node]
    return stands


def value_of(
    piece: Piece, named: Named, stands: Mapping[UOp, UOp], device: str, compute: Compute
) -> list[UOp]:
    """The values of a piece's outputs; `stands`: those of other pieces'."""
    ready = named.kind.ready.get(named.numbers)
    memory = [stands.get(node, node).below((Ops.RESHAPE,)).arg for node in named.inputs]
    if ready is not None:
        given = [memory[one] if isinstance(one, int) else one for one in ready.memory]
        values = [*[named.bound[place].src[1].arg for place in ready.bound], *ready.values]
        form = Canonical((), given, (), values=values)
        return [*map(exactly, follow(ready.recipe, form, [*map(shape_of, piece.outputs)]))]
    inside = {node: stands[node] for node in named.inputs if node in stands}
    roots = [(node, device) for node in UOp.sink(*piece.outputs).substitute(inside).src]
    found = compute(roots)
    if (made := made_ready(roots, named, memory)) is not None:
        if len(named.kind.ready) >= MOST_READY:
            named.kind.ready.clear()
        named.kind.ready[named.numbers] = made
    return found


def made_ready(roots: Roots, named: Named, memory: Sequence[Buffer]) -> Ready | None:
    """How a piece that has just been computed is computed again; None where it read some memory by
    two names, which another one need not, or has sizes that are variables.
    """
    form = canonical(roots)
    places = {id(buffer): place for place, buffer in enumerate(memory)}
    if form is None or len(places) < len(memory):
        return None
    recipe = recipe_for(form)
    if recipe is None:
        general = None if named.bound else known_form(form)
        form = form if general is None else general[0]
        recipe = recipe_for(form)
    if recipe is None or not set(form.bound) <= set(named.bound):
        return None
    given = [places.get(id(buffer), buffer) for buffer in form.buffers]
    bound = [named.bound.index(node) for node in form.bound]
    return Ready(recipe, given, bound, () if bound else form.values)


# --- all of them at once --------------------------------------------------------------------------
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
