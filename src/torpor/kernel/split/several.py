"""What takes the place of a kernel: two, the first of which stores memory that the rest reads; or
pieces, each of which stores a part of what the kernel does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import place
from torpor.kernel.opts.normalise import renumber
from torpor.kernel.ranges import iterations, replace_range
from torpor.rules.rebuild import with_slots

MEMORY: Final = -1  # stands for the parameter that the first of two kernels stores


class Piece(NamedTuple):
    """A kernel that does a part, and which of the whole kernel's parameters are its own; MEMORY is
    what lies between two.
    """

    ast: UOp
    slots: tuple[int, ...]


class Parted(NamedTuple):
    """Two kernels in the place of one: the first stores memory (its parameter 0), which the rest
    reads (its last parameter), and why there are two.
    """

    first: Piece
    rest: Piece
    memory: UOp
    reason: str


def stored_apart(value: UOp, axes: Sequence[UOp], places: Sequence[UOp] = ()) -> tuple[UOp, UOp]:
    """The kernel that stores a value row by row in the order of its axes, which become its own; and
    what reads that at places along the axes, or in their rounds.
    """
    own = [r.replace(arg=(n, AxisType.GLOBAL)) for n, r in enumerate(axes)]
    memory = UOp(Ops.PARAM, value.dtype, (), ParamArg(MEMORY, iterations(axes)))
    moved = value.substitute(dict(zip(axes, own, strict=True))).simplify()
    first = UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, own), moved, *own)))
    return first, UOp(Ops.LOAD, memory.dtype, (place(memory, axes, places),))


def parted(first: UOp, rest: UOp, reason: str) -> Parted:
    """Two kernels, of which the first stores the memory between them and the other reads it."""
    memory = first.src[0].src[0].src[0]
    before, after = (MEMORY, *slots_of(first)), (*slots_of(rest), MEMORY)
    return Parted(piece_of(first, before), piece_of(rest, after), memory, reason)


def slots_of(root: UOp) -> tuple[int, ...]:
    """The numbers of a kernel's parameters, without the memory between it and another."""
    return tuple(sorted({n.arg.slot for n in root.toposort() if n.op is Ops.PARAM} - {MEMORY}))


def piece_of(root: UOp, slots: tuple[int, ...]) -> Piece:
    """The kernel with its parameters and axes numbered anew, those in the order of `slots`."""
    return Piece(renumber(with_slots(root, slots)), slots)


def part_of(ast: UOp, one: UOp, start: int, stop: int) -> UOp:
    """The kernel with an axis run from `start` to `stop` only."""
    part = UOp.range(stop - start, *one.arg)
    return replace_range(ast, one, part + UOp.index_const(start), [part]).simplify()


def own_parameters(ast: UOp) -> Piece:
    """A part of a kernel without the parameters that only other parts read."""
    return piece_of(ast, slots_of(ast))
