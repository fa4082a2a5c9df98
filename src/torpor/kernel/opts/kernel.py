"""`Kernel`: a kernel's ast and the opts that were applied to it, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.base.errors import OptError
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.opts import loops, memory
from torpor.kernel.opts.normalise import normalise
from torpor.kernel.opts.split import split
from torpor.kernel.ranges import closed_by, find_loops, kind_of, number_of, size_of


class Kernel:
    """A kernel's ast for one target, with the opts applied so far: functions that change it.

    Axes are merged and numbered when it is made; opts refer to them by position in `axes`
    (UNROLL, GROUP and GROUPTOP by position in `reduce_axes`).
    """

    def __init__(self, ast: UOp, target: Target):
        self.target = target
        self.ast = normalise(ast)
        self.opts: list[Opt] = []
        self.no_locals = False
        self._next = 0
        self.number_anew()

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

    # --- what there is ----------------------------------------------------------------------------
    @property
    def axes(self) -> list[UOp]:
        """Every axis, outermost first; written-out ones last."""
        return find_loops(self.ast).axes

    @property
    def reduce_axes(self) -> list[UOp]:
        """The reduce axes in order."""
        return find_loops(self.ast).reduce_axes

    @property
    def has_reduce(self) -> bool:
        """Whether the kernel reduces anything."""
        return bool(find_loops(self.ast).reductions)

    @property
    def name(self) -> str:
        """`E` for elementwise kernels, `r` for reductions, with the sizes of the axes."""
        sizes = []
        for one in self.axes:
            size = size_of(one)
            sizes.append(str(size) if size is not None else f"to{one.src[0].vmax}")
        return "_".join(["r" if self.has_reduce else "E", *sizes])

    def staged(self) -> list[UOp]:
        """The packed memory of the kernel."""
        return [n for n in self.ast.toposort() if n.op is Ops.DEFINE_LOCAL]

    def reads_stored(self) -> bool:
        """Whether the kernel reads memory that it stores to."""
        written = {s.src[0].src[0] for s in self.ast.src}
        return any(is_read(memory, self.ast) for memory in written)

    def growing_stores(self) -> list[UOp]:
        """The STOREs of what was in their memory before, and something more."""
        stores = [n for n in self.ast.toposort() if n.op is Ops.STORE]
        return [s for s in stores if is_read(s.src[0].src[0], s.src[1])]

    # --- what an opt means ------------------------------------------------------------------------
    def refused(self, opt: Opt, why: str) -> OptError:
        """The error that names the opt and the kernel, and says why it does not fit."""
        axes = ", ".join(f"{kind_of(r).name.lower()} {size_of(r) or 'symbolic'}" for r in self.axes)
        return OptError(
            f"{opt.op.name} of axis {opt.axis} by {opt.arg} does not fit kernel {self.name} "
            f"(axes: {axes}): {why}"
        )

    def axis(self, opt: Opt, among: Sequence[UOp]) -> UOp:
        """The axis that the opt means."""
        if opt.axis is None or not 0 <= opt.axis < len(among):
            raise self.refused(opt, f"there is no axis {opt.axis} among {len(among)}")
        return among[opt.axis]

    def expect(self, opt: Opt, one: UOp, kinds: Sequence[AxisType]) -> None:
        """The axis is of one of these types."""
        if kind_of(one) not in kinds:
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")

    def amount(self, opt: Opt, one: UOp, overlap: bool = False) -> int:
        """How much of the axis the opt takes: a divisor of its size, unless tiles overlap."""
        size = size_of(one)
        if size is None and not overlap:
            raise self.refused(opt, "the axis has a symbolic size")
        size = one.src[0].vmax if size is None else size
        if overlap and not 0 < (opt.arg or 0) < size:
            raise self.refused(opt, "the axis is no longer than a tile")
        amount = opt.arg if opt.arg else size
        if amount < 1 or (size % amount and not overlap):
            raise self.refused(opt, f"{amount} does not divide {size}")
        return amount

    def check_stages(self, opt: Opt, one: UOp) -> None:
        """Rounds that share a packed tile's memory come one after the other."""
        found = find_loops(self.ast)
        for node in found.order:
            anew = node.op is Ops.BARRIER and one in found.free[node]
            grows = node.op is Ops.STORE and one in closed_by(node)
            if anew or (grows and one not in found.free[node.src[0]]):
                raise self.refused(opt, "each of its rounds fills the same packed memory")

    def check_memory(self, opt: Opt, size: int) -> None:
        """Packed memory has room for `size` bytes more."""
        room = self.target.local_bytes if self.target.groups else self.target.stage_bytes
        taken = sum(n.arg.size * n.dtype.itemsize for n in self.staged()) + size
        if taken > room:
            raise self.refused(opt, f"{taken} bytes would be staged, and there are {room}")

    # --- what an opt does -------------------------------------------------------------------------
    @property
    def fresh(self) -> int:
        """The least number that no axis has."""
        return self._next

    def number_anew(self) -> None:
        """See which numbers the ast's axes have, after an opt that made or renumbered some."""
        self._next = 1 + max((number_of(r) for r in self.ast.ranges()), default=-1)

    def split(
        self, one: UOp, amount: int, kind: AxisType, top: bool = False, overlap: bool = False
    ) -> None:
        """Cut `amount` iterations off an axis, as a new axis of type `kind`."""
        self.ast = split(self.ast, one, UOp.range(amount, self.fresh, kind), top, overlap)
        self._next += 1


def is_read(memory: UOp, value: UOp) -> bool:
    """Whether a value is computed from what lies in a memory."""
    return any(n.op is Ops.LOAD and n.src[0].src[0] is memory for n in value.toposort())


def tile(kernel: Kernel, opt: Opt) -> None:
    """TILE of a reduce axis needs memory, of another one only loops."""
    reduces = kind_of(kernel.axis(opt, kernel.axes)) is AxisType.REDUCE
    (memory.tile_sum if reduces else loops.tile)(kernel, opt)


_HANDLERS: Final[dict[OptOps, Callable[[Kernel, Opt], None]]] = {
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
