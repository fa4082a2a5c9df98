"""What two realisations must have in common to run the same kernels.

The graph is written down from its roots to its leaves, with its nodes numbered in order of
appearance; a node that appears again is its number, and what has been computed is, for who asks
for that, the memory that holds its value. Boxes of memory such as `X[i:i+64]`, constants,
and what is a view of them are written each time: that two of them are equal may be chance, as in
`stack([X[i:i+64] for i in random])`. Memory is told by format, size and device, a bound variable by
its limits: which buffer it is, what value it has and how it is called stay out, and are listed
beside. The numbers of movements (sizes, and where boxes such as `X[i:i+64]` lie),
the sizes of memory and constants are written apart, at the end of the key: graphs that differ in
nothing else have one `skeleton` (see `general.py`). Everything else is part of the key, as are all
settings.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.base.errors import ValueRangeError
from torpor.device import Buffer
from torpor.graph.sizes import is_plain
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp

MOST_NODES: Final = 1 << 20  # as many as a GiB of memory holds: a larger graph has no form

_NUMBERS: Final = frozenset({int, bool})
_is_plain: Final = lru_cache(maxsize=4096)(is_plain)
# An enumeration is slow to ask for its members.
_BUFFER, _CONST, _BIND, _CALL = Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.CALL
_FUNCTION, _INDEX, _SHEAR, _LOOP = Ops.FUNCTION, dtypes.index, Ops.SHEAR, Ops.LOOP
_STEPS: Final = Ops.STEPS
_SIZED: Final = MOVEMENT | {_LOOP, _STEPS}
# An identity, of which a node's number says as much; words for people.
_TOLD: Final = frozenset({Ops.LEAF, Ops.CHECK})
PLACED: Final = frozenset({*MOVEMENT, Ops.LEAF, Ops.DETACH})  # what memory is looked at through
PAIRED: Final = frozenset({Ops.SHRINK, Ops.PAD})  # of two numbers for each axis
_SHAPED: Final = frozenset({Ops.RESHAPE, Ops.EXPAND})
BODIED: Final = frozenset({_LOOP, _STEPS})  # whose arg has nodes of a body
NUMBERED: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.SHEAR, *PAIRED})

OF_A_STEP: Final = "a tensor of a loop's step has no value outside of it: hand it on as carry or y"


NOWHERE: Final[Mapping[UOp, int]] = MappingProxyType({})


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
    places: Mapping[UOp, int] = NOWHERE
    ages: Mapping[UOp, int] = NOWHERE
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


def canonical(roots: Sequence[tuple[UOp, str]], known: bool = False) -> Canonical | None:
    """The form of `roots` (node, device), with what is `known` in it; None if it is too large."""
    words: list[Any] = []  # `list[Any]()` takes twenty times as long
    order: list[UOp] = []
    places: dict[UOp, int] = {}
    ages, numbers, buffers, bound, numbered, calls = {}, [], [], [], [], []
    stack = [node for node, _ in reversed(roots)]
    while stack:
        node = stack.pop()
        if known and (entry := node.known) is not None:
            node, ages[node] = entry
        op = node.op
        if op is _FUNCTION:
            stack.append(node.src[0])  # its rule for gradients changes no value
            continue
        if op is _CONST and node.dtype is not _INDEX and type(node.arg) is not bool:
            words += (op, node.dtype)  # each time: which of them are equal is no part of the words
            numbered.append(node)
            numbers.append(node)
            continue
        place = places.setdefault(node, count := len(order))
        if place != count and (op not in PLACED or not is_by_chance(node, known)):
            words.append(place)
            continue
        order.append(node)
        arg, source = node.arg, node.src
        if op in _SIZED:
            if op in _SHAPED and _is_plain(arg):  # mostly
                numbered.append(node)
                numbers += arg
                arg = len(arg)
            else:
                arg, sizes = without_numbers(node, numbered, numbers)
                source += sizes
        elif not source:
            if op is _BUFFER:
                buffers.append(arg)
                words += (op, node.dtype, arg.device)
                numbered.append(node)
                numbers.append(arg.size)
            else:
                words.append(node if op is _CONST else word_of(node))
            continue
        elif op is _CALL:
            arg = without_sizes(node, numbered, numbers)
            calls.append(node)
        elif op is _BIND:
            bound.append(node)
            source = source[:1]  # the variable, not its value
        elif op in _TOLD:
            arg = None
        words += (op, node.dtype, arg, len(source))
        stack += source[::-1]
        if count > MOST_NODES:
            return None
    wanted = [(place_of(node, places, known), device) for node, device in roots]
    key = (settings_now(), (*wanted,), interned((*words,)), (*numbers,))
    given = [node.src[1].arg for node in bound]
    return Canonical(key, buffers, bound, numbered, order, places, ages, given, calls)


def word_of(node: UOp) -> Any:
    """A node without operands, but for how it is called."""
    if node.op is Ops.SLOT:
        raise ValueRangeError(OF_A_STEP)
    return node.op, node.dtype, node.arg[1:]


def is_by_chance(node: UOp, known: bool) -> bool:
    """Whether a node is a box of memory or a view of one, or of a constant: another such may be
    the same node without meaning the same.
    """
    shrunk = False
    while node.op in PLACED:
        shrunk = shrunk or node.op is Ops.SHRINK
        node = node.src[0]
        if known and node.known is not None:
            node = node.known.value
    return node.op is _CONST or (shrunk and node.op is _BUFFER)


def without_numbers(
    node: UOp, numbered: list[UOp], numbers: list[Any]
) -> tuple[Any, tuple[UOp, ...]]:
    """What is left of a movement's or LOOP's arg without its numbers, which are put down; and the
    nodes among its sizes, where not all are numbers.
    """
    op, arg = node.op, node.arg
    if op in BODIED:
        return without_body(node, numbered, numbers)
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


def without_sizes(call: UOp, numbered: list[UOp], numbers: list[Any]) -> Any:
    """What is left of a CALL's template without its numbers, as `without_numbers`."""
    template = call.arg.template
    if template.numbers:
        numbered.append(call)
        numbers += template.numbers
    return template.likeness


def without_body(node: UOp, numbered: list[UOp], numbers: list[Any]) -> tuple[Any, tuple[UOp, ...]]:
    """What is left of a LOOP's or STEPS' arg without its numbers, as `without_numbers`: how many
    steps there are, and those of the body.
    """
    sizes: tuple[UOp, ...] = ()
    body = body_of(node)
    numbered += body.numbered
    numbers += body.numbers
    if node.op is _STEPS:
        return body.words, body.sizes
    loop, count = node.arg, node.arg.count
    if isinstance(count, int):
        numbered.append(node)
        numbers.append(count)
    elif count is not None:
        sizes = (count,)
    kind = loop.stepped, loop.backwards, loop.lean, count is None
    return (*kind, body.words), (*sizes, *body.sizes)


class Body(NamedTuple):
    """The body of a LOOP, or the node of one that STEPS asks for: its nodes without their numbers,
    which are apart, and the nodes among its sizes.
    """

    words: Words
    numbered: tuple[UOp, ...]
    numbers: tuple[Any, ...]
    sizes: tuple[UOp, ...]


def body_of(node: UOp) -> Body:
    """The body in a LOOP's or STEPS' arg."""
    return _written(roots_of(node))


def roots_of(node: UOp) -> tuple[UOp, ...]:
    """The nodes of a body that a LOOP or STEPS names."""
    if node.op is _STEPS:
        return (node.arg,)
    loop = node.arg
    return loop.nexts if loop.goes_on is None else (*loop.nexts, loop.goes_on)


def with_roots(arg: Any, roots: Sequence[UOp]) -> Any:
    """A LOOP's or STEPS' arg with others in place of these."""
    if isinstance(arg, UOp):
        return roots[0]
    count = len(arg.nexts)
    return replace(arg, nexts=(*roots[:count],), goes_on=roots[count] if arg.goes_on else None)


@lru_cache(maxsize=256)
def _written(roots: tuple[UOp, ...]) -> Body:
    """Nodes of a body, operands first."""
    words: list[Any] = []
    places: dict[UOp, int] = {}
    numbered: list[UOp] = []
    numbers: list[Any] = []
    sizes: list[UOp] = []
    for node in UOp.sink(*roots).toposort():
        op, arg = node.op, node.arg
        if op is Ops.SLOT:
            number, shape = arg
            if _is_plain(shape):
                numbered.append(node)
                numbers += shape
                shape = len(shape)
            else:
                sizes += sizes_in(shape)
            arg = number, marked(shape)
        elif op in _SIZED:
            arg, more = without_numbers(node, numbered, numbers)
            sizes += more
        elif op in _TOLD:
            arg = None
        words.append((op, node.dtype, arg, *[places[source] for source in node.src]))
        places[node] = len(places)
    return Body(interned((*words,)), (*numbered,), (*numbers,), (*sizes,))


def place_of(root: UOp, places: Mapping[UOp, int], known: bool = False) -> int | None:
    """Which node of those in order of appearance a root is; None for a constant."""
    while True:
        if known and root.known is not None:
            return places.get(root.known.value)
        if root.op is not _FUNCTION:
            return places.get(root)
        root = root.src[0]


class Words(Iterable[Any]):
    """Words of a key. Equal ones are one object, so that keys are quick to look up. `content` is
    the same for all objects of equal words.
    """

    __slots__ = ("_all", "content", "__weakref__")

    def __init__(self, words: tuple[Any, ...]):
        self._all, self.content = words, hash(words)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return repr(self._all)


class _Reference(weakref.ref[Words]):
    __slots__ = ("words",)
    words: tuple[Any, ...]


_words: Final[dict[tuple[Any, ...], _Reference]] = {}


def _forget(reference: _Reference, among: dict[tuple[Any, ...], Any] = _words) -> None:
    if among.get(reference.words) is reference:
        del among[reference.words]


def interned(words: tuple[Any, ...]) -> Words:
    """The one object for these words, as long as somebody holds it."""
    reference = _words.get(words)
    found = None if reference is None else reference()
    while found is None:
        made = Words(words)
        reference = _Reference(made, _forget)
        reference.words = words
        winner = _words.setdefault(words, reference)
        found = winner()
        if found is None and _words.get(words) is winner:  # dead, its callback still to come
            _words.pop(words, None)
    return found


_settings: tuple[Mapping[str, Any] | None, Words] = None, Words(())


def settings_now() -> Words:
    """The values of all settings: another object when they change."""
    global _settings
    mapping, known = _settings
    now = settings.snapshot()
    if mapping is not now:
        known = interned((*now.values(),))
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
