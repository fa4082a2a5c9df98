"""Dead tiles: what the kernels of a group make of a row where a condition on its columns fails.

    s[r, c] = where(c <= r, x, -inf); p[r, c] = exp(s[r, c] - m[r]); o[r, d] = sum(p[r, c]*v[c, d])

Where `c <= r` fails, s is -inf and p is 0, which adds nothing to o: nobody needs these elements of
s and p. That holds but for NaN and infinity (a licence, off under STRICT_FLOAT): of a row whose
maximum is -inf or NaN the elements outside would be NaN, as the others are, and 0 times what is not
finite would be NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType, Ops, identity
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules import conjuncts
from torpor.rules.affine import size_of
from torpor.rules.linear import linear
from torpor.schedule.reduction_fission import parameter_of
from torpor.schedule.tile_groups import FusionGroup, counts_blocks

FALSE: Final = UOp.const(dtypes.bool, False)
TRUE: Final = UOp.const(dtypes.bool, True)
# Ranges in which conditions of several kernels are compared, whatever their lengths.
ROW: Final = UOp.range(1 << 30, -1, AxisType.GLOBAL)
COLUMN: Final = UOp.range(1 << 30, -2, AxisType.GLOBAL)
Kernel = tuple[ScheduleItem, frozenset[UOp], frozenset[UOp]]  # with ranges of rows and of columns


@dataclass
class Columns:
    """The columns of a group's rows.

    width:   how many there are.
    values:  buffers inside the group whose rows are columns alone.
    kernels: with their ranges that count rows, and those that count columns.
    """

    width: int
    values: frozenset[UOp]
    kernels: list[Kernel] = field(default_factory=list)


def columns_of(group: FusionGroup) -> Columns | None:
    """The columns of the widest rows inside; None where some kernel reads these otherwise, and
    without the licence to do so by tiles.
    """
    if settings.number("STRICT_FLOAT"):
        return None
    width = max((group.rows[b].stride for b in group.inside), default=0)
    values = frozenset(b for b in group.inside if group.rows[b].stride == width)
    found = Columns(width, values)
    for item, cut in zip(group.items, group.cut, strict=True):
        places = [n for n in item.ast.toposort() if n.op is Ops.INDEX]
        places = [n for n in places if item.buffers[parameter_of(n)] in values]
        columns = {column_at(n, cut, width) for n in places}
        if None in columns or (columns and len(cut) != 1):
            return None
        found.kernels.append((item, cut, frozenset(c for c in columns if c is not None)))
    return found if width else None


def column_at(place: UOp, cut: frozenset[UOp], width: int) -> UOp | None:
    """The range that counts columns at an INDEX of row * width + column."""
    terms, constant = linear(place.src[1])
    rest = [term for term, scale in terms.items() if not (term in cut and scale == width)]
    if constant or len(rest) != 1 or len(terms) != 2 or len(place.src) > 2:
        return None
    one = rest[0]
    fits = one.op is Ops.RANGE and terms[one] == 1 and size_of(one) == width
    return one if fits else None


# --- conditions on rows and columns ---------------------------------------------------------------
def conditions(columns: Columns) -> dict[UOp, None]:
    """Every condition of a WHERE on a row and a column alone, and its opposite, in terms of common
    ranges.
    """
    found: dict[UOp, None] = {}
    for kernel in columns.kernels:
        for node in kernel[0].ast.toposort() if kernel[2] else ():
            for condition in conjuncts(node.src[0]) if node.op is Ops.WHERE else ():
                common = in_common(condition, kernel)
                if common is not None:
                    found[common] = found[(~common).simplify()] = None
    return found


def in_common(condition: UOp, kernel: Kernel) -> UOp | None:
    """A condition on a row and a column, in ranges of its own; None where it is on other things."""
    _, rows, own = kernel
    leaves = [n for n in condition.toposort() if not n.src and n.op is not Ops.CONST]
    ranges = [n for n in condition.toposort() if n.op is Ops.RANGE]
    plain = all(counts_blocks(n) for n in leaves)
    if not plain or len(own.intersection(ranges)) != 1 or not rows | own >= {*ranges}:
        return None
    common = {one: (ROW if one in rows else COLUMN).replace(src=one.src) for one in ranges}
    return condition.substitute(common).simplify()


# --- what a condition makes constant --------------------------------------------------------------
def needless(columns: Columns, condition: UOp) -> bool:
    """Whether nobody needs anything of the columns where the condition fails."""
    known: dict[UOp, UOp] = {}
    return all(Outside(columns, one, condition, known).needless() for one in columns.kernels)


@dataclass
class Outside:
    """A kernel where the condition fails, given what is `known` of earlier values there."""

    columns: Columns
    kernel: Kernel
    condition: UOp
    known: dict[UOp, UOp]

    def needless(self) -> bool:
        """Whether sums and results do without the columns; notes what values inside are."""
        item, _, own = self.kernel
        done: dict[UOp, UOp] = {}
        for node in item.ast.toposort() if own else ():
            done[node] = made = self.value(node, tuple([done[s] for s in node.src]))
            if node.op is Ops.REDUCE:
                neutral = UOp.const(node.dtype, identity(node.arg, node.dtype))
                if done[node.src[0]] is neutral:
                    done[node] = neutral
                if own.intersection(node.src):
                    if done[node] is not neutral:
                        return False
                    done[node] = node  # a number of the row, whatever it is
            elif node.op is Ops.STORE and not self.stored(node, made.src[1]):
                return False
        return True

    def value(self, node: UOp, source: tuple[UOp, ...]) -> UOp:
        """A node outside, of its operands outside."""
        if node.op is Ops.LOAD and node.src[0].op is Ops.INDEX:
            return self.known.get(self.kernel[0].buffers[parameter_of(node.src[0])], node)
        if node.dtype is dtypes.bool:
            common = in_common(node, self.kernel)
            if common is not None and common is self.condition:
                return FALSE
            if common is not None and (~common).simplify() is self.condition:
                return TRUE
        if node.op in ALU and node.dtype is not dtypes.index:
            return folded(node.replace(src=source))
        if node.op in (Ops.RANGE, Ops.INDEX) or node.dtype is dtypes.index:
            return node
        return node.replace(src=source)

    def stored(self, store: UOp, value: UOp) -> bool:
        """Whether a STORE may leave the columns out, of which it may hold a constant."""
        buffer = self.kernel[0].buffers[parameter_of(store.src[0])]
        if self.kernel[2].isdisjoint(store.src[2:]):
            return True
        if buffer not in self.columns.values:  # it grows by nothing
            return value.op is Ops.LOAD and value.src[0] is store.src[0]
        if value.op is Ops.CONST:
            self.known[buffer] = value
        return True


def folded(node: UOp) -> UOp:
    """A value that has one, by rules on floats that ignore NaN and infinity."""
    source = [s.arg if s.op is Ops.CONST else None for s in node.src]
    if node.op is Ops.WHERE and source[0] is not None:
        return node.src[1] if source[0] else node.src[2]
    if node.op is Ops.WHERE and node.src[1] is node.src[2]:
        return node.src[1]
    if node.op is Ops.AND and False in source:
        return FALSE
    if node.dtype.is_float:
        if node.op is Ops.MUL and 0 in source:
            return UOp.const(node.dtype, 0)
        if node.op is Ops.FDIV and source[0] == 0:
            return UOp.const(node.dtype, 0)
        if node.op in (Ops.ADD, Ops.SUB) and source[0] == -math.inf:
            return node.src[0]
        if node.op in (Ops.EXP, Ops.EXP2) and source[0] == -math.inf:
            return UOp.const(node.dtype, 0)
        if node.op is Ops.ADD and 0 in source:
            return node.src[source.index(0) ^ 1]
    return node.simplify() if None not in source else node
