"""Attention of several heads, whose projections are given."""

from __future__ import annotations

from typing import Any

from torpor.base.errors import ShapeError
from torpor.tensor import Tensor
from torpor.tensor.contraction import attention
from torpor.tensor.host import known_size
from torpor.tensor.operands import sized


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `MultiheadAttention` computes of query[length, batch, width], key and value[keys, batch,
    width], or all without a batch; and the weights[batch, length, keys], or None. Masks as there.

    in_proj_weight[3 * width, width] has the rows of query, key and value, unless each has its own
    (`use_separate_proj_weight`). bias_k, bias_v[1, 1, width] are one more key and value, zeros of
    `add_zero_attn` one more; static_k, static_v[batch * heads, keys, width of a head] are in the
    place of projected ones. average_attn_weights: the mean of the heads' weights, not each.
    """
    single = query.ndim == 2
    sides: list[Any] = [x.unsqueeze(1) if single else x for x in (query, key, value)]
    width, batch = embed_dim_to_check, sides[0].shape[1:2]
    if any(x.ndim != 3 or x.shape[1:2] != batch for x in sides) or sides[0].shape[2] != width:
        what = f"expected three axes, one batch for all, the last of {width}"
        raise ShapeError(f"{what}, got {', '.join(str(x.shape) for x in (query, key, value))}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = separate if use_separate_proj_weight else _parts(in_proj_weight, width)
    made = [
        x.linear(weight, bias)
        for x, weight, bias in zip(sides, weights, _parts(in_proj_bias, width), strict=True)
    ]
    heads = [x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3) for x in made]
    for part, given, more in ((1, static_k, bias_k), (2, static_v, bias_v)):
        heads[part] = _lengthened(heads[part], given, more, add_zero_attn)
    mask = _mask(attn_mask, key_padding_mask, batch[0], num_heads, heads[1].shape[2])
    dropout = dropout_p if training else 0.0
    mixed, found = _mixed(heads, mask, dropout, is_causal, need_weights)
    joined = mixed.permute(2, 0, 1, 3).flatten(2).linear(out_proj_weight, out_proj_bias)
    if found is not None and average_attn_weights:
        found = found.mean(1)
    if single:
        return joined.squeeze(1), None if found is None else found.squeeze(0)
    return joined, found


def _mixed(
    heads: list[Any], mask: Any, dropout: float, is_causal: bool, need_weights: bool
) -> tuple[Any, Tensor | None]:
    """The values[batch, head, length, width] as they are mixed, and the weights, which are those
    that were left if some were dropped.
    """
    found = _weights(heads, mask, is_causal) if need_weights else None
    if found is None or not dropout:
        return attention(heads[0], heads[1], heads[2], mask, dropout, is_causal), found
    found = found.dropout(dropout, training=True)
    return found @ heads[2], found


def _lengthened(projected: Any, given: Any, more: Any, zeros: bool) -> Any:
    """Keys or values[batch, head, keys, width], or those given, with a row of each that is to be
    added.
    """
    batch, heads, _, width = projected.shape
    made = projected if given is None else given.unflatten(0, (batch, heads))
    rows = [] if more is None else [more.reshape(heads, 1, -1).expand(batch, heads, 1, width)]
    rows += [made.new_zeros((batch, heads, 1, width))] if zeros else []
    return Tensor.cat([made, *rows], 2) if rows else made


def _parts(rows: Tensor | None, width: int) -> list[Any]:
    """The rows of query, key and value."""
    return [None] * 3 if rows is None else [rows[p * width : (p + 1) * width] for p in range(3)]


def _mask(given: Any, padding: Any, batch: Any, heads: int, keys: Any) -> Any:
    """What is added to the scores[batch, head, length, keys], if anything; keys that were added are
    seen by all.
    """
    if given is not None and given.ndim == 3:
        given = given.unflatten(0, (-1, heads))
    if padding is not None:
        padding = padding.unsqueeze(0) if padding.ndim == 1 else padding  # without a batch
        sized(padding, (batch, *padding.shape[-1:]), "the mask of padding")
        padding = padding.reshape(-1, 1, 1, padding.shape[-1])
    added = []
    for mask in (given, padding):
        if mask is not None:  # bools forbid where they are True
            mask = mask.where(float("-inf"), 0.0) if mask.dtype.kind == "bool" else mask
            added.append(mask.pad([None] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]))
    return sum(added[1:], added[0]) if added else None


def _weights(heads: list[Any], mask: Any, is_causal: bool) -> Tensor:
    """What each key counts for each query: attention to the unit vectors."""
    query, key, _ = heads
    units = Tensor.eye(known_size(key.shape[2]), dtype=key.dtype, device=key.device)
    return attention(query, key, units, mask, 0.0, is_causal)
