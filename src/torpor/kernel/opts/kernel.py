"""`Kernel`: a kernel's ast and the opts that were applied to it, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.opts import loops, memory
from torpor.kernel.opts.state import OUTPUTS, State
from torpor.kernel.ranges import find_loops, kind_of

__all__ = ["OUTPUTS", "Kernel"]


class Kernel(State):
    """A kernel's ast for one target, with the opts applied so far."""

    def copy(self) -> Kernel:
        """An independent kernel in the same state."""
        other = object.__new__(Kernel)
        other.__dict__.update(self.__dict__)
        other.opts = list(self.opts)
        return other

    def become(self, other: Kernel) -> None:
        """Take over the state of a copy on which opts were tried."""
        self.__dict__.update(other.copy().__dict__)

    def apply(self, opts: Sequence[Opt]) -> Kernel:
        """Apply several opts in order; gives the kernel itself."""
        for opt in opts:
            self.apply_opt(opt)
        return self

    def apply_opt(self, opt: Opt) -> None:
        """Apply one opt, or raise an `OptError` that names it and says why it does not fit."""
        before = self.copy()
        _HANDLERS[opt.op](self, opt)
        if not find_loops(self.ast).is_order():
            self.become(before)
            raise self.refused(opt, "loops beside each other would lie around the same loop")
        self.opts.append(opt)


def tile(kernel: State, opt: Opt) -> None:
    """TILE of a reduce axis needs memory, of another one only loops."""
    reduces = kind_of(kernel.axis(opt, kernel.axes)) is AxisType.REDUCE
    (memory.tile_sum if reduces else loops.tile)(kernel, opt)


_HANDLERS: Final[dict[OptOps, Callable[[State, Opt], None]]] = {
    **dict.fromkeys(loops.BINDINGS, loops.bind),
    OptOps.THREAD: loops.thread,
    OptOps.PADTO: loops.pad_to,
    OptOps.SWAP: loops.swap,
    OptOps.NOLOCALS: loops.without_locals,
    OptOps.TILE: tile,
    OptOps.PARTITION: loops.cut,
    OptOps.STAGE: memory.pack,
    OptOps.STREAM: memory.stream,
    OptOps.DOT: memory.dot,
    OptOps.MMA: memory.mma,
}
