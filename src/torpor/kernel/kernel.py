"""`Kernel`: a kernel's ast and the opts that were applied to it, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel import opts_axes, opts_memory
from torpor.kernel.ranges import find_loops, kind_of
from torpor.kernel.state import OUTPUTS, REDUCES, State

__all__ = ["OUTPUTS", "REDUCES", "Kernel"]


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
        handler = _HANDLERS.get(opt.op)
        if handler is None:
            raise self.refused(opt, "this optimisation is not there yet")
        before = self.copy()
        handler(self, opt)
        if not find_loops(self.ast).is_order():
            self.become(before)
            raise self.refused(opt, "loops beside each other would lie around the same loop")
        self.opts.append(opt)


def tile(kernel: State, opt: Opt) -> None:
    """TILE of a reduce axis needs memory, of another one only loops."""
    reduces = kind_of(kernel.axis(opt, kernel.axes)) is AxisType.REDUCE
    (opts_memory.tile_sum if reduces else opts_axes.tile)(kernel, opt)


_HANDLERS: Final[dict[OptOps, Callable[[State, Opt], None]]] = {
    OptOps.UPCAST: opts_axes.upcast,
    OptOps.OVERLAP: opts_axes.overlap,
    OptOps.UNROLL: opts_axes.unroll,
    OptOps.LOCAL: opts_axes.local,
    OptOps.GROUP: opts_axes.group,
    OptOps.GROUPTOP: opts_axes.group,
    OptOps.PADTO: opts_axes.pad_to,
    OptOps.SWAP: opts_axes.swap,
    OptOps.NOLOCALS: opts_axes.without_locals,
    OptOps.THREAD: opts_axes.thread,
    OptOps.TILE: tile,
    OptOps.PARTITION: opts_axes.cut,
    OptOps.STAGE: opts_memory.pack,
    OptOps.WINDOW: opts_memory.window,
    OptOps.STREAM: opts_memory.stream,
    OptOps.PAIR: opts_memory.pair,
    OptOps.QUAD: opts_memory.quad,
}
