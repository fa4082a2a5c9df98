"""Simplification of an index expression under the condition that guards it.

A conjunct such as `i - k + 4 < 12` bounds a sum of terms. The expression is rewritten with a fresh
variable that has those bounds in the sum's place, simplified, and the sum is put back. The result
is taken only where it is shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, KeysView
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.compare import as_upper_bound
from torpor.rules.cost import cost_of
from torpor.rules.linear import Terms, bounds, build, difference, linear, merge, order_of
from torpor.rules.logic import is_index_comparison, joined, operands_of

_Interval = tuple[int | float, int | float]
_PLACEHOLDER: Final = "$bounded"  # no identifier, so no user's variable has this name
_ROUNDS: Final = 4  # passes over a condition's parts; each pass that goes on made it shorter


def bounded_sums(parts: Iterable[UOp]) -> list[tuple[Terms, _Interval]]:
    """Sums of terms, without a constant, and between which numbers the conjuncts keep them."""
    found: dict[frozenset[tuple[UOp, int]], tuple[Terms, _Interval]] = {}
    for part in parts:
        if is_index_comparison(part):
            terms, limit = as_upper_bound(part)
            interval: _Interval = (-math.inf, limit - 1)
        elif part.op is Ops.CMPEQ and part.src[0].dtype is dtypes.index:
            terms, constant = difference(*part.src)
            interval = (-constant, -constant)
        else:
            continue
        if not terms:
            continue
        if terms[min(terms, key=order_of)] < 0:  # one direction for x < c and c < x
            terms = {term: -scale for term, scale in terms.items()}
            interval = (-interval[1], -interval[0])
        key = frozenset(terms.items())
        known = found.get(key, (terms, bounds(terms)))[1]
        found[key] = terms, (max(known[0], interval[0]), min(known[1], interval[1]))
    return list(found.values())


def bounds_under(terms: Terms, constant: int, conditions: Iterable[UOp]) -> _Interval:
    """Between which numbers a sum of terms lies wherever all of the conditions hold."""
    low, high = bounds({}, constant)
    parts = [part for condition in conditions for part in conjuncts(condition)]
    known = {frozenset(sums.items()): interval for sums, interval in bounded_sums(parts)}
    for term, scale in terms.items():
        ends = known.get(frozenset({(term, 1)}), bounds({term: 1}))
        low, high = low + min(e * scale for e in ends), high + max(e * scale for e in ends)
    return low, high


def _with_bounded(index: UOp, terms: Terms, interval: _Interval) -> UOp | None:
    """`index` simplified, given that `terms` lie in the interval; None if it cannot be used."""
    single = [term for term, scale in terms.items() if scale in (1, -1)]
    if not single or interval[0] > interval[1]:
        return None
    term = single[0]
    scale = terms[term]
    low, high = interval
    if low == high:
        stand_in = UOp.index_const(int(low))
    else:
        stand_in = UOp(Ops.VARIABLE, dtypes.index, (), (_PLACEHOLDER, low, high))
    others = {t: s for t, s in terms.items() if t is not term}
    # scale*term + others = stand_in, and 1/scale = scale
    more, constant = linear(stand_in, scale)
    replacement = build(merge(more, others, -scale), constant)
    loops = {one: one for one in index.ranges()}  # whose lengths are as they are
    narrowed = index.substitute({**loops, term: replacement}).simplify()
    return narrowed.substitute({stand_in: build(terms)} if low != high else {}).simplify()


def simplify_under(index: UOp, valid: UOp) -> UOp:
    """An expression that equals `index` wherever `valid` holds; elsewhere it may differ."""
    return _simplify_under(index.simplify(), operands_of(valid.simplify(), Ops.AND))


def _simplify_under(index: UOp, parts: list[UOp]) -> UOp:
    """The same for a simplified expression under a conjunction of simplified parts."""
    if index.op is Ops.CONST:
        return index
    below = index.toposort()
    for terms, interval in bounded_sums(parts):
        known = bounds(terms)
        if known[0] >= interval[0] and known[1] <= interval[1]:
            continue
        if not any(term in below for term in terms):
            continue
        narrowed = _with_bounded(index, terms, interval)
        if narrowed is not None and cost_of(narrowed) < cost_of(index):
            index, below = narrowed, narrowed.toposort()
    return index


def simplify_valid(valid: UOp) -> UOp:
    """An equal, usually shorter condition: each conjunct is simplified under the others."""
    valid = valid.simplify()
    for _ in range(_ROUNDS):
        parts = operands_of(valid, Ops.AND)
        if len(parts) < 2:
            return valid
        for position, part in enumerate(parts):
            others = [p for i, p in enumerate(parts) if i != position]
            parts[position] = _simplify_under(part, others)
        shorter = joined(Ops.AND, parts).simplify()
        if cost_of(shorter) >= cost_of(valid):
            return valid
        valid = shorter
    return valid


def conjuncts(condition: UOp) -> KeysView[UOp]:
    """The conditions whose conjunction this is, as a set in order of appearance."""
    return dict.fromkeys(operands_of(condition, Ops.AND)).keys()


def is_gated(value: UOp, condition: UOp) -> bool:
    """Whether the value is 0 where this condition does not hold: a load under it, and perhaps under
    more, a cast of one, or a product of nothing else.
    """
    if value.op is Ops.CAST or value.op is Ops.MUL:
        return all(is_gated(s, condition) for s in value.src)
    if value.op is not Ops.LOAD or len(value.src[0].src) < 3:
        return False
    return conjuncts(condition) <= conjuncts(value.src[0].src[2])
