"""Attention whose scores are changed and masked by functions of their places: Dong et al., 2024,
arXiv:2412.05496. The functions become part of the kernel that computes the scores.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torpor.base.errors import DTypeError, ShapeError
from torpor.base.missing import names_of
from torpor.base.promotion import promote
from torpor.tensor import Tensor
from torpor.tensor.contraction import averaged, for_each_head, scores_of
from torpor.tensor.host import known_shape
from torpor.tensor.spelling import pair
from torpor.tensor.transforms import vmap

Change = Callable[..., Any]
_PLACES: Final = 4  # batch, head, query, key
_BLOCK: Final = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` is asked for besides."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """For each query (batch, head, query) the logarithm of the sum of its scores' exponentials, and
    the largest of its scores; None for what was not asked for.
    """

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """True: every query looks at every key."""
    return batch.ones_like(dtype="bool")


def and_masks(*mask_mods: Change) -> Change:
    """The mask where all of these hold."""
    return _joined(mask_mods, operator.and_)


def or_masks(*mask_mods: Change) -> Change:
    """The mask where one of these holds."""
    return _joined(mask_mods, operator.or_)


def _joined(mask_mods: Sequence[Change], join: Change) -> Change:
    if not mask_mods or not all(callable(one) for one in mask_mods):
        raise DTypeError(f"masks are functions of batch, head, query and key, not {mask_mods}")

    return lambda *places: functools.reduce(join, [one(*places) for one in mask_mods])


def _everywhere(function: Change, sizes: Sequence[int], device: Any, *scores: Any) -> Any:
    """A function of numbers: of scores, if there are, and their four places; at each of them."""
    for axis in reversed(range(_PLACES)):
        dims = [0 if place == axis else None for place in range(_PLACES)]
        function = vmap(function, (*[0 for _ in scores], *dims))
    return function(*scores, *[Tensor.arange(size, device=device) for size in sizes])


def create_mask(
    mod_fn: Change, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """What a function of batch, head, query and key gives at all of them: [B, H, Q_LEN, KV_LEN].
    Of one of a score and these: whether it makes something else than -inf of a score of 0.

    >>> create_mask(lambda b, h, query, key: query >= key, 1, 1, 2, 2).tolist()
    [[[[True, False], [True, True]]]]
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    taken = inspect.signature(mod_fn).parameters.values()
    count = sum(one.default is one.empty and one.kind < one.VAR_POSITIONAL for one in taken)
    scores = [Tensor.zeros(*sizes, device=device)] if count > _PLACES else []
    made = _everywhere(mod_fn, sizes, device, *scores)
    return made != float("-inf") if scores else made


class BlockMask:
    """A mask by the function of batch, head, query and key that it is of: what `create_block_mask`
    gives. Kernels compute it as they go; blocks are only counted when `to_dense` is asked for.
    """

    def __init__(
        self, mask_mod: Change, shape: tuple[int, int, int, int], block: Any = _BLOCK,
        device: Any = None,
    ):  # fmt: skip
        self.mask_mod, self.shape, self.device = mask_mod, shape, device
        self.seq_lengths: tuple[int, ...] = shape[2:]
        self.BLOCK_SIZE = pair(block)

    def to_dense(self) -> Any:
        """1 for each block that has a key which a query looks at, else 0: [B, H, rows, columns]."""
        mask = create_mask(self.mask_mod, *self.shape, self.device)
        rows, columns = self.BLOCK_SIZE
        (queries, keys), (b, h, *_) = self.seq_lengths, self.shape
        mask = mask.int().pad((0, -keys % columns, 0, -queries % rows))
        blocks = mask.reshape(b, h, -(-queries // rows), rows, -(-keys // columns), columns)
        return blocks.amax((3, 5))

    def numel(self) -> int:
        """How many queries and keys it is of."""
        b, h, queries, keys = self.shape
        return b * h * queries * keys

    def sparsity(self) -> float:
        """The percentage of blocks that nobody looks at."""
        return 100 * (1 - self.to_dense().float().mean().item())

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)


def create_block_mask(
    mask_mod: Change, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK, _compile: bool = False,
    separate_full_blocks: bool = True, compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:  # fmt: skip
    """A mask for `flex_attention`: `mask_mod(batch, head, query, key)` is True where a query looks
    at a key. `B` and `H` of 1 or None are for all batches and heads. What PyTorch takes besides
    says how blocks are laid out, and changes nothing.
    """
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), BLOCK_SIZE, device)


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Change | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` of query[batch, head, queries, width], key[batch, head, keys,
    width] and value[batch, head, keys, features], whose scores `score_mod(score, batch, head,
    query, key)` changes, and which looks where `block_mask` says. Both are functions of numbers
    (tensors without axes), which may read other tensors by them. A query that looks nowhere gives
    0. With `return_lse`, or what `return_aux` asks for, (result, that). `kernel_options` are of
    PyTorch's kernels and change nothing. `ShapeError` for a mask of other lengths.

    >>> q, k, v = (Tensor.rand(1, 2, 3, 4) for _ in range(3))
    >>> causal = create_block_mask(lambda b, h, query, key: query >= key, None, None, 3, 3)
    >>> found = flex_attention(q, k, v, lambda score, b, h, query, key: score, causal)
    >>> found.allclose(q.scaled_dot_product_attention(k, v, is_causal=True))
    True
    """
    if query.ndim != _PLACES or key.ndim != _PLACES or value.ndim != _PLACES:
        raise ShapeError("flex_attention takes (batch, head, length, width), each of 4 axes")
    if enable_gqa:
        key, value = for_each_head(query, key), for_each_head(query, value)
    scores, given = scores_of(query, key, scale), promote(query.dtype, key.dtype)
    sizes = known_shape(scores.shape)
    if score_mod is not None:
        scores = _everywhere(score_mod, sizes, query.device, scores).cast(scores.dtype)
    if block_mask is not None:
        if tuple(block_mask.seq_lengths) != sizes[2:]:
            what = f"the block mask is of {tuple(block_mask.seq_lengths)} queries and keys"
            raise ShapeError(f"{what}, not of {sizes[2:]}")
        looks = _everywhere(block_mask.mask_mod, sizes, query.device)
        scores = looks.where(scores, float("-inf"))
    made = averaged(scores, value, given)
    if return_aux is not None:
        wanted = scores.logsumexp(-1), scores.amax(-1)
        found = [x if asked else None for x, asked in zip(wanted, return_aux, strict=True)]
        return made, AuxOutput(*found)
    return (made, scores.logsumexp(-1)) if return_lse else made


__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip
__getattr__ = names_of("torpor.nn.attention.flex_attention", lambda: __all__)
