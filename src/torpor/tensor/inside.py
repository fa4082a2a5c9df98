"""What watches a function that is traced for a loop or a branch: it must leave nothing behind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import GradientError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.graph.loop import slot
from torpor.ir.infer import Size
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, located
from torpor.tensor.iota import iota
from torpor.tensor.watch import Watcher, active, watcher

_numbers: Final = itertools.count()
_SAME: Final = 4  # in `UOp.normal`: what is known to be the same at each step of a loop
ARGUMENT: Final = "argument"  # in numbers of SLOTs that stand for a function's, outside of loops


def fresh(what: str = "step") -> tuple[str, int]:
    """The number of a SLOT that no other has."""
    return what, next(_numbers)


def depends_on_step(node: UOp) -> bool:
    """Whether a node is another one at each step of a loop."""
    if node.normal & _SAME:
        return False
    below = node.toposort(lambda one: not one.normal & _SAME)
    slots = (one.arg[0] for one in below if one.op is Ops.SLOT)
    if any(not isinstance(number, tuple) or number[0] != ARGUMENT for number in slots):
        return True
    for one in below:
        one.normal |= _SAME
    return False


class Nobody(Watcher):
    """Watches nothing."""

    def _nothing(self, *_: Any) -> Any: ...

    made = viewed = touch = writing = turned = read = _nothing  # type: ignore[assignment]
    differentiated = forgot = drew = _nothing  # type: ignore[assignment]

    def stands_for(self, node: UOp, value: UOp) -> bool:
        return True


class Inside(Watcher):
    """Watches a function that may change only what it makes; hands all else on to whoever watches
    around it. `what` is called so in errors.
    """

    what: str

    def __init__(self) -> None:
        self.outer = watcher() or Nobody()
        self.own: dict[int, Any] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the function runs."""
        thread = get_ident()
        active[thread] = self
        try:
            yield
        finally:
            if isinstance(self.outer, Nobody):
                active.pop(thread, None)
            else:
                active[thread] = self.outer

    def of_examples(self) -> bool:
        """Whether the function is run once for many examples: what one needs, all compute."""
        outer = self.outer
        return self.what == "vmap" or (isinstance(outer, Inside) and outer.of_examples())

    def is_own(self, handle: Handle) -> bool:
        return id(handle._storage) in self.own

    def refuse(self, handle: Handle, what: str) -> None:
        """An error for what would outlive the body."""
        raise located(GradientError(f"{self.what}: {what}; hand the value on instead"), (handle,))

    def made(self, storage: Any) -> None:
        self.own[id(storage)] = storage
        self.outer.made(storage)

    def viewed(self, view: Handle) -> None:
        self.outer.viewed(view)

    def touch(self, handle: Handle) -> None:
        if not self.is_own(handle):
            self.outer.touch(handle)

    def writing(self, handle: Handle) -> None:
        if not self.is_own(handle):
            self.refuse(handle, "it cannot write to a tensor from outside")
        self.outer.writing(handle)

    def turned(self, handle: Handle) -> None:
        if not self.is_own(handle):
            self.refuse(handle, "it cannot make another view of a tensor from outside")
        self.outer.turned(handle)

    def read(self, handle: Handle, lent: bool) -> None:
        self.outer.read(handle, lent)

    def differentiated(self, leaf: Handle | None) -> None:
        if leaf is not None:
            self.forgot(leaf)
        self.outer.differentiated(leaf)

    def forgot(self, leaf: Handle) -> None:
        if not self.is_own(leaf):
            self.refuse(leaf, "it cannot set .grad of a tensor from outside")

    def draws(self, rounds: int) -> int:
        return self.outer.draws(rounds)

    def numbered(self, rounds: int) -> UOp | None:
        return self.outer.numbered(rounds)

    def drew(self, generator: Any, state: Any) -> None:
        self.outer.drew(generator, state)

    def stands_for(self, node: UOp, value: UOp) -> bool:
        return self.outer.stands_for(node, value)


class UnknownValueError(ValueRangeError):
    """A value is read that nobody knows yet: it depends on the step of a loop."""


class Step(Inside):
    """Watches what a step of a loop is: it reads nothing that depends on the step.

    count:  how many steps (None: nobody knows).
    number: the SLOT of a step's number, once somebody asked for it.
    """

    def __init__(self, what: str, count: Size | None, device: str):
        super().__init__()
        self.what, self.count, self.device = what, count, device
        self.number: UOp | None = None

    def step_number(self) -> UOp:
        """The number of a step, as a node (uint32)."""
        if self.number is None:
            rows = iota(self.count or 0, self.device, dtypes.uint32)
            self.number = slot(fresh(), rows, stepped=True)
        return self.number

    def numbers(self) -> dict[UOp, UOp]:
        """The SLOT of the step's number and what it is a row of, if anything asked for it."""
        rows = iota(self.count or 0, self.device, dtypes.uint32)
        return {} if self.number is None else {self.number: rows}

    def read(self, handle: Handle, lent: bool) -> None:
        if depends_on_step(handle._current()):
            one = "example" if self.what == "vmap" else "step"
            what = f"a value that depends on the {one} cannot be read while the function is traced"
            raise located(UnknownValueError(f"{self.what}: {what}"), (handle,))
        super().read(handle, lent)

    def draws(self, rounds: int) -> int:
        if self.count is None:
            what = "random numbers in a while_loop of a graph: nobody knows how many it will draw"
            raise ValueRangeError(what)
        if not isinstance(self.count, int):
            raise ShapeError("random numbers in a scan: how many steps it has has to be known")
        return super().draws(rounds * self.count)

    def numbered(self, rounds: int) -> UOp | None:
        further = build.constant(rounds, dtypes.uint32)
        further = build.elementwise(Ops.MUL, self.step_number(), further)
        assert self.count is None or isinstance(self.count, int), "draws are counted before"
        more = super().numbered(rounds * (self.count or 0))
        return further if more is None else build.elementwise(Ops.ADD, further, more)


class Example(Inside):
    """Watches what is done for one of many examples, a step of a loop: what it draws is the same
    for all of them, or an error.
    """

    def __init__(self, same: bool):
        super().__init__()
        assert isinstance(self.outer, Step), "examples are steps of a loop"
        self.same, self.step = same, self.outer
        self.what, self.own = self.step.what, self.step.own

    def draws(self, rounds: int) -> int:
        if not self.same:
            what = "vmap: random numbers are drawn; say randomness='different' or 'same'"
            raise ValueRangeError(what)
        return self.step.outer.draws(rounds)

    def numbered(self, rounds: int) -> UOp | None:
        return self.step.outer.numbered(rounds)


class Branch(Inside):
    """Watches a branch. `entered`: the tensors from outside that it looked at."""

    what = "cond"

    def __init__(self) -> None:
        super().__init__()
        self.entered: dict[Handle, None] = {}

    def touch(self, handle: Handle) -> None:
        super().touch(handle)
        if not self.is_own(handle):
            self.entered[handle] = None
