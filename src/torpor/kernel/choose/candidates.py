"""Lists of opts to time, ranked by the cost model: plans for products, and neighbours of the best
ones: an opt left out, changed, put in front or put behind.

Nothing here knows which opts fit: the kernel refuses those that do not, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final

from torpor.base.errors import OptError
from torpor.ir.records import Opt, OptOps
from torpor.kernel.choose.products import apply_plan
from torpor.kernel.choose.vectors import attempt_all, is_short
from torpor.kernel.choose.ways import ways
from torpor.kernel.cost import nests_of, seconds
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import iterations

Opts = tuple[Opt, ...]

# Choices, which decide what a search finds: how it goes on,
FEW: Final = 12  # lists that are timed before others near the best ones are, for each of these
SLOW: Final = 2.0  # times the best one's time past which nothing near a list is tried
# and the amounts that it tries.
COPIES: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 48, 64)  # of a written-out axis
BLOCKS: Final = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)  # iterations of a cache block
ITEMS: Final = (2, 4, 8, 16, 32, 64, 128, 256)  # work items along one axis of a group
WHOLE: Final = (4, 6, 8, 16, 32)  # rounds of which an axis has a multiple: padded, or for a part
FIRST: Final = range(6)  # axes, or values that are packed
ALIKE: Final = (OptOps.UPCAST, OptOps.OVERLAP)  # copies of an axis: either in the other's place
AMOUNTS: Final[dict[OptOps, Iterable[int | None]]] = {
    OptOps.UPCAST: COPIES,
    OptOps.OVERLAP: COPIES,
    OptOps.UNROLL: (0, *COPIES),
    OptOps.TILE: BLOCKS,
    OptOps.PADTO: WHOLE,
    OptOps.THREAD: (0,),
    OptOps.SWAP: FIRST,
    OptOps.STAGE: (-3, -2, -1, *FIRST),
    OptOps.DOT: (2, 4),
    OptOps.MMA: (None,),
    OptOps.LOCAL: ITEMS,
    OptOps.GROUP: ITEMS,
    OptOps.GROUPTOP: ITEMS,
}


def candidates(
    kernel: Kernel, taken: Mapping[Opts, float], width: int, is_over: Callable[[], bool]
) -> Iterator[Opts]:
    """Lists to time until `is_over`, the most promising first, none that makes the same kernel as
    one before: other plans for products, then neighbours of the quickest `width` lists in the order
    of their predicted times, corrected by how far off those of the list beside them are.

    taken: the time of each list so far, in any unit, the heuristics' first; whoever asks adds to it
           that of each one that is given to them.
    """
    seen = {kernel.copy().apply(opts).ast for opts in taken}
    waiting: dict[Opts, float] = {}
    grown: set[Opts] = set()

    def enter(made: Iterable[Kernel], rate: float) -> None:
        for one in made:
            if is_over():
                return
            if one.ast not in seen and is_short(one):
                seen.add(one.ast)
                waiting[tuple(one.opts)] = rate * predicted(one)

    enter([*planned(kernel, width), kernel], 0.0)
    while waiting or not grown.issuperset(taken):
        for opts in nsmallest(FEW * width, waiting, key=waiting.__getitem__):
            if is_over():
                return
            del waiting[opts]
            yield opts
        best = nsmallest(width, taken, key=taken.__getitem__)
        for opts in [o for o in best if o not in grown and taken[o] < SLOW * taken[best[0]]]:
            rate = taken[opts] / predicted(kernel.copy().apply(opts))
            enter(neighbours(kernel, opts), rate)
        grown.update(taken)


def planned(kernel: Kernel, count: int) -> Iterator[Kernel]:
    """The plans for a product that are predicted to be the quickest, `count` for each way to
    multiply.
    """
    for way in ways(kernel):
        for _, plan in way.plans()[:count]:
            made = kernel.copy()
            if attempt_all(made, way.kernel, apply_plan, plan, way.fragment):
                yield made


def predicted(kernel: Kernel) -> float:
    """Seconds that the kernel takes by the cost model, which is as wrong for its neighbours."""
    return max(seconds(nests_of(kernel.ast, kernel.target), kernel.target), 1e-12)


def neighbours(kernel: Kernel, opts: Opts) -> Iterator[Kernel]:
    """The kernel with lists of opts that are one step away from `opts`."""
    made = kernel.copy()
    for n, opt in enumerate(opts):
        kinds = ALIKE if opt.op in ALIKE else (opt.op,)
        others = ((other,) for other in possible(made) if other.op in kinds and other != opt)
        yield from fitting(made, [(), *others], opts[n + 1 :])
        made.apply_opt(opt)
    yield from fitting(made, ((more,) for more in possible(made)), ())
    yield from fitting(kernel, ((more,) for more in possible(kernel) if opts), opts)


def fitting(kernel: Kernel, some: Iterable[Opts], behind: Opts) -> Iterator[Kernel]:
    """Copies of the kernel with each of some lists, and with `behind`, if they fit."""
    for opts in some:
        made = kernel.copy()
        try:
            made.apply((*opts, *behind))
        except OptError:
            continue
        yield made


def possible(kernel: Kernel) -> Iterator[Opt]:
    """Opts that might fit the kernel as it is."""
    yield Opt(OptOps.STREAM)
    for n, one in enumerate(kernel.axes):
        for op, amounts in AMOUNTS.items():
            yield from (Opt(op, n, amount) for amount in amounts)
        size = iterations((one,))
        yield from (Opt(OptOps.PARTITION, n, size - size % c) for c in WHOLE if c < size)
