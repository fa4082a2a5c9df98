"""Opts for elementwise kernels that read along one axis and write along another: transposes.

A block of both is written out, so that every cache line that is read or written is used whole.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from torpor.base.target import LINE
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, passes_caches
from torpor.kernel.choose.registers import cut_apart
from torpor.kernel.choose.vectors import attempt
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.partition import boundaries
from torpor.kernel.ranges import closed_by, find_loops, kind_of, number_of, size_of

LANES: Final = 8  # elements of a vector that is put together from several lines
AXIS_SHORT: Final = 4  # axes that are shorter are written out whole
# Measured by one thread of an AMD EPYC of the third generation (Zen 3), float32. Bytes by which
# rows that are written are apart; single lines of them are slow past the caches: 4224 x 4160 takes
# 11.5 ms, in twos 6.5 (a copy 4.5).
WRITES: Final = 512  # in twos; in fours where rows are twice as far apart
READS: Final = 4096  # in twos again: lines that are read share a set of the first cache
# Lines in a row where rows that are written begin inside of a line, so that at each end of a run a
# part of one is written: 3000 x 5000 takes 23 ms by 8 elements, 10.5 by 40, 7 to 11 by 120.
LONGEST: Final = 8


class Crossing(NamedTuple):
    """An axis along which a kernel writes and one along which it reads: bytes between what it reads
    for two neighbours that it writes, and the other way round; bytes of an element read.
    """

    written: UOp
    read: UOp
    reads: int
    writes: int
    itemsize: int


def tile_crossing(kernel: Kernel) -> bool:
    """Choose opts for a kernel that reads across what it writes; says whether it was one."""
    found = find_crossing(kernel)
    if found is None:
        return False
    written, read = number_of(found.written), number_of(found.read)
    line = max(AXIS_SHORT, LINE // found.itemsize)
    ends = ends_of(kernel, found.read)
    short = (size_of(found.written) or 0) < AXIS_SHORT
    past = line <= 2 * LANES and passes_caches(kernel.ast, kernel.target)
    if past and not ends and not short:
        write_lines(kernel, written, read, elements_together(found, line))
    else:
        write_lanes(kernel, written, LANES)
        for number in cut_at(kernel, read, ends):
            write_lanes(kernel, number, LANES if short else line)
    for position in range(len(kernel.axes)):  # not one that some part does not run over
        if attempt(kernel, Opt(OptOps.THREAD, position, 0)):
            break
    return True


def elements_together(found: Crossing, line: int) -> int:
    """How many elements are written in a row: a line of them; more where memory is slow to take
    single lines, but not so many that the rows which are read at once push each other out of a
    cache; long runs where long rows begin inside of a line.
    """
    size = size_of(found.written) or 1
    whole = size - size % LANES
    if whole % line and whole > LONGEST * line:
        runs = range(LANES, LONGEST * line + 1, LANES)
        return max((n for n in runs if whole % n == 0), default=line)
    most = 1
    if found.writes % WRITES == 0:
        most = 4 if found.writes % (2 * WRITES) == 0 and found.reads % READS else 2
    return line * next(n for n in (4, 2, 1) if n <= most and (whole % (n * line) == 0 or n == 1))


def write_lines(kernel: Kernel, written: int, read: int, together: int) -> None:
    """Whole lines written one after the other, along the axis that is read: what goes past the
    caches goes line by line, and memory is read as so many rows from end to end.
    """
    write_lanes(kernel, read, LANES)
    write_lanes(kernel, written, together)
    places = [
        next((n for n, r in enumerate(kernel.axes) if r.arg == (number, AxisType.GLOBAL)), None)
        for number in (read, written)
    ]
    if None not in places and places[0] < places[1]:  # type: ignore[operator]
        kernel.apply_opt(Opt(OptOps.SWAP, places[0], places[1]))


def find_crossing(kernel: Kernel) -> Crossing | None:
    """The axes of a kernel that reads across what it writes; None for any other."""
    if kernel.has_reduce or any(kind_of(r) is not AxisType.GLOBAL for r in kernel.axes):
        return None
    if any(set(closed_by(s)) != set(kernel.axes) for s in kernel.ast.src):
        return None
    found = accesses(find_loops(kernel.ast))
    stores = [a for a in found if a.is_store]
    written = [r for r in kernel.axes if all(a.stride(r) == 1 for a in stores)]
    if not written:
        return None
    short = (size_of(written[0]) or 0) < AXIS_SHORT
    for access in found:
        for one in kernel.axes:
            if crosses(access, one, written[0]) and (size_of(one) or 0) >= AXIS_SHORT:
                reads = abs(access.stride(written[0]) or 0) * access.itemsize
                writes = max(abs(a.stride(one) or 0) * a.itemsize for a in stores)
                if writes >= LINE or not short:
                    return Crossing(written[0], one, reads, writes, access.itemsize)
    return None


def crosses(access: Access, one: UOp, written: UOp) -> bool:
    """Whether neighbours along `one` lie together, and those along `written` lie lines apart."""
    apart = access.stride(written)
    far = apart is not None and abs(apart) * access.itemsize >= LINE
    return not access.is_store and one is not written and access.stride(one) == 1 and far


def ends_of(kernel: Kernel, one: UOp) -> list[int]:
    """Where conditions on an axis change, if it has a vector between two such places."""
    ends = boundaries(kernel.ast, one)
    parts = (high - low for low, high in pairwise((0, *ends, size_of(one) or 0)))
    return ends if ends and max(parts) >= LANES else []


def cut_at(kernel: Kernel, number: int, ends: list[int]) -> list[int]:
    """An axis cut where conditions change: a block on one side of them is read as a whole. Gives
    the numbers of its parts that are left.
    """
    numbers = [number]
    for end in reversed(ends):
        rest = cut_apart(kernel, place_of(kernel, number), end)
        if rest is not None:
            numbers.append(number_of(kernel.axes[rest]))
    left = {number_of(r) for r in kernel.axes}
    return [n for n in numbers if n in left]


def place_of(kernel: Kernel, number: int) -> int:
    """The place of an axis that is known by its number."""
    return next(n for n, r in enumerate(kernel.axes) if number_of(r) == number)


def write_lanes(kernel: Kernel, number: int, most: int) -> None:
    """Copies of the axis in whole vectors, up to `most`; those of an odd axis overlap, so that one
    loop runs over all of it, or its rest is apart.
    """
    position = place_of(kernel, number)
    size = size_of(kernel.axes[position]) or 1
    whole = size - size % LANES if size > LANES else size
    if whole < size and attempt(kernel, Opt(OptOps.OVERLAP, position, min(most, whole))):
        return
    rest = cut_apart(kernel, position, whole) if whole < size else None
    if rest is not None:
        kernel.apply_opt(Opt(OptOps.UPCAST, rest, 0))
    amount = next(n for n in (most, LANES, whole) if whole % n == 0)
    kernel.apply_opt(Opt(OptOps.UPCAST, position, amount))
