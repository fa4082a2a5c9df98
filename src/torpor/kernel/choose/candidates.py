"""Lists of opts near a given one: an amount changed, an opt left out, put in front or put behind.

Nothing here knows which opts fit: whoever tries them asks the kernel, which refuses by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from torpor.base.errors import OptError
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import stored_bytes
from torpor.kernel.opts.halves import find_products
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import rows_of
from torpor.kernel.opts.stage import coefficients, direct_loads, operands
from torpor.kernel.ranges import WRITTEN, find_loops, iterations, kind_of, number_of, size_of

Opts = tuple[Opt, ...]
Item = TypeVar("Item")

# Amounts that a search may try, and how far it looks: choices, which decide what it finds.
COPIES: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 48, 64)  # of a written-out axis
BLOCKS: Final = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)  # iterations of a cache block
ITEMS: Final = (2, 4, 8, 16, 32, 64, 128, 256)  # work items along one axis of a group
NEAR: Final = 3  # amounts that are tried on either side of the one there is
WRITTEN_MOST: Final = 256  # vectors' worth of copies past which code is no longer tried
OUTER: Final = (AxisType.GLOBAL, AxisType.THREAD, AxisType.LOOP)
AMOUNTS: Final = {
    OptOps.UPCAST: COPIES,
    OptOps.UNROLL: COPIES,
    OptOps.TILE: BLOCKS,
    OptOps.LOCAL: ITEMS,
    OptOps.GROUP: ITEMS,
    OptOps.GROUPTOP: ITEMS,
}
UNUSUAL: Final = 8  # times less than usual is stored past the caches where it is only a trial
OF_REDUCTIONS: Final = (OptOps.UNROLL, OptOps.GROUP, OptOps.GROUPTOP, OptOps.PAIR, OptOps.QUAD)


def after(kernel: Kernel, opts: Opts) -> Kernel | OptError:
    """A copy of the kernel with the opts applied, or the refusal."""
    made = kernel.copy()
    try:
        return made.apply(opts)
    except OptError as refusal:
        return refusal


def code_length(kernel: Kernel) -> float:
    """How many vectors' worth of copies the kernel has of what it has most copies of."""
    loops = find_loops(kernel.ast)
    nests = {frozenset(loops.nest_of(free)) for free in set(loops.free.values())}
    written = ([r for r in nest if kind_of(r) in WRITTEN] for nest in nests)
    return max(map(iterations, written), default=1) / kernel.target.lanes(4)


def neighbours(kernel: Kernel, opts: Opts) -> Iterator[Opts]:
    """Lists one step away from `opts`, which fit the kernel; the kinds of steps take turns."""
    made = after(kernel, opts)
    assert isinstance(made, Kernel)
    steps = [
        changed(kernel, opts),
        ((*opts, more) for more in further(made)),
        (opts[:n] + opts[n + 1 :] for n in range(len(opts))),
        ((more, *opts) for more in further(kernel) if opts),
        split_later(opts),
    ]
    return in_turn(steps)


def in_turn(sources: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """One of each source, then the next of each, until all are used up."""
    waiting = list(sources)
    while waiting:
        for source in list(waiting):
            found = next(source, None)
            if found is None:
                waiting.remove(source)
            else:
                yield found


def changed(kernel: Kernel, opts: Opts) -> Iterator[Opts]:
    """Each opt with another amount, or on a neighbouring axis."""
    choices = []
    made = kernel.copy()
    for place, opt in enumerate(opts):
        others = list(instead_of(made, opt))
        choices.append(iter([(*opts[:place], other, *opts[place + 1 :]) for other in others]))
        made.apply_opt(opt)
    return in_turn(choices)


def instead_of(kernel: Kernel, opt: Opt) -> Iterator[Opt]:
    """Opts of the same kind that could stand in the place of `opt`, nearest first."""
    axis = opt.axis
    if axis is None:
        return
    if opt.op in AMOUNTS:
        among = kernel.reduce_axes if opt.op in OF_REDUCTIONS else kernel.axes
        size = size_of(among[axis]) or 1
        now = opt.arg or size
        for amount in near(now, divisors(size, AMOUNTS[opt.op])):
            yield Opt(opt.op, axis, amount)
        if opt.op is OptOps.UPCAST:
            yield from (Opt(OptOps.OVERLAP, axis, n) for n in near(now, uneven(size)))
    elif opt.op is OptOps.OVERLAP:
        size = size_of(kernel.axes[axis]) or 1
        now = opt.arg or size
        yield from (Opt(opt.op, axis, n) for n in near(now, uneven(size)))
        yield from (Opt(OptOps.UPCAST, axis, n) for n in near(now, divisors(size, COPIES)))
    elif opt.op is OptOps.PADTO:
        for multiple in paddings(kernel):
            yield Opt(opt.op, axis, multiple)
    elif opt.op is OptOps.PARTITION:
        yield from (o for o in parts(kernel) if o.axis == axis and o != opt)
    elif opt.op in (OptOps.STAGE, OptOps.WINDOW):
        for other in range(readable(kernel, opt.op)):
            if other != opt.arg:
                yield Opt(opt.op, axis, other)
    if opt.op is not OptOps.SWAP:
        for other in (axis - 1, axis + 1):
            if other >= 0:
                yield Opt(opt.op, other, opt.arg)


def near(now: int, amounts: Sequence[int]) -> list[int]:
    """The amounts just below and just above `now`, nearest first."""
    below = [n for n in amounts if n < now][::-1][:NEAR]
    above = [n for n in amounts if n > now][:NEAR]
    return sorted(chain(below, above), key=lambda n: max(n, now) / min(n, now))


def divisors(size: int, amounts: Sequence[int]) -> list[int]:
    """Those amounts that divide the size."""
    return [n for n in amounts if n <= size and size % n == 0]


def uneven(size: int) -> list[int]:
    """Numbers of copies that do not divide the size: their tiles overlap."""
    return [n for n in COPIES if n < size and size % n]


def readable(kernel: Kernel, op: OptOps) -> int:
    """How many values STAGE, or loads WINDOW, may choose from."""
    if op is OptOps.WINDOW:
        return len(direct_loads(kernel.ast))
    return len(operands(kernel.ast)) + len(coefficients(kernel.ast))


def split_later(opts: Opts) -> Iterator[Opts]:
    """Two opts that stand next to each other, the other way round."""
    for n in range(len(opts) - 1):
        yield (*opts[:n], opts[n + 1], opts[n], *opts[n + 2 :])


# --- one more opt ---------------------------------------------------------------------------------
def further(kernel: Kernel) -> Iterator[Opt]:
    """Opts that might fit the kernel as it is; the kinds take turns."""
    groups = kernel.target.groups
    kinds = [
        amounts(OptOps.UPCAST, kernel.axes, OUTER),
        amounts(OptOps.UNROLL, kernel.reduce_axes, (AxisType.REDUCE,), whole=True),
        amounts(OptOps.TILE, kernel.axes, (AxisType.GLOBAL, AxisType.THREAD, AxisType.REDUCE)),
        overlaps(kernel),
        stages(kernel),
        windows(kernel),
        swaps(kernel),
        parts(kernel),
        (Opt(OptOps.PADTO, n, m) for m in paddings(kernel) for n in range(len(kernel.axes))),
    ]
    if stores_much(kernel):
        kinds.append(iter([Opt(OptOps.STREAM)]))
    if find_products(kernel.ast):
        for op, known in ((OptOps.PAIR, kernel.target.pairs), (OptOps.QUAD, kernel.target.quads)):
            kinds.append(iter([Opt(op, n) for n in range(len(kernel.reduce_axes)) if known]))
    if kernel.target.threads:
        kinds.append(Opt(OptOps.THREAD, n, 0) for n in range(min(2, len(kernel.axes))))
    if groups:
        kinds.append(amounts(OptOps.LOCAL, kernel.axes, (AxisType.GLOBAL,)))
        kinds.append(amounts(OptOps.GROUPTOP, kernel.reduce_axes, (AxisType.REDUCE,)))
        kinds.append(amounts(OptOps.GROUP, kernel.reduce_axes, (AxisType.REDUCE,)))
    return in_turn(kinds)


def stores_much(kernel: Kernel) -> bool:
    """Whether a kernel stores enough for stores past the caches to be worth trying: much less than
    where they are chosen without a trial.
    """
    usual = kernel.target.stream_bytes
    return usual is not None and stored_bytes(kernel.ast) * UNUSUAL >= usual


def amounts(
    op: OptOps, axes: Sequence[UOp], kinds: Sequence[AxisType], whole: bool = False
) -> Iterator[Opt]:
    """`op` on each axis of these kinds, innermost first, with each amount that divides it."""
    for axis in reversed(range(len(axes))):
        size = size_of(axes[axis])
        if size is None or size < 2 or kind_of(axes[axis]) not in kinds:
            continue
        if whole and size <= COPIES[-1]:
            yield Opt(op, axis, 0)
        for amount in divisors(size, AMOUNTS[op]):
            if amount < size or not whole:
                yield Opt(op, axis, amount)


def overlaps(kernel: Kernel) -> Iterator[Opt]:
    """Each output axis, innermost first, in each number of copies that does not divide it."""
    for axis in reversed(range(len(kernel.axes))):
        size = size_of(kernel.axes[axis])
        if size is not None and kind_of(kernel.axes[axis]) in OUTER:
            yield from (Opt(OptOps.OVERLAP, axis, amount) for amount in uneven(size))


def windows(kernel: Kernel) -> Iterator[Opt]:
    """Each load that windows slide over inside a loop, innermost first."""
    fresh = 1 + max(map(number_of, kernel.axes), default=0)
    for level in reversed(range(len(kernel.axes))):
        one = kernel.axes[level]
        for number, load in enumerate(direct_loads(kernel.ast)):
            lanes = kernel.target.lanes(load.dtype.itemsize)
            if kind_of(one) in OUTER and rows_of(kernel.ast, load, one, fresh, lanes):
                yield Opt(OptOps.WINDOW, level, number)


def stages(kernel: Kernel) -> Iterator[Opt]:
    """Each value that a reduction reads, packed inside each loop, innermost first."""
    count = readable(kernel, OptOps.STAGE)
    for level in reversed(range(len(kernel.axes))):
        if kind_of(kernel.axes[level]) in OUTER:
            for number in range(count):
                yield Opt(OptOps.STAGE, level, number)


def swaps(kernel: Kernel) -> Iterator[Opt]:
    """Output axes, each with every one inside it."""
    outputs = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.GLOBAL]
    for first in outputs:
        for second in outputs:
            if first < second:
                yield Opt(OptOps.SWAP, first, second)


def parts(kernel: Kernel) -> Iterator[Opt]:
    """Axes that no vector divides, cut where whole vectors or whole tiles end."""
    for axis in reversed(range(len(kernel.axes))):
        size = size_of(kernel.axes[axis])
        if size is None or kind_of(kernel.axes[axis]) in WRITTEN:
            continue
        for tile in (kernel.target.lanes(4), 8, 6, 4):
            if size > tile and size % tile:
                yield Opt(OptOps.PARTITION, axis, size - size % tile)


def paddings(kernel: Kernel) -> list[int]:
    """Multiples that an axis may be padded to: whole vectors."""
    lanes = kernel.target.lanes(4) if kernel.target.vector_alu else 4
    return [lanes * n for n in (1, 2, 3, 4, 8)]
