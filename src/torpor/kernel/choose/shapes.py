"""Which iterations of a nest's loops are written out: some hundred shapes at most, of which the
cost model finds the quickest from how accesses move. Only that one is built.

    for row in rows / 4:                          # a shape: 4 of `row`, 16 of `step`, along which
      for step in steps / 16:                     # vectors run
        sums[4] += x[row*4 : ..., step*16 : ...]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod
from typing import Final, NamedTuple

from torpor.base.target import LINE
from torpor.ir.ops import ALU, TRANSCENDENTAL, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel import cost
from torpor.kernel.access import NEAR, accesses, passes_caches
from torpor.kernel.choose.roles import position_of
from torpor.kernel.choose.vectors import NARROW, SPARE, Facts, attempt, maskable, reducible
from torpor.kernel.cost import Loop, Nest
from torpor.kernel.estimate import is_data
from torpor.kernel.lanes import WIDEST
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import OUTPUTS, WRITTEN, find_loops, kind_of, number_of, size_of

SUMMED: Final = (1, 2, 3, 4)  # vectors side by side, that are tried
BESIDE: Final = (2, 1)  # the same where nothing is summed: the most that fit
COPIES: Final = (2, 3, 4, 5, 6, 7, 8)  # of a result's axis, which share what they load
FEW: Final = 8  # elements apart that LLVM reads as vectors and shuffles
LONGEST: Final = 32  # iterations of an axis of a block that is read across what it writes
LENGTHS_UNKNOWN: Final = 4  # copies of an axis of symbolic length, at most
WASTED: Final = 1 / 8  # of an axis that several vectors may be longer than it
FUNCTION: Final = 12  # operations that a function takes
ALIKE: Final = 1.005  # times the least seconds, which the model does not tell apart from it
OTHERS: Final = 4  # of the quickest shapes to which copies of one more axis are added


class Cut(NamedTuple):
    """So many iterations of an axis written out; and what is done where they do not divide it."""

    one: UOp
    amount: int
    tail: OptOps | None = None

    @property
    def rounds(self) -> int:
        """How often so many are done."""
        size = size_of(self.one) or self.one.src[0].vmax
        return size // self.amount if self.tail is OptOps.PARTITION else ceil(size / self.amount)


Shape = tuple[Cut, ...]  # what is written out, the axis along vectors last


class Shapes:
    """The shapes of a kernel whose loops lie in each other, and what the cost model says."""

    def __init__(self, kernel: Kernel, short: Sequence[UOp]):
        """`short`: loops of sums that are going to be written out."""
        self.kernel, self.target, self.facts = kernel, kernel.target, Facts.of(kernel)
        self.lanes = min(self.facts.lanes, WIDEST)
        self.sums = frozenset(kernel.reduce_axes)
        self.results = tuple(r for r in kernel.axes if kind_of(r) in OUTPUTS)
        self.inner = [r for r in kernel.reduce_axes if kind_of(r) not in WRITTEN]
        self.written = [*(r for r in kernel.axes if kind_of(r) in WRITTEN), *short]
        order = find_loops(kernel.ast).order
        data = [n.op in TRANSCENDENTAL for n in order if n.op in (*ALU, Ops.REDUCE) and is_data(n)]
        self.operations = sum(FUNCTION if dear else 1 for dear in data)

    # --- candidates -------------------------------------------------------------------------------
    def ranked(self) -> list[Shape]:
        """The shapes, the quickest first, of those alike the shortest."""
        found = {shape: self.seconds(shape) for shape in ((), *self.vectors())}
        self.add(found, list(found))
        for _ in range(2 if self.sums else 0):
            self.add(found, sorted(found, key=found.__getitem__)[:OTHERS])
        most = min(found.values()) * ALIKE
        return sorted(found, key=lambda s: (max(most, found[s]), prod(cut.amount for cut in s)))

    def add(self, found: dict[Shape, float], shapes: Sequence[Shape]) -> None:
        """To some shapes with vectors copies of one more axis."""
        for shape in shapes:
            for more in self.copies(shape) if shape else ():
                if more not in found:
                    found[more] = self.seconds(more)

    def vectors(self) -> Iterator[Shape]:
        """Vectors along each axis where they may be."""
        for one in (*self.results, *self.inner):
            size = size_of(one)
            if size is not None and self.suits(one, size):
                yield from ((cut,) for cut in self.cuts(one, size))

    def suits(self, one: UOp, size: int) -> bool:
        """Whether vectors may run along an axis: something lies in rows there, what is stored if
        nothing is summed; and LLVM does not make better ones, as of what is read a few elements
        apart.
        """
        found = self.facts.accesses
        if one in self.sums:
            near = any(a.is_near(one) or a.stride(one) == 1 for a in found)
            return near and size >= NARROW and reducible(self.kernel, one)
        if any(NEAR < abs(a.stride(one) or 0) <= FEW for a in found):
            return False
        return any(
            a.stride(one) == 1 or a.is_interleaved(one) for a in found if a.is_store or self.sums
        )

    def cuts(self, one: UOp, size: int) -> Iterator[Cut]:
        """How vectors may run along an axis: several side by side, if they divide it, are masked at
        its end, or its rest is apart; else the last ones overlap, or they are shorter.
        """
        along, masks = self.facts.lanes_along(one), maskable(self.facts, one)
        least, fits = ceil(size / along) * along, False
        for count in SUMMED if self.sums else BESIDE:
            amount, own = count * self.lanes, count * along
            whole = ceil(size / own) * own
            if size % amount == 0:
                yield Cut(one, amount)
                fits = True
            elif masks and size >= along * (1 - SPARE):
                if whole == least or whole - size <= WASTED * size:
                    yield Cut(one, own, OptOps.PADTO)
                    fits = True
            rest = size % amount
            if not self.sums and 0 < rest <= WASTED * size and one is not self.results[0]:
                yield Cut(one, amount, OptOps.PARTITION)
                fits = True
            if fits and not self.sums:
                return
        if not fits:
            part = next((n for n in (8, 4) if n < self.lanes and size % n == 0), None)
            if part is not None:
                yield Cut(one, part)
            elif size > NARROW and not self.sums:
                widest = min(self.lanes, 1 << (size.bit_length() - 1))
                yield from (Cut(one, n, OptOps.OVERLAP) for n in (widest // 2, widest))

    def copies(self, shape: Shape) -> Iterator[Shape]:
        """The shape with copies of another axis of the results, as many as registers hold; or with
        blocks of it by one vector.
        """
        *others, lane = shape
        taken = [cut.one for cut in shape]
        side_by_side = max(1, lane.amount // self.lanes) * prod(cut.amount for cut in others)
        for one in self.results:
            if one not in taken and self.sums:
                for cut in self.shared(one):
                    if cut.amount * side_by_side <= self.target.registers:
                        cuts = sorted((*others, cut), key=lambda c: self.results.index(c.one))
                        yield (*cuts, lane)
            elif one not in taken:
                for cut in self.blocks(one, lane.one):
                    yield cut, self.one_vector(lane)

    def one_vector(self, lane: Cut) -> Cut:
        """Vectors that are not side by side."""
        amount = min(lane.amount, self.lanes)
        return Cut(lane.one, amount, lane.tail if (size_of(lane.one) or 1) % amount else None)

    def shared(self, one: UOp) -> Iterator[Cut]:
        """Copies that share what they read."""
        size = size_of(one)
        if size is None:
            yield Cut(one, LENGTHS_UNKNOWN, OptOps.OVERLAP)
        else:
            yield from (Cut(one, n) for n in COPIES if size % n == 0)

    def blocks(self, one: UOp, lane: UOp) -> Iterator[Cut]:
        """Whole lines of what lies in rows along one axis, and not along the one of the vectors."""
        crossed = [
            a.itemsize for a in self.facts.accesses
            if a.stride(one) == 1 and a.stride(lane) not in (0, 1)
        ]  # fmt: skip
        size = size_of(one)
        if not crossed or size is None:
            return
        line = min(LINE // min(crossed), LONGEST, size)
        if size % line and size % (line // 2) == 0:
            line //= 2
        yield Cut(one, line, OptOps.OVERLAP if size % line else None)
        if 2 * line <= LONGEST and size % (2 * line) == 0:
            yield Cut(one, 2 * line)

    # --- what they cost ---------------------------------------------------------------------------
    def seconds(self, shape: Shape) -> float:
        """The seconds of a shape; of what is left of an axis one by one too."""
        nests = [self.nest(shape, {cut.one: cut.rounds for cut in shape})]
        if shape and shape[-1].tail is OptOps.PARTITION:
            *others, lane = shape
            rest = (size_of(lane.one) or 0) % lane.amount
            rounds = {cut.one: cut.rounds for cut in others} | {lane.one: rest}
            nests.append(self.nest(tuple(others), rounds))
        outermost = nests[0].loops[0] if self.results and nests[0].loops else None
        return cost.seconds(nests, self.target, outermost.rounds if outermost else None)

    def nest(self, shape: Shape, rounds: dict[UOp, int]) -> Nest:
        """A shape as the cost model sees it."""
        cuts = {cut.one: cut for cut in shape}
        written = [r for r in self.written if r not in cuts]
        loops = []
        for one in (*self.results, *(r for r in self.inner if r not in written)):
            count = rounds.get(one, size_of(one) or one.src[0].vmax)
            if count > 1:
                step = cuts[one].amount if one in cuts else 1
                loops.append(Loop(one, count, step, False, one in self.sums))
        loops += [Loop(r, size_of(r) or 1, 1, True, r in self.sums) for r in written]
        loops += [Loop(c.one, c.amount, 1, True, c.one in self.sums) for c in shape]
        padded = {cut.one for cut in shape if cut.tail is OptOps.PADTO}
        masked = frozenset() if self.target.masks else padded
        streams = [
            cost.stream(
                a.steps, a.itemsize, loops, a.is_store,
                len(a.node.src) > 2 or any(a.stride(one) != 0 for one in masked),
            )
            for a in self.facts.accesses
        ]  # fmt: skip
        operations = max(1.0, self.operations / 2) + len(padded)
        return Nest(tuple(loops), tuple(streams), len(loops) - 1 if shape else None, operations)


def apply_shape(kernel: Kernel, shape: Shape) -> bool:
    """The opts of a shape; then the first axis that all parts run over is for the threads."""
    for cut in reversed(shape):
        place, size = position_of(kernel, number_of(cut.one)), size_of(cut.one) or 1
        if cut.tail is OptOps.PADTO:
            kernel.apply_opt(Opt(OptOps.PADTO, place, cut.amount))
        elif cut.tail is OptOps.PARTITION:
            kernel.apply_opt(Opt(OptOps.PARTITION, place, size - size % cut.amount))
        one = kernel.axes[place]
        if kind_of(one) in OUTPUTS:
            how = OptOps.OVERLAP if cut.tail is OptOps.OVERLAP else OptOps.UPCAST
            kernel.apply_opt(Opt(how, place, cut.amount))
        else:
            place = kernel.reduce_axes.index(one)
            kernel.apply_opt(Opt(OptOps.UNROLL, place, cut.amount))
    if len(shape) > 1 and not kernel.has_reduce and passes_caches(kernel.ast, kernel.target):
        lines_in_turn(kernel, shape)
    any(attempt(kernel, Opt(OptOps.THREAD, place, 0)) for place in range(len(kernel.axes)))
    return True


def lines_in_turn(kernel: Kernel, shape: Shape) -> None:
    """Whole lines of a block written one after the other: what goes past the caches goes line by
    line, and memory is read as so many rows from end to end.
    """
    found = find_loops(kernel.ast)
    block, lane = (next((r for r in found.axes if r.arg == cut.one.arg), None) for cut in shape)
    if block is None or lane is None or found.axes.index(block) > found.axes.index(lane):
        return
    stored = [a for a in accesses(found) if a.is_store]
    apart = [(a.stride(block) or 1) // shape[0].amount * a.itemsize for a in stored]
    if not any(n % LINE for n in apart):
        attempt(kernel, Opt(OptOps.SWAP, found.axes.index(block), found.axes.index(lane)))
