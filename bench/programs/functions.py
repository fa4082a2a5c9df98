"""The programs for JAX: weights by their names in PyTorch, optimisers written out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bench.programs import LARGE, RECURRENT, SMALL, STAGES, TOKENS, VOCABULARY, Transformer
from bench.workloads.jax_models import Weights, block, convolution, layer_norm, linear
from bench.workloads.weights import drawn

Shapes = dict[str, tuple[int, ...]]
Step = Callable[..., Any]
MOMENTUM, NEW = 0.9, 0.1  # of batch norm's statistics the part that a batch brings


def dense(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def scaled(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


# --- optimisers: (state of a weight, new weight and state) ----------------------------------------
def momentum(lib: Any, w: Any, g: Any, state: Any, _: Any) -> Any:
    speed = MOMENTUM * state[0] + g
    return w - 1e-2 * speed, (speed,)


def adam(lib: Any, w: Any, g: Any, state: Any, t: Any, decay: float = 0.0) -> Any:
    first, second = 0.9 * state[0] + 0.1 * g, 0.999 * state[1] + 0.001 * g * g
    length = lib.numpy.sqrt(second / (1 - 0.999**t)) + 1e-8
    return w * (1 - 1e-3 * decay) - 1e-3 * (first / (1 - 0.9**t)) / length, (first, second)


adamw = functools.partial(adam, decay=0.01)


def trained(lib: Any, shapes: Shapes, statistics: Shapes, forward: Any, rule: Any) -> Step:
    """A jitted step; `forward(lib, weights, statistics, x)` gives scores and new statistics."""
    numpy = lib.numpy
    weights = lib.device_put({name: drawn(name, shape) for name, shape in shapes.items()})
    parts = 1 if rule is momentum else 2
    moments = {n: tuple(numpy.zeros(s) for _ in range(parts)) for n, s in shapes.items()}
    running = {n: numpy.full(s, n.endswith("var"), numpy.float32) for n, s in statistics.items()}

    def loss_of(weights: Weights, running: Weights, x: Any, labels: Any) -> Any:
        scores, running = forward(lib, weights, running, x)
        chances = lib.nn.log_softmax(scores.reshape(-1, scores.shape[-1]))
        return -numpy.take_along_axis(chances, labels.reshape(-1, 1), 1).mean(), running

    @functools.partial(lib.jit, donate_argnums=0)
    def update(state: Any, x: Any, labels: Any) -> Any:
        weights, moments, running, t = state
        gradient = lib.value_and_grad(loss_of, has_aux=True)
        (loss, running), gradients = gradient(weights, running, x, labels)
        moved = {n: rule(lib, w, gradients[n], moments[n], t + 1) for n, w in weights.items()}
        new = ({n: w for n, (w, _) in moved.items()}, {n: m for n, (_, m) in moved.items()})
        return loss, (*new, running, t + 1)

    state = [(weights, moments, running, numpy.float32(0))]

    def step(x: Any, labels: Any) -> Any:
        loss, state[0] = update(state[0], x, labels)
        return loss

    return step


def mlp(lib: Any) -> Step:
    shapes = dense("0", 300, 600) | dense("2", 300, 300) | dense("4", 17, 300)

    def forward(lib: Any, weights: Weights, running: Weights, x: Any) -> Any:
        for name in ("0", "2"):
            x = lib.nn.relu(linear(weights, name, x))
        return linear(weights, "4", x), running

    return trained(lib, shapes, {}, forward, adamw)


# --- convolutions ---------------------------------------------------------------------------------
def batch_norm(weights: Weights, running: Weights, name: str, x: Any) -> Any:
    """In training; puts the new statistics into `running`."""
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    count = x.size // x.shape[1]
    for part, new in (("mean", mean), ("var", variance * (count / (count - 1)))):
        running[f"{name}.{part}"] = MOMENTUM * running[f"{name}.{part}"] + NEW * new
    scale = weights[f"{name}.weight"] / (variance + 1e-5) ** 0.5
    shift = weights[f"{name}.bias"] - mean * scale
    return x * scale[:, None, None] + shift[:, None, None]


def residual_shapes() -> tuple[Shapes, Shapes]:
    """Of the kernels, and the widths of the norms."""
    kernels: Shapes = {"0.weight": (STAGES[0][0], 3, 3, 3)}
    widths = {"1": STAGES[0][0]}
    for number, (inputs, outputs, stride) in enumerate(STAGES, 3):
        kernels[f"{number}.body.0.weight"] = (outputs, inputs, 3, 3)
        kernels[f"{number}.body.3.weight"] = (outputs, outputs, 3, 3)
        widths |= {f"{number}.body.1": outputs, f"{number}.body.4": outputs}
        if stride != 1:
            kernels[f"{number}.short.0.weight"] = (outputs, inputs, 1, 1)
            widths[f"{number}.short.1"] = outputs
    for name, width in widths.items():
        kernels |= scaled(name, width)
    kernels |= dense(str(len(STAGES) + 4), 10, STAGES[-1][1])
    parts = ("mean", "var")
    return kernels, {f"{n}.{part}": (width,) for n, width in widths.items() for part in parts}


def resnet(lib: Any) -> Step:
    shapes, statistics = residual_shapes()

    def forward(lib: Any, weights: Weights, running: Weights, x: Any) -> Any:
        running = dict(running)

        def normed(name: str, norm: str, x: Any, stride: int = 1, padding: int = 1) -> Any:
            made = convolution(lib, x, weights[f"{name}.weight"], stride, padding)
            return batch_norm(weights, running, norm, made)

        x = lib.nn.relu(normed("0", "1", x))
        for n, (_, _, stride) in enumerate(STAGES, 3):
            y = lib.nn.relu(normed(f"{n}.body.0", f"{n}.body.1", x, stride))
            y = normed(f"{n}.body.3", f"{n}.body.4", y)
            x = x if stride == 1 else normed(f"{n}.short.0", f"{n}.short.1", x, stride, 0)
            x = lib.nn.relu(y + x)
        return linear(weights, str(len(STAGES) + 4), x.mean((2, 3))), running

    return trained(lib, shapes, statistics, forward, momentum)


# --- transformers ---------------------------------------------------------------------------------
def language_shapes(size: Transformer) -> Shapes:
    shapes: Shapes = {
        "tokens.weight": (VOCABULARY, size.width), "places.weight": (size.length, size.width)
    }  # fmt: skip
    for number in range(size.layers):
        for name, outputs, inputs in (("mix", 3, 1), ("out", 1, 1), ("up", 4, 1), ("down", 1, 4)):
            shapes |= dense(f"blocks.{number}.{name}", outputs * size.width, inputs * size.width)
        for name in ("before", "between"):
            shapes |= scaled(f"blocks.{number}.{name}", size.width)
    return shapes | scaled("norm", size.width) | dense("last", VOCABULARY, size.width)


def language(size: Transformer) -> Any:
    def forward(lib: Any, weights: Weights, running: Weights, tokens: Any) -> Any:
        x = weights["tokens.weight"][tokens] + weights["places.weight"][: tokens.shape[1]]
        for number in range(size.layers):
            x = block(lib, weights, f"blocks.{number}", size.heads, x, causal=True)
        return linear(weights, "last", layer_norm(weights, "norm", x)), running

    return forward


def transformer(lib: Any) -> Step:
    return trained(lib, language_shapes(SMALL), {}, language(SMALL), adamw)


def large(lib: Any) -> Step:
    return trained(lib, language_shapes(LARGE), {}, language(LARGE), adamw)


def growing(lib: Any) -> Step:
    shapes, forward = language_shapes(SMALL), language(SMALL)
    weights = lib.device_put({name: drawn(name, shape) for name, shape in shapes.items()})

    @lib.jit  # type: ignore[untyped-decorator]
    def following(weights: Weights, tokens: Any) -> Any:
        return forward(lib, weights, {}, tokens)[0][:, -1].argmax(-1, keepdims=True)

    def write(tokens: Any) -> Any:
        for _ in range(TOKENS):
            tokens = lib.numpy.concatenate((tokens, following(weights, tokens)), 1)
        return tokens.sum()

    return write


# --- recurrent ------------------------------------------------------------------------------------
def lstm(lib: Any) -> Step:
    width, layers, numpy = RECURRENT["width"], RECURRENT["layers"], lib.numpy
    shapes = dense("last", 10, width)
    for n in range(layers):
        inputs = width if n else RECURRENT["inputs"]
        shapes |= {f"lstm.weight_ih_l{n}": (4 * width, inputs), f"lstm.bias_ih_l{n}": (4 * width,)}
        shapes |= {f"lstm.weight_hh_l{n}": (4 * width, width), f"lstm.bias_hh_l{n}": (4 * width,)}

    def layer(weights: Weights, n: int, x: Any) -> Any:
        again = weights[f"lstm.weight_hh_l{n}"].T
        biases = weights[f"lstm.bias_ih_l{n}"] + weights[f"lstm.bias_hh_l{n}"]

        def cell(state: Any, entering: Any) -> Any:
            hidden, kept = state
            i, f, g, o = numpy.split(entering + hidden @ again, 4, -1)
            kept = lib.nn.sigmoid(f) * kept + lib.nn.sigmoid(i) * numpy.tanh(g)
            hidden = lib.nn.sigmoid(o) * numpy.tanh(kept)
            return (hidden, kept), hidden

        zero = numpy.zeros((x.shape[1], width))
        entering = x @ weights[f"lstm.weight_ih_l{n}"].T + biases
        return lib.lax.scan(cell, (zero, zero), entering)[1]

    def forward(lib: Any, weights: Weights, running: Weights, x: Any) -> Any:
        for n in range(layers):
            x = layer(weights, n, x)
        return linear(weights, "last", x[-1]), running

    return trained(lib, shapes, {}, forward, adam)
