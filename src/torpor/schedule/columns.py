"""What the kernels of a chain make of a row where a condition on its columns fails.

    s[r, c] = where(c <= r, x, -inf); p[r, c] = exp(s[r, c] - m[r]); o[r, d] = sum(p[r, c]*v[c, d])

Where `c <= r` fails, s is -inf and p is 0, which adds nothing to o: nobody needs these elements of
s and p. That holds but for NaN and infinity (a licence, off under STRICT_FLOAT): of a row whose
maximum is -inf or NaN the elements outside would be NaN, as the others are, and 0 times what is not
finite would be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import ALU, AxisType, Ops, identity
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.rules import conjuncts
from torpor.rules.linear import linear
from torpor.schedule.chain import Chain, counts_blocks, length, parameter_of

FALSE: Final = UOp.const(dtypes.bool, False)
TRUE: Final = UOp.const(dtypes.bool, True)
ROW: Final = -1  # axis numbers of the ranges in which conditions of several kernels are compared
COLUMN: Final = -2


@dataclass
class Columns:
    """The columns of a chain's rows.

    width:  how many there are.
    values: buffers inside the chain whose rows are columns alone.
    ranges: for each item, its range that counts rows, and those that count columns.
    """

    chain: Chain
    width: int
    values: frozenset[UOp]
    ranges: list[tuple[UOp | None, frozenset[UOp]]] = field(default_factory=list)


def columns_of(chain: Chain) -> Columns | None:
    """The columns of the widest rows inside; None where some kernel reads these otherwise."""
    width = max((chain.rows[b].stride for b in chain.inside), default=0)
    values = frozenset(b for b in chain.inside if chain.rows[b].stride == width)
    found = Columns(chain, width, values)
    for item, cut in zip(chain.items, chain.cut, strict=True):
        places = [n for n in item.ast.toposort() if n.op is Ops.INDEX]
        places = [n for n in places if item.buffers[parameter_of(n)] in values]
        columns = {column_at(n, cut, width) for n in places}
        if None in columns or (columns and len(cut) != 1):
            return None
        row = next(iter(cut)) if columns else None
        found.ranges.append((row, frozenset(c for c in columns if c is not None)))
    return found if width else None


def column_at(place: UOp, cut: frozenset[UOp], width: int) -> UOp | None:
    """The range that counts columns at an INDEX of row * width + column."""
    terms, constant = linear(place.src[1])
    rest = [term for term, scale in terms.items() if not (term in cut and scale == width)]
    if constant or len(rest) != 1 or len(terms) != 2 or len(place.src) > 2:
        return None
    one = rest[0]
    fits = one.op is Ops.RANGE and terms[one] == 1 and length(one) == width
    return one if fits else None


# --- conditions on rows and columns ---------------------------------------------------------------
def conditions(columns: Columns) -> dict[UOp, None]:
    """Every condition of a WHERE on a row and a column alone, and its opposite, in terms of common
    ranges.
    """
    found: dict[UOp, None] = {}
    for item, (row, own) in zip(columns.chain.items, columns.ranges, strict=True):
        for condition in chosen_by(item):
            for column in own:
                common = in_common(condition, row, column)
                if common is not None:
                    found[common] = found[(~common).simplify()] = None
    return found


def chosen_by(item: ScheduleItem) -> Iterator[UOp]:
    """The conditions by which an item's WHEREs choose."""
    for node in item.ast.toposort():
        if node.op is Ops.WHERE:
            yield from conjuncts(node.src[0])


def in_common(condition: UOp, row: UOp | None, column: UOp) -> UOp | None:
    """A condition on a row and a column, in ranges of its own; None where it is on other things."""
    ranges = {n for n in condition.toposort() if n.op is Ops.RANGE}
    leaves = (n for n in condition.toposort() if not n.src and n.op is not Ops.CONST)
    plain = all(n.op is Ops.VARIABLE and counts_blocks(n) for n in leaves)
    if row is None or column not in ranges or not ranges <= {row, column} or not plain:
        return None
    common = {row: common_range(row, ROW), column: common_range(column, COLUMN)}
    return condition.substitute(common).simplify()


def common_range(one: UOp, number: int) -> UOp:
    return UOp.range(length(one), number, AxisType.GLOBAL)


# --- what a condition makes constant --------------------------------------------------------------
def needless(columns: Columns, condition: UOp) -> bool:
    """Whether nobody needs anything of the columns where the condition fails."""
    known: dict[UOp, UOp] = {}
    every = zip(columns.chain.items, columns.ranges, strict=True)
    return all(Outside(columns, item, *own, condition, known).needless() for item, own in every)


@dataclass
class Outside:
    """An item where the condition fails, given what is `known` of earlier values there."""

    columns: Columns
    item: ScheduleItem
    row: UOp | None
    own: frozenset[UOp]
    condition: UOp
    known: dict[UOp, UOp]

    def needless(self) -> bool:
        """Whether the item's sums and results do without the columns; notes what its values are."""
        if not self.own:
            return True
        done: dict[UOp, UOp] = {}
        for node in self.item.ast.toposort():
            done[node] = made = self.value(node, tuple(done[s] for s in node.src))
            if node.op is Ops.REDUCE:
                neutral = UOp.const(node.dtype, identity(node.arg, node.dtype))
                if done[node.src[0]] is neutral:
                    done[node] = neutral
                if self.own.intersection(node.src):
                    if done[node] is not neutral:
                        return False
                    done[node] = node  # a number of the row, whatever it is
            elif node.op is Ops.STORE and not self.stored(node, made.src[1]):
                return False
        return True

    def value(self, node: UOp, source: tuple[UOp, ...]) -> UOp:
        """A node outside, of its operands outside."""
        if node.op is Ops.LOAD and node.src[0].op is Ops.INDEX:
            buffer = self.item.buffers[parameter_of(node.src[0])]
            return self.known.get(buffer, node)
        if node.dtype is dtypes.bool and (holds := self.holds(node)) is not None:
            return holds
        if node.op in ALU and node.dtype is not dtypes.index:
            return folded(node.replace(src=source))
        if node.op in (Ops.RANGE, Ops.INDEX) or node.dtype is dtypes.index:
            return node
        return node.replace(src=source)

    def holds(self, node: UOp) -> UOp | None:
        """Whether a node holds that is the condition or its opposite; None where it is neither."""
        for column in self.own:
            common = in_common(node, self.row, column)
            if common is not None and common is self.condition:
                return FALSE
            if common is not None and (~common).simplify() is self.condition:
                return TRUE
        return None

    def stored(self, store: UOp, value: UOp) -> bool:
        """Whether a STORE may leave the columns out, of which it may hold a constant."""
        buffer = self.item.buffers[parameter_of(store.src[0])]
        if self.own.isdisjoint(store.src[2:]):
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
            return grown_by_nothing(node.src[source.index(0) ^ 1])
    return node.simplify() if None not in source else node


def grown_by_nothing(value: UOp) -> UOp:
    """What a sum that grows over the blocks held before: at first it is 0."""
    starts = value.op is Ops.WHERE and value.src[0].op is Ops.CMPEQ
    if starts and counts_blocks(value.src[0].src[0]) and value.src[1].op is Ops.CONST:
        return value.src[2]
    return value
