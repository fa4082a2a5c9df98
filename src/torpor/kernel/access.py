"""How the memory accesses of a kernel move with each axis: what the heuristics decide on."""

from __future__ import annotations

from dataclasses import dataclass

from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import Loops, find_loops, iterations


@dataclass(frozen=True)
class Access:
    """One INDEX: its elements' size in bytes, whether it is stored to, how often it is made, and
    its stride by each range that it depends on (None where the position is not linear in it).
    """

    node: UOp
    itemsize: int
    is_store: bool
    count: int
    strides: dict[UOp, int | None]

    def stride(self, one: UOp) -> int | None:
        """Elements between neighbours along a range; 0: it does not matter; None: irregular."""
        return self.strides.get(one, 0)


def terms_of(expression: UOp) -> list[UOp]:
    """The summands of a sum, and of multiples of sums in it."""
    terms: list[UOp] = []
    stack = [(expression, 1)]
    while stack:
        node, factor = stack.pop()
        if node.op is Ops.ADD:
            stack.extend((source, factor) for source in reversed(node.src))
        elif node.op is Ops.MUL and node.src[1].op is Ops.CONST:
            inner, times = node.src[0], factor * int(node.src[1].arg)
            if inner.op in (Ops.ADD, Ops.MUL):
                stack.append((inner, times))
            else:
                terms.append(inner * times)
        else:
            terms.append(node if factor == 1 else node * factor)
    return terms


def linear_term(term: UOp) -> tuple[UOp, int] | None:
    """(range, factor) of a summand `range` or `range*factor`."""
    if term.op is Ops.RANGE:
        return term, 1
    if term.op is Ops.MUL and term.src[0].op is Ops.RANGE and term.src[1].op is Ops.CONST:
        return term.src[0], int(term.src[1].arg)
    return None


def strides_of(position: UOp, loops: Loops) -> dict[UOp, int | None]:
    """Elements by which a position moves with each range below it; None where not linearly."""
    strides: dict[UOp, int | None] = {}
    for term in terms_of(position):
        linear = linear_term(term)
        if linear is not None:
            before = strides.get(linear[0], 0)
            strides[linear[0]] = None if before is None else before + linear[1]
        else:
            strides.update(dict.fromkeys(free_of(term, loops)))
    return strides


def free_of(term: UOp, loops: Loops) -> frozenset[UOp]:
    """The loops that a summand, perhaps a multiple of a node, depends on."""
    return loops.free[term if term in loops.free else term.src[0]]


def accesses(loops: Loops) -> list[Access]:
    """Every memory access of the kernel."""
    stored = {n.src[0] for n in loops.order if n.op is Ops.STORE}
    found = []
    for node in loops.order:
        if node.op is Ops.INDEX:
            strides = strides_of(node.src[1], loops)
            if len(node.src) > 2:
                for one in loops.free[node.src[2]]:
                    strides.setdefault(one, 0)
            count = iterations(loops.nest(node))
            found.append(Access(node, node.dtype.itemsize, node in stored, count, strides))
    return found


def footprint(access: Access) -> int:
    """How many elements an access touches."""
    return iterations([r for r, stride in access.strides.items() if stride != 0])


def passes_caches(root: UOp, target: Target) -> bool:
    """Whether a kernel stores so much that it pays to store it past the caches."""
    stores = [a for a in accesses(find_loops(root)) if a.is_store]
    least = target.stream_bytes
    return least is not None and sum(footprint(a) * a.itemsize for a in stores) >= least
