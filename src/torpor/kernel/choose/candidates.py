"""Lists of opts near a given one: an opt left out, changed, put in front or put behind.

Nothing here knows which opts fit: whoever tries them asks the kernel, which refuses by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

from torpor.base.errors import OptError
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.access import stored_bytes
from torpor.kernel.cost import nests_of, seconds
from torpor.kernel.opts.dot import find_products
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import coefficients, direct_loads, operands
from torpor.kernel.ranges import WRITTEN, kind_of, size_of

Opts = tuple[Opt, ...]
Item = TypeVar("Item")

# Amounts that a search may try: choices, which decide what it finds.
COPIES: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 48, 64)  # of a written-out axis
BLOCKS: Final = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)  # iterations of a cache block
ITEMS: Final = (2, 4, 8, 16, 32, 64, 128, 256)  # work items along one axis of a group
ON_CPU: Final = {OptOps.UPCAST: COPIES, OptOps.TILE: BLOCKS}
ON_GROUPS: Final = {OptOps.LOCAL: ITEMS}
OF_SUMS: Final = {OptOps.UNROLL: COPIES}
OF_SUMS_ON_GROUPS: Final = {OptOps.GROUPTOP: ITEMS, OptOps.GROUP: ITEMS}


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


def in_turn(sources: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """One of each source, then the next of each, until all are used up."""
    waiting = list(sources)
    while waiting:
        for source in list(waiting):
            try:
                yield next(source)
            except StopIteration:
                waiting.remove(source)


def neighbours(kernel: Kernel, opts: Opts) -> Iterator[Opts]:
    """Lists one step away from `opts`; the kinds of steps take turns."""
    made = kernel.copy()
    steps: list[Iterator[Opts]] = []
    for n, opt in enumerate(opts):
        steps.append(iter([opts[:n] + opts[n + 1 :]]))
        others = sorted(instead_of(made, opt), key=partial(far, opt))
        steps.append(iter([(*opts[:n], other, *opts[n + 1 :]) for other in others]))
        made.apply_opt(opt)
    steps.append((*opts, more) for more in possible(made))
    steps.append((more, *opts) for more in possible(kernel) if opts)
    return in_turn(steps)


def instead_of(kernel: Kernel, opt: Opt) -> Iterator[Opt]:
    """Opts that could stand in the place of `opt`: of its kind, or an overlap for copies."""
    copies = (OptOps.UPCAST, OptOps.OVERLAP)
    kinds = copies if opt.op in copies else (opt.op,)
    return (o for o in possible(kernel) if o.op in kinds and o != opt)


def far(now: Opt, one: Opt) -> tuple[int, float]:
    """How far two opts of a kind are from each other: in axes, then by the ratio of amounts."""
    most, least = max(one.arg or 1, now.arg or 1), min(one.arg or 1, now.arg or 1)
    return abs((one.axis or 0) - (now.axis or 0)), most / least


def possible(kernel: Kernel) -> Iterator[Opt]:
    """Opts that might fit the kernel as it is, innermost axes first; the kinds take turns."""
    target = kernel.target
    sizes = [size_of(r) or 0 if kind_of(r) not in WRITTEN else 0 for r in kernel.axes]
    sums = [size_of(r) or 0 for r in kernel.reduce_axes]
    kinds = [
        by_divisor(op, sizes, amounts)
        for op, amounts in (ON_CPU | (ON_GROUPS if target.groups else {})).items()
    ]
    kinds += [
        by_divisor(op, sums, amounts)
        for op, amounts in (OF_SUMS | (OF_SUMS_ON_GROUPS if target.groups else {})).items()
    ]
    lanes = target.lanes(4) if target.vector_alu else 4
    axes = [(n, size) for n, size in reversed(list(enumerate(sizes))) if size > 1]
    values = len(operands(kernel.ast)) + len(coefficients(kernel.ast))
    loads = len(direct_loads(kernel.ast))
    outputs = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.GLOBAL]
    kinds += [
        (Opt(OptOps.OVERLAP, n, c) for n, size in axes for c in COPIES if size > c and size % c),
        (Opt(OptOps.STAGE, n, value) for n, _ in axes for value in range(values)),
        (Opt(OptOps.WINDOW, n, load) for n, _ in axes for load in range(loads)),
        (Opt(OptOps.SWAP, a, b) for a in outputs for b in outputs if a < b),
        (Opt(OptOps.PADTO, n, lanes * c) for c in (1, 2, 4, 8) for n, _ in axes),
        (
            Opt(OptOps.PARTITION, n, size - size % c)
            for n, size in axes
            for c in (lanes, 6, 4)
            if size > c and size % c
        ),
        (Opt(OptOps.THREAD, n, 0) for n in range(min(2, len(sizes))) if target.threads),
        (Opt(OptOps.STREAM) for _ in range(stores_much(kernel))),
    ]
    if target.dots and find_products(kernel.ast):
        kinds.append(Opt(OptOps.DOT, n, terms) for terms in (2, 4) for n in range(len(sums)))
    return in_turn(kinds)


def stores_much(kernel: Kernel) -> bool:
    """Whether stores past the caches may pay: the kernel stores more than a second cache holds."""
    usual = kernel.target.stream_bytes
    return usual is not None and stored_bytes(kernel.ast) > kernel.target.cache_bytes


def by_divisor(op: OptOps, sizes: list[int], amounts: tuple[int, ...]) -> Iterator[Opt]:
    """`op` on each axis by each amount that divides it, and by the whole axis if it is short."""
    for axis in reversed(range(len(sizes))):
        if op is OptOps.UNROLL and 1 < sizes[axis] <= amounts[-1]:
            yield Opt(op, axis, 0)
        for amount in amounts:
            if amount <= sizes[axis] and sizes[axis] % amount == 0:
                yield Opt(op, axis, amount)
