"""Lists of opts near a given one: an opt left out, changed, put in front or put behind.

Nothing here knows which opts fit: whoever tries them asks the kernel, which refuses by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.access import stored_bytes
from torpor.kernel.cost import nests_of, seconds
from torpor.kernel.opts.dot import find_products
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import coefficients, direct_loads, operands
from torpor.kernel.ranges import REDUCES, WRITTEN, kind_of, size_of

Opts = tuple[Opt, ...]

# Amounts that a search may try: choices, which decide what it finds.
COPIES: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 48, 64)  # of a written-out axis
BLOCKS: Final = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)  # iterations of a cache block
ITEMS: Final = (2, 4, 8, 16, 32, 64, 128, 256)  # work items along one axis of a group
ALIKE: Final = (OptOps.UPCAST, OptOps.OVERLAP)  # copies of an axis: either in the other's place


def after(kernel: Kernel, opts: Opts) -> Kernel | OptError:
    """A copy of the kernel with the opts applied, or the refusal."""
    made = kernel.copy()
    try:
        return made.apply(opts)
    except OptError as refusal:
        return refusal


def predicted(kernel: Kernel) -> float:
    """Seconds that the kernel takes by the cost model, which is as wrong for its neighbours."""
    return max(seconds(nests_of(kernel.ast, kernel.target), kernel.target), 1e-12)


def neighbours(kernel: Kernel, opts: Opts) -> Iterator[Opts]:
    """Lists one step away from `opts`."""
    made = kernel.copy()
    for n, opt in enumerate(opts):
        before, behind = opts[:n], opts[n + 1 :]
        yield before + behind
        kinds = ALIKE if opt.op in ALIKE else (opt.op,)
        for other in possible(made):
            if other.op in kinds and other != opt:
                yield (*before, other, *behind)
        made.apply_opt(opt)
    for more in possible(made):
        yield (*opts, more)
    for more in possible(kernel) if opts else ():
        yield (more, *opts)


def possible(kernel: Kernel) -> Iterator[Opt]:
    """Opts that might fit the kernel as it is."""
    if kernel.target.threads:
        yield from (Opt(OptOps.THREAD, n, 0) for n in range(min(2, len(kernel.axes))))
    if stores_much(kernel):
        yield Opt(OptOps.STREAM)
    outputs = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.GLOBAL]
    yield from (Opt(OptOps.SWAP, a, b) for a in outputs for b in outputs if a < b)
    values = len(operands(kernel.ast)) + len(coefficients(kernel.ast))
    loads = len(direct_loads(kernel.ast))
    for n, one in enumerate(kernel.axes):
        if kind_of(one) not in WRITTEN and (size_of(one) or 0) > 1:
            yield from along(kernel, n, size_of(one) or 0)
            yield from (Opt(OptOps.STAGE, n, value) for value in range(-loads, values))
    products = (kernel.target.dots or kernel.target.fragments) and find_products(kernel.ast)
    for n, one in enumerate(kernel.reduce_axes):
        yield from along_sum(kernel, n, size_of(one) or 0)
        yield from (Opt(OptOps.DOT, n, terms) for terms in (2, 4) if products)
        if kind_of(one) is AxisType.UNROLL and kernel.target.fragments:
            yield Opt(OptOps.MMA, n)


def along(kernel: Kernel, n: int, size: int) -> Iterator[Opt]:
    """Opts that cut axis number `n`, or copy it; of a sum's there is UNROLL."""
    lanes = kernel.target.lanes(4) if kernel.target.vector_alu else 4
    if kind_of(kernel.axes[n]) not in REDUCES:
        yield from by_divisor(OptOps.UPCAST, n, size, COPIES)
    yield from (Opt(OptOps.OVERLAP, n, c) for c in COPIES if size > c and size % c)
    yield from by_divisor(OptOps.TILE, n, size, BLOCKS)
    yield from (Opt(OptOps.PADTO, n, lanes * c) for c in (1, 2, 4, 8))
    ends = (size - size % c for c in (lanes, 6, 4) if size > c and size % c)
    yield from (Opt(OptOps.PARTITION, n, end) for end in ends)
    if kernel.target.groups:
        yield from by_divisor(OptOps.LOCAL, n, size, ITEMS)


def along_sum(kernel: Kernel, n: int, size: int) -> Iterator[Opt]:
    """Opts that cut summed axis number `n`."""
    if 1 < size <= COPIES[-1]:
        yield Opt(OptOps.UNROLL, n, 0)
    yield from by_divisor(OptOps.UNROLL, n, size, COPIES)
    for op in (OptOps.GROUPTOP, OptOps.GROUP) if kernel.target.groups else ():
        yield from by_divisor(op, n, size, ITEMS)


def stores_much(kernel: Kernel) -> bool:
    """Whether stores past the caches may pay: the kernel stores more than a second cache holds."""
    usual = kernel.target.stream_bytes
    return usual is not None and stored_bytes(kernel.ast) > kernel.target.cache_bytes


def by_divisor(op: OptOps, axis: int, size: int, amounts: tuple[int, ...]) -> Iterator[Opt]:
    """`op` by each amount that divides the axis."""
    return (Opt(op, axis, amount) for amount in amounts if size and size % amount == 0)
