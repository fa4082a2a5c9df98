"""Linear forms: an index expression as a sum of terms with integer coefficients, and back.

`a*4 + (b - a)*2 + 7` is the form `{a: 2, b: 2}` with the constant 7, and is written `(a+b)*2 + 7`.
Writing out is canonical (equal forms give one node) and never costs more than what was read:
terms whose coefficients have one absolute value share a multiplication, so there are at most as
many multiplications as the expression had. Cost is the number of operators in the written text, and
`a + b*-1` is the subtraction that it stands for.
"""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.affine import Terms as Terms
from torpor.rules.affine import affine

Linear = tuple[Terms, int]

_Order = tuple[int, int, str, bytes]
MINUS_ONE: Final = UOp.index_const(-1)


def linear(root: UOp, factor: int = 1) -> Linear:
    """The terms of `factor * root` by coefficient, in order of appearance, and the constant."""
    found = affine(root)
    if factor == 1:
        return found.terms, found.constant
    return {term: factor * scale for term, scale in found.terms.items()}, factor * found.constant


def difference(left: UOp, right: UOp) -> Linear:
    """The linear form of `left - right`."""
    terms, constant = linear(left)
    taken, offset = linear(right, -1)
    return merge(terms, taken), constant + offset


def merge(terms: Terms, others: Terms, factor: int = 1) -> Terms:
    """The terms of `terms + factor * others`."""
    result = dict(terms)
    for term, scale in others.items():
        result[term] = result.get(term, 0) + factor * scale
    return {term: scale for term, scale in result.items() if scale}


def divided(terms: Terms, factor: int) -> tuple[Terms, Terms]:
    """(whole, rest) with `terms = whole*factor + rest`, term by term."""
    whole: Terms = {}
    rest: Terms = {}
    for term, scale in terms.items():
        if scale % factor:
            rest[term] = scale
        else:
            whole[term] = scale // factor
    return whole, rest


def bounds(terms: Terms, constant: int = 0) -> tuple[int | float, int | float]:
    """The least and the greatest value that the form can have, terms taken as independent."""
    low: int | float = constant
    high: int | float = constant
    for term, scale in terms.items():
        if scale > 0:
            low += scale * term.vmin
            high += scale * term.vmax
        else:
            low += scale * term.vmax
            high += scale * term.vmin
    return low, high


def order_of(node: UOp) -> _Order:
    """Where a term stands among others of one coefficient: ranges, variables, then the rest."""
    op = node.op
    if op is Ops.RANGE:
        bound = node.src[0]
        return 0, node.arg[0], node.arg[1].name, b"" if bound.op is Ops.CONST else bound.key
    if op is Ops.SPECIAL:
        return 0, -1, node.arg, b""
    if op is Ops.VARIABLE:
        return 1, 0, node.arg[0], b""
    return 2, op.value, "", node.key


def _size_then_order(item: tuple[UOp, int]) -> tuple[int, _Order]:
    return -abs(item[1]), order_of(item[0])


def scaled(node: UOp, factor: int) -> UOp:
    """`node * factor`, without a multiplication by one."""
    if factor == 1:
        return node
    right = MINUS_ONE if factor == -1 else UOp.index_const(factor)
    return UOp(Ops.MUL, dtypes.index, (node, right))


def _chain(nodes: list[UOp]) -> UOp:
    total = nodes[0]
    for node in nodes[1:]:
        total = UOp(Ops.ADD, dtypes.index, (total, node))
    return total


def build(terms: Terms, constant: int = 0) -> UOp:
    """The canonical node of a form: greatest coefficient first, the constant last."""
    if not terms:
        return UOp.index_const(constant)
    items = list(terms.items())
    if len(items) > 1:
        items.sort(key=_size_then_order)
    parts: list[UOp] = []
    start = 0
    while start < len(items):
        term, scale = items[start]
        stop = start + 1
        if scale not in (1, -1):
            while stop < len(items) and abs(items[stop][1]) == abs(scale):
                stop += 1
        if stop - start > 1:
            term = _chain([scaled(t, 1 if s == scale else -1) for t, s in items[start:stop]])
        parts.append(scaled(term, scale))
        start = stop
    if constant:
        parts.append(UOp.index_const(constant))
    return _chain(parts)


def term_by_term(terms: Terms, constant: int = 0) -> UOp:
    """The node of a form whose terms each have a multiplication of their own: those that do not
    change in a loop can stand before it.
    """
    parts = [scaled(term, scale) for term, scale in terms.items()]
    if constant or not parts:
        parts.append(UOp.index_const(constant))
    return _chain(parts)
