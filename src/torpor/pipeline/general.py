"""Numbers that change from graph to graph become numbers that kernels are given.

before  a graph that differs from one that came before in numbers alone: in SHRINK(X, ((64, 128),))
        of memory where there was (0, 64), in a size 6 where there was 5, in a constant
after   SHRINK(X, ((place, place + 64),)), place between 0 and len(X) - 64; size, size + 1,
        16 * size wherever a size differs; and memory of one element in place of the constant

So loops over minibatches, crops and rows, caches that grow and rates that fall compile their
kernels twice, and not at each pass. Sizes are written as multiples of one that differs, plus a
number, and what comes out is tried: the graph has to be legal for as many sizes as tell polynomials
in them apart, and for the least and the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from operator import itemgetter
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import DType
from torpor.base.locks import recursive_lock
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.ir.infer import largest, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import bind
from torpor.pipeline import reuse
from torpor.pipeline.canonical import NOWHERE, PAIRED, Canonical
from torpor.pipeline.compiled_graph import Kind

STEADY: Final = 8  # times in a row, after which something looks as if it stays
# Times in a row, after which sizes get kernels of their own; fewer for large ones, whose kernels do
# so many operations in the 0.1 to 0.5 s that compiling takes: those for any size take up to four
# times as long as those for one.
LASTING: Final = 1000
WHILE_COMPILING: Final = 1 << 34
_lock: Final = recursive_lock()  # of what gives memory for constants
Roots = Sequence[tuple[UOp, str]]
Numbers = tuple[Any, ...]
Factor = tuple[int, int]  # which variable, and what is added to it
# The place of the number that a variable is, or of it and another that it is less by; its least and
# greatest value.
Limits = tuple[tuple[int, ...], int, int]


@dataclass
class Row:
    """How often the last of some things has come in a row, and after how often it stays."""

    last: Any = None
    times: int = 0
    lasting: int = STEADY

    def is_steady(self, one: Any) -> bool:
        """Whether this one, which has come now, has come so often in a row that it stays."""
        self.times = self.times + 1 if one == self.last else 1
        self.last = one
        return self.times > self.lasting

    def does(self, operations: int) -> None:
        """Each time takes so many operations by kernels for any size."""
        self.lasting = max(STEADY, min(LASTING, WHILE_COMPILING // max(operations, 1)))


class Slot(NamedTuple):
    """Where a number stands: which of its node's axes, and whether it is the second of a pair."""

    node: UOp
    axis: int = 0
    second: bool = False


Term = tuple[int, tuple[Factor, ...]]  # so many times the product of these


@dataclass(frozen=True)
class Varying:
    """A sum of terms, and `more`."""

    terms: tuple[Term, ...]
    more: int = 0

    @property
    def alone(self) -> Factor | None:
        """The variable with a number added that it is, if it is one."""
        if len(self.terms) > 1 or self.terms[0][0] != 1 or len(self.terms[0][1]) > 1:
            return None
        ((number, added),) = self.terms[0][1]
        return number, added + self.more

    def at(self, values: Sequence[Any]) -> Any:
        total: Any = None
        for value, factors in self.terms:
            for variable, added in factors:
                value = (values[variable] + added if added else values[variable]) * value
            total = value if total is None else total + value
        return total + self.more

    def text(self, names: Sequence[str]) -> str:
        """The same as Python, of these names of variables."""
        found = []
        for times, factors in self.terms:
            sums = [f"({names[variable]} + {added})" for variable, added in factors]
            found.append(" * ".join((str(times), *sums)))
        return " + ".join((*found, str(self.more)))


def product_of(*factors: Factor) -> Varying:
    """The product of variables, each with a number added."""
    return Varying(((1, factors),))


def fit(
    known: Varying, of: Sequence[int], column: Sequence[int], falling: bool = False
) -> Varying | None:
    """A column of numbers as a multiple of what is known, and was `of`, plus a number."""
    steps = [(a, b, x, y) for a, b, x, y in zip(of, of[1:], column, column[1:]) if a != b]
    if not steps:
        return None
    a, b, x, y = steps[-1]
    times, rest = divmod(y - x, b - a)
    more = y - times * b
    is_product = any(len(factors) > 1 for _, factors in known.terms)
    if rest or not times or (times < 0 and not falling) or (is_product and more):
        return None
    if any(times * n + more != m for n, m in zip(of, column, strict=True)):
        return None
    terms = tuple([(times * some, factors) for some, factors in known.terms])
    return Varying(terms, times * known.more + more)


@dataclass(frozen=True)
class Derivation:
    """How the form of another graph comes of those of graphs of one skeleton: with variables for
    what differs, or without calls.

    key:       of the other form, but for its numbers.
    numbers:   for each of these where it is among those of the graph; None: `fixed` says it.
    pinned:    by the place of a number of the graph's, what it has to be.
    same:      places of numbers that have to be the same.
    buffers:   for each of the other form's buffers which of the graph's it is, or after these which
               constant.
    bound:     for each of its bound variables which of the graph's it is; below 0: ~ which of the
               `variables`.
    varying:   by the place of a number, what it is of the variables.
    variables: for each which number is its value, or which less which, its least and its greatest.
    constants: places of numbers that are given in memory.
    order:     for each of its nodes which of the graph's it is; 0 for what is none.
    sized:     whether sizes vary, and not only places and constants.
    """

    key: tuple[Any, ...]
    numbers: Sequence[int | None]
    fixed: Numbers
    pinned: Mapping[int, Any]
    same: Sequence[tuple[int, int]]
    buffers: Sequence[int]
    bound: Sequence[int]
    varying: Mapping[int, Varying] = field(default_factory=dict)
    variables: Sequence[Limits] = ()
    constants: Sequence[int] = ()
    order: Sequence[int] = ()
    sized: bool = False
    _holds: Any = field(init=False)
    _numbers: Any = field(init=False)  # gives them, of given and fixed ones; None: all are fixed

    def __post_init__(self) -> None:
        names = [" - ".join(f"n[{place}]" for place in read) for read, _, _ in self.variables]
        limits = [f"{low} <= {x} <= {high}" for x, (_, low, high) in zip(names, self.variables)]
        names = [f"({name})" for name in names]
        varying = [f"n[{place}] == {one.text(names)}" for place, one in self.varying.items()]
        scope: dict[str, Any] = {}
        known = []
        if self.pinned:
            known.append("pick(n) == picked")
            scope["pick"] = picking([*self.pinned])
            scope["picked"] = scope["pick"](self.pinned)
        if self.same:
            known.append("first(n) == second(n)")
            scope["first"], scope["second"] = map(picking, zip(*self.same, strict=True))
        text = f"lambda n: {' and '.join((*known, *limits, *varying)) or True}"
        object.__setattr__(self, "_holds", eval(text, scope))  # noqa: S307 (made of numbers)
        count, places = len(self.numbers), enumerate(self.numbers)
        found = [number - count if place is None else place for number, place in places]
        object.__setattr__(self, "_numbers", max(found, default=-1) >= 0 and picking(found))

    def value(self, number: int, numbers: Sequence[Any]) -> int:
        """What a variable is for a graph with these numbers."""
        place, *less = self.variables[number][0]
        return int(numbers[place] - numbers[less[0]] if less else numbers[place])

    def holds(self, own: Canonical) -> bool:
        """Whether it is for a graph with these numbers."""
        return bool(self._holds(own.numbers))

    def form(self, own: Canonical) -> Canonical:
        """The form of the other graph, for a graph's own, with its memory and values."""
        given, memory = own.numbers, own.buffers
        if self.constants:
            memory = [*memory, *[constant_buffer(given[place], own) for place in self.constants]]
        buffers = [memory[number] for number in self.buffers]
        values = [own.values[n] if n >= 0 else self.value(~n, given) for n in self.bound]
        numbers, order = self.fixed, Order(own.order, self.order)
        if self._numbers:
            numbers = self._numbers((*given, *self.fixed))
        return Canonical((*self.key, numbers), buffers, (), (), order, NOWHERE, own.ages, values)


def picking(places: Sequence[int]) -> Callable[[Any], Numbers]:
    """What gives the numbers at these places, of which there is one at least."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda numbers: (numbers[places[0]],)


class Order(Iterable[UOp]):
    """The nodes of a graph, in the order of a general one, once somebody wants to see them."""

    __slots__ = ("own", "numbers")

    def __init__(self, own: Iterable[UOp], numbers: Sequence[int]):
        self.own, self.numbers = own, numbers

    def __iter__(self) -> Iterator[UOp]:
        nodes = [*self.own]
        return (nodes[number] for number in self.numbers)


class Made(NamedTuple):
    """A general graph; its own form, and that with the memory and the values that are there; and
    which numbers vary, in words.
    """

    roots: Roots
    own: Canonical
    form: Canonical
    why: str


def exactly(node: UOp) -> UOp:
    """A value in memory of a size that varies, in memory of just its own size."""
    buffer, count = node.below((Ops.RESHAPE,)).arg, prod(map(largest, shape_of(node)))
    if node.op is Ops.MULTI or buffer.size == count:
        return node
    exact = Buffer(buffer.device, count, buffer.dtype)
    if buffer.is_allocated():
        exact.share(buffer)
    return buffer_node(exact, shape_of(node))


def slots_of(form: Canonical) -> Iterator[Slot]:
    """Where each of the numbers stands."""
    for node, places in numbers_of(form):
        for number in range(len(places)):
            pair, second = divmod(number, 2)
            yield Slot(node, pair, second == 1) if node.op in PAIRED else Slot(node, number)


def numbers_of(form: Canonical) -> Iterator[tuple[UOp, range]]:
    """The nodes that have numbers, and the places of these."""
    start = 0
    for node in form.numbered:
        places = range(start, start + count_of(node))
        start = places.stop
        yield node, places


def count_of(node: UOp) -> int:
    """How many numbers a node has in a form."""
    if node.op in (Ops.BUFFER, Ops.CONST, Ops.LOOP):
        return 1
    if node.op is Ops.SHEAR:
        return 2
    if node.op is Ops.SLOT:
        return len(node.arg[1])
    if node.op is Ops.CALL:
        return len(node.arg.template.numbers)
    return 2 * len(node.arg) if node.op in PAIRED else len(node.arg)


def variable(number: int, least: int, most: int) -> UOp:
    return UOp.variable(f"general{number}", least, most)


def bound_to(number: int, value: int, variables: Sequence[Limits]) -> UOp:
    """A variable of a general graph with its value."""
    _, least, most = variables[number]
    return bind(variable(number, least, most), value)


def constant_buffer(node: UOp, form: Canonical) -> Buffer:
    """Memory that holds a constant, on the device of what it meets."""
    array = node.dtype.array((node.arg,))
    with _lock:
        buffer = _taking(form.buffers[0].device, node.dtype)().buffer
    return buffer.copyin(array)


@cache
def _taking(device: str, dtype: DType) -> Callable[[], reuse.Result]:
    """A function that gives memory of one element, which nobody holds."""
    kind = Kind(device, 1, dtype)
    return reuse.giving(kind, None, kind.nbytes)
