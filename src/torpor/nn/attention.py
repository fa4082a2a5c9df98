"""Attention as a module, with PyTorch's constructor arguments and state names."""

from __future__ import annotations

import math

from torpor.base.errors import ShapeError
from torpor.nn.layers import Linear
from torpor.nn.module import Module
from torpor.tensor import Tensor
from torpor.tensor.contraction import attention
from torpor.tensor.spelling import within


class MultiheadAttention(Module):
    """Attention by `num_heads` heads, each of its own part of the width. Vaswani et al., 2017,
    arXiv:1706.03762, section 3.2.2.

    query[length, batch, embed_dim], key and value[keys, batch, embed_dim]; with `batch_first` the
    batch comes first.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ShapeError(f"{num_heads} heads do not divide a width of {embed_dim}")
        within("dropout's probability", dropout, 0, 1)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first = batch_first
        bound = math.sqrt(6 / (4 * embed_dim))  # Glorot and Bengio, 2010, equation 16
        shape = (3 * embed_dim, embed_dim)
        self.in_proj_weight = Tensor.uniform(*shape, low=-bound, high=bound, requires_grad=True)
        self.in_proj_bias = Tensor.zeros(3 * embed_dim, requires_grad=True) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Tensor.zeros(embed_dim, requires_grad=True)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result in the query's shape, and the mean weights[batch, length, keys] or None; they
        cost nothing while nobody reads them.

        Masks of bools are True where a query must not look, as in PyTorch; others are added.
        attn_mask[length, keys] or [batch * heads, length, keys], key_padding_mask[batch, keys].
        """
        heads = [self._heads(x, part) for part, x in enumerate((query, key, value))]
        mask = self._mask(attn_mask, key_padding_mask)
        dropout = self.dropout if self.training else 0.0
        mixed = attention(heads[0], heads[1], heads[2], mask, dropout, is_causal)
        joined = mixed.transpose(1, 2).flatten(2)  # [batch, length, width]
        joined = self.out_proj(joined if self.batch_first else joined.transpose(0, 1))
        return joined, self._weights(heads, mask, is_causal) if need_weights else None

    def _heads(self, x: Tensor, part: int) -> Tensor:
        """The query's, key's or value's (part 0, 1, 2) [batch, head, length, width of a head]."""
        if x.ndim != 3 or x.shape[2] != self.embed_dim:
            raise ShapeError(f"expected three axes, the last of {self.embed_dim}, got {x.shape}")
        rows = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        batches = x if self.batch_first else x.transpose(0, 1)
        made = batches.linear(self.in_proj_weight[rows], bias)
        return made.unflatten(2, (self.num_heads, -1)).transpose(1, 2)

    def _mask(self, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """What is added to the scores[batch, head, length, keys], if anything."""
        if mask is not None and mask.ndim == 3:
            mask = mask.unflatten(0, (-1, self.num_heads))
        if padding is not None:
            padding = padding.unsqueeze(1).unsqueeze(1)
        added = [_added(given) for given in (mask, padding) if given is not None]
        return sum(added[1:], added[0]) if added else None

    def _weights(self, heads: list[Tensor], mask: Tensor | None, is_causal: bool) -> Tensor:
        """What each key counts for each query: attention to the unit vectors, mean of the heads."""
        query, key, _ = heads
        count = key.shape[2]
        assert isinstance(count, int), "the sizes of heads are numbers"
        units = Tensor.eye(count, dtype=key.dtype, device=key.device)
        return attention(query, key, units, mask, 0.0, is_causal).mean(1)


def _added(mask: Tensor) -> Tensor:
    """A mask as what is added: bools forbid where they are True."""
    forbids = mask.dtype.kind == "bool"
    made: Tensor = mask.where(float("-inf"), 0.0) if forbids else mask
    return made
