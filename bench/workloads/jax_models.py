"""The models of `models.py` for JAX: functions of the weights by their names in PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bench.workloads.weights import Build, named

Weights = dict[str, Any]
Forward = Callable[[Any, Weights, Any], Any]  # of the library, weights, and what goes in


def linear(weights: Weights, name: str, x: Any) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def convolution(jax: Any, x: Any, kernel: Any, stride: int = 1, padding: int = 0) -> Any:
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(padding, padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )  # fmt: skip


def max_pool(jax: Any, x: Any, size: int, stride: int, padding: int = 0) -> Any:
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    window, steps = (1, 1, size, size), (1, 1, stride, stride)
    return jax.lax.reduce_window(x, -float("inf"), jax.lax.max, window, steps, around)


def multilayer(jax: Any, weights: Weights, x: Any) -> Any:
    for name in ("0", "2"):
        x = jax.nn.relu(linear(weights, name, x))
    return linear(weights, "4", x)


def digits(jax: Any, weights: Weights, x: Any) -> Any:
    for name in ("0", "3"):
        bias = weights[f"{name}.bias"][:, None, None]
        x = max_pool(jax, jax.nn.relu(convolution(jax, x, weights[f"{name}.weight"]) + bias), 2, 2)
    return linear(weights, "7", x.reshape(len(x), -1))


def batch_norm(weights: Weights, name: str, x: Any) -> Any:
    """In training, without the running statistics."""
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    scale, shift = (weights[f"{name}.{part}"][:, None, None] for part in ("weight", "bias"))
    return (x - mean) / (variance + 1e-5) ** 0.5 * scale + shift


def resnet18(jax: Any, weights: Weights, x: Any) -> Any:
    def conv(name: str, x: Any, stride: int, padding: int) -> Any:
        return convolution(jax, x, weights[f"{name}.weight"], stride, padding)

    x = jax.nn.relu(batch_norm(weights, "1", conv("0", x, 2, 3)))
    x = max_pool(jax, x, 3, 2, 1)
    for number in range(4, 12):
        stride = 2 if number in (6, 8, 10) else 1
        y = batch_norm(weights, f"{number}.body.1", conv(f"{number}.body.0", x, stride, 1))
        y = batch_norm(weights, f"{number}.body.4", conv(f"{number}.body.3", jax.nn.relu(y), 1, 1))
        if f"{number}.short.0.weight" in weights:
            x = batch_norm(weights, f"{number}.short.1", conv(f"{number}.short.0", x, stride, 0))
        x = jax.nn.relu(y + x)
    return linear(weights, "13", x.mean((2, 3)))


def layer_norm(weights: Weights, name: str, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / (variance + 1e-5) ** 0.5 * weights[f"{name}.weight"] + weights[
        f"{name}.bias"
    ]


def block(
    jax: Any, weights: Weights, name: str, heads: int, x: Any, keys: Any = None, values: Any = None,
    causal: bool = False,
) -> Any:  # fmt: skip
    """A block of a transformer; x is [batch, position, width]."""
    numpy = jax.numpy
    batch, length, width = x.shape
    mixed = linear(weights, f"{name}.mix", layer_norm(weights, f"{name}.before", x))
    q, k, v = numpy.moveaxis(mixed.reshape(batch, length, 3, heads, width // heads), 2, 0)
    if keys is not None:  # [batch, head, position, width], as in PyTorch
        k = numpy.concatenate((keys.swapaxes(1, 2), k), 1)
        v = numpy.concatenate((values.swapaxes(1, 2), v), 1)
    seen = jax.nn.dot_product_attention(q, k, v, is_causal=causal).reshape(batch, length, width)
    x = x + linear(weights, f"{name}.out", seen)
    up = linear(weights, f"{name}.up", layer_norm(weights, f"{name}.between", x))
    return x + linear(weights, f"{name}.down", jax.nn.relu(up))


def encoder(layers: int, heads: int) -> Forward:
    def forward(jax: Any, weights: Weights, x: Any) -> Any:
        for number in range(layers):
            x = block(jax, weights, f"blocks.{number}", heads, x)
        return linear(weights, "last", x.mean(1))

    return forward


def decoding(build: Build, layers: int, heads: int) -> Callable[[Any], Any]:
    """The logits of the next token, from its embedding and the keys and values of those before."""

    def prepare(jax: Any) -> Any:
        weights = jax.device_put(named(build))

        @jax.jit
        def step(weights: Weights, x: Any, keys: Any, values: Any) -> Any:
            for number in range(layers):
                name = f"blocks.{number}"
                x = block(jax, weights, name, heads, x, keys[number], values[number])
            return x @ weights["last.weight"].T

        return functools.partial(step, weights)

    return prepare


def training(build: Build, forward: Forward, rate: float) -> Callable[[Any], Any]:
    """A step with Adam written out; the state goes in and comes out, and is not copied."""

    def prepare(jax: Any) -> Any:
        numpy, tree = jax.numpy, jax.tree_util.tree_map
        drawn = named(build)
        first_name = next(iter(drawn))  # what jax gives back is in the order of the alphabet
        weights = jax.device_put(drawn)
        zeros = tree(numpy.zeros_like, weights)

        def loss_of(weights: Weights, x: Any, labels: Any) -> Any:
            chances = jax.nn.log_softmax(forward(jax, weights, x))
            return -numpy.take_along_axis(chances, labels[:, None], 1).mean()

        def moved(t: Any, w: Any, m: Any, v: Any) -> Any:
            return w - rate * (m / (1 - 0.9**t)) / (numpy.sqrt(v / (1 - 0.999**t)) + 1e-8)

        @functools.partial(jax.jit, donate_argnums=0)
        def update(state: Any, x: Any, labels: Any) -> Any:
            weights, first, second, t = state
            loss, gradients = jax.value_and_grad(loss_of)(weights, x, labels)
            t = t + 1
            first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
            second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
            weights = tree(functools.partial(moved, t), weights, first, second)
            return loss, (weights, first, second, t)

        state = [(weights, zeros, tree(numpy.zeros_like, weights), numpy.float32(0))]

        def step(x: Any, labels: Any) -> Any:
            loss, state[0] = update(state[0], x, labels)
            return loss, state[0][0][first_name]

        return step

    return prepare
