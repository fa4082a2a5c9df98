"""Pieces: a large kernel whose conditions change along an outer axis, as a kernel for each part.

before  out[i, j] = where(i < n, x[i, j], y[i - n, j])
after   out[i, j] = x[i, j];  out[i + n, j] = y[i, j]

Rows of a concatenation, of a stack: no element asks which it is, only what is stored is computed,
and axes merge that conditions kept apart. Beside one part that reads others are borders, which
cost less than a kernel. Along the last axis `nest.py` cuts loops.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import stored_bytes
from torpor.kernel.choose.nest import MOST_PARTS
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.split import boundaries
from torpor.kernel.ranges import kind_of, size_of
from torpor.kernel.split.several import Piece, own_parameters, part_of

WORTH: Final = 1 << 17  # bytes stored from which other kernels pay, each to be compiled; a choice


def in_pieces(ast: UOp, target: Target) -> tuple[Piece, ...]:
    """The kernels that together do what this one does; none where there is nothing to gain."""
    if not target.threads or len(ast.src) != 1 or not is_plain(ast):
        return ()
    if not any(n.op is Ops.CMPLT for n in ast.toposort()) or stored_bytes(ast) < WORTH:
        return ()
    kernel = Kernel(ast, target)
    for one in kernel.axes[:-1]:
        ends = [0, *boundaries(kernel.ast, one), size_of(one) or 0]
        if 1 < len(ends) - 1 <= MOST_PARTS:
            parts = [part_of(kernel.ast, one, start, end) for start, end in pairwise(ends)]
            loads = [{n for n in part.toposort() if n.op is Ops.LOAD} for part in parts]
            shared = sum(map(len, loads)) > len(set().union(*loads))
            # parts of a stack that read the same are computed from what is read once, side by side
            apart = len(parts) < (size_of(one) or 0) or not shared
            if apart and sum(map(bool, loads)) > 1:
                return tuple(own_parameters(part) for part in parts)
    return ()


def is_plain(ast: UOp) -> bool:
    """Whether all loops of a kernel are over its results, of known sizes, and none is checked."""
    plain = all(kind_of(r) is AxisType.GLOBAL and size_of(r) for r in ast.ranges())
    return plain and not any(n.op is Ops.CHECK for n in ast.toposort())
