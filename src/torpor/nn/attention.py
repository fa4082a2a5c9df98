"""Attention as a module, with PyTorch's constructor arguments and state names."""

from __future__ import annotations

import math

from torpor.base.errors import ShapeError
from torpor.nn.layers import Linear
from torpor.nn.module import Module
from torpor.nn.multi_head import multi_head_attention_forward
from torpor.tensor import Tensor
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
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        joined, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            None,
            None,
            False,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return joined.transpose(0, 1) if self.batch_first else joined, weights
