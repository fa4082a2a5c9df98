"""Opts chosen without measuring, from how the accesses move with each axis."""

from __future__ import annotations

from collections.abc import Sequence

from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.access import accesses
from torpor.kernel.choose.nest import is_stack, nest_lanes, pass_lanes
from torpor.kernel.choose.products import tile_products
from torpor.kernel.choose.reuse import read_once
from torpor.kernel.choose.rows import beside_steps, has_passes, row_lanes
from torpor.kernel.choose.transpose import tile_transpose
from torpor.kernel.choose.vectors import (
    WOVEN,
    Facts,
    attempt,
    is_short,
    stream_out,
    thread_rest,
    unroll_short,
)
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.ranges import OUTPUTS, find_loops, iterations, kind_of, size_of


def choose(kernel: Kernel) -> list[Opt]:
    """The opts for a kernel: they fit."""
    return with_opts(kernel).opts


def with_opts(kernel: Kernel) -> Kernel:
    """A copy of a kernel, with the opts that suit it."""
    trial = kernel.copy()
    if kernel.target.groups and kernel.target.name != "python":
        for_groups(trial)
    elif kernel.target.name != "python":
        for_processor(trial)
    return trial if is_short(trial) else shorter(kernel, trial.opts)


def shorter(kernel: Kernel, opts: Sequence[Opt]) -> Kernel:
    """A copy of a kernel with the first of these opts, the last of them by less, so that it is not
    written out too often: LLVM takes seconds for what does not fit the cache of instructions.
    """
    made = kernel.copy()
    for opt in opts:
        amounts = range(opt.arg, 1, -1) if opt.op is OptOps.UPCAST and opt.arg else [opt.arg]
        for amount in amounts:
            longer = made.copy()
            if attempt(longer, Opt(opt.op, opt.axis, amount)) and is_short(longer):
                break
        else:
            break
        made = longer
    return made


# --- processors with vectors and threads ----------------------------------------------------------
def for_processor(kernel: Kernel) -> None:
    """Vectors along the axis that suits memory best, register tiles where data is reused, short
    reductions written out, the outermost axis for the threads.
    """
    if any(kind_of(r) is AxisType.SERIAL for r in kernel.axes):
        beside_steps(kernel)
        return
    if tile_products(kernel):
        return
    if not tile_transpose(kernel):
        along_lanes(kernel)
        stream_out(kernel)


def along_lanes(kernel: Kernel) -> None:
    """Vectors along the axes that suit memory best, the outermost axis for the threads."""
    read_once(kernel)
    if not has_passes(kernel):
        thread_outermost(kernel)
        nest_lanes(kernel)
    elif not pass_lanes(kernel):
        row_lanes(kernel)


def thread_outermost(kernel: Kernel) -> None:
    """The first output axis for the threads, unless it is all there is that may be vectors: parts
    that are made of the same stay together.
    """
    found = accesses(find_loops(kernel.ast))
    outputs = [r for r in kernel.axes if kind_of(r) in OUTPUTS]
    apart = [r for r in outputs if not is_stack(kernel, found, r)]
    least = 0 if kernel.has_reduce else WOVEN
    if apart[:1] == outputs[:1] and any((size_of(r) or WOVEN + 1) > least for r in apart[1:]):
        thread_rest(kernel)


# --- targets with groups --------------------------------------------------------------------------
def for_groups(kernel: Kernel) -> None:
    """Four neighbours an item where memory allows it; groups of up to 256 items; a group for each
    long reduction with few results.
    """
    facts = Facts.of(kernel)
    outputs = [r for r in kernel.axes if kind_of(r) is AxisType.GLOBAL]
    results = iterations(tuple(outputs))
    longest = max(
        (r for r in kernel.reduce_axes if size_of(r)), key=lambda r: size_of(r) or 0, default=None
    )
    if longest is not None and results <= 1024 and (size_of(longest) or 0) >= 64:
        position = kernel.reduce_axes.index(longest)
        for items in (256, 64, 16):
            if attempt(kernel, Opt(OptOps.GROUPTOP, position, items)):
                return
    for one in reversed(outputs):
        if facts.score(one) > 0 and (size_of(one) or 0) % 4 == 0:
            attempt(kernel, Opt(OptOps.UPCAST, kernel.axes.index(one), 4))
            break
    unroll_short(kernel)
    room = min(256, kernel.target.group_limit)
    for one in [r for r in reversed(kernel.axes) if kind_of(r) is AxisType.GLOBAL][:3]:
        size = size_of(one)
        items = next((n for n in (64, 32, 16, 8, 4, 2) if size and size % n == 0 and n <= room), 1)
        if items > 1 and attempt(kernel, Opt(OptOps.LOCAL, kernel.axes.index(one), items)):
            room //= items
