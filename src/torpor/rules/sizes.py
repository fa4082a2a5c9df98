"""Sizes compared as polynomials: n*(n + 2) and n*n + n*2 are one size, however they are written."""

from __future__ import annotations

from torpor.ir.infer import Size, fold_size, size_node
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

# Factor of each product of nodes; a node that occurs twice in a product is there twice.
Polynomial = dict[tuple[UOp, ...], int]


def polynomial(size: UOp) -> Polynomial:
    """The sum of products that `size` multiplies out to; what is no +, - or * stays a node."""
    known: dict[UOp, Polynomial] = {}
    for node in size.toposort(lambda n: n.op in (Ops.ADD, Ops.SUB, Ops.MUL)):
        if node.op is Ops.CONST:
            known[node] = {(): int(node.arg)} if node.arg else {}
        elif node.op is Ops.ADD:
            known[node] = added(known[node.src[0]], known[node.src[1]])
        elif node.op is Ops.SUB:
            known[node] = added(known[node.src[0]], multiplied(known[node.src[1]], {(): -1}))
        elif node.op is Ops.MUL:
            known[node] = multiplied(known[node.src[0]], known[node.src[1]])
        else:
            known[node] = {(node,): 1}
    return known[size]


def added(left: Polynomial, right: Polynomial) -> Polynomial:
    """left + right."""
    total = dict(left)
    for product, factor in right.items():
        total[product] = total.get(product, 0) + factor
    return {product: factor for product, factor in total.items() if factor}


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    """left * right."""
    total: Polynomial = {}
    for one, factor in left.items():
        for other, more in right.items():
            product = tuple(sorted(one + other, key=id))
            total = added(total, {product: factor * more})
    return total


def same(left: Size, right: Size) -> bool:
    """Whether two sizes are provably equal."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return is_same(size_node(fold_size(left)), size_node(fold_size(right)))


def times(left: Size, right: Size) -> Size:
    """The product of two sizes or strides."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return fold_size(left * right if not isinstance(left, int) else right * left)


def plus(left: Size, right: Size) -> Size:
    """The sum of two sizes or offsets."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return fold_size(left + right if not isinstance(left, int) else right + left)


def is_same(left: UOp, right: UOp) -> bool:
    """Whether two simplified sizes multiply out to one polynomial."""
    return left is right or polynomial(left) == polynomial(right)


def is_never_less(left: UOp, right: UOp) -> bool:
    """Whether left >= right for all values, as far as the bounds of products tell."""
    return left.vmin >= right.vmax or least(polynomial(left - right)) >= 0


def least(sum_of_products: Polynomial) -> int:
    """A lower bound of a polynomial, from the bounds of each of its products."""
    total = 0
    for product, factor in sum_of_products.items():
        low = high = factor
        for node in product:
            ends = [a * b for a in (low, high) for b in (node.vmin, node.vmax)]
            low, high = min(ends), max(ends)
        total += low
    return total
