"""New values of what a trace changes, written over the old ones where nobody else holds these.

An optimiser's step would otherwise go through twice the memory: each weight, and the place where
its next value comes to lie.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from sys import getrefcount
from typing import Final

from torpor.capture.commit import Value
from torpor.capture.output import Output, Shown, node_over
from torpor.capture.plan import Plan
from torpor.device import Buffer
from torpor.device.buffer import BufferMaker
from torpor.device.pool import pool
from torpor.ir.uop import UOp
from torpor.pipeline.reuse import Fresh, Result

LEAST_EACH: Final = 1 << 14  # bytes of a value: looking who holds it costs about a microsecond
# Up to CPython 3.13 each variable that holds a thing counts, which is what offsets below rely on.
COUNTS: Final = sys.implementation.name == "cpython" and sys.version_info < (3, 14)
# Bytes of all: two of each would not lie in caches where one does. Measured by one thread of Zen 3
# (512 KB next to a core): sums of two matrices of 2 to 4 MB take 0.65 to 0.8 of the time, those of
# 1 MB 1.1.
LEAST: Final = 3 << 19


def successors(
    plan: Plan, changes: Iterable[tuple[int, Value]], shown: Sequence[Shown | None]
) -> list[tuple[int, Successor] | None]:
    """For each output, if so, the input whose next value it is and may lie in its memory, and what
    gives it. The slot of an input is its number.

    No other command reads the input, which may also be only replaced; and none from then on has a
    check, so that nothing has changed where one fails.
    """
    found: list[tuple[int, Successor] | None] = [None] * len(plan.outputs)
    for old, value in changes:
        new = value.parts[0][0]
        number, seen = new - plan.first_output, shown[new]
        if value.joint is None and number >= 0 and seen == Shown(value.parts[0][1], value.requires):
            output = plan.outputs[number]
            if _bytes_of(output) >= LEAST_EACH and _may_take_over(plan, new, old):
                found[number] = old, Successor(output, seen)
    pairs = zip(plan.outputs, found, strict=True)
    large = sum(_bytes_of(output) for output, over in pairs if over is not None) >= LEAST
    return found if large and COUNTS else [None] * len(found)


def _bytes_of(output: Output) -> int:
    return output.size * output.dtype.itemsize


def _may_take_over(plan: Plan, new: int, old: int) -> bool:
    """Whether the result in slot `new` may lie where the input in slot `old` does."""
    makers = [n for n, command in enumerate(plan.commands) if new in command.slots]
    readers = [n for n, command in enumerate(plan.commands) if old in command.slots]
    if not makers or (readers and makers[0] != readers[-1]):
        return False
    commands = plan.commands[makers[0] :]
    slots, program = commands[0].slots, commands[0].program
    if program is None or any(c.program is None or c.program.checks for c in commands):
        return False
    if not readers:  # the old value is only replaced
        return True
    alone = slots.count(new) == slots.count(old) == 1
    return alone and (slots.index(new), slots.index(old)) in program.shared


class Successor:
    """Gives the result that a changed value is for: the one before it, if only its storage holds
    that. For one thread at a time.
    """

    def __init__(self, output: Output, shown: Shown):
        self._fresh = Fresh(BufferMaker(*output), partial(node_over, shown=shown))
        self._last: weakref.ref[Buffer] | None = None  # the last that was given
        self._alone: list[int] = []  # how often its parts are held by a storage and no one else

    def take(self, base: UOp, named: int = 0) -> Result:
        """The result for the next run; `base` is the value now. Who calls it holds the buffer once
        and the node that names it `named` times.
        """
        last = None if self._last is None else self._last()
        if last is not None and last is below(base).arg and not others_run():
            *nodes, buffer, memory = held(base)
            nodes[0] -= 1  # `base`
            nodes[-1] -= named
            if [*nodes, buffer - 2, memory] == self._alone:  # less what calls it, and `last`
                return Result(last, base)
        return self._new()

    def _new(self) -> Result:
        made = self._fresh.take()
        assert made.node is not None, "its node was asked for"
        if not self._alone:
            *nodes, buffer, memory = held(made.node)  # of the result, not yet of a storage
            self._alone = [*nodes, buffer - 1, memory]
        self._last = weakref.ref(made.buffer)
        return made


def below(node: UOp) -> UOp:
    """What all of a value's views and leaves are over."""
    while node.src:
        node = node.src[0]
    return node


def held(node: UOp) -> list[int]:
    """How often each node down to a BUFFER is held, its buffer, and its memory."""
    parts: list[object] = [node]
    while node.src:
        node = node.src[0]
        parts.append(node)
    parts += (node.arg, node.arg.memory)
    return [*map(getrefcount, parts)]


def others_run() -> bool:
    """Whether there are threads that may look at a value while a kernel writes over it."""
    return threading.active_count() - pool.workers > 1
