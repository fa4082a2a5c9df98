"""Scaled dot-product attention of 12 heads of 64: causal and not, forward and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.workload import Workload, count, randoms

HEADS, WIDTH = 12, 64
LENGTHS = (128, 1024, 4096)
AGAINST = ("torch",)


def forward_functions(causal: bool) -> dict[str, Any]:
    def ours(torpor: Any, q: Any, k: Any, v: Any) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    shared = {"torpor": ours, "torch": torch, "jax": jax_attention(causal), "tinygrad": ours}
    return shared if causal else {**shared, "onnx": onnx_attention}


def onnx_attention(helper: Any) -> Any:
    """As exporters write it; a causal mask would be one more input."""
    node = helper.make_node
    return [
        node("Transpose", ["x1"], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["x0", "turned"], ["scores"]),
        node("Constant", [], ["scale"], value_float=WIDTH**-0.5),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["chances"], axis=-1),
        node("MatMul", ["chances", "x2"], ["y0"]),
    ]


def jax_attention(causal: bool) -> Any:
    def attention(jax: Any, q: Any, k: Any, v: Any) -> Any:
        swapped = (x.swapaxes(1, 2) for x in (q, k, v))  # jax wants [batch, length, head, width]
        made = jax.nn.dot_product_attention(*swapped, is_causal=causal)
        return made.swapaxes(1, 2)

    return attention


def backward_functions(causal: bool) -> dict[str, Any]:
    """The value and the gradients of q, k and v, in one go as in a training step."""
    forward = forward_functions(causal)

    def ours(torpor: Any, q: Any, k: Any, v: Any, cotangent: Any) -> Any:
        value = forward["torpor"](torpor, q, k, v)
        return (value, *value.gradient(q, k, v, gradient=cotangent))

    def torch(torch: Any, q: Any, k: Any, v: Any, cotangent: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        value = forward["torch"](torch, *leaves)
        return (value, *torch.autograd.grad(value, leaves, cotangent))

    def jax(jax: Any, q: Any, k: Any, v: Any, cotangent: Any) -> Any:
        value, back = jax.vjp(lambda *x: forward["jax"](jax, *x), q, k, v)
        return (value, *back(cotangent))

    return {"torpor": ours, "torch": torch, "jax": jax}


def chances(q: Any, k: Any, causal: bool) -> Any:
    scores = q @ k.mT / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def by_head(function: Any, arrays: Any) -> Any:
    """The function of each head's matrices, stacked; whole, 4096 would need gigabytes."""
    parts = [function(*(x[0, head] for x in arrays)) for head in range(HEADS)]
    return tuple(np.stack(one)[None] for one in zip(*parts, strict=True))


def forward_reference(causal: bool) -> Any:
    def head(q: Any, k: Any, v: Any) -> Any:
        return (chances(q, k, causal) @ v,)

    return lambda *arrays: by_head(head, arrays)


def backward_reference(causal: bool) -> Any:
    def head(q: Any, k: Any, v: Any, cotangent: Any) -> Any:
        p = chances(q, k, causal)
        value = p @ v
        back = cotangent @ v.mT
        scores = p * (back - (back * p).sum(-1, keepdims=True)) / np.sqrt(WIDTH)
        return value, scores @ k, scores.mT @ q, p.mT @ cotangent

    return lambda *arrays: by_head(head, arrays)


def pair(length: int, causal: bool) -> list[Workload]:
    """Forward, and forward with gradients. Operations that a causal mask makes useless are not
    counted.
    """
    shape = (1, HEADS, length, WIDTH)
    name = f"attention/{length}" + ("-causal" if causal else "")
    flops = 4.0 * HEADS * length**2 * WIDTH * (0.5 if causal else 1.0)
    quick = length == 1024 and causal
    forward = Workload(
        f"{name}/forward",
        randoms(*[shape] * 3),
        forward_functions(causal),
        forward_reference(causal),
        flops=flops,
        bytes=4.0 * 4 * count(shape),
        against=AGAINST,
        quick=quick,
    )
    backward = Workload(
        f"{name}/gradients",
        randoms(*[shape] * 4),
        backward_functions(causal),
        backward_reference(causal),
        flops=3.5 * flops,  # five products backward, two forward
        bytes=4.0 * 8 * count(shape),
        against=AGAINST,
    )
    return [forward, backward]


WORKLOADS = tuple(
    workload for length in LENGTHS for causal in (False, True) for workload in pair(length, causal)
)
