"""Products of matrices and vectors: a broadcast multiplication and a sum, which fuse."""

from __future__ import annotations

import math
import string
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.base.promotion import promote
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.amp import lowered
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.handle import (
    Handle,
    derive,
    float_dtype,
    located,
    render_shape,
    with_rule,
)
from torpor.tensor.host import known_size
from torpor.tensor.operands import choose, promoted, scaled, sized
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import one_axis, within
from torpor.tensor.wide import is_narrow, wide_dtype, widely

Term = tuple[str, Any]  # an operand of `einsum`: its letters, and a tensor with an axis for each
EXACT: Final = 5  # operands up to which every order of contraction is tried


def accumulator(dtype: DType) -> DType:
    """The format that products of `dtype` are summed in: its own, float32 for 16-bit floats."""
    return wide_dtype(dtype) if dtype.is_float else dtype


def contract(left: UOp, right: UOp, axes: tuple[int, ...], dtype: DType) -> UOp:
    """Gives left * right (broadcast) summed over `axes`, in the wide format, given as `dtype`."""
    wide = accumulator(dtype)
    product = build.elementwise(Ops.MUL, build.cast(left, wide), build.cast(right, wide))
    return build.cast(build.reduce(product, Ops.ADD, axes, False), dtype)


def _matmul_nodes(left: UOp, right: UOp) -> UOp:
    """(..., m, k) by (..., k, n) to (..., m, n); a vector is a row on the left, a column right."""
    dtype = promote(left.dtype, right.dtype)
    one, other = shape_of(left), shape_of(right)
    if not one or not other or one[-1] != other[-2 if len(other) > 1 else 0]:
        what = f"cannot multiply {render_shape(one)} by {render_shape(other)}"
        raise ShapeError(f"{what}: the last axis of one must be the other's second to last")
    if len(other) == 1:
        return contract(left, right, (len(one) - 1,), dtype)
    count = len(other)
    turned = build.permute(right, (*range(count - 2), count - 1, count - 2))
    if len(one) == 1:
        return contract(turned, left, (count - 1,), dtype)
    rows = build.reshape(left, (*one[:-1], 1, one[-1]))
    columns = build.reshape(turned, (*other[:-2], 1, other[-1], other[-2]))
    return contract(rows, columns, (max(len(one), count),), dtype)


@repeated
def _product_of(left: Any, right: Any) -> Any:
    return derive(_matmul_nodes, (left, right))


def _times(operand: Any, factor: Any) -> Any:
    """`scaled`, where a factor of 0 gives 0 also of what is infinite or NaN; integers are scaled
    by a number without its fraction.
    """
    factor = int(factor) if operand.dtype.is_int and isinstance(factor, float) else factor
    made = scaled(operand, factor)
    return made if factor else choose(made.full_like(False, dtype="bool"), made, 0)


def added_to(added: Any, product: Any, beta: Any, alpha: Any) -> Tensor:
    """beta * added + alpha * product, of the product's shape."""
    product, added = promoted(product, added)
    return _times(product, alpha) + _times(added.expand(*product.shape), beta)


def _check_axes(name: str, operands: Sequence[Any], *counts: int) -> None:
    if any(operand.ndim != count for operand, count in zip(operands, counts, strict=True)):
        what = f"{name} is for {' and '.join(map(str, counts))} axes; matmul and * are for others"
        raise located(ShapeError(what), operands)


def _of_axes(name: str, ours: int, theirs: int) -> Callable[[Any, Any], Tensor]:
    """`matmul` for operands of so many axes only."""

    def method(self: Any, other: Any) -> Tensor:
        factor = beside(other, self)
        _check_axes(name, (self, factor), ours, theirs)
        if ours == theirs == 3 and self.shape[0] != factor.shape[0]:
            what = f"{name} of {self.shape[0]} and {factor.shape[0]} matrices; matmul broadcasts"
            raise located(ShapeError(what), (self, factor))
        return self.matmul(factor)

    method.__name__ = name
    method.__doc__ = f"`matmul` of tensors of {ours} and {theirs} axes (else `ShapeError`)."
    return method


class Contraction(Handle):
    """Products. Formats are promoted; 16-bit floats are summed in float32, integers wrap around.
    The order of a sum comes from the shape alone.
    """

    __slots__ = ()

    def _factor(self, other: Any) -> Tensor:
        """Arrays and lists as tensors beside this one; tensors are never moved for it."""
        return beside(other, self)

    @lowered
    def matmul(self, other: Any) -> Tensor:
        """Matrix product: (..., m, k) by (..., k, n) gives (..., m, n), other axes broadcast; a
        vector is a row on the left and a column on the right, and its axis goes. `ShapeError` where
        k differs.

        >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([1, 10])).tolist()
        [21, 43]
        """
        factor: Any = self._factor(other)
        if factor.is_pair:
            return Handle._pairs.with_real(self).matmul(factor)
        return _product_of(self, factor)

    def __matmul__(self, other: Any) -> Tensor:
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._factor(other).matmul(self)

    dot = matmul
    mm, mv, bmm = _of_axes("mm", 2, 2), _of_axes("mv", 2, 1), _of_axes("bmm", 3, 3)

    def outer(self, other: Tensor) -> Tensor:
        """All products of the elements of two vectors, (n,) and (m,): (n, m)."""
        _check_axes("outer", (self, other), 1, 1)
        return self.reshape(-1, 1) * other.reshape(1, -1)

    ger = outer

    @lowered
    @repeated
    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """self @ weight.T + bias: (..., in) with weight (out, in) and bias (out,) gives (...,
        out).
        """
        made = self.matmul(weight.transpose(-1, -2) if weight.ndim > 1 else weight)
        if bias is None:
            return made
        summed = made + (bias.squeeze(0) if bias.ndim > made.ndim else bias)
        return sized(summed, made.shape, "a product with its bias")

    @lowered
    @widely
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * (mat1 @ mat2), self being broadcast to the product (n, m); a factor
        of 0 gives 0, whatever it is of.
        """
        return added_to(self, mat1.matmul(mat2), beta, alpha)

    def tensordot(self, other: Tensor, dims: Any = 2) -> Tensor:
        """Sum of products over pairs of axes: the last `dims` of one with the first of the other,
        or those that two lists name. The other axes follow, this tensor's first.

        >>> Tensor.ones(2, 3, 4).tensordot(Tensor.ones(4, 3, 5), ([2, 1], [0, 1])).shape
        (2, 5)
        """
        if isinstance(dims, int):
            within("the number of axes of tensordot", dims, 0, min(self.ndim, other.ndim))
            pairs = list(range(self.ndim - dims, self.ndim)), list(range(dims))
        else:
            pairs = (
                [one_axis(d, self.ndim) for d in dims[0]],
                [one_axis(d, other.ndim) for d in dims[1]],
            )
        letters = iter(string.ascii_letters)
        ours = [next(letters) for _ in range(self.ndim)]
        theirs = [next(letters) for _ in range(other.ndim)]
        for mine, its in zip(*pairs, strict=True):
            theirs[its] = ours[mine]
        kept = [x for x in ours if x not in theirs] + [x for x in theirs if x not in ours]
        return einsum(f"{''.join(ours)},{''.join(theirs)}->{''.join(kept)}", self, other)

    @lowered
    def scaled_dot_product_attention(
        self,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """softmax(self @ key.mT * scale + mask) @ value, with scale 1 / sqrt(width) unless given.
        Vaswani et al., 2017, arXiv:1706.03762, equation 1.

        self (..., queries, width), key (..., keys, width), value (..., keys, features) give (...,
        queries, features). A mask (broadcast to (..., queries, keys)) of bools is True where a
        query may look, one of floats is added; or with `is_causal` query i looks at keys up to i. A
        query that the mask lets look nowhere gives 0, as no keys do. Weights are dropped with the
        probability `dropout_p`, in training or not. With `enable_gqa` a head of keys and values,
        axis -3, serves several of queries that follow each other.
        """
        _check_mask(self, attn_mask, is_causal)
        if enable_gqa:
            key, value = for_each_head(self, key), for_each_head(self, value)
        attend = attention if dropout_p else _attention  # what draws does so each time
        return attend(self, key, value, attn_mask, dropout_p, is_causal, scale)


@lowered
def attention(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, is_causal: bool,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """`scaled_dot_product_attention`, which may have a mask and be causal."""
    scores, given = scores_of(query, key, scale), promote(query.dtype, key.dtype)
    if is_causal:
        ones = scores.full_like(True, dtype="bool").tril()
        scores = ones.where(scores, float("-inf"))
    if mask is not None:
        masked = mask.dtype.kind == "bool"
        scores = mask.where(scores, float("-inf")) if masked else scores + mask
    return averaged(scores, value, given, mask is not None, dropout)


def averaged(
    scores: Any, value: Any, given: DType, masked: bool = True, dropout: float = 0.0
) -> Tensor:
    """softmax(scores) @ value, of queries and keys of the format `given`; where `masked`, a row of
    scores that are all -inf, or none, gives 0.
    """
    if scores.shape[-1] == 0:
        return scores.cast(given).matmul(value)
    top = scores.amax(-1, keepdim=True).detach()
    weights = (scores - (top.eq(-math.inf).where(0, top) if masked else top)).exp()
    total = weights.sum(-1, keepdim=True)
    if masked:  # not 0 / 0
        total = total.ne(0).where(total, 1)
    if is_narrow(given):  # sums of weights that are not yet divided could overflow
        weights, total = (weights * total.reciprocal()).cast(given), None
    summed = (weights.dropout(dropout, training=True) if dropout else weights).matmul(value)
    return summed if total is None else summed / total


_attention: Final = repeated(attention)


def scores_of(query: Any, key: Any, scale: float | None) -> Any:
    """query @ key.mT * scale, in the format that sums are taken in: there it does not overflow. Of
    bfloat16, whose range is that of float32, the gradient is rounded as PyTorch's is.
    """
    width = known_size(query.shape[-1]) if scale is None else 1
    wide = wide_dtype(float_dtype(query.dtype))
    factor = float(width or 1) ** -0.5 if scale is None else scale
    made = query.cast(wide).matmul(key.cast(wide).mT)
    if query.dtype is key.dtype is dtypes.bfloat16:
        made = with_rule(made, (made,), "rounded", query.dtype.name)
    return made * factor


def for_each_head(query: Any, shared: Any) -> Any:
    """Keys or values for each head of the queries, some of which share one."""
    heads, count = query.shape[-3], shared.shape[-3]
    if count == 0 or heads % count:
        what = f"{count} heads of keys cannot be shared by {heads} of queries"
        raise located(ShapeError(what), (query, shared))
    return shared.repeat_interleave(heads // count, -3)


def _check_mask(query: Any, mask: Any, is_causal: bool) -> None:
    if mask is None:
        return
    if is_causal:
        what = "attention takes attn_mask or is_causal, not both; put the triangle into the mask"
        raise located(ValueRangeError(what), (query, mask))
    if mask.dtype.is_int:
        what = f"an attention mask holds bools or floats, not {mask.dtype}"
        raise located(DTypeError(what), (query, mask))


@lowered
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum of products in Einstein's notation: letters name axes, those that the output lacks are
    summed over, a letter twice in one operand takes its diagonal, and `...` stands for axes that
    broadcast. Instead of an equation, each operand may be followed by a list of numbers that stand
    for letters, and all by one for the output.

    >>> torpor.einsum("ij,jk->ik", Tensor([[1, 2]]), Tensor([[3], [4]])).tolist()
    [[11]]
    """
    if not isinstance(equation, str):
        equation, operands = _by_numbers(equation, *operands)
    tensors = list(operands[0] if len(operands) == 1 and not isinstance(operands[0], Handle)
                   else operands)  # fmt: skip
    inputs, output = _parse(equation.replace(" ", ""), tensors)
    lengths = _lengths(equation, inputs, tensors)
    terms = [_diagonals(letters, tensor) for letters, tensor in zip(inputs, tensors, strict=True)]
    terms = [_unbroadcast(*term, lengths) for term in terms]
    for place, term in enumerate(terms):
        others = [*terms[:place], *terms[place + 1 :]]
        terms[place] = _product([term], _needed([term], others, output))
    for places in _contractions(tuple((x, _sizes(t)) for x, t in terms), "".join(output)):
        joined = [terms[place] for place in places]
        terms = [term for place, term in enumerate(terms) if place not in places]
        terms.append(_product(joined, _needed(joined, terms, output)))
    return terms[0][1]


def _by_numbers(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """The equation of operands that are followed by numbers for their axes."""
    letters = string.ascii_letters

    def spelt(axes: Sequence[Any]) -> str:
        return "".join("..." if axis is Ellipsis else letters[axis] for axis in axes)

    operands = given[: len(given) // 2 * 2 : 2]
    inputs = ",".join(spelt(axes) for axes in given[1::2])
    return inputs + (f"->{spelt(given[-1])}" if len(given) % 2 else ""), operands


def _needed(terms: Sequence[Term], others: Sequence[Term], output: Sequence[str]) -> list[str]:
    """Letters of the product of some terms: those of the output or of other terms."""
    there = dict.fromkeys("".join(letters for letters, _ in terms))
    later = {x for letters, _ in others for x in letters} - set(output)
    return [x for x in output if x in there] + [x for x in there if x in later]


def _product(terms: Sequence[Term], kept: list[str]) -> Term:
    """The product of terms, summed over all letters but `kept`."""
    order = kept + [x for x in dict.fromkeys("".join(x for x, _ in terms)) if x not in kept]
    product: Any = None
    for letters, tensor in terms:
        tensor = tensor.permute([letters.index(x) for x in order if x in letters])
        tensor = tensor.reshape([tensor.shape[sum(y in letters for y in order[:i])] if x in letters
                                 else 1 for i, x in enumerate(order)])  # fmt: skip
        product = tensor if product is None else product * tensor
    summed = tuple(range(len(kept), len(order)))
    return "".join(kept), product.sum(summed).cast(product.dtype) if summed else product


def _sizes(tensor: Any) -> tuple[int, ...]:
    """Lengths; of those that are known only when it runs, the greatest."""
    return tuple(size if isinstance(size, int) else int(size.vmax) for size in tensor.shape)


@lru_cache(maxsize=1024)
def _contractions(terms: tuple[tuple[str, tuple[int, ...]], ...], output: str) -> list[list[int]]:
    """Which terms are multiplied, one product after the other, each appended in their place; the
    fewest operations of few terms, and of many what looks best at each step.
    """
    if len(terms) < 3:
        return [list(range(len(terms)))]
    shapes = [np.broadcast_to(np.int8(0), sizes) for _, sizes in terms]
    equation = f"{','.join(letters for letters, _ in terms)}->{output}"
    how = "optimal" if len(terms) <= EXACT else "greedy"
    found = np.einsum_path(equation, *shapes, optimize=(how, sys.maxsize))[0]
    return [list(places) for places in found[1:]]


def _parse(equation: str, tensors: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Letters of each input and of the output; letters of an ellipsis are capitals from Z down."""
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    rest = equation.replace("...", "").replace("->", "").replace(",", "")
    unknown = set(right) - set(left) - {"."}
    if unknown or (rest and not (rest.isascii() and rest.isalpha())):
        what = f" names {min(unknown)!r} on the right only" if unknown else " has more than letters"
        raise ShapeError(f"einsum {equation!r}{what}")
    if len(inputs) != len(tensors):
        raise ShapeError(f"einsum {equation!r} names {len(inputs)} operands, got {len(tensors)}")
    extra = 0
    for place, (letters, tensor) in enumerate(zip(inputs, tensors, strict=True)):
        if "..." in letters:
            count = tensor.ndim - len(letters) + 3
            extra = max(extra, count)
            inputs[place] = letters.replace("...", _spare(count))
        if len(inputs[place]) != tensor.ndim:
            raise located(ShapeError(f"einsum {equation!r}: {letters!r} needs other axes"), tensors)
    if arrow:
        return inputs, list(right.replace("...", _spare(extra)))
    joined = "".join(inputs)
    once = sorted(x for x in set(joined) if joined.count(x) == 1 and x not in _spare(extra))
    return inputs, list(_spare(extra)) + once


def _lengths(equation: str, inputs: Sequence[str], tensors: Sequence[Any]) -> dict[str, Any]:
    """The one length that each letter stands for (1 broadcasts)."""
    lengths: dict[str, Any] = {}
    for letters, tensor in zip(inputs, tensors, strict=True):
        for letter, size in zip(letters, tensor.shape, strict=True):
            if lengths.setdefault(letter, size) == 1:
                lengths[letter] = size
            elif size not in (1, lengths[letter]):
                what = f"einsum {equation!r}: {letter!r} is {lengths[letter]} and {size}"
                raise located(ShapeError(what), tensors)
    return lengths


def _unbroadcast(letters: str, tensor: Any, lengths: dict[str, Any]) -> Term:
    """A term without the axes that broadcast: the sum over them is that of the others alone."""
    kept = [n for n, x in enumerate(letters) if tensor.shape[n] != 1 or lengths[x] == 1]
    if len(kept) == len(letters):
        return letters, tensor
    return "".join(letters[n] for n in kept), tensor.reshape([tensor.shape[n] for n in kept])


def _spare(count: int) -> str:
    return string.ascii_uppercase[::-1][:count][::-1]


def _diagonals(letters: str, tensor: Any) -> tuple[str, Any]:
    """A letter that stands twice takes the diagonal of its axes."""
    for letter in letters:
        while letters.count(letter) > 1:
            first, second = letters.index(letter), letters.rindex(letter)
            tensor = tensor.diagonal(0, first, second)
            letters = "".join(x for i, x in enumerate(letters) if i not in (first, second)) + letter
    return letters, tensor
