"""Writing a graph with variables for the numbers in which it differs from earlier ones.

before  sizes that were 5 and are 6, 10 and 12, 6 and 7 now
after   size, 2 * size, size + 1
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations_with_replacement, product
from math import prod
from typing import Any, Final

from torpor.base import settings
from torpor.base.errors import ShapeError, TorporError
from torpor.device import Buffer
from torpor.ir.contract_graph import GRAPH
from torpor.ir.infer import fold_size, largest, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.canonical import (
    PAIRED,
    PLACED,
    Canonical,
    canonical,
)
from torpor.pipeline.general import (
    Derivation,
    Factor,
    Made,
    Numbers,
    Roots,
    Varying,
    bound_to,
    fit,
    numbers_of,
    product_of,
    slots_of,
)
from torpor.pipeline.remade import (
    most_terms,
    nodes_of,
    refuse_another,
    remake,
    stand_in,
    terms_in_order,
)

Values = tuple[int, ...]  # of a graph's variables

MOST_SIZES: Final = 8  # that differ independently of each other: a choice
TRIED: Final = 9  # values: a product of eight sizes is a polynomial of degree 8
ROOM: Final = 1 << 20  # elements of a tensor up to which sizes grow without having been there
MOST: Final = 1 << 25  # elements of a tensor up to which sizes vary
FIXED: Final = frozenset({Ops.COPY, Ops.MULTI, Ops.KERNEL})  # their sizes are in no number
STORED: Final = frozenset(
    {Ops.BUFFER, Ops.REDUCE_AXIS, Ops.GATHER, Ops.SCATTER, Ops.SCAN_AXIS, Ops.CONTIGUOUS}
)


def is_box(node: UOp) -> bool:
    """Whether a node is a part of memory, which may lie anywhere in it."""
    return node.op is Ops.SHRINK and node.src[0].below(PLACED).op is Ops.BUFFER


class Graph:
    """A graph whose numbers are compared with those of earlier ones of the same skeleton.

    again:   by the place of a number that is another one, since it is the same node's, that one.
    falling: whether a size may be a number less another one.
    """

    def __init__(
        self,
        roots: Roots,
        form: Canonical,
        earlier: Sequence[Numbers],
        moved: set[int],
        again: Mapping[int, int],
        falling: bool = False,
    ) -> None:
        self.roots, self.form, self.again, self.falling = roots, form, again, falling
        self.slots = list(slots_of(form))
        self.columns = list(zip(*earlier, form.numbers))
        self.nodes = nodes_of(roots)
        self.asked = frozenset(node for node, _ in roots)
        self.varying: dict[int, Varying] = {}
        self.constants: list[int] = []
        self.same: list[tuple[int, int]] = []
        self.starts: list[int] = []  # for each variable, the place of the number that it is
        self.reads: list[tuple[int, ...]] = []  # and that of one which it is more than, if any
        self.limits: list[tuple[int, int]] = []
        self.sizes = 0  # how many of the variables are sizes: the first
        self.moved = moved

    def general(self) -> tuple[Derivation, Made] | None:
        """The general graph; None where numbers differ in another way than it can say."""
        differ = [p for p, column in enumerate(self.columns) if len(set(column)) > 1]
        differ = [p for p in differ if p not in self.again]
        constants = [p for p in differ if self.slots[p].node.op is Ops.CONST]
        places = self.boxes({*differ, *self.moved}.difference(constants, self.again))
        sizes = [p for p in differ if p not in places and p not in constants]
        if not self.form.buffers:
            return None  # nothing to read, on whichever device
        self.share_constants(constants)
        if not self.fit_sizes(sizes):
            return None
        for start, most in places.items():
            if start not in self.varying:
                self.fit_place(start, most)
        for place, first in self.again.items():
            if first in self.varying:
                self.varying[place] = self.varying[first]
        if self.sizes and not self.find_limits():
            return None
        return self.written()

    def share_constants(self, places: Sequence[int]) -> None:
        """Equal constants are one node, whether or not all of its places differ."""
        first: dict[UOp, int] = {}
        for place in places:
            first.setdefault(self.form.numbers[place], place)
        self.constants = [*first.values()]
        self.same = [
            (place, first[number])
            for place, number in enumerate(self.form.numbers)
            if isinstance(number, UOp) and number in first and first[number] != place
        ]

    # --- what varies --------------------------------------------------------------------------
    def boxes(self, differ: set[int]) -> dict[int, int]:
        """Of the numbers that differ, those of boxes that keep their lengths: by the place of the
        first of each pair, as of the second, the greatest value of the first.
        """
        found: dict[int, int] = {}
        for place in differ:
            node, axis, second = self.slots[place]
            start = place - second
            if node.op not in PAIRED or (node.op is Ops.SHRINK and not is_box(node)):
                continue
            sign = 1 if node.op is Ops.PAD else -1
            pairs = zip(self.columns[start], self.columns[start + 1])
            if len({stop + sign * first for first, stop in pairs}) > 1:
                continue
            (first, stop), size = node.arg[axis], shape_of(node.src[0])[axis]
            if isinstance(size, int):
                whole = first + stop if node.op is Ops.PAD else size - (stop - first)
                found[start] = found[start + 1] = whole
        return found

    def fit_place(self, place: int, most: int) -> None:
        """A variable for where a box starts, and with it for where it ends."""
        start = place - self.slots[place].second
        if start in self.varying:
            return
        first, second = self.form.numbers[start : start + 2]
        if (known := self.place_of_size(start)) is not None:
            self.varying[start] = known
            self.varying[start + 1] = replace(known, more=known.more + second - first)
            return
        sign = -1 if self.slots[place].node.op is Ops.PAD else 1
        number = self.add(start, 0, most)
        self.varying[start + 1] = Varying(((sign, ((number, 0),)),), second - sign * first)

    def place_of_size(self, start: int) -> Varying | None:
        """Where a box of memory starts whose size varies, if that varies alike: the last row."""
        node = self.slots[start].node
        memory = node.src[0].below(PLACED)
        if not self.sizes or node.op is not Ops.SHRINK or memory.op is not Ops.BUFFER:
            return None
        size = next(place for place, one in enumerate(self.slots) if one.node is memory)
        if len({*self.columns[size]}) == 1:
            return None
        fits = (fit(one, of, self.columns[start]) for one, of in self.known_columns())
        return next((one for one in fits if one and one.alone), None)

    def add(self, place: int, least: int, most: int) -> int:
        """One more variable, whose value is the number at this place."""
        number = len(self.starts)
        self.starts.append(place)
        self.reads.append((place,))
        self.limits.append((least, most))
        self.varying[place] = product_of((number, 0))
        return number

    def add_length(self, stop: int) -> None:
        """One more variable, for how long a box is that starts where a variable says: the number at
        this place less the one before it.
        """
        pairs = zip(self.columns[stop], self.columns[stop - 1])
        self.columns.append(tuple([last - first for last, first in pairs]))
        length = self.columns[-1][-1]
        number, start = self.add(len(self.columns) - 1, length, length), self.varying[stop - 1]
        self.reads[number] = stop, stop - 1
        self.varying[stop] = replace(start, terms=(*start.terms, (1, ((number, 0),))))

    def fit_sizes(self, places: Sequence[int]) -> bool:
        """Each size as a multiple of one that differs, plus a number."""
        stay = settings.number("BEAM") > 0  # a search is for kernels of one size
        if places and (stay or any(node.op in FIXED for node in self.nodes)):
            return False

        def step(place: int) -> tuple[bool, int, int, bool]:
            column, (node, _, second) = self.columns[place], self.slots[place]
            whole = node.op is Ops.BUFFER  # the product of others
            ends = second and node.op is Ops.SHRINK and len({*self.columns[place - 1]}) > 1
            return whole, abs(column[-1] - column[-2]) or 1 << 62, column[-1], not ends

        for place in sorted(places, key=step):
            column = self.columns[place]
            fits = (fit(one, of, column, self.falling) for one, of in self.known_columns())
            node, _, second = self.slots[place]
            counts = node.op is Ops.LOOP  # a variable and a number added
            found = next((one for one in fits if one and (one.alone or not counts)), None)
            found = found or (None if counts else self.fit_sum(column))
            if found is not None:
                self.varying[place] = found
            elif self.sizes == MOST_SIZES:
                return False
            elif second and node.op is Ops.SHRINK and place - 1 in self.varying:
                self.add_length(place)
            else:
                self.add(place, column[-1], column[-1])
            self.sizes = len(self.starts)
        return True

    def fit_sum(self, column: Sequence[int]) -> Varying | None:
        """A column as a multiple of a variable and another variable, added or taken away, or as one
        of such a sum.
        """
        numbers = range(len(self.starts))
        values = [*zip(*(self.columns[start] for start in self.starts))]
        for one in dict.fromkeys(self.varying.values()):
            if len(one.terms) > 1 and (found := fit(one, [*map(one.at, values)], column)):
                return found
        for first, other, sign in product(numbers, numbers, (1, -1)):
            if first != other:
                added = self.column((other, 0))
                rest = [n - sign * more for n, more in zip(column, added, strict=True)]
                found = fit(product_of((first, 0)), self.column((first, 0)), rest)
                if found is not None and not found.more:
                    return replace(found, terms=(*found.terms, (sign, ((other, 0),))))
        return None

    def known_columns(self) -> Iterator[tuple[Varying, Sequence[int]]]:
        """The variables, and products of two of what they and a number add up to, and what they
        were.
        """
        for number, start in enumerate(self.starts):
            yield product_of((number, 0)), self.columns[start]
        alone = {factor for one in self.varying.values() if (factor := one.alone) is not None}
        sums = sorted(alone, key=lambda one: (abs(one[1]), one[0]))
        for one, other in combinations_with_replacement(sums, 2):
            columns = zip(*map(self.column, (one, other)))
            yield product_of(one, other), [left * right for left, right in columns]

    def column(self, factor: Factor) -> Sequence[int]:
        """What a variable with a number added was."""
        number, added = factor
        return [value + added for value in self.columns[self.starts[number]]]

    # --- for which values it holds ------------------------------------------------------------
    def find_limits(self) -> bool:
        """Widen the limits of the sizes as far as the graph stays legal, and see whether it is
        legal in between.
        """
        now = [self.columns[start][-1] for start in self.starts]
        mosts = self.highest(now) if min(now[: self.sizes]) > 0 else now
        if any(most <= value for most, value in zip(mosts, now)):
            return False
        for number in range(self.sizes):

            def legal(value: int, number: int = number) -> bool:
                others = (now, [*mosts, *now[self.sizes :]])
                some = ((*of[:number], value, *of[number + 1 :]) for of in others)
                return all(self.elements(values) is not None for values in some)

            smaller = range(1, now[number])
            self.limits[number] = 1 + bisect_left(smaller, True, key=legal), mosts[number]
        ends = corners(self.limits[: self.sizes])
        some = ([self.between(n, i) for n in range(self.sizes)] for i in range(TRIED))
        tried = ((*values, *now[self.sizes :]) for values in (*ends, *some))
        counts = [self.elements(values) for values in tried]
        return all(count is not None and count <= self.room for count in counts)

    def between(self, number: int, which: int) -> int:
        """One of the values that are tried; other sizes grow at other paces."""
        least, most = self.limits[number]
        return least + which * (2 * number + 1) % (most - least + 1)

    def highest(self, now: Sequence[int]) -> list[int]:
        """How large sizes may become together: each grows to the next power of two by turns, while
        there is room. Nothing more is tried where one cannot grow.
        """
        mosts, rest = list(now[: self.sizes]), now[self.sizes :]
        self.room = max(ROOM, min(MOST, self.elements((*map(doubled, mosts), *rest)) or 0))
        full = self.taken_away()
        for number in full:  # padding up to a multiple, say, which does not grow
            mosts[number] = doubled(max(self.columns[self.starts[number]]))
        while len(full) < self.sizes:
            for number in {*range(self.sizes)} - full:
                more = doubled(mosts[number])

                def elements(value: int, number: int = number) -> int | None:
                    return self.elements((*mosts[:number], value, *mosts[number + 1 :], *rest))

                count, stays = elements(more), mosts[number] == now[number]
                if count is None and stays and elements(now[number] + 1) is None:
                    return mosts
                if count is None or (stays and count > self.room):
                    larger, room = range(mosts[number] + 1, more + 1), self.room
                    mosts[number] += bisect_left(
                        larger, True, key=lambda n: (some := elements(n)) is None or some > room
                    )
                elif count <= self.room:
                    mosts[number] = more
                if mosts[number] < more or more >= self.room:
                    full.add(number)
        return mosts

    def taken_away(self) -> set[int]:
        """The variables that something else is less by."""
        sums = [one.terms for one in self.varying.values() if len(one.terms) > 1]
        return {number for terms in sums for times, ((number, _), *_) in terms if times < 0}

    def elements(self, values: Values) -> int | None:
        """How many elements the largest tensor has for these values; None where the graph is not
        legal.
        """
        try:
            sink, most = self.rebuilt(values)
            GRAPH.check(sink)
        except TorporError:
            return None
        return most

    def rebuilt(self, values: Values) -> tuple[UOp, int]:
        """The graph with these values, and the elements of the largest tensor that they change, of
        those that are likely to be stored; more than there is room for where a sum is too long.
        """
        numbers = [
            self.varying[place].at(values) if place in self.varying else number
            for place, number in enumerate(self.form.numbers)
        ]
        args, most = self.args(numbers), 0
        memory = [node for node in args if node.op is Ops.BUFFER]
        held = [Buffer(node.arg.device, args[node], node.dtype) for node in memory]
        done = {node: node.replace(arg=one) for node, one in zip(memory, held, strict=True)}

        def look(made: UOp, node: UOp) -> None:
            nonlocal most
            refuse_another(made, node, args)
            if made is not node and shape_of(made) != shape_of(node):
                sizes = [largest(size) for size in shape_of(made)]
                if min(sizes) < 0:
                    raise ShapeError(f"no tensor has the shape {sizes}")
                if node.op in STORED or node in self.asked:
                    most = max(most, prod(sizes))
            if node.op is Ops.REDUCE_AXIS and terms_in_order(made, node) > most_terms(node):
                most = MOST + 1

        remake(self.nodes, args, done, look)
        return done[self.nodes[-1]], most

    def args(self, numbers: Sequence[Any]) -> dict[UOp, Any]:
        """The args of the nodes whose numbers vary."""
        found: dict[UOp, Any] = {}
        for node, here in numbers_of(self.form):
            taken = [numbers[place] for place in here]
            moved = node.op is Ops.SHRINK and taken != [*chain.from_iterable(node.arg)]
            if node.op is Ops.CONST or not (moved or any(p in self.varying for p in here)):
                continue
            if node.op is Ops.BUFFER:
                found[node] = taken[0]
            elif node.op is Ops.LOOP:
                found[node] = replace(node.arg, count=taken[0])
            elif node.op is Ops.SLOT:
                found[node] = node.arg[0], tuple(taken)
            elif node.op is Ops.SHEAR:
                found[node] = (*node.arg[:2], taken[0], *node.arg[3:5], taken[1])
            elif node.op in PAIRED:
                found[node] = tuple(zip(taken[::2], taken[1::2]))
            else:
                found[node] = tuple(taken)
        return found

    # --- the graph with variables -------------------------------------------------------------
    def written(self) -> tuple[Derivation, Made] | None:
        """The general graph, and what there is to know of it."""
        numbers = self.form.numbers
        variables = [(read, *limits) for read, limits in zip(self.reads, self.limits)]
        values = enumerate(self.columns[start][-1] for start in self.starts)
        nodes = [bound_to(n, value, variables) for n, value in values]
        sizes = [
            fold_size(self.varying[place].at(nodes)) if place in self.varying else number
            for place, number in enumerate(numbers)
        ]
        done, seats = self.symbolic(self.args(sizes))
        sink = done[self.nodes[-1]]
        roots = [(node, device) for node, (_, device) in zip(sink.src, self.roots, strict=True)]
        made = canonical(roots)
        if made is None:
            return None
        own = {buffer: number for number, buffer in enumerate(self.form.buffers)}
        names = {node.src[0]: number for number, node in enumerate(nodes)}
        free = {*self.varying, *self.constants, *(place for place, _ in self.same)}
        mine = {done[node]: number for number, node in enumerate(self.form.order) if node in done}
        theirs = iter(range(len(self.form.values)))  # in their order
        variable = [names.get(node.src[0]) for node in made.bound]
        general = Derivation(
            made.skeleton, [None] * len(made.numbers), made.numbers,
            {place: number for place, number in enumerate(numbers) if place not in free},
            self.same,
            [seats[buffer] if buffer in seats else own[buffer] for buffer in made.buffers],
            [next(theirs) if number is None else ~number for number in variable],
            {place: one for place, one in self.varying.items() if place not in self.starts},
            variables, self.constants,
            [mine.get(node, 0) for node in made.order], self.sizes > 0,
        )  # fmt: skip
        return general, Made(roots, made, general.form(self.form), self.in_words())

    def in_words(self) -> str:
        """What varies, the first two."""
        sizes = range(self.sizes)
        told = [f"size {self.before(self.starts[n])} -> up to {self.limits[n][1]}" for n in sizes]
        told += [f"position {self.before(start)} -> any" for start in self.starts[self.sizes :]]
        told += [f"number {self.before(place).arg:.7g} -> any" for place in self.constants]
        return ", ".join(told[:2])

    def before(self, place: int) -> Any:
        """What a number was the last time."""
        return self.columns[place][-2:][0]

    def symbolic(self, args: Mapping[UOp, Any]) -> tuple[dict[UOp, UOp], dict[Buffer, int]]:
        """The nodes with these args, by what they were, and the memory in them that others stand
        for: which of the graph's own, or after these which constant.
        """
        done: dict[UOp, UOp] = {}
        seats: dict[Buffer, int] = {}
        own = {buffer: number for number, buffer in enumerate(self.form.buffers)}
        for number, place in enumerate(self.constants):
            node = self.form.numbers[place]
            done[node] = memory = stand_in(node.dtype, self.form.buffers[0].device, 1, ())
            seats[memory.src[0].arg] = len(own) + number
        for node in [node for node in args if node.op is Ops.BUFFER]:
            size = args[node]
            memory = stand_in(node.dtype, node.arg.device, largest(size), (size,))
            done[node], seats[memory.src[0].arg] = memory, own[node.arg]
        remake(self.nodes, args, done)
        return done, seats


def corners(limits: Sequence[tuple[int, int]]) -> Iterator[Values]:
    """Values at the limits: each two variables meet in all four ways, as a number of a graph is
    made of two at most. Any two numbers of variables differ in a bit.
    """
    numbers = range(len(limits))
    yield from zip(*limits)
    for bit in range((len(limits) - 1).bit_length()):
        for swapped in (0, 1):
            yield tuple([limits[n][n >> bit & 1 ^ swapped] for n in numbers])


def doubled(size: int) -> int:
    """The next power of two."""
    return 1 << size.bit_length()
