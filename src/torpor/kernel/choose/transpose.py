"""Opts for elementwise kernels that read along one axis and write along another: transposes.

A block of both is written out, so that every cache line that is read or written is used whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.target import LINE
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, passes_caches
from torpor.kernel.choose.registers import cut_apart
from torpor.kernel.choose.roles import position_of
from torpor.kernel.choose.vectors import attempt, stream_out
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import closed_by, find_loops, kind_of, number_of, size_of

LANES: Final = 8  # elements of a vector that is put together from several lines, at least
LONGEST: Final = 32  # elements along one axis of a block, which has half of its square at most


class Transpose(NamedTuple):
    """An axis along which a kernel writes and one along which it reads; bytes of an element read,
    and bytes between rows that are written.
    """

    written: UOp
    read: UOp
    itemsize: int
    apart: int


def tile_transpose(kernel: Kernel) -> bool:
    """Choose opts for a kernel that reads across what it writes; says whether it was one."""
    found = find_transpose(kernel)
    if found is None:
        return False
    written, read = number_of(found.written), number_of(found.read)
    line = min(LINE // found.itemsize, LONGEST)
    wide = min(max(LANES, kernel.target.lanes(found.itemsize)), LONGEST // 2)
    whole = found.apart % LINE == 0
    if whole and passes_caches(kernel.ast, kernel.target):
        write_lanes(kernel, read, wide)
        write_lanes(kernel, written, min(2 * line, LONGEST))
        lines_in_turn(kernel, written, read)
    else:
        write_lanes(kernel, written, wide if whole else LANES)
        write_lanes(kernel, read, line)
    for position in range(len(kernel.axes)):  # not one that some part does not run over
        if attempt(kernel, Opt(OptOps.THREAD, position, 0)):
            break
    if whole:  # parts of lines past the caches take half as long again
        stream_out(kernel)
    return True


def lines_in_turn(kernel: Kernel, written: int, read: int) -> None:
    """Lines written one after the other: what goes past the caches goes line by line, and memory is
    read as so many rows from end to end.
    """
    places = [
        next((n for n, r in enumerate(kernel.axes) if r.arg == (number, AxisType.GLOBAL)), None)
        for number in (read, written)
    ]
    if None not in places and places[0] < places[1]:  # type: ignore[operator]
        kernel.apply_opt(Opt(OptOps.SWAP, places[0], places[1]))


def find_transpose(kernel: Kernel) -> Transpose | None:
    """The axes of a kernel that reads across what it writes; None for any other."""
    if kernel.has_reduce or any(kind_of(r) is not AxisType.GLOBAL for r in kernel.axes):
        return None
    if any(set(closed_by(s)) != set(kernel.axes) for s in kernel.ast.src):
        return None
    found = accesses(find_loops(kernel.ast))
    stores = [a for a in found if a.is_store]
    known = [r for r in kernel.axes if size_of(r) is not None]
    written = [r for r in known if all(a.stride(r) == 1 for a in stores)]
    if not written:
        return None
    for access in found:
        for one in known:
            if crosses(access, one, written[0]):
                apart = max(abs(a.stride(one) or 0) * a.itemsize for a in stores)
                return Transpose(written[0], one, access.itemsize, apart)
    return None


def crosses(access: Access, one: UOp, written: UOp) -> bool:
    """Whether neighbours along `one` lie together, and those along `written` lie lines apart."""
    apart = access.stride(written)
    far = apart is not None and abs(apart) * access.itemsize >= LINE
    return not access.is_store and one is not written and access.stride(one) == 1 and far


def write_lanes(kernel: Kernel, number: int, most: int) -> None:
    """Copies of the axis in whole vectors, up to `most`; those of an odd axis overlap, so that one
    loop runs over all of it, or its rest is apart.
    """
    position = position_of(kernel, number)
    size = size_of(kernel.axes[position]) or 1
    whole = size - size % LANES if size > LANES else size
    if whole < size and attempt(kernel, Opt(OptOps.OVERLAP, position, min(most, whole))):
        return
    rest = cut_apart(kernel, position, whole) if whole < size else None
    if rest is not None:
        kernel.apply_opt(Opt(OptOps.UPCAST, rest, 0))
    amount = next(n for n in (most, most // 2, LANES, whole) if whole % n == 0)
    kernel.apply_opt(Opt(OptOps.UPCAST, position, amount))
