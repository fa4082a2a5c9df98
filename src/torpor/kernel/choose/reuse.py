"""What is read once for several results: by copies of a kernel's body that share what they load, or
by the order of the axes.
"""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import AxisType
from torpor.ir.uop import UOp
from torpor.kernel.access import Access, accesses, footprint
from torpor.kernel.choose.roles import put_in_order
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import OUTPUTS, find_loops, kind_of, size_of

COPIES: Final = 7  # most copies of an output axis that share what they load


def reuse_axes(kernel: Kernel, found: list[Access], lane: UOp | None) -> list[UOp]:
    """The output axes that some loads do not depend on, though the reduction does, or along which
    windows overlap: copies along them share what they load. Those that share most come first.
    """
    loads = [a for a in found if not a.is_store]
    most = max((a.count for a in loads), default=1)
    shared_by = []
    for one in kernel.axes:
        size = one.src[0].vmax
        if one is lane or size < 2:
            continue
        if kind_of(one) not in OUTPUTS:
            continue
        shared = sum(shared_part(kernel, a, one) * a.count / most for a in loads if a.strides)
        if shared:
            shared_by.append((shared, size, one))
    shared_by.sort(key=lambda f: f[:2], reverse=True)
    return [one for _, _, one in shared_by[:2]]


def shared_part(kernel: Kernel, access: Access, one: UOp) -> float:
    """What part of its loads copies along an output axis share with others: all where it does not
    matter (twice that if they are masked), some where windows that lie side by side overlap.
    """
    step = access.stride(one)
    if not step:
        return (1.0 + (len(access.node.src) > 2)) * (step == 0)
    copies = min(size_of(one) or 1, COPIES)
    shares = [0.0]
    for window in kernel.reduce_axes:
        size, by = size_of(window) or COPIES, access.stride(window)
        if by and size < COPIES:
            places = {n * step + k * by for n in range(copies) for k in range(size)}
            shares.append(1 - len(places) / (copies * size))
    return max(shares)


def overlap(kernel: Kernel, access: Access, one: UOp) -> float:
    """What part of its loads copies along an output axis share since their windows overlap."""
    return 0.0 if access.is_store or not access.stride(one) else shared_part(kernel, access, one)


def read_once(kernel: Kernel) -> None:
    """Where sums go along the rows of an operand that no cache holds: its own axes before the
    others, so that it comes from memory once. What the others alone are read from must be small.
    Without it products of 2 to 8 rows take 1.9 times as long (mean of 12, AVX2).
    """
    if len(kernel.reduce_axes) != 1:
        return
    loads = [a for a in accesses(find_loops(kernel.ast)) if not a.is_store]
    large = [a for a in loads if footprint(a) * a.itemsize > kernel.target.stage_bytes]
    if not large or len({frozenset(a.strides) for a in large}) > 1:
        return
    big = max(large, key=footprint)
    if big.stride(kernel.reduce_axes[0]) != 1:
        return
    outputs = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL]
    if outputs != kernel.axes[: len(outputs)]:
        return
    put_in_order(kernel, outputs, sorted(outputs, key=lambda r: big.stride(r) == 0))
