"""Results of vectors whose lanes lie apart in memory go there by a loop over them.

before  out[s*c + p] = x[c, p]                                  a store for each lane and each p
after   tile[64*p + c] = x[c, p], and then for c': out[s*c' + p] = tile[64*p + c']

One lane after the other takes an address, a shuffle and a store for each element; a loop takes as
many stores, of which LLVM has a sixty-fourth to compile.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses, place
from torpor.kernel.ranges import (
    WRITTEN,
    closed_by,
    find_loops,
    iterations,
    kind_of,
    number_of,
)

SCATTERED: Final = 64  # elements, from which it is as quick to go over them in a loop


def stage_scattered(root: UOp, lane: UOp) -> UOp:
    """The kernel with stores that are not neighbours along the written-out axis `lane` done by a
    loop, from memory that vectors are stored to.
    """
    found = {a.node: a for a in accesses(find_loops(root)) if a.is_store}
    changed: dict[UOp, UOp] = {}
    for store in root.src:
        access = found[store.src[0]]
        apart = access.stride(lane) not in (0, 1) and not access.is_interleaved(lane)
        if lane in closed_by(store) and apart and is_long(store):
            changed[store] = through_tile(store, lane, root, len(changed))
    return UOp.sink(*(changed.get(s, s) for s in root.src)) if changed else root


def is_long(store: UOp) -> bool:
    """Whether many sums are stored, in loops whose steps may come in any order."""
    closed = closed_by(store)
    written = [one for one in closed if kind_of(one) in WRITTEN]
    ordered = any(kind_of(one) is AxisType.SERIAL for one in closed)
    sums = any(node.op is Ops.REDUCE for node in store.src[1].toposort())
    return sums and not ordered and iterations(written) >= SCATTERED


def through_tile(store: UOp, lane: UOp, root: UOp, number: int) -> UOp:
    """The store from a tile of its own, which is filled before."""
    target, value = store.src[:2]
    nodes = root.toposort()
    fresh = 1 + number + max(number_of(n) for n in nodes if n.op is Ops.RANGE)
    number += sum(n.op is Ops.DEFINE_LOCAL for n in nodes)
    step = lane.replace(arg=(fresh, AxisType.LOOP))
    axes = [*(r for r in closed_by(store) if kind_of(r) in WRITTEN and r is not lane), lane]
    tile = UOp(Ops.DEFINE_LOCAL, value.dtype, (), ParamArg(number, iterations(axes)))
    fill = UOp(Ops.STORE, dtypes.void, (place(tile, axes), value, *axes))
    there = place(tile, axes, [*axes[:-1], step])
    read = UOp(Ops.LOAD, value.dtype, (there, UOp(Ops.BARRIER, dtypes.void, (fill,))))
    ranges = (step if one is lane else one for one in store.src[2:])
    return store.replace(src=(target.substitute({lane: step}), read, *ranges))
