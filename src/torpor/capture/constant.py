"""Numbers of tensors that a traced function asked for while it ran (a mask's, an `.item()`).

What it asks for is constant as far as it follows from tensors that still hold what they held: these
are compared at each replay. A run is traced so only where an earlier one of its kind found the same
numbers, since most functions that ask for numbers are called with others each time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from torpor.device import Buffer
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.command import Prepared
from torpor.tensor.computing import compute
from torpor.tensor.handle import Handle
from torpor.tensor.host import Array, read
from torpor.tensor.storage import buffers_of

READS: Final = "reads the value of a tensor while it runs (item, numpy, float, bool, ...)"
MOST_READS: Final = 64  # of a run: each looks at what has been computed so far
# Bytes that are compared at each replay, about what a second cache holds: a choice. What takes
# longer to compare may be computed as well.
MOST_COMPARED: Final = 1 << 20
MOST_SEEN: Final = 16  # tensors whose numbers are remembered for a kind of call
MOST_TRIES: Final = 3  # runs in a row that asked for numbers not seen before, none of them replayed


class Constants:
    """What one run asked for.

    numbers:  what the tensors held that it follows from, by `id` of their storages.
    marks:    what tells these numbers from others.
    hopeless: whether it follows from more than that, so that no later run is better.
    """

    def __init__(self, seen: Container[int] = ()):
        self._seen, self._reads = seen, 0
        self.numbers: dict[int, Array] = {}
        self.marks: dict[int, int] = {}
        self.hopeless = False

    def admit(
        self, tensor: Handle, recorded: Sequence[Prepared], inputs: Mapping[int, Any]
    ) -> bool:
        """Whether the elements of a tensor, which the function asks for now, follow from constants,
        and from numbers of inputs that were the same in an earlier run.
        """
        self._reads += 1
        node = tensor._current()
        below = None
        if self._reads <= MOST_READS and all(one.op is not Ops.SLOT for one in node.toposort()):
            (value,) = compute([(node, tensor._storage.device)])
            below = origins_of(buffers_of(value), recorded)
        if below is None:
            self.hopeless = True
            return False
        for key, entry in inputs.items():
            buffers = buffers_of(entry.node)
            if key not in self.numbers and not below.isdisjoint(map(place_of, buffers)):
                self._note(key, entry.node)
        return not self.hopeless and all(mark in self._seen for mark in self.marks.values())

    def _note(self, key: int, node: UOp) -> None:
        nbytes = sum(buffer.nbytes for buffer in buffers_of(node))
        array = read(node)
        if (
            array is None
            or nbytes + sum(kept.nbytes for kept in self.numbers.values()) > MOST_COMPARED
        ):
            self.hopeless = True
            return
        self.numbers[key] = np.array(array)
        self.marks[key] = hash((array.dtype.str, array.shape, array.tobytes()))

    def varying(self, recorded: Sequence[Prepared], inputs: Iterable[Any],
                wanted: Collection[Buffer]) -> Sequence[Prepared]:  # fmt: skip
        """The kernels that a replay has to run: not those that follow from constants alone, if the
        function asked for any, whose results lie in memory.
        """
        if not self._reads:
            return recorded
        others = [entry.node for entry in inputs if id(entry.storage) not in self.numbers]
        moving = {place_of(buffer) for node in others for buffer in buffers_of(node)}
        moving.update(map(place_of, wanted))
        while True:
            kept = [one for one in recorded if varies(one) or not moving.isdisjoint(touched(one))]
            buffers = [node.arg for one in kept for node in one.item.buffers]
            more = {place_of(buffer) for buffer in buffers if not buffer.is_allocated()}
            more.update(place for one in kept for place in written(one))
            if more <= moving:
                return kept
            moving |= more


@dataclass
class Seen:
    """What the runs of one kind of call asked for, and how many in a row could not be traced."""

    marks: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_SEEN))
    tries: int = 0
    replays: int = 0

    def may_match(self, constants: Constants, replays: int) -> bool:
        """Note a run that was not traced because of the numbers that it asked for. Whether a later
        one may find the same; `replays`: of the kind, so far.
        """
        self.tries = 1 if replays > self.replays else self.tries + 1
        self.replays = replays
        self.marks.extend(constants.marks.values())
        return not constants.hopeless and self.tries <= MOST_TRIES


def place_of(buffer: Buffer) -> int:
    """What tells memory from other memory: views are of the same as what they view."""
    return id(buffer if buffer.base is None else buffer.base)


def touched(one: Prepared) -> set[int]:
    """The memory that a kernel reads or writes."""
    return {place_of(node.arg) for node in one.item.buffers}


def written(one: Prepared) -> set[int]:
    """The memory that a kernel writes."""
    return {place_of(one.item.buffers[number].arg) for number in one.item.outputs}


def varies(one: Prepared) -> bool:
    """Whether what a kernel does depends on more than memory: numbers, random draws, rounds."""
    return bool(one.item.variables) or one.item.jump is not None


def origins_of(buffers: Iterable[Buffer], recorded: Sequence[Prepared]) -> set[int] | None:
    """All memory that what lies in buffers follows from; None if it follows from more than that."""
    below = {*map(place_of, buffers)}
    if any(one.item.jump is not None for one in recorded):
        return None
    for one in reversed(recorded):
        if not below.isdisjoint(written(one)):
            if varies(one):
                return None
            below |= touched(one)
    return below
