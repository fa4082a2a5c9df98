"""Losses as functions of the prediction and the target. Reduction "mean" and "sum" give a 0-d
tensor, "none" one loss an element (or a sample). Those that are methods of `Tensor` are explained
there.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.base.missing import own_functions
from torpor.ir.records import Requirement
from torpor.tensor import Tensor, einsum
from torpor.tensor.amp import raised
from torpor.tensor.creation import beside
from torpor.tensor.distributions import VARIANCE, required
from torpor.tensor.handle import located, with_rule
from torpor.tensor.host import known_shape, known_size
from torpor.tensor.loss import reduced
from torpor.tensor.namespace import function_of
from torpor.tensor.operands import choose, sized
from torpor.tensor.reduce import root
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import among, spell, within
from torpor.tensor.wide import widely

NEVER: Final = -1e30  # the logarithm of a probability of 0 whose differences are numbers

binary_cross_entropy = function_of("binary_cross_entropy")
binary_cross_entropy_with_logits = function_of("binary_cross_entropy_with_logits")
cross_entropy = function_of("cross_entropy")
huber_loss = function_of("huber_loss")
kl_div = function_of("kl_div")
l1_loss = function_of("l1_loss")
mse_loss = function_of("mse_loss")
nll_loss = function_of("nll_loss")
smooth_l1_loss = function_of("smooth_l1_loss")


# --- margins --------------------------------------------------------------------------------------
@widely
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target input)) of targets -1 and 1."""
    return reduced((-target * input).softplus(threshold=1000), reduction)


@widely
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target (input1 - input2)): target 1 ranks the first one higher, -1 lower."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(f"as many axes each, not {input1.shape}, {input2.shape}, {target.shape}")
    return reduced((-target * (input1 - input2) + margin).clamp(0), reduction)


@widely
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    apart = choose(target.ne(1), (margin - input).clamp(0), 0.0)
    return reduced(apart + choose(target.ne(-1), input, 0.0), reduction)


@widely
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    lengths = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    same = choose(target.eq(1), 1 - cosine, 0.0)
    return reduced(same + choose(target.eq(-1), (cosine - margin).clamp(0), 0.0), reduction)


@widely
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of scores (batch, classes) the mean over classes of max(0, margin - right + other)**p, times
    the weight of the right class.
    """
    among("multi_margin_loss's p", p, 1, 2)
    rows = input.reshape(-1, input.shape[-1] if input.ndim else 1)
    sized(weight, rows.shape[1:], "a weight for each class")
    asked = target.reshape(-1, 1)
    apart: Any = (margin - rows.gather(1, asked) + rows).clamp(0) ** p
    apart = apart if weight is None else apart * weight.take(asked)
    others = Tensor.arange(rows.shape[1], device=rows.device).ne(asked)
    made = others.where(apart, 0.0).sum(1) / rows.shape[1]
    return reduced(made if input.ndim > 1 else made.reshape(()), reduction)


@widely
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Of scores (batch, classes) and classes, as many as stand before the first -1, the mean over
    classes of max(0, 1 - right + other) for each right one and all that are none.
    """
    width = input.shape[-1] if input.ndim else 1
    rows, asked = input.reshape(-1, width), target.reshape(-1, width)
    known = asked.ge(0).long().cumprod(1).bool()
    place = choose(known, asked, 0)
    right = Tensor.zeros(*rows.shape, dtype="int64").scatter_add(1, place, known.long()).ne(0)
    apart = (1 - rows.gather(1, place).unsqueeze(2) + rows.unsqueeze(1)).clamp(0)
    counted = known.unsqueeze(2) & ~right.unsqueeze(1)
    made = counted.where(apart, 0.0).sum((1, 2)) / rows.shape[1]
    return reduced(made if input.ndim > 1 else made.reshape(()), reduction)


@widely
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes of the cross-entropies of sigmoids."""
    loss: Any = -(target * input.logsigmoid() + (1 - target) * (-input).logsigmoid())
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)


# --- distances ------------------------------------------------------------------------------------
@widely
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@widely
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, as `cdist`'s: (0, 1), (0, 2), …, (1, 2), …"""
    if input.ndim != 2:
        raise ShapeError(f"pdist is of the rows of a matrix, not of {input.shape}")
    count = known_size(input.shape[0])
    rows = Tensor.triu_indices(count, count, 1, device=input.device)
    return _distances(input.index_select(0, rows[0]) - input.index_select(0, rows[1]), p)


@widely
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The distances of all rows of (..., n, k) from all of (..., m, k): (..., n, m). They are those
    of differences, not of products, whatever `compute_mode`: near rows keep their digits. With
    p = 2 squares of differences that are too large for the format make the distance infinite.

    >>> cdist(Tensor([[0.0, 0.0], [3.0, 0.0]]), Tensor([[0.0, 4.0]])).tolist()
    [[4.0], [5.0]]
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise located(ShapeError("cdist is of rows (..., n, k) and (..., m, k)"), (x1, x2))
    within("cdist's p", p, 0)
    return _distances(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _distances(apart: Tensor, p: float) -> Tensor:
    return root(apart.square().sum(-1)) if p == 2 else apart.norm(p, -1)


@widely
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + distance(anchor, positive) - distance(anchor, negative)); with `swap` the
    negative's distance from either, whichever is less.
    """

    def distance(one: Tensor, other: Tensor) -> Tensor:
        return pairwise_distance(one, other, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap,
        reduction=reduction,
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` by a distance of one's own."""
    if margin <= 0:
        raise ValueRangeError(f"a margin is above 0, not {margin}")
    distance = distance_function or pairwise_distance
    far = distance(anchor, negative)
    far = far.minimum(distance(positive, negative)) if swap else far
    return reduced((distance(anchor, positive) - far + margin).clamp(0), reduction)


# --- likelihoods ----------------------------------------------------------------------------------
@widely
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(input) - target input, or with `log_input` off input - target log(input + eps); `full`
    adds Stirling's approximation of log(target!) where the target is above 1.
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        count = choose(target > 1, target, 1.0)
        stirling = count * count.log() - count + (count * (2 * math.pi)).log() * 0.5
        loss = loss + choose(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


@widely
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(log(var) + (input - target)² / var) / 2, var being no less than eps; `full` adds
    log(2 pi) / 2.
    """
    spread: Any = beside(var, input)
    if spread.ndim and spread.shape != input.shape and spread.shape == input.shape[:-1]:
        spread = spread.unsqueeze(-1)
    spread = required(spread, spread >= 0, VARIANCE)
    spread = with_rule(spread.clamp(eps), (spread,), "same")
    loss = (spread.log() + (input - target).square() / spread) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy` of `linear`, by weights (classes, ..., in) whose inner axes the target has
    too. `options` say in which pieces PyTorch computes it, and change nothing.
    """
    classes, *inner, width = linear_weight.shape
    logits = input.linear(linear_weight.reshape(-1, width))
    logits = logits.reshape(*input.shape[:-1], classes, *inner)
    logits = logits if linear_bias is None else logits + linear_bias
    ignored = -100 if ignore_index is None else ignore_index
    return logits.cross_entropy(target, weight, ignored, reduction, label_smoothing)


@widely
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification: minus the log-probability that (steps, batch, classes)
    log-probabilities read as the targets, (batch, length) or all in a row, with blanks between. The
    mean is over samples divided by their lengths. Graves et al., 2006.

    As in PyTorch the gradient is that of log_softmax with what it is of.
    """
    if log_probs.ndim not in (2, 3) or targets.ndim not in (1, 2):
        what = "log_probs (steps, batch, classes) or without batch, and targets (batch, length)"
        raise ShapeError(f"expected {what}, not {log_probs.shape} and {targets.shape}")
    if log_probs.ndim == 2:
        whole, flat = log_probs.unsqueeze(1), targets.reshape(-1)
        first, second = (Tensor(one).reshape(1) for one in (input_lengths, target_lengths))
        return ctc_loss(whole, flat, first, second, blank, reduction, zero_infinity).reshape(())
    among("reduction", reduction, "mean", "sum", "none")
    steps, batch, classes = known_shape(log_probs.shape)
    within("ctc_loss's blank", blank, 0, classes - 1)
    labels, last, wanted = _ctc_labels(log_probs, targets, input_lengths, target_lengths, blank)
    blanks = labels.full_like(blank)
    states = Tensor.stack([blanks, labels], 2).reshape(batch, -1).pad((0, 1), value=blank)
    width = states.shape[1]
    before = states.pad((2, 0), value=blank)[:, :width]
    skips = states.ne(blank) & states.ne(before)
    ends = 2 * wanted
    number = Tensor.arange(width, device=log_probs.device)
    emitted = log_probs.gather(2, states.unsqueeze(0).expand(steps, batch, width))
    alpha: Any = choose(number < 2, emitted[0], NEVER)
    for step in range(1, steps):
        alpha = _ctc_step(alpha, emitted[step], skips, last > step)
        alpha._storage.depth = 0  # no step is computed early: a gradient leads back through all
    final = choose(number.eq(ends) | number.eq(ends - 1), alpha, NEVER).logsumexp(1)
    impossible = final.detach() < NEVER / 2
    final = choose(impossible, -math.inf, final)
    place = Tensor.arange(steps, device=log_probs.device).reshape(-1, 1, 1)
    share = choose(place < last.reshape(1, -1, 1), log_probs.exp(), 0.0).sum((0, 2))
    if not zero_infinity:  # the gradient of what is infinite is NaN
        share = share * choose(impossible, math.nan, 1.0)
    loss: Any = with_rule((-final).detach(), (share - final,), "same")
    if zero_infinity:
        loss = choose(impossible, 0.0, loss)
    if reduction != "mean":
        return reduced(loss, reduction)
    return reduced(loss / wanted.flatten().clamp(1), reduction)


@repeated
def _ctc_step(alpha: Any, emitted: Tensor, skips: Tensor, goes_on: Tensor) -> Tensor:
    """The next step's log-probabilities (batch, states) of having come to each state: from itself,
    the one before or, where that skips a blank, the one before that.
    """
    width = alpha.shape[1]
    one = alpha.pad((1, 0), value=NEVER)[:, :width]
    two = choose(skips, alpha.pad((2, 0), value=NEVER)[:, :width], NEVER)
    total: Any = Tensor.stack([alpha, one, two]).logsumexp(0) + emitted
    return choose(goes_on, total, alpha).contiguous()


def _ctc_labels(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int
) -> tuple[Tensor, Any, Any]:
    """Labels (batch, longest) with blanks after each row's own, and how many steps and labels each
    sample has, both (batch, 1).
    """
    steps, batch, _ = known_shape(log_probs.shape)
    rows, held = (batch, *known_shape(targets.shape))[-2:]
    if rows != batch:
        raise ShapeError(f"targets {targets.shape} are not of {batch} samples")
    in_a_row = targets.ndim == 1
    seen, _ = _lengths("input_lengths", input_lengths, log_probs, steps)
    wanted, known = _lengths("target_lengths", target_lengths, log_probs, held, in_a_row)
    if in_a_row and sum(known) != held:
        raise ShapeError(f"target_lengths are {sum(known)} together, and targets {held}")
    longest = max(known, default=0 if in_a_row else held)
    if in_a_row:
        starts = [sum(known[:n]) for n in range(batch)]
        table = [targets.narrow(0, start, n) for start, n in zip(starts, known, strict=True)]
        targets = Tensor.stack([row.pad((0, longest - row.shape[0])) for row in table])
    own = Tensor.arange(longest, device=log_probs.device) < wanted
    return choose(own, targets[:, :longest].long(), blank), seen, wanted


def _lengths(
    what: str, lengths: Any, log_probs: Tensor, most: int, read: bool = False
) -> tuple[Any, list[int]]:
    """The lengths of samples as a tensor (batch, 1), each between 0 and `most`; and as numbers,
    where they are given as such or have to be read. Others are looked at when the loss is computed,
    so that a jitted step takes them as they come.
    """
    batch, known = known_shape(log_probs.shape)[1], read or not isinstance(lengths, Tensor)
    one: Any = beside(lengths, log_probs).long()
    if one.shape != (batch,):
        raise ShapeError(f"{what} are ({batch},), not {one.shape}")
    numbers = one.tolist() if known else []
    for number in numbers:
        within(f"each of {what}", number, 0, most)
    if not known:
        text = f"each of {what} is between 0 and {most}"
        one = required(one, (one >= 0) & (one <= most), Requirement("value", text))
    return one.reshape(-1, 1), numbers


# --- what is between two inputs -------------------------------------------------------------------
@widely
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., out) from (..., in1) and (..., in2) by weight (out, in1, in2): x1 W x2 + bias."""
    if weight.ndim != 3:
        raise ShapeError(f"bilinear needs a weight (out, in1, in2), not {weight.shape}")
    sized(input2, (*input1.shape[:-1], weight.shape[2]), "the second input")
    sized(bias, weight.shape[:1], "a number for each result")
    made = einsum("...i,oij,...j->...o", input1, weight, input2)
    return made if bias is None else made + bias


# --- the order of arguments -----------------------------------------------------------------------
def _either_order(function: Callable[..., Any], before: str = "reduction") -> Callable[..., Any]:
    """`function`, whose arguments may also be in PyTorch's order: `size_average` before the one
    named `before`, and `reduce` before `reduction`.

    They are in that order where None or a bool stands in the place of `size_average`, as neither
    means anything there in the order without it.
    """
    own = [*inspect.signature(function).parameters]
    place = own.index(before)
    order = [*own[:place], "size_average", *own[place:]]
    order.insert(order.index("reduction"), "reduce")

    def told_apart(arguments: Sequence[Any], inputs: int = 0) -> tuple[Sequence[Any], Any]:
        """(arguments by place, others by name); `inputs` tensors in front are left out of them."""
        if inputs + len(arguments) > len(order):
            raise TypeError(f"{function.__name__}() takes {len(order)} arguments at most")
        here = place - inputs
        if len(arguments) <= here or not isinstance(arguments[here], bool | None):
            return arguments, {}
        return arguments[:here], dict(zip(order[place:], arguments[here:], strict=False))

    def in_either(*arguments: Any, **options: Any) -> Any:
        placed, named = told_apart(arguments)
        return function(*placed, **named, **options)

    made: Any = functools.wraps(function)(in_either)
    made.told_apart = told_apart  # for the modules
    made.__wrapped__ = getattr(function, "__wrapped__", function)  # the method, as of the others
    return made


_SIZE_AVERAGE_BEFORE: Final = {
    "cross_entropy": "ignore_index",
    "nll_loss": "ignore_index",
    "poisson_nll_loss": "eps",
}
_WITH_SIZE_AVERAGE: Final = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
    hinge_embedding_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss
    soft_margin_loss triplet_margin_loss
    """.split()  # noqa: SIM905 (a table that is read)

_LOSSES: Final = [name for name in own_functions(globals()) if name.endswith("_loss")]
globals().update({name: raised(globals()[name]) for name in _LOSSES})
spell(sys.modules[__name__])
globals().update({
    name: _either_order(globals()[name], _SIZE_AVERAGE_BEFORE.get(name, "reduction"))
    for name in _WITH_SIZE_AVERAGE
})  # fmt: skip
