"""Gradients of functions that have a rule of their own: FUNCTION nodes.

The value of a function may be computed in a way whose derivative is no good: exact near 0 but with
0 / 0 in it, or with a bound at which the function's own slope is another one. Each rule takes the
FUNCTION node and the gradient g of it, and gives the gradient of each operand behind the value; r
is the node's own result. Slopes at ties, bounds and zeros are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from torpor.base.dtypes import dtypes, from_name
from torpor.graph.elementwise import cast, elementwise
from torpor.graph.gradient_elementwise import Gradients, like, no_gradient, scaled
from torpor.graph.gradient_indexed import numbered, positions
from torpor.graph.indexed import gather
from torpor.graph.movement import expand, reshape
from torpor.graph.polyphase import WINDOWS, windows_gradient
from torpor.graph.reduce import contiguous, reduce
from torpor.graph.scan import scan
from torpor.ir.infer import product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

BESIDE_ALL: Final = dtypes.int32.max  # no place in a window


def choice(condition: UOp, yes: UOp, no: UOp) -> UOp:
    """`yes` where the condition holds, else `no`."""
    return elementwise(Ops.WHERE, condition, yes, no)


def negated(condition: UOp) -> UOp:
    """Whether it does not hold."""
    return elementwise(Ops.XOR, condition, like(condition, True))


def either(one: UOp, other: UOp) -> UOp:
    """Whether one of two conditions holds."""
    return elementwise(Ops.OR, one, other)


def both(one: UOp, other: UOp) -> UOp:
    """Whether both conditions hold."""
    return elementwise(Ops.AND, one, other)


def less(left: UOp, right: UOp) -> UOp:
    """Whether the left one is less."""
    return elementwise(Ops.CMPLT, left, right)


def equal(left: UOp, right: UOp) -> UOp:
    """Whether both are equal: NaN is not."""
    return elementwise(Ops.CMPEQ, left, right)


def is_nan(x: UOp) -> UOp:
    """Whether it is NaN."""
    return elementwise(Ops.CMPNE, x, x)


def times(left: UOp, right: UOp) -> UOp:
    """The product."""
    return elementwise(Ops.MUL, left, right)


def logistic(x: UOp) -> UOp:
    """1 / (1 + exp(-x)), without overflow, as its derivatives."""
    negative = less(x, like(x, 0))
    decayed = elementwise(Ops.EXP, choice(negative, x, scaled(x, -1)))
    one = like(x, 1)
    return elementwise(Ops.FDIV, choice(negative, decayed, one), elementwise(Ops.ADD, decayed, one))


# --- elements -------------------------------------------------------------------------------------
def same_gradient(node: UOp, g: UOp) -> Gradients:
    """d same(x) = dx."""
    return (g,)


def rounded_gradient(node: UOp, g: UOp) -> Gradients:
    """d same(x) = dx, rounded to the format that the rule names: sums of products of numbers in it
    are then what the gradient of such a sum takes, too.
    """
    return (cast(cast(g, from_name(node.arg[1])), g.dtype),)


def steps_gradient(node: UOp, g: UOp) -> Gradients:
    """d step(x, y, ...) = 0."""
    return tuple(like(x, 0) for x in node.src[1:])


def slopes_gradient(node: UOp, g: UOp) -> Gradients:
    """d f(x, ...) = s dx + ..., the operands being x, s, ...: a slope is a graph of its own. The
    last ones, as many as the rule says, have no slope.
    """
    end = len(node.src) - (node.arg[1] if len(node.arg) > 1 else 0)
    slopes = (times(g, s) for s in node.src[2:end:2])
    found = (part for slope in slopes for part in (slope, None))
    return (*found, *(like(x, 0) for x in node.src[end:]))


def within_gradient(node: UOp, g: UOp) -> Gradients:
    """d bounded(x) = dx unless r is one of the bounds, the other operands."""
    outside, *others = (equal(node, bound) for bound in node.src[2:])
    for other in others:
        outside = either(outside, other)
    return choice(outside, like(g, 0), g), *no_gradient(node, g)[2:]


def between_gradient(node: UOp, g: UOp) -> Gradients:
    """d bounded(x) = dx where r is between the bounds, the other operands; nothing at NaN."""
    _, _, low, high = node.src
    return choice(both(less(low, node), less(node, high)), g, like(g, 0)), None, None


def hardswish_gradient(node: UOp, g: UOp) -> Gradients:
    """d hardswish(x) = (x / 3 + 1/2) dx below 3, 0 up to -3, dx elsewhere (and at NaN)."""
    x = node.src[1]
    line = elementwise(Ops.ADD, scaled(x, 1 / 3), like(x, 0.5))
    slope = choice(less(x, like(x, 3)), line, like(x, 1))
    outside = either(less(x, like(x, -3)), equal(x, like(x, -3)))
    return (choice(outside, like(g, 0), times(g, slope)),)


def clamp_gradient(node: UOp, g: UOp) -> Gradients:
    """d clamp(x, a, b) = dx where r = x, da where x < a, db where x > b; db where b < a.

    The rule's word says which bounds there are. At a bound all flows to x, at NaN nothing does.
    """
    x, *bounds = node.src[1:]
    zero, inside = like(g, 0), equal(node, x)
    if len(bounds) == 1:
        (bound,) = bounds
        outside = less(x, bound) if node.arg[1] == "min" else less(bound, x)
        return choice(inside, g, zero), choice(outside, g, zero)
    low, high = bounds
    in_order, crossed = less(low, high), less(high, low)
    return (
        choice(both(inside, negated(crossed)), g, zero),
        choice(both(in_order, less(x, low)), g, zero),
        choice(either(crossed, less(high, x)), g, zero),
    )


def sinh_gradient(node: UOp, g: UOp) -> Gradients:
    """d sinh(x) = cosh(x) dx: e (e / 2) + (1 / e) / (2 e) with e = exp(x / 2), which does not
    overflow before the result does.
    """
    e = elementwise(Ops.EXP, scaled(node.src[1], 0.5))
    half = like(e, 0.5)
    inverse = elementwise(Ops.FDIV, like(e, 1), e)
    grown, decayed = times(e, times(e, half)), times(inverse, times(inverse, half))
    return (times(g, elementwise(Ops.ADD, grown, decayed)),)


def elu_gradient(node: UOp, g: UOp) -> Gradients:
    """d elu(x) = dx above 0 (and at NaN), s exp(c x) dx below and at 0."""
    _, x, slope, inner = node.src
    zero = like(x, 0)
    negative = less(x, zero)
    # no exponential of what is above: it may be infinite, and its own gradient NaN
    decayed = elementwise(Ops.EXP, times(choice(negative, x, zero), inner))
    below = either(negative, equal(x, zero))
    return times(g, choice(below, times(decayed, slope), like(x, 1))), None, None


def softplus_gradient(node: UOp, g: UOp) -> Gradients:
    """d softplus(x) = logistic(b x) dx; dx where b x is above the threshold."""
    _, x, beta, threshold = node.src
    inner = times(x, beta)
    above = less(threshold, inner)
    bounded = choice(either(above, equal(inner, threshold)), threshold, inner)
    return choice(above, g, times(g, logistic(bounded))), None, None


def root_gradient(node: UOp, g: UOp) -> Gradients:
    """d sqrt(x) = dx / (2 r), 0 where r is."""
    zero = equal(node, like(node, 0))
    twice = scaled(choice(zero, like(node, 1), node), 2)
    return (choice(zero, like(g, 0), elementwise(Ops.FDIV, g, twice)),)


def power_gradient(node: UOp, g: UOp) -> Gradients:
    """d x^p = p x^(p-1) dx, 0 dx where x is 0; p is the rule's."""
    x, (exponent,) = node.src[1], node.arg[1:]
    zero = equal(x, like(x, 0))
    lower = elementwise(Ops.POW, choice(zero, like(x, 1), x), like(x, exponent - 1))
    return (scaled(times(g, choice(zero, like(g, 0), lower)), exponent),)


def hypot_gradient(node: UOp, g: UOp) -> Gradients:
    """d hypot(x, y) = x / r dx + y / r dy."""
    return tuple(times(g, elementwise(Ops.FDIV, part, node)) for part in node.src[1:])


def erfinv_gradient(node: UOp, g: UOp) -> Gradients:
    """d erfinv(x) = sqrt(pi) / 2 exp(r²) dx."""
    return (scaled(times(g, elementwise(Ops.EXP, times(node, node))), math.sqrt(math.pi) / 2),)


def log_add_gradient(node: UOp, g: UOp) -> Gradients:
    """d log(exp(x) + exp(y)) = dx / (1 + exp(y - x)) + dy / (1 + exp(x - y)): infinity beside a
    number has all of it.
    """
    _, x, y = node.src
    return tuple(times(g, logistic(elementwise(Ops.SUB, *pair))) for pair in ((x, y), (y, x)))


def log_join_gradient(node: UOp, g: UOp) -> Gradients:
    """As `log_add`, but 0 where both are minus infinity: a sum that they are part of has no slope
    there.
    """
    nothing = equal(node, like(node, -math.inf))
    _, x, y = node.src
    parts = (logistic(elementwise(Ops.SUB, *pair)) for pair in ((x, y), (y, x)))
    return tuple(times(g, choice(nothing, like(g, 0), part)) for part in parts)


# --- reductions -----------------------------------------------------------------------------------
def kept(node: UOp, axes: tuple[int, ...], x: UOp) -> UOp:
    """A reduction of x, whose axes may be gone, in the shape of x."""
    shape = shape_of(x)
    return expand(reshape(node, [1 if a in axes else s for a, s in enumerate(shape)]), shape)


def hits(node: UOp, axes: tuple[int, ...], x: UOp) -> UOp:
    """Where x is the extreme element of its axes; where it is NaN, if that is NaN."""
    return either(equal(x, kept(node, axes, x)), is_nan(x))


def variance_gradient(node: UOp, g: UOp) -> Gradients:
    """d sum((x - m)^2) / n = 2 / n (x - m) dx; what flows through the mean m adds up to 0."""
    _, x, mean, count = node.src
    twice = kept(elementwise(Ops.FDIV, scaled(g, 2), count), node.arg[1:], x)
    return times(twice, elementwise(Ops.SUB, x, mean)), None, None


def evenly_gradient(node: UOp, g: UOp) -> Gradients:
    """d extreme(x): g where x = r or is NaN, in equal parts where several are."""
    x, axes = node.src[1], node.arg[1:]
    found = hits(node, axes, x)
    wide = dtypes.float32 if x.dtype.bits < 32 else x.dtype  # half formats cannot count far
    count = cast(reduce(cast(found, wide), Ops.ADD, axes, keepdims=True), x.dtype)
    part = elementwise(Ops.FDIV, kept(g, axes, x), expand(count, shape_of(x)))
    return (choice(found, part, like(x, 0)),)


def first_gradient(node: UOp, g: UOp) -> Gradients:
    """d extreme(x) along an axis: g for the first of equal elements, or the first NaN."""
    (x,), (axis,) = node.src[1:], node.arg[1:]
    places = numbered(shape_of(x), axis, dtypes.int32)
    numbers = choice(hits(node, (axis,), x), places, like(places, BESIDE_ALL))
    return (_for_one(g, x, (axis,), places, numbers),)


def pool_gradient(node: UOp, g: UOp) -> Gradients:
    """d greatest(x) over the last axes, windows: g for the first of equal elements, but the last
    NaN. The second operand, if there is one, says which elements are no padding.
    """
    x, *inside = node.src[1:]
    shape, count = shape_of(x), node.arg[1]
    lead, window = shape[:-count], shape[-count:]
    axes = tuple(range(len(lead), len(shape)))
    windows = x.src[0] if x.op is Ops.FUNCTION else x
    r = contiguous(node) if windows.op is Ops.SHEAR else node  # they overlap: r is needed often
    nan, one = is_nan(r), like(cast(r, dtypes.int32), 1)
    length = product(window)
    assert isinstance(length, int), "windows have known lengths"
    places = positions(length, dtypes.int32)
    places = expand(reshape(places, (*(1,) * len(lead), *window)), shape)
    order = times(places, kept(choice(nan, scaled(one, -1), one), axes, x))
    beside = both(negated(equal(x, kept(r, axes, x))), equal(x, x))
    for mask in inside:
        beside = either(beside, negated(mask))
    numbers = choice(beside, like(order, BESIDE_ALL), order)
    return _for_one(g, x, axes, places, numbers), *(None for _ in inside)


def _for_one(g: UOp, x: UOp, axes: tuple[int, ...], places: UOp, numbers: UOp) -> UOp:
    """g for the element of the axes that has the least number, its place or minus that; 0 for all
    others.
    """
    least = reduce(numbers, Ops.MIN, axes, keepdims=True)
    place = elementwise(Ops.MAX, least, scaled(least, -1))
    return choice(equal(places, expand(place, shape_of(x))), kept(g, axes, x), like(x, 0))


def taken_gradient(node: UOp, g: UOp) -> Gradients:
    """d of what enters a branch: g if it is taken, else 0, whatever g is."""
    condition = node.src[2]
    return choice(
        expand(reshape(condition, (1,) * len(shape_of(g))), shape_of(g)), g, like(g, 0)
    ), None


def masked_gradient(node: UOp, g: UOp) -> Gradients:
    """d x[m] = g, in order, where the mask m holds, 0 elsewhere."""
    _, x, mask = node.src
    shape = shape_of(x)
    if shape_of(g) == (0,):
        return like(x, 0), None
    flat = reshape(mask, (product(shape),))
    ordinal = scan(cast(flat, dtypes.int64), Ops.ADD, 0)
    place = choice(flat, elementwise(Ops.SUB, ordinal, like(ordinal, 1)), like(ordinal, 0))
    return choice(mask, reshape(gather(g, place, 0), shape), like(x, 0)), None


FUNCTIONS: Final[dict[str, Callable[[UOp, UOp], Gradients]]] = {
    "masked": masked_gradient,
    "same": same_gradient,
    "rounded": rounded_gradient,
    "slopes": slopes_gradient,
    "step": steps_gradient,
    "within": within_gradient,
    "between": between_gradient,
    "hardswish": hardswish_gradient,
    "clamp": clamp_gradient,
    "sinh": sinh_gradient,
    "elu": elu_gradient,
    "softplus": softplus_gradient,
    "root": root_gradient,
    "power": power_gradient,
    "hypot": hypot_gradient,
    "erfinv": erfinv_gradient,
    "log_add": log_add_gradient,
    "log_join": log_join_gradient,
    "variance": variance_gradient,
    "evenly": evenly_gradient,
    "first": first_gradient,
    "pool": pool_gradient,
    "taken": taken_gradient,
    WINDOWS: windows_gradient,
}
