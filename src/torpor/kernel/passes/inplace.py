"""Which inputs of a kernel may lie in the same memory as an output of it.

An output may take an input's place if every element of the input is read where the same element of
the output is computed, before it is stored, and nowhere else. It is proved in two steps. Before
opts, positions say that each element of the output is stored once; opts keep the set of elements,
so that it is still true if as many are stored. And in the program as it runs, each read of the
input has a store after it at the very same position, in the very same loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import find_loops, iterations
from torpor.rules.affine import is_dense, strides_of

Pairs = tuple[tuple[int, int], ...]
Loops = tuple[UOp, ...]


class _Access(NamedTuple):
    """A LOAD or STORE of a parameter in a linear program: its place in the list, the loops around
    it, the INDEX, and how many elements there are from it on.
    """

    line: int
    loops: Loops
    place: UOp
    width: int

    @property
    def elements(self) -> tuple[Loops, tuple[UOp, ...], int]:
        """What two accesses of the same elements, in whatever memory, have in common."""
        return self.loops, self.place.src[1:], self.width


def shareable(ast: UOp, linear: Sequence[UOp]) -> Pairs:
    """(output, input) pairs of parameters of which any may share memory, if each takes part in one
    pair only. `ast` is the kernel before opts, `linear` what has become of it.
    """
    loads, stores = _accesses(linear)
    whole = _stored_once(ast)
    pairs = []
    for output in sorted(whole & stores.keys() - loads.keys()):
        ends = stores[output]
        if max(one.width for one in ends) == 1:  # LLVM makes vectors of these if all lies apart
            continue
        if sum(one.width * iterations(one.loops) for one in ends) != whole_size(ends):
            continue
        for slot in sorted(loads.keys() - stores.keys()):
            if _takes_over(loads[slot], ends):
                pairs.append((output, slot))
    return tuple(pairs)


def whole_size(ends: Sequence[_Access]) -> int | None:
    """How many elements the memory of these accesses has."""
    size: int | None = ends[0].place.src[0].arg.size
    return size


def _takes_over(loads: Sequence[_Access], stores: Sequence[_Access]) -> bool:
    """Whether each load comes before a store of the same elements, in memory of the same kind."""
    memory, other = loads[0].place.src[0], stores[0].place.src[0]
    alike = memory.dtype.itemsize == other.dtype.itemsize and memory.arg.size == other.arg.size
    at = {one.elements: one.line for one in stores}
    return alike and all(one.line < at.get(one.elements, 0) for one in loads)


def _accesses(linear: Sequence[UOp]) -> tuple[dict[int, list[_Access]], dict[int, list[_Access]]]:
    """The loads and stores of each parameter, by its number."""
    loads: dict[int, list[_Access]] = {}
    stores: dict[int, list[_Access]] = {}
    loops: list[UOp] = []
    for line, node in enumerate(linear):
        if node.op is Ops.RANGE:
            loops.append(node)
        elif node.op is Ops.END:
            loops.pop()
        elif node.op in (Ops.LOAD, Ops.STORE) and node.src[0].op is Ops.INDEX:
            index = node.src[0]
            if index.src[0].op is Ops.PARAM:
                count = (node if node.op is Ops.LOAD else node.src[1]).dtype.count
                found = loads if node.op is Ops.LOAD else stores
                access = _Access(line, tuple(loops), index, count)
                found.setdefault(index.src[0].arg.slot, []).append(access)
    return loads, stores


def _stored_once(ast: UOp) -> set[int]:
    """The parameters of which an ast stores each element exactly once, unconditionally."""
    loops = find_loops(ast)
    found: dict[int, list[UOp]] = {}
    for node in loops.order:
        if node.op is Ops.STORE and node.src[0].src[0].op is Ops.PARAM:
            found.setdefault(node.src[0].src[0].arg.slot, []).append(node.src[0])
    single = {slot: index for slot, (index, *more) in found.items() if not more}
    return {
        slot
        for slot, index in single.items()
        if len(index.src) == 2 and is_dense(strides_of(index.src[1]), index.src[0].arg.size)
    }
