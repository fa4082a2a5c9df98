"""Transformers, with PyTorch's names, constructor arguments and state names. Vaswani et al., 2017,
arXiv:1706.03762.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torpor.base.attributes import attribute
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.nn import functional, init, stateless
from torpor.nn.attention import MultiheadAttention
from torpor.nn.containers import ModuleList
from torpor.nn.layer import Layer
from torpor.nn.layers import Linear
from torpor.nn.module import Module
from torpor.nn.norms import LayerNorm
from torpor.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise ValueRangeError(f"activation is 'relu', 'gelu' or a function, not {given!r}")
    made: Callable[[Tensor], Tensor] = getattr(functional, given)
    return made


class _Block(Layer):
    """Attention and a layer of two products, each beside what it is of and normalised after, or
    with `norm_first` before.
    """

    norms: int
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True,
    ):  # fmt: skip
        for name in ("self_attn", "multihead_attn")[: self.norms - 1]:
            heads = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first
            )
            setattr(self, name, heads)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = stateless.Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        for number in range(1, self.norms + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias))
        for number in range(1, self.norms + 1):
            setattr(self, f"dropout{number}", stateless.Dropout(dropout))
        self.activation = _activation(activation)

    def _beside(self, x: Tensor, number: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        norm, dropout = attribute(self, f"norm{number}"), attribute(self, f"dropout{number}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))

    def _forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _attended(
    attention: MultiheadAttention, x: Tensor, to: Tensor, mask: Any, padding: Any, is_causal: bool
) -> Tensor:
    return attention(
        x, to, to, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
    )[0]


class TransformerEncoderLayer(_Block):
    """Attention of a sequence to itself, then two products with an activation between: src[length,
    batch, d_model], with `batch_first` src[batch, length, d_model].
    """

    norms = 2

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            return _attended(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)

        return self._beside(self._beside(src, 1, attend), 2, self._forward)


class TransformerDecoderLayer(_Block):
    """Attention of tgt to itself, then to memory, then two products with an activation between."""

    norms = 3

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            return _attended(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def look(x: Tensor) -> Tensor:
            masks = memory_mask, memory_key_padding_mask, memory_is_causal
            return _attended(self.multihead_attn, x, memory, *masks)

        x = self._beside(self._beside(tgt, 1, attend), 2, look)
        return self._beside(x, 3, self._forward)


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm at the end if given."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ):  # fmt: skip
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm at the end if given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                bool(tgt_is_causal), memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Layer):
    """An encoder of src, and a decoder that goes from tgt and looks at what the encoder gives."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", custom_encoder: Module | None = None,
        custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
    ):  # fmt: skip
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        manners = batch_first, norm_first, bias
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*sizes, *manners), num_encoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias),
        )  # fmt: skip
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*sizes, *manners), num_decoder_layers,
            LayerNorm(d_model, layer_norm_eps, bias=bias),
        )  # fmt: skip
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """What the decoder gives, in the shape of tgt."""
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(f"the last axes are {self.d_model}, not {src.shape} and {tgt.shape}")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """What is added so that no one looks ahead: 0 on and below the diagonal, else -inf."""
        return Tensor.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip
