"""Graph nodes that have been computed, and what stands for their values.

before  a + b, where b is a graph that has been computed
after   a + the memory that holds the value of b, for who asks: the graph stays as it is
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from torpor.graph.reduce import AGAIN
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

_FUNCTION: Final = Ops.FUNCTION  # an enumeration is slow to ask for its members


class Entry(weakref.ref[UOp]):
    """A node that has been computed, weakly, and what stands for its value. `age`: how many nodes
    that were computed along with others lie on one way below it, with itself.
    """

    __slots__ = ("number", "value", "age")
    number: int
    value: UOp
    age: int


Notes = Mapping[int, Entry]  # by id of the node, since most look-ups fail and must cost nothing
NOTHING: Final[Notes] = MappingProxyType({})
known: Final[dict[int, Entry]] = {}


def _drop(entry: Any, among: dict[int, Any] = known) -> None:  # names are gone at the very end
    number: int = entry.number
    if among.get(number) is entry:
        del among[number]


def note(node: UOp, value: UOp, age: int = 0) -> None:
    """Note that `value` stands for what `node` computes, as long as `node` lives."""
    entry = Entry(node, _drop)
    entry.number, entry.value, entry.age = id(node), value, age
    known[id(node)] = entry


def is_noted(node: UOp, value: UOp) -> bool:
    """Whether that is known already."""
    entry = known.get(id(node))
    return entry is not None and entry.value is value and entry() is node


def shown(node: UOp, among: Notes = known) -> UOp:
    """What stands for the value of a node: the node itself, if it has not been computed."""
    while True:
        entry = among.get(id(node))
        if entry is not None and entry() is node:  # an interrupt may have kept `_drop` from it
            return entry.value
        if node.op is not _FUNCTION or node.arg[0] != AGAIN:
            return node
        node = node.src[0]
