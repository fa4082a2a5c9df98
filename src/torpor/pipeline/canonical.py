"""What two realisations must have in common to run the same kernels.

The graph is written down from its roots to its leaves, with its nodes numbered in order of
appearance; a node that appears again is its number. Boxes of memory such as `X[i:i+64]`, what is a
view of them, and constants are written each time: that two of them are equal may be chance, as in
`stack([X[i:i+64] for i in random])`. Memory is told by format, size and device, a bound variable by
its limits: which buffer it is, what value it has and how it is called stay out, and are listed
beside. The numbers of movements (sizes, and where boxes such as `X[i:i+64]` lie),
the sizes of memory and constants are written apart, at the end of the key: graphs that differ in
nothing else have one `skeleton` (see `general.py`). Everything else is part of the key, as are all
settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.base.errors import ValueRangeError
from torpor.device import Buffer
from torpor.graph.known import NOTHING, Notes
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp

MOST_WORDS: Final = 512  # graphs whose words are one object: a choice
MOST_NODES: Final = 100_000  # a graph of more is not worth writing down

_NUMBERS: Final = frozenset({int, bool})
# An enumeration is slow to ask for its members.
_BUFFER, _CONST, _BIND, _LEAF = Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.LEAF
_FUNCTION, _INDEX, _SHEAR, _CHECK = Ops.FUNCTION, dtypes.index, Ops.SHEAR, Ops.CHECK
_SLOT, _LOOP = Ops.SLOT, Ops.LOOP
_CALL: Final = Ops.CALL
_SIZED: Final = MOVEMENT | {_LOOP}
PLACED: Final = frozenset({*MOVEMENT, Ops.LEAF, Ops.DETACH})  # what memory is looked at through
PAIRED: Final = frozenset({Ops.SHRINK, Ops.PAD})  # of two numbers for each axis
NUMBERED: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.SHEAR, *PAIRED})

OF_A_STEP: Final = "a tensor of a loop's step has no value outside of it: hand it on as carry or y"


class Canonical(NamedTuple):
    """A graph's key, and what is not in it, in order of appearance: buffers, and BIND nodes; the
    nodes whose numbers are at the end of the key; all nodes but constants, in `order`, and where in
    it each is found first; the nodes that stand for known ones, with the ages of these; the
    `values` of what is bound; and the CALL nodes.
    """

    key: tuple[Any, ...]
    buffers: Sequence[Buffer]
    bound: Sequence[UOp]
    numbered: Sequence[UOp] = ()
    order: Iterable[UOp] = ()
    places: Mapping[UOp, int] = MappingProxyType({})
    ages: Mapping[UOp, int] = MappingProxyType({})
    values: Sequence[int] = ()
    calls: Sequence[UOp] = ()

    @property
    def skeleton(self) -> tuple[Any, ...]:
        """The key without the numbers."""
        return self.key[:-1]

    @property
    def wanted(self) -> tuple[Any, ...]:
        """Which nodes are wanted, and on which devices."""
        found: tuple[Any, ...] = self.key[1]
        return found

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The numbers of each node of `numbered`; a CONST node is its own."""
        found: tuple[Any, ...] = self.key[-1]
        return found


def canonical(roots: Sequence[tuple[UOp, str]], known: Notes = NOTHING) -> Canonical | None:
    """The canonical form of `roots` (graph node, device), with what stands for nodes that are known
    in their place; None if there are too many nodes.
    """
    words, numbers, buffers = list[Any](), list[Any](), list[Buffer]()
    order, bound, numbered, calls = list[UOp](), list[UOp](), list[UOp](), list[UOp]()
    places, ages = dict[UOp, int](), dict[UOp, int]()
    find = known.get
    stack = [node for node, _ in reversed(roots)]
    while stack:
        node = stack.pop()
        if known and (entry := find(id(node))) is not None and entry() is node:
            ages[entry.value] = entry.age
            node = entry.value
        elif node.op is _FUNCTION:
            stack.append(node.src[0])  # its rule for gradients changes no value
            continue
        op, arg, source = node.op, node.arg, node.src
        if op is _CONST and node.dtype is not _INDEX and type(arg) is not bool:
            words += (op, node.dtype)  # each time: which of them are equal is no part of the words
            numbered.append(node)
            numbers.append(node)
            continue
        place = places.get(node)
        if place is None:
            places[node] = len(order)
        elif op not in PLACED or not is_of_box(node, known):
            words.append(place)
            continue
        order.append(node)
        if not source and op is not _LOOP:
            if op is _BUFFER:
                buffers.append(arg)
                words += (op, node.dtype, arg.device)
                numbered.append(node)
                numbers.append(arg.size)
            elif op is _SLOT:
                raise ValueRangeError(OF_A_STEP)
            else:
                words.append(node if op is _CONST else (op, node.dtype, arg[1:]))
            continue
        if op is _CALL:
            arg = arg.template
            calls.append(node)
        elif op in _SIZED:
            arg, sizes = without_numbers(node, numbered, numbers)
            source += sizes
        elif op is _BIND:
            bound.append(node)
            source = source[:1]  # the variable, not its value
        elif op is _LEAF or op is _CHECK:
            arg = None  # an identity, of which the node's number says as much; words for people
        words += (op, node.dtype, arg, len(source))
        stack += source[::-1]
        if len(order) > MOST_NODES:
            return None
    wanted = tuple([(place_of(node, places, known), device) for node, device in roots])
    key = (settings_now(), wanted, hashed(words), tuple(numbers))
    values = [node.src[1].arg for node in bound]
    return Canonical(key, buffers, bound, numbered, order, places, ages, values, calls)


def is_of_box(node: UOp, known: Notes) -> bool:
    """Whether a node is a view of a box of memory, or that box."""
    shrunk = False
    while node.op in PLACED:
        shrunk = shrunk or node.op is Ops.SHRINK
        node = node.src[0]
        entry = known.get(id(node))
        if entry is not None and entry() is node:
            node = entry.value
    return shrunk and node.op is _BUFFER


def without_numbers(
    node: UOp, numbered: list[UOp], numbers: list[Any]
) -> tuple[Any, tuple[UOp, ...]]:
    """What is left of a movement's or LOOP's arg without its numbers, which are put down; and the
    nodes among its sizes, where not all are numbers.
    """
    op, arg = node.op, node.arg
    if op is _LOOP:
        return without_count(node, numbered, numbers)
    flat = [*chain.from_iterable(arg)] if op in PAIRED else arg
    if not (_NUMBERS.issuperset(map(type, flat)) or is_known(arg)):
        return marked(arg), tuple(sizes_in(arg))
    if op not in NUMBERED:
        return arg, ()
    numbered.append(node)
    if op is _SHEAR:
        numbers += arg[2::3]
        return (*arg[:2], *arg[3:5]), ()
    numbers += flat
    return len(arg), ()


def without_count(
    node: UOp, numbered: list[UOp], numbers: list[Any]
) -> tuple[Any, tuple[UOp, ...]]:
    """What is left of a LOOP's arg without how many steps it has, as `without_numbers`."""
    count = node.arg.count
    if isinstance(count, int):
        numbered.append(node)
        numbers.append(count)
    return replace(node.arg, count=None), (count,) if isinstance(count, UOp) else ()


def place_of(root: UOp, places: Mapping[UOp, int], known: Notes = NOTHING) -> int | None:
    """Which node of those in order of appearance a root is; None for a constant."""
    while True:
        entry = known.get(id(root))
        if entry is not None and entry() is root:
            return places.get(entry.value)
        if root.op is not _FUNCTION:
            return places.get(root)
        root = root.src[0]


class _Hashed(tuple[Any, ...]):
    """Values whose hash is known: they are part of many keys."""

    code: int

    def __hash__(self) -> int:
        return self.code


_words: Final[dict[_Hashed, _Hashed]] = {}


def hashed(words: Iterable[Any]) -> _Hashed:
    """Words of a key, hashed once; equal ones are mostly one object, which is quick to compare."""
    made = _Hashed(words)
    made.code = tuple.__hash__(made)
    if len(_words) >= MOST_WORDS:
        _words.clear()
    return _words.setdefault(made, made)


_settings: tuple[Mapping[str, Any] | None, _Hashed] = None, _Hashed()


def settings_now() -> tuple[Any, ...]:
    """The values of all settings, as a tuple that is made anew when they change."""
    global _settings
    mapping, known = _settings
    now = settings.snapshot()
    if mapping is not now:
        known = _Hashed(now.values())
        known.code = tuple.__hash__(known)
        _settings = now, known
    return known


def is_known(arg: Any) -> bool:
    """Whether a movement's arg holds numbers only."""
    if _NUMBERS.issuperset(map(type, arg)):
        return True
    for size in arg:
        kind = type(size)
        if kind is not int and kind is not bool and not (kind is tuple and is_known(size)):
            return False
    return True


def sizes_in(arg: Any) -> Iterator[UOp]:
    """The nodes among the sizes in a movement's arg."""
    for size in arg:
        if isinstance(size, UOp):
            yield size
        elif isinstance(size, tuple):
            yield from sizes_in(size)


def marked(arg: Any) -> Any:
    """A movement's arg with a mark in place of each node in it."""
    if isinstance(arg, UOp):
        return "size"
    return tuple([marked(size) for size in arg]) if isinstance(arg, tuple) else arg
