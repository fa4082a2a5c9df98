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
Limits = tuple[int, int, int]  # the place of the number that a variable is, its least and greatest


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


@dataclass(frozen=True)
class Varying:
    """`times` the product of some variables, each with a number added, and `more`."""

    factors: tuple[Factor, ...]
    times: int = 1
    more: int = 0

    @property
    def is_scaled(self) -> bool:
        """Whether it is more than one variable and a number added."""
        return self.times != 1 or len(self.factors) > 1

    def at(self, values: Sequence[Any]) -> Any:
        value = self.times
        for variable, added in self.factors:
            value = (values[variable] + added if added else values[variable]) * value
        return value + self.more

    def text(self, names: Sequence[str]) -> str:
        """The same as Python, of these names of variables."""
        factors = [f"({names[variable]} + {added})" for variable, added in self.factors]
        return f"{' * '.join((str(self.times), *factors))} + {self.more}"


@dataclass(frozen=True)
class General:
    """What graphs of one skeleton have in common, and how they differ.

    varying:   by the place of a number, what it is; all others are `fixed`.
    constants: places of numbers that are given in memory.
    same:      places of constants, and of others that have to be the same.
    variables: for each the place of the number that is its value, its least and its greatest.
    bound:     for each of the general graph's bound variables, which it is; None: one of its own.
    buffers:   for each of its buffers the number of the graph's own, or after these of a constant.
    order:     for each of its nodes which of the graph's it is; 0 for what is none.
    sized:     whether sizes vary, and not only places and constants.
    """

    key: tuple[Any, ...]
    fixed: Mapping[int, Any]
    varying: Mapping[int, Varying]
    constants: Sequence[int]
    same: Sequence[tuple[int, int]]
    variables: Sequence[Limits]
    bound: Sequence[int | None]
    buffers: Sequence[int]
    order: Sequence[int]
    sized: bool
    pick: Any = field(init=False)
    picked: Numbers = field(init=False)
    holds: Any = field(init=False)

    def __post_init__(self) -> None:
        chosen = [*self.fixed] or [0]
        object.__setattr__(self, "pick", itemgetter(*chosen, chosen[0]))
        same = (*self.fixed.values(),)
        object.__setattr__(self, "picked", (*same, *same[:1]))
        names = [f"n[{place}]" for place, _, _ in self.variables]
        limits = [f"{least} <= n[{place}] <= {most}" for place, least, most in self.variables]
        varying = [f"n[{place}] == {one.text(names)}" for place, one in self.varying.items()]
        equal = [f"n[{place}] is n[{other}]" for place, other in self.same]
        text = f"lambda n: {' and '.join((*limits, *varying, *equal)) or True}"
        object.__setattr__(self, "holds", eval(text))  # noqa: S307 (made of numbers)

    def values(self, numbers: Numbers) -> list[int] | None:
        """The variables' values for these numbers; None where they are of another kind."""
        if (self.picked and self.pick(numbers) != self.picked) or not self.holds(numbers):
            return None
        return [numbers[place] for place, _, _ in self.variables]

    def form(self, own: Canonical, values: Sequence[int]) -> Canonical:
        """The canonical form of the general graph with the memory and the values of a graph."""
        theirs = iter(own.values)
        bound = [next(theirs) if number is None else values[number] for number in self.bound]
        memory = own.buffers
        if self.constants:
            memory = [*memory, *[constant_buffer(own.numbers[n], own) for n in self.constants]]
        order, buffers = Order(own.order, self.order), [memory[n] for n in self.buffers]
        return Canonical(self.key, buffers, (), (), order, NOWHERE, own.ages, bound)


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
