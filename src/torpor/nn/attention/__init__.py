"""Attention as a module, with PyTorch's constructor arguments and state names; and how PyTorch is
told by which kernel it is computed, which changes nothing here.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torpor.base.attributes import attribute
from torpor.base.errors import DTypeError
from torpor.base.missing import names_of
from torpor.nn import init
from torpor.nn.layer import Layer, divide
from torpor.nn.layers import Linear
from torpor.nn.multi_head import multi_head_attention_forward
from torpor.tensor import Tensor
from torpor.tensor.spelling import within


class SDPBackend(enum.Enum):
    """PyTorch's kernels for attention."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = range(-1, 5)


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Nothing: attention is computed by the kernels that are generated for it, whatever is asked
    for inside. `DTypeError` for what is no `SDPBackend`.
    """
    for one in [backends] if isinstance(backends, SDPBackend) else backends:
        if not isinstance(one, SDPBackend):
            raise DTypeError(f"sdpa_kernel takes SDPBackends, not {one!r}")
    yield


class MultiheadAttention(Layer):
    """Attention by `num_heads` heads, each of its own part of the width. Vaswani et al., 2017,
    arXiv:1706.03762, section 3.2.2.

    query[length, batch, embed_dim], key[keys, batch, kdim] and value[keys, batch, vdim], both of
    `embed_dim` unless given; with `batch_first` the batch comes first, or there is none.
    `add_bias_kv` adds a key and a value that are trained, `add_zero_attn` those of zeros.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False,
    ):  # fmt: skip
        divide("heads", num_heads, embed_dim)
        within("dropout's probability", dropout, 0, 1)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.add_zero_attn, self.batch_first = add_zero_attn, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.head_dim = embed_dim // num_heads
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = _glorot(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = _glorot(embed_dim, embed_dim)
            self.k_proj_weight = _glorot(embed_dim, self.kdim)
            self.v_proj_weight = _glorot(embed_dim, self.vdim)
        self.in_proj_bias = Tensor.zeros(3 * embed_dim, requires_grad=True) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Tensor.zeros(embed_dim, requires_grad=True)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            for name in ("bias_k", "bias_v"):
                made = Tensor.zeros(1, 1, embed_dim, requires_grad=True)
                setattr(self, name, init.xavier_normal_(made))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The result in the query's shape, and the mean weights[batch, length, keys], with
        `average_attn_weights` off those of each head [batch, head, length, keys], or None; they
        cost nothing while nobody reads them.

        Masks of bools are True where a query must not look, as in PyTorch; others are added.
        attn_mask[length, keys] or [batch * heads, length, keys], key_padding_mask[batch, keys].
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        parts = [attribute(self, f"{part}_proj_weight", None) for part in "qkv"]
        joined, weights = multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads,
            attribute(self, "in_proj_weight", None), self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            self.training, key_padding_mask, need_weights, attn_mask,
            use_separate_proj_weight=parts[0] is not None, q_proj_weight=parts[0],
            k_proj_weight=parts[1], v_proj_weight=parts[2],
            average_attn_weights=average_attn_weights,
            is_causal=is_causal and attn_mask is None,  # a mask that there is says it already
        )  # fmt: skip
        return joined.transpose(0, 1) if turned else joined, weights


__all__ = ["MultiheadAttention", "SDPBackend", "flex_attention", "sdpa_kernel"]
_missing = names_of("torpor.nn.attention", lambda: __all__)


def __getattr__(name: str) -> Any:
    if name == "flex_attention":
        return importlib.import_module("torpor.nn.attention.flex_attention")
    return _missing(name)


def _glorot(rows: int, columns: int) -> Tensor:
    return init.xavier_uniform_(Tensor.zeros(rows, columns, requires_grad=True))
