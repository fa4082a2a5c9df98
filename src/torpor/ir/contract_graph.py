"""What is legal in a graph of tensors: as it is handed over, and when it is ready for scheduling.

Sizes that are symbolic are taken on trust: whether two are equal is not decided here.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.contract import Clause, Contract, always, never
from torpor.ir.infer import Shape, Size, count_of, shape_of
from torpor.ir.ops import ALU, COMPARE, LOOPED, MOVEMENT, Ops
from torpor.ir.pattern import UPat
from torpor.ir.records import Requirement, Stored, calls_host
from torpor.ir.uop import UOp
from torpor.ir.variable import is_above

_REDUCTIONS: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN})


def alike(first: Shape, second: Shape) -> bool:
    """Whether shapes are the same, as far as numbers tell."""
    pairs = zip(first, second)
    return len(first) == len(second) and all(
        a == b or isinstance(a, UOp) or isinstance(b, UOp) for a, b in pairs
    )


def elements(shape: Shape) -> int | None:
    """How many elements; None where a size is symbolic."""
    sizes = [size for size in shape if isinstance(size, int)]
    return math.prod(sizes) if len(sizes) == len(shape) else None


def without(shape: Shape, axis: int) -> Shape:
    """The shape without one axis."""
    return (*shape[:axis], *shape[axis + 1 :])


def is_below(size: Size, other: Size) -> bool:
    """Whether size <= other, as far as numbers tell."""
    return isinstance(size, UOp) or isinstance(other, UOp) or size <= other


def computes_alike(node: UOp) -> bool:
    """Operands have one shape (or none), and formats that fit the operation."""
    shape = shape_of(node)
    if not all(alike(found, shape) for s in node.src if (found := shape_of(s)) != ()):
        return False
    if node.op in (Ops.CAST, Ops.BITCAST):
        return node.op is Ops.CAST or node.dtype.itemsize == node.src[0].dtype.itemsize
    if node.op in COMPARE:
        return node.dtype is dtypes.bool and node.src[0].dtype is node.src[1].dtype
    if node.op is Ops.WHERE and node.src[0].dtype is not dtypes.bool:
        return False
    return all(s.dtype is node.dtype for s in (node.src[1:] if node.op is Ops.WHERE else node.src))


def keeps_format(node: UOp) -> bool:
    """The result has the format of the first operand."""
    return node.dtype is node.src[0].dtype


def keeps_elements(node: UOp) -> bool:
    """A RESHAPE has as many elements as its operand."""
    before, after = elements(shape_of(node.src[0])), elements(shape_of(node))
    return before is None or after is None or before == after


def repeats_single(node: UOp) -> bool:
    """An EXPAND repeats axes of size 1 only."""
    before, after = shape_of(node.src[0]), shape_of(node)
    once = (1 if b == 1 else a for a, b in zip(after, before))
    return len(before) == len(after) and alike(tuple(once), before)


def orders_axes(node: UOp) -> bool:
    """A PERMUTE names every axis once."""
    return sorted(node.arg) == list(range(len(shape_of(node.src[0]))))


def pads_outside(node: UOp) -> bool:
    """A PAD has two numbers from 0 on for each axis."""
    fits = len(node.arg) == len(shape_of(node.src[0]))
    return fits and all(is_below(0, n) for pair in node.arg for n in pair)


def cuts_inside(node: UOp) -> bool:
    """A SHRINK is a box inside its operand."""
    shape = shape_of(node.src[0])
    return len(node.arg) == len(shape) and all(
        is_below(0, start) and is_below(start, stop) and is_below(stop, size)
        for (start, stop), size in zip(node.arg, shape)
    )


def reduces_axes(node: UOp) -> bool:
    """A REDUCE_AXIS is by ADD, MUL, MAX or MIN over axes that there are."""
    op, axes = node.arg
    rank = len(shape_of(node.src[0]))
    return op in _REDUCTIONS and len(set(axes)) == len(axes) and set(axes) <= set(range(rank))


def scans_axis(node: UOp) -> bool:
    """A SCAN_AXIS is by ADD, MUL, MAX or MIN, from initial values of length 1 along its axis."""
    op, axis = node.arg
    shape, initial = map(shape_of, node.src)
    fits = alike((*shape[:axis], 1, *shape[axis + 1 :]), initial)
    return op in _REDUCTIONS and fits and node.src[1].dtype is node.dtype


def gathers_along(node: UOp) -> bool:
    """A GATHER has an int64 index of its operand's shape but for one axis."""
    source, index = node.src
    rests = (without(shape_of(s), node.arg) for s in (source, index))
    return index.dtype is dtypes.int64 and alike(*rests)


def scatters_along(node: UOp) -> bool:
    """A SCATTER has an int64 index of its base's shape but for one axis, and a value for each."""
    base, index, values = node.src
    op, axis, _ = node.arg
    rests = (without(shape_of(s), axis) for s in (base, index))
    fits = alike(*rests) and alike(shape_of(values), shape_of(index))
    return fits and values.dtype is node.dtype and op in _REDUCTIONS | {Ops.STORE}


def is_of_scatter(node: UOp) -> bool:
    """A PRIOR is of a SCATTER."""
    return node.src[0].op is Ops.SCATTER


def names_device(node: UOp) -> bool:
    """A COPY names the device that it goes to."""
    return isinstance(node.arg, str)


def says_why(node: UOp) -> bool:
    """A CONTIGUOUS has no arg, or a Stored."""
    return node.arg is None or isinstance(node.arg, Stored)


def binds_variable(node: UOp) -> bool:
    """A BIND is of a VARIABLE and the number within its limits that it has."""
    variable, value = node.src
    if variable.op is not Ops.VARIABLE or value.op is not Ops.CONST:
        return False
    _, low, high = variable.arg
    return bool(low <= value.arg <= high)


def says_requirement(node: UOp) -> bool:
    """A CHECK of a graph passes its value on, asks bools of its shape and has a Requirement."""
    value, condition = node.src
    fits = value.dtype is node.dtype and condition.dtype is dtypes.bool
    return fits and alike(*map(shape_of, node.src)) and isinstance(node.arg, Requirement)


def loops_well(node: UOp) -> bool:
    """A LOOP's carries keep shape and format, and each of its rows is there for every step. How
    many these are is a number, or one above a bound variable.
    """
    loop = node.arg
    if isinstance(loop.count, UOp) and not is_above(loop.count):
        return False
    kept = all(
        alike(shape_of(s), shape_of(n)) and s.dtype is n.dtype for s, n in zip(node.src, loop.nexts)
    )
    return kept and all(shape_of(node.src[n])[:1] == (loop.count,) for n in loop.stepped)


def is_of_loop(node: UOp) -> bool:
    """What a loop gives is of a LOOP."""
    return node.src[0].op is Ops.LOOP


def reads_operands(node: UOp) -> bool:
    """A KERNEL stores values of its format, and has an operand for each other parameter; or it is
    computed on the host, of operands of these shapes.
    """
    if calls_host(node):
        counts = [math.prod(shape) for shape in node.arg[0].shapes]
        return counts == [count_of(one) for one in node.src]
    found = {n.arg.slot: n for n in node.arg[0].toposort() if n.op is Ops.PARAM}
    memory = (node, *node.src)
    return all(slot < len(memory) and n.dtype is memory[slot].dtype for slot, n in found.items())


def is_in_one_place(node: UOp) -> bool:
    """What is over several devices is only held together by the SINK."""
    return all(s.op is not Ops.MULTI for s in node.src)


_CLAUSES: Final[tuple[Clause, ...]] = (
    (UPat(ALU), computes_alike),
    (UPat((*MOVEMENT, Ops.CONTIGUOUS, Ops.COPY, Ops.LEAF, Ops.DETACH)), keeps_format),
    (UPat((Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.GATHER, Ops.SCATTER)), keeps_format),
    (UPat((Ops.FUNCTION, Ops.AFTER)), keeps_format),
    (UPat(Ops.RESHAPE), keeps_elements),
    (UPat(Ops.EXPAND), repeats_single),
    (UPat(Ops.PERMUTE), orders_axes),
    (UPat(Ops.PAD), pads_outside),
    (UPat(Ops.SHRINK), cuts_inside),
    (UPat(Ops.REDUCE_AXIS), reduces_axes),
    (UPat(Ops.SCAN_AXIS), scans_axis),
    (UPat(Ops.GATHER), gathers_along),
    (UPat(Ops.SCATTER), scatters_along),
    (UPat(Ops.PRIOR), is_of_scatter),
    (UPat(Ops.COPY), names_device),
    (UPat(Ops.CONTIGUOUS), says_why),
    (UPat(Ops.BIND), binds_variable),
    (UPat(Ops.CHECK), says_requirement),
    (UPat(Ops.LOOP), loops_well),
    (UPat(LOOPED), is_of_loop),
    (UPat(Ops.KERNEL), reads_operands),
    (UPat((Ops.BUFFER, Ops.CONST, Ops.VARIABLE, Ops.SINK, Ops.MULTI)), always),
)
GRAPH: Final = Contract("graph", _CLAUSES)
# After simplification: operations on tensors over several devices are operations on their parts.
RESOLVED: Final = GRAPH.and_also(
    "simplified graph",
    (UPat(frozenset(Ops) - {Ops.SINK, Ops.MULTI}), is_in_one_place),
    (UPat(Ops.FUNCTION), never),
)
# Ready for scheduling: markers have done their work.
PREPARED: Final = GRAPH.and_also("prepared graph", (UPat((Ops.LEAF, Ops.DETACH, Ops.MULTI)), never))
