"""STAGE: a tile of what a reduction reads, copied once into packed memory beside the loops."""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import place
from torpor.kernel.lanes import WIDEST
from torpor.kernel.ranges import (
    WRITTEN,
    Loops,
    closed_by,
    find_loops,
    has_few_rounds,
    is_no_load,
    iterations,
    kind_of,
    nesting,
    size_of,
)
from torpor.rules.affine import strides_read

PRODUCTS: Final = (Ops.MUL, Ops.DOT)
SHARED: Final = 4  # uses of a coefficient, at least: the two codes of a byte are none


class Tile(NamedTuple):
    """What is staged: a value, the axes of its packed memory (outermost first), the place along
    each of them where the kernel reads it, and how many elements there are; the value as it is
    copied, the place along each axis where that is stored, and the loops that do so.
    """

    value: UOp
    axes: tuple[UOp, ...]
    places: tuple[UOp, ...]
    size: int
    copy: UOp
    filled: tuple[UOp, ...]
    loops: tuple[UOp, ...]

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return self.size * self.value.dtype.itemsize


def operands(root: UOp) -> list[UOp]:
    """The values that a kernel's reductions read and that could be staged, in graph order: loads,
    with as much of what is computed from them as depends on the same axes; or whole factors of a
    product that is summed, where several loads make one.
    """
    loops = find_loops(root)
    users: dict[UOp, list[UOp]] = {}
    for node in loops.order:
        for source in node.src:
            users.setdefault(source, []).append(node)
    reduced = {s for n in loops.order if n.op is Ops.REDUCE for s in below(n)}
    whole = {load: f for n in loops.order for f in factors(n, loops) for load in loads_of(f)}
    found: dict[UOp, None] = {}
    for node in loops.order:
        if node.op is Ops.LOAD and node in reduced and is_direct(node):
            found[whole[node] if node in whole else widest(node, loops, users)] = None
    return list(found)


def direct_loads(root: UOp) -> list[UOp]:
    """The loads of parameters at places that no other load decides, in graph order."""
    return [n for n in root.toposort() if n.op is Ops.LOAD and is_direct(n)]


def coefficients(root: UOp) -> list[UOp]:
    """What a factor of a summed product is computed from that takes operations itself and that some
    neighbours share, such as scales of blocks: those made of most operations first.
    """
    loops = find_loops(root)
    found: dict[UOp, int] = {}
    products = [n.src[0] for n in loops.order if n.op is Ops.REDUCE and n.src[0].op in PRODUCTS]
    for factor in [f for product in products for f in product.src]:
        nodes = [n for n in factor.toposort(is_no_load) if n.op in ALU]
        for user in nodes:
            for value in user.src:
                made = value.op in ALU and value.dtype is not dtypes.index
                fewer = loops.free[value] < loops.free[user]
                uses = iterations(tuple(loops.free[user] - loops.free[value]))
                shared = fewer and uses >= SHARED and loops.free[value]
                if made and shared and is_from_memory(value):
                    found[value] = len(value.toposort())
    return sorted(found, key=found.__getitem__, reverse=True)


def is_from_memory(value: UOp) -> bool:
    """Whether a value is computed from direct loads."""
    loads = loads_of(value)
    return bool(loads) and all(is_direct(load) for load in loads)


def loads_of(value: UOp) -> list[UOp]:
    """The loads that a value is computed from."""
    return [n for n in value.toposort() if n.op is Ops.LOAD]


def factors(reduction: UOp, loops: Loops) -> list[UOp]:
    """The factors of a product that is summed that are each computed from several direct loads, if
    neither factor runs over all axes of the product.
    """
    if reduction.op is not Ops.REDUCE or reduction.src[0].op not in PRODUCTS:
        return []
    product = reduction.src[0]
    if any(loops.free[f] == loops.free[product] for f in product.src):
        return []
    return [f for f in product.src if is_computed(f)]


def is_computed(value: UOp) -> bool:
    """Whether several loads make the value, all direct, and no reduction."""
    loads = loads_of(value)
    plain = all(n.op is not Ops.REDUCE for n in value.toposort())
    return plain and len(loads) > 1 and all(is_direct(load) for load in loads)


def below(reduction: UOp) -> list[UOp]:
    """What a reduction adds up, down to other reductions."""
    found: dict[UOp, None] = {}
    stack = list(reduction.src[: len(reduction.src) - len(closed_by(reduction))])
    while stack:
        node = stack.pop()
        if node.op is not Ops.REDUCE and node not in found:
            found[node] = None
            stack.extend(node.src)
    return list(found)


def is_direct(load: UOp) -> bool:
    """A load of a parameter at a place that no other load decides."""
    place = load.src[0]
    if place.op is not Ops.INDEX or place.src[0].op is not Ops.PARAM:
        return False
    return not any(n.op in (Ops.LOAD, Ops.REDUCE) for s in place.src[1:] for n in s.toposort())


def widest(load: UOp, loops: Loops, users: dict[UOp, list[UOp]]) -> UOp:
    """The last of the values computed from a load alone or with others of the same axes."""
    value = load
    while True:
        above = users[value]
        if len(above) != 1 or above[0].op not in ALU or above[0].dtype is dtypes.index:
            return value
        if loops.free[above[0]] != loops.free[load]:
            return value
        value = above[0]


def tile_of(root: UOp, value: UOp, level: UOp, single: bool = False) -> Tile:
    """What of `value` one round of the loop `level` reads; `single`: by scalars in any case."""
    free = find_loops(root).free[value]
    inside = sorted((r for r in free if nesting(r) > nesting(level)), key=nesting)
    inside.sort(key=is_words)
    if single or all(kind_of(r) not in WRITTEN for r in inside):  # copied in rows
        inside.sort(key=lambda one: reach(value, one) == 1)
    own = tuple(inside)
    return Tile(value, own, own, iterations(inside), value, own, own)


def is_words(one: UOp) -> bool:
    """Whether an axis is what rows of matrices run along, which lie in a row then."""
    return kind_of(one) is AxisType.UNROLL and (size_of(one) or 1) >= WIDEST


def stage(root: UOp, tile: Tile, number: int) -> UOp:
    """The kernel with the tile read from packed memory `number`, which is filled before the loops
    inside the level.
    """
    dtype = tile.value.dtype
    memory = UOp(Ops.DEFINE_LOCAL, dtype, (), ParamArg(number, tile.size))
    target = place(memory, tile.axes, tile.filled)
    filled = UOp(
        Ops.BARRIER, dtypes.void, (UOp(Ops.STORE, dtypes.void, (target, tile.copy, *tile.loops)),)
    )
    reads = [(tile.value, tile.places), *twins(root, tile)]
    return root.substitute(
        {
            value: UOp(Ops.LOAD, dtype, (place(memory, tile.axes, places), filled))
            for value, places in reads
        }
    )


def copied(tile: Tile, fresh: int) -> Tile:
    """The tile with loops of its own for the copy, numbered from `fresh`. Rows that are written out
    and lie apart, while neighbours lie along another axis, are copied in blocks.
    """
    reaches = {one: reach(tile.value, one) for one in tile.axes}
    order = sorted(tile.axes, key=lambda one: -reaches[one])
    last = [one for one in order if kind_of(one) not in WRITTEN][-1:]
    written = [one for one in order if kind_of(one) in WRITTEN]
    in_rows = any(map(is_words, written[-1:]))  # of matrices: no more has to be written out
    places, copies = [], []
    for one in tile.axes:
        number, kind, size = fresh + order.index(one), copy_kind(one, one in last), size_of(one)
        kind = AxisType.LOOP if in_rows and one in written[:-1] else kind
        turned = kind in WRITTEN and reaches[one] > 1 in reaches.values()
        if turned and size and size > WIDEST and size % WIDEST == 0:
            block = UOp.range(WIDEST, number + len(order), kind)
            outer = UOp.range(size // WIDEST, number, AxisType.LOOP)
            places.append(outer * WIDEST + block)
            copies += [outer, block]
        else:
            copies.append(UOp.range(one.src[0], number, kind))
            places.append(copies[-1])
    moved = tile.value.substitute(dict(zip(tile.axes, places, strict=True)))
    if len(copies) > len(places):
        moved = moved.simplify()
    return tile._replace(copy=moved, filled=tuple(places), loops=tuple(copies))


def twins(root: UOp, tile: Tile) -> list[tuple[UOp, tuple[UOp, ...]]]:
    """The same value elsewhere in the kernel, over another axis of the same size, and that axis."""
    if tile.places != tile.axes or len(tile.axes) != 1:
        return []
    nodes, (own,) = set(root.toposort()), tile.axes
    others = [r for r in root.ranges() if r is not own and r.src[0] is own.src[0]]
    found = [(tile.value.substitute({own: other}), (other,)) for other in others]
    return [(value, axes) for value, axes in found if value in nodes]


def reach(value: UOp, one: UOp) -> int:
    """How far apart in memory neighbours along an axis are: the copy goes over far ones outside."""
    return max(abs(stride or 0) for stride in strides_read(value, one))


def copy_kind(one: UOp, last: bool) -> AxisType:
    """What a loop over this axis is in the copy: written out where it is in the kernel, and where
    it is the innermost and short.
    """
    short = last and has_few_rounds(one)
    return AxisType.UPCAST if short or kind_of(one) in WRITTEN else AxisType.LOOP
