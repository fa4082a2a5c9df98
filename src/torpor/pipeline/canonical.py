"""What two realisations must have in common to run the same kernels.

The graph is written down from its roots to its leaves, with its nodes numbered in order of
appearance; a node that appears again is its number. Memory is told by format, size and device, a
bound variable by its limits: which buffer it is, what value it has and how it is called stay out,
and are listed beside. Where boxes lie (`X[i:i+64]`, `X[i] = y`) is written apart, at the end of the
key: graphs that differ in nothing else have one `skeleton` (see `boxes.py`). Everything else is
part of the key, constants included, since they fold; so are all settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from torpor.base import settings
from torpor.base.errors import ValueRangeError
from torpor.device import Buffer
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp

MOST_NODES: Final = 100_000  # a graph of more is not worth writing down

_NUMBERS: Final = frozenset({int, bool})
# An enumeration is slow to ask for its members.
_BUFFER, _CONST, _BIND, _LEAF = Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.LEAF
_FUNCTION: Final = Ops.FUNCTION
_SLOT: Final = Ops.SLOT
_SHRINK, _PAD = Ops.SHRINK, Ops.PAD
_PLACED: Final = frozenset({*MOVEMENT, Ops.LEAF, Ops.DETACH})  # what memory is looked at through


OF_A_STEP: Final = "a tensor of a loop's step has no value outside of it: hand it on as carry or y"


class Canonical(NamedTuple):
    """A graph's key, and what is not in it, in order of appearance: buffers, and BIND nodes; and
    the SHRINK and PAD nodes whose places are at the end of the key. `order`: its nodes by number.
    """

    key: tuple[Any, ...]
    buffers: Sequence[Buffer]
    bound: Sequence[UOp]
    boxes: Sequence[UOp] = ()
    order: Mapping[UOp, int] = MappingProxyType({})

    @property
    def skeleton(self) -> tuple[Any, ...]:
        """The key without the places of boxes."""
        return self.key[:-1]


def canonical(roots: Sequence[tuple[UOp, str]]) -> Canonical | None:
    """The canonical form of `roots` (graph node, device); None if there are too many nodes."""
    numbers: dict[UOp, int] = {}
    words: list[Any] = []
    buffers: list[Buffer] = []
    bound: list[UOp] = []
    boxes: list[UOp] = []
    stack = [node for node, _ in reversed(roots)]
    while stack:
        node = stack.pop()
        while node.op is _FUNCTION:
            node = node.src[0]  # its rule for gradients changes no value
        number = numbers.get(node)
        if number is not None:
            words.append(number)
            continue
        numbers[node] = len(numbers)
        op, arg, source = node.op, node.arg, node.src
        if not source:
            if op is _BUFFER:
                buffers.append(arg)
                words += (op, node.dtype, arg.size, arg.device)
            elif op is _SLOT:
                raise ValueRangeError(OF_A_STEP)
            else:
                words.append(node if op is _CONST else (op, node.dtype, arg[1:]))
            continue
        if op in MOVEMENT and not is_known(arg):
            source, arg = (*source, *sizes_in(arg)), marked(arg)
        elif op is _SHRINK and source[0].below(_PLACED).op is _BUFFER:
            boxes.append(node)
            arg = tuple([stop - start for start, stop in arg])
        elif op is _PAD:
            boxes.append(node)
            arg = tuple([before + after for before, after in arg])
        elif op is _BIND:
            bound.append(node)
            source = source[:1]  # the variable, not its value
        elif op is _LEAF:
            arg = None  # an identity: the node's number says as much
        words += (op, node.dtype, arg, len(source))
        stack += source[::-1]
        if len(numbers) > MOST_NODES:
            return None
    wanted = tuple([(numbers[node.below((_FUNCTION,))], device) for node, device in roots])
    key = (settings_now(), wanted, tuple(words), tuple([box.arg for box in boxes]))
    return Canonical(key, buffers, bound, boxes, numbers)


class _Hashed(tuple[Any, ...]):
    """Values whose hash is known: they are part of every key."""

    code: int

    def __hash__(self) -> int:
        return self.code


_settings: tuple[Mapping[str, Any] | None, _Hashed] = None, _Hashed()


def settings_now() -> tuple[Any, ...]:
    """The values of all settings, as a tuple that is made anew when they change."""
    global _settings
    mapping, known = _settings
    now = settings.snapshot()
    if mapping is not now:
        known = _Hashed(now.values())
        known.code = hash(tuple(known))
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
