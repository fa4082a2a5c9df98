"""Whole steps: training of small and middling networks, and generating a token.

A training step is forward, loss, gradients and the optimiser's update; the loss is what comes out.
The libraries begin with weights of their own, so that nothing but a finite loss is checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.workload import Workload
from bench.workloads import models

RATE = 1e-3
ENCODER = {"layers": 6, "width": 384, "heads": 6}
DECODER = {"layers": 12, "width": 768, "heads": 12}
VOCABULARY = 50_257  # of GPT-2
CONTEXT = 128  # tokens before the one that is generated


def labelled(shape: tuple[int, ...], classes: int) -> Any:
    """Inputs [batch, ...] and one label each."""

    def make(generator: np.random.Generator) -> Any:
        return generator.standard_normal(shape, np.float32), generator.integers(
            0, classes, shape[0]
        )

    return make


def torpor_training(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def prepare(torpor: Any) -> Any:
        model = build(torpor)
        optimiser = torpor.nn.optim.Adam(model.parameters(), lr=RATE)

        def step(x: Any, labels: Any) -> Any:
            optimiser.zero_grad()
            loss = model(x).cross_entropy(labels)
            loss.backward()
            loss.realize(*optimiser.schedule_step())
            optimiser.zero_grad()
            return loss.detach()

        return step

    return prepare


def torch_training(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def prepare(torch: Any) -> Any:
        model = build(torch)
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)

        def step(x: Any, labels: Any) -> Any:
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    return prepare


def jax_multilayer(jax: Any) -> Any:
    """The same step with Adam written out; the state goes in and comes out."""
    numpy, tree = jax.numpy, jax.tree_util.tree_map
    keys = jax.random.split(jax.random.key(0), 3)
    sizes = ((784, 512), (512, 256), (256, 10))
    weights = [
        (jax.random.normal(key, size) / size[0] ** 0.5, numpy.zeros(size[1]))
        for key, size in zip(keys, sizes, strict=True)
    ]
    zeros = tree(numpy.zeros_like, weights)

    def loss_of(weights: Any, x: Any, labels: Any) -> Any:
        for w, b in weights[:-1]:
            x = jax.nn.relu(x @ w + b)
        chances = jax.nn.log_softmax(x @ weights[-1][0] + weights[-1][1])
        return -numpy.take_along_axis(chances, labels[:, None], 1).mean()

    @jax.jit
    def update(state: Any, x: Any, labels: Any) -> Any:
        weights, first, second, t = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, labels)
        t = t + 1
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

        def moved(w: Any, m: Any, v: Any) -> Any:
            return w - RATE * (m / (1 - 0.9**t)) / (numpy.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return loss, (tree(moved, weights, first, second), first, second, t)

    state = [(weights, zeros, zeros, numpy.float32(0))]

    def step(x: Any, labels: Any) -> Any:
        loss, state[0] = update(state[0], x, labels)
        return loss

    return step


def training(
    name: str,
    build: Callable[[Any], Any],
    inputs: Any,
    flops: float,
    quick: bool = False,
    **more: Any,
) -> Workload:
    """A training step with Adam."""
    functions = {"torpor": torpor_training(build), "torch": torch_training(build), **more}
    return Workload(f"steps/{name}", inputs, functions, None, flops=flops, quick=quick, builds=True)


# --- transformers ---------------------------------------------------------------------------------
def encoder(library: Any) -> Any:
    """Blocks on given embeddings; classes from the mean of all positions."""
    nn, width = library.nn, ENCODER["width"]

    class Encoder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.last = models.transformer(library, **ENCODER), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.last(x.mean(1))

    return Encoder()


def decoder(library: Any) -> Any:
    """The logits of the token after CONTEXT others, whose keys and values are given."""
    nn, width = library.nn, DECODER["width"]
    blocks = models.transformer(library, **DECODER)
    last = nn.Linear(width, VOCABULARY, bias=False)

    def step(x: Any, keys: Any, values: Any) -> Any:
        with library.no_grad():
            for number, block in enumerate(blocks):
                x = block(x, keys[number], values[number])
            return last(x)

    return step


def decoder_inputs(generator: np.random.Generator) -> Any:
    layers, width, heads = DECODER["layers"], DECODER["width"], DECODER["heads"]
    cache = (layers, 1, heads, CONTEXT, width // heads)
    shapes = ((1, 1, width), cache, cache)
    return tuple(generator.standard_normal(shape, np.float32) for shape in shapes)


def weights_of(layers: int, width: int, heads: int) -> int:
    """How many numbers a transformer's matrices have."""
    return layers * 12 * width**2


DECODER_WEIGHTS = weights_of(**DECODER) + VOCABULARY * DECODER["width"]
WORKLOADS = (
    training(
        "mlp-adam-64",
        lambda library: models.multilayer(library.nn),
        labelled((64, 784), 10),
        6.0 * 64 * (784 * 512 + 512 * 256 + 256 * 10),
        quick=True,
        jax=jax_multilayer,
    ),
    training(
        "digits-64",
        lambda library: models.digits(library.nn),
        labelled((64, 1, 28, 28), 10),
        6.0 * 64 * (24 * 24 * 16 * 25 + 8 * 8 * 32 * 400 + 5120),
        quick=True,
    ),
    training(
        "resnet18-8",
        lambda library: models.resnet18(library.nn),
        labelled((8, 3, 224, 224), 1000),
        6.0 * 8 * 1.82e9,
    ),
    training(
        "encoder-6x384-128",
        encoder,
        labelled((1, 128, 384), 10),
        6.0 * 128 * weights_of(**ENCODER),
    ),
    Workload(
        "steps/decoder-12x768-token",
        decoder_inputs,
        {"torpor": decoder, "torch": decoder},
        None,
        flops=2.0 * DECODER_WEIGHTS,
        bytes=4.0 * DECODER_WEIGHTS,
        mix="read",
        builds=True,
    ),
)
