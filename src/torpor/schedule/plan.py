"""A graph's schedule: kernels in an order in which every value is there when it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.contract_graph import PREPARED
from torpor.ir.infer import count_of, devices_of
from torpor.ir.ops import LOOPED, MOVEMENT, Ops
from torpor.ir.records import CheckSite, ParamArg, ScheduleItem, calls_host
from torpor.ir.rewrite import graph_rewrite, hand_down_origins, unite_origins
from torpor.ir.uop import UOp
from torpor.schedule import parameter_limit
from torpor.schedule.afresh import Settled, within
from torpor.schedule.asked import ask_for_all
from torpor.schedule.build import Builder
from torpor.schedule.fuse import Fuser
from torpor.schedule.limit import limit_now
from torpor.schedule.loops import loop_item
from torpor.schedule.order import in_order, without_copies
from torpor.schedule.prepare import prepare_rules
from torpor.schedule.reduction_fission import MakeBuffer
from torpor.schedule.region import Region
from torpor.schedule.tile_and_fuse import tile_and_fuse

TargetOf = Callable[[str], Target]
Places = dict[UOp, UOp]
_MADE: Final = frozenset({Ops.COPY, Ops.KERNEL})  # which say themselves what they do
Wanted = Sequence[tuple[UOp, str]]  # nodes, and the devices that they are wanted on


@dataclass(frozen=True)
class Plan:
    """The kernels in order, and for each root the BUFFER that will hold it."""

    items: tuple[ScheduleItem, ...]
    results: dict[UOp, UOp]


def plan(roots: Sequence[tuple[UOp, str]], make_buffer: MakeBuffer, target_of: TargetOf) -> Plan:
    """The kernels that compute `roots`, each a graph node and the device it is wanted on.

    `make_buffer(device, size, dtype)` gives the BUFFER node of a new buffer, and
    `target_of(device)` what kernels there are generated for: how many parameters they may have, and
    how large blocks are (on all devices as on the first root's).
    """
    sink = graph_rewrite(UOp.sink(*(r for r, _ in roots)), prepare_rules, name="prepare")
    sink = ask_for_all(sink)
    PREPARED.expect(sink)
    hand_down_origins(sink)
    results: dict[UOp, UOp] = {}
    wanted: dict[UOp, tuple[UOp, str]] = {}
    devices = devices_of(sink)
    for (root, device), prepared in zip(roots, sink.src, strict=True):
        below = prepared.below((Ops.RESHAPE,))  # whose elements lie in the same order
        if below.op is Ops.BUFFER and below.arg.device == device:
            results[root] = below
            continue
        unite_origins(prepared, below)
        found = devices[below]
        if found is not None and found != device:
            below = UOp(Ops.COPY, below.dtype, (below,), device)
        wanted[root] = (below, device)
    if not wanted:
        return Plan((), results)
    settle = partial(settled, make_buffer=make_buffer, target_of=target_of)
    made = settle([*wanted.values()])
    limit = limit_now()
    if limit is not None:
        made = within(limit, settle, made)
    places = zip(wanted, made.roots, strict=True)
    results.update({root: made.places[below] for root, (below, _) in places})
    items = tile_and_fuse(made.items, results.values(), make_buffer, target_of(roots[0][1]))
    return Plan(tuple(items), results)


def settled(wanted: Wanted, make_buffer: MakeBuffer, target_of: TargetOf) -> Settled:
    """The kernels in order that compute what is wanted."""
    places, made = fused(wanted, make_buffer, target_of)
    kept = frozenset(places[root] for root, _ in wanted)
    awaited = {id(item): awaited_by(region, places) for region, item in made.items()}
    items = without_copies(in_order([*made.values()], awaited, kept), kept)
    return Settled(wanted, items, places, kept)


def fused(
    wanted: Wanted, make_buffer: MakeBuffer, target_of: TargetOf
) -> tuple[Places, dict[Region, ScheduleItem]]:
    """Where stored values lie, and the kernels; anew as long as one has too many parameters."""
    apart: dict[UOp, None] = {}
    while True:
        fuser = Fuser(wanted, apart)
        fuser.run()
        places = {
            node: make_buffer(region.device, count_of(node), node.dtype)
            for node, region in fuser.state.home.items()
        }
        made = {region: item_of(fuser, region, places) for region in fuser.state.regions}
        more: list[UOp] = []
        for region, item in made.items():
            kind = next(iter(region.outputs)).op
            no_kernel = kind in _MADE or kind in LOOPED
            limit = None if no_kernel else target_of(region.device).parameters
            if limit is not None and parameter_limit.parameters(item) > limit:
                more += parameter_limit.apart(fuser.state, region, item, limit)
        if not set(more) - set(apart):
            return places, made
        apart.update(dict.fromkeys(more))


def awaited_by(region: Region, places: Places) -> UOp | None:
    """The buffer that has to be there before an AFTER is computed; None for other kernels."""
    first = next(iter(region.outputs))
    return places.get(first.src[1].below(MOVEMENT)) if first.op is Ops.AFTER else None


def item_of(fuser: Fuser, region: Region, places: dict[UOp, UOp]) -> ScheduleItem:
    """The schedule item of one region."""
    first = next(iter(region.outputs))
    if first.op in _MADE:
        return made_item(first, places)
    if first.op in LOOPED:
        return loop_item(list(region.outputs), places)
    builder = Builder(fuser, region, places)
    ast = builder.ast()
    values = tuple((v.arg[0], bound.src[1].arg) for bound, v in builder.variables.items())
    return ScheduleItem(
        ast,
        tuple(builder.buffers),
        values,
        region.reason,
        tuple(builder.checks),
        tuple(range(len(region.outputs))),
        builder.origins(),
        tuple(builder.variables),
    )


def made_item(node: UOp, places: dict[UOp, UOp]) -> ScheduleItem:
    """COPY moves a whole buffer to another device; a KERNEL is one already, or the host's."""
    buffers = (places[node], *(buffer_of(source, places) for source in node.src))
    if node.op is Ops.KERNEL and not calls_host(node):
        ast, _ = node.arg
        divides = any(n.op is Ops.CHECK for n in ast.toposort())
        checks = (CheckSite("division", node),) * divides
        return ScheduleItem(ast, buffers, (), "custom kernel", checks, origins=node.origins)
    target, *operands = (
        UOp(Ops.PARAM, b.dtype, (), ParamArg(number, b.arg.size))
        for number, b in enumerate(buffers)
    )
    value = UOp(node.op, node.dtype, tuple(operands), node.arg)
    ast = UOp.sink(UOp(Ops.STORE, dtypes.void, (target, value)))
    reason = "copy" if node.op is Ops.COPY else "host"
    return ScheduleItem(ast, buffers, (), reason, origins=node.origins)


def buffer_of(node: UOp, places: dict[UOp, UOp]) -> UOp:
    """The BUFFER with the elements of a node, below RESHAPEs."""
    while node not in places and node.op is Ops.RESHAPE:
        node = node.src[0]
    return places.get(node, node)
