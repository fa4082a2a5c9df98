"""Estimated arithmetic and memory traffic of a kernel."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import ALU, TRANSCENDENTAL, Ops
from torpor.ir.uop import UOp
from torpor.kernel.ranges import WRITTEN, closed_by, find_loops, iterations, kind_of

FUNCTION: Final = 40  # instructions that a function takes, on the whole
ROUNDED: Final = 8  # that an operation takes in a format that the target lacks
_FREE = frozenset({Ops.CAST, Ops.BITCAST, Ops.WHERE, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ})


def estimate(ast: UOp) -> tuple[int, int]:
    """(arithmetic operations, bytes moved): every value counted once for each of the indices that
    it depends on, every memory element once if it is touched.
    """
    loops = find_loops(ast)
    operations = 0
    touched: dict[UOp, int] = {}
    for node in loops.order:
        if node.op is Ops.REDUCE:
            values = len(node.src) - len(closed_by(node))
            inner = loops.free[node] | frozenset(closed_by(node))
            operations += values * iterations(tuple(inner))
        elif node.op in ALU and node.op not in _FREE and is_data(node):
            operations += node.dtype.count * iterations(tuple(loops.free[node]))
        elif node.op is Ops.INDEX and node.src[0].op is Ops.PARAM:
            size = node.src[0].arg.size
            moved = iterations(tuple(loops.free[node]))
            moved = moved if size is None else min(moved, size)
            touched[node] = moved * node.dtype.itemsize
    per_buffer: dict[UOp, int] = {}
    for node, moved in touched.items():
        per_buffer[node.src[0]] = max(per_buffer.get(node.src[0], 0), moved)
    return operations, sum(per_buffer.values())


def copies(ast: UOp, target: Target) -> int:
    """How many values are written out, each lane of a vector counted, and each that a target makes
    of several instructions as often; not where they lie, nor what decides whether they are there:
    most of that is known for each copy.
    """
    loops = find_loops(ast)
    total = 0
    for node in loops.order:
        if is_data(node) and node.op is not Ops.INDEX:
            ranges = loops.free[node].union(closed_by(node) if node.op is Ops.STORE else ())
            written = iterations([r for r in ranges if kind_of(r) in WRITTEN])
            total += written * (instructions(node, target) if node.op in ALU else 1)
    return total


def instructions(node: UOp, target: Target) -> int:
    """About how many instructions a target makes of an operation."""
    function = node.op in TRANSCENDENTAL or (node.op is Ops.MOD and node.dtype.is_float)
    return FUNCTION if function else ROUNDED if node.dtype.scalar().name in target.missing else 1


def is_data(node: UOp) -> bool:
    """Whether the node computes values rather than positions or conditions on them."""
    return node.dtype.scalar() is not dtypes.index and node.dtype.kind != "bool"
