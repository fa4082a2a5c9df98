"""Bool logic. Every rule holds for all values of its operands."""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import bool_rule
from torpor.rules.compare import as_upper_bound, below, truth

_Facts = tuple[tuple[UOp, int], ...]


def operands_of(node: UOp, op: Ops) -> list[UOp]:
    """The operands of a nest of `op`, in order, each once."""
    found: dict[UOp, None] = {}
    stack = [node]
    while stack:
        part = stack.pop()
        if part.op is op and part.dtype is dtypes.bool:
            stack.extend(reversed(part.src))
        else:
            found[part] = None
    return list(found)


def joined(op: Ops, parts: list[UOp]) -> UOp:
    """The parts under `op`, grouped from the left; its neutral element if there is none."""
    if not parts:
        return truth(op is Ops.AND)
    total = parts[0]
    for part in parts[1:]:
        total = UOp(op, dtypes.bool, (total, part))
    return total


def negation(node: UOp) -> UOp:
    """The node `not node`, folded where it is a constant or a negation itself."""
    if node.op is Ops.CONST:
        return truth(not node.arg)
    if node.op is Ops.XOR and node.src[1].op is Ops.CONST and node.src[1].arg:
        return node.src[0]
    opposite = not_comparison(UOp(Ops.XOR, dtypes.bool, (node, truth(True))))
    return UOp(Ops.XOR, dtypes.bool, (node, truth(True))) if opposite is None else opposite


def is_index_comparison(node: UOp) -> bool:
    """Whether the node is `a < b` on index arithmetic."""
    return node.op is Ops.CMPLT and node.src[0].dtype is dtypes.index


def _facts(part: UOp) -> tuple[_Facts, int, int] | None:
    """Direction, sign and limit of an inequality: `sign * direction < limit`."""
    if not is_index_comparison(part):
        return None
    terms, limit = as_upper_bound(part)
    if not terms:
        return None
    items = tuple(sorted(terms.items(), key=_identity))
    if items[0][1] > 0:
        return items, 1, limit
    return tuple((term, -scale) for term, scale in items), -1, limit


def _identity(item: tuple[UOp, int]) -> int:
    return id(item[0])


@bool_rule
def fold_constant(node: UOp) -> UOp | None:
    """`x and true -> x`, x and false -> false, x or false -> x, x or true -> true."""
    for value, other in (node.src, node.src[::-1]):
        if other.op is Ops.CONST:
            neutral = node.op is Ops.AND
            return value if bool(other.arg) is neutral else other
    return None


@bool_rule
def drop_repeated(node: UOp) -> UOp | None:
    """`x and y and x -> x and y`; likewise or."""
    return joined(node.op, operands_of(node, node.op))


@bool_rule
def drop_complement(node: UOp) -> UOp | None:
    """`x and not x -> false`, x or not x -> true."""
    parts = operands_of(node, node.op)
    present = set(parts)
    if any(negation(part) in present for part in parts):
        return truth(node.op is Ops.OR)
    return None


@bool_rule
def join_inequalities(node: UOp) -> UOp | None:
    """`x < c and x < d -> x < min(c, d)`; c < x and x < d -> false where d <= c + 1. Likewise `or`.

    Of each direction and sign the tightest is left under `and`, the widest under `or`. Of
    sign*x < a and -sign*x < b no integer is left where a + b <= 1, and none is left out where
    a + b >= 1.
    """
    tight, parts = node.op is Ops.AND, operands_of(node, node.op)
    best: dict[tuple[_Facts, int], tuple[int, UOp]] = {}
    for part in parts:
        fact = _facts(part)
        if fact is None:
            continue
        direction, sign, limit = fact
        known = best.get((direction, sign))
        if known is None or (limit < known[0] if tight else limit > known[0]):
            best[direction, sign] = limit, part
        other = best.get((direction, -sign))
        if other is not None and (limit + other[0] <= 1 if tight else limit + other[0] >= 1):
            return truth(not tight)
    kept = {part for _, part in best.values()}
    return joined(node.op, [p for p in parts if p in kept or _facts(p) is None])


@bool_rule
def not_constant(node: UOp) -> UOp | None:
    """`x xor false -> x`, not true -> false; the constant last."""
    left, right = node.src
    if left.op is Ops.CONST:
        both = right.op is Ops.CONST
        return truth(left.arg != right.arg) if both else UOp(Ops.XOR, dtypes.bool, (right, left))
    return left if right.op is Ops.CONST and not right.arg else None


@bool_rule
def not_not(node: UOp) -> UOp | None:
    """`not (not x) -> x`."""
    inner, right = node.src
    if right.op is not Ops.CONST or not right.arg or inner.op is not Ops.XOR:
        return None
    return inner.src[0] if inner.src[1] is right else None


@bool_rule
def xor_same(node: UOp) -> UOp | None:
    """`x xor x -> false`."""
    return truth(False) if node.src[0] is node.src[1] else None


@bool_rule
def not_comparison(node: UOp) -> UOp | None:
    """`not (a < b) -> b < a + 1` on index; on all, not (a == b) -> a != b and back."""
    inner, right = node.src
    if right.op is not Ops.CONST or not right.arg:
        return None
    if inner.op is Ops.CMPEQ:
        return inner.replace(op=Ops.CMPNE)
    if inner.op is Ops.CMPNE:
        return inner.replace(op=Ops.CMPEQ)
    if not is_index_comparison(inner):
        return None
    terms, limit = as_upper_bound(inner)
    if not terms:
        return None
    return below({term: -scale for term, scale in terms.items()}, 1 - limit)
