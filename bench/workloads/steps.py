"""Whole steps: training of small and middling networks, and generating a token.

A training step is forward, loss, gradients and the optimiser's update. The loss comes out, and the
first parameter after the update, which the whole of the backward pass has gone into; all libraries
begin with the same weights, and PyTorch's answer in float64 is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.workload import Workload
from bench.workloads import jax_models, models
from bench.workloads.weights import Build, filled, in_float64

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


def torpor_training(build: Build) -> Callable[[Any], Any]:
    def prepare(torpor: Any) -> Any:
        model = filled(torpor, build(torpor))
        optimiser = torpor.nn.optim.Adam(model.parameters(), lr=RATE)
        first = optimiser.params[0]

        def step(x: Any, labels: Any) -> Any:
            optimiser.zero_grad()
            loss = model(x).cross_entropy(labels)
            loss.backward()
            loss.realize(*optimiser.schedule_step())
            optimiser.zero_grad()
            return loss.detach(), first.detach()

        return step

    return prepare


def torch_step(torch: Any, model: Any) -> Any:
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    first = next(model.parameters())

    def step(x: Any, labels: Any) -> Any:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimiser.step()
        return loss.detach(), first.detach()

    return step


def torch_training(build: Build) -> Callable[[Any], Any]:
    return lambda torch: torch_step(torch, filled(torch, build(torch)))


def training(
    name: str, build: Build, forward: Any, inputs: Any, flops: float, tolerance: float, quick: bool
) -> Workload:
    """A training step with Adam; `forward` is the model for JAX."""
    return Workload(
        f"steps/{name}",
        inputs,
        {
            "torpor": torpor_training(build),
            "torch": torch_training(build),
            "jax": jax_models.training(build, forward, RATE),
        },
        in_float64(torch_step, build),
        flops=flops,
        tolerance=tolerance,
        quick=quick,
        builds=True,
    )


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

    class Decoder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = models.transformer(library, **DECODER)
            self.last = nn.Linear(width, VOCABULARY, bias=False)

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            with library.no_grad():
                for number, block in enumerate(self.blocks):
                    x = block(x, keys[number], values[number])
                return self.last(x)

    return Decoder()


def decoder_inputs(generator: np.random.Generator) -> Any:
    layers, width, heads = DECODER["layers"], DECODER["width"], DECODER["heads"]
    cache = (layers, 1, heads, CONTEXT, width // heads)
    shapes = ((1, 1, width), cache, cache)
    return tuple(generator.standard_normal(shape, np.float32) for shape in shapes)


def weights_of(layers: int, width: int, heads: int) -> int:
    """How many numbers a transformer's matrices have."""
    return layers * 12 * width**2


DECODER_WEIGHTS = weights_of(**DECODER) + VOCABULARY * DECODER["width"]
# The tolerances are several times the error of PyTorch in float32. An update by Adam is as long for
# a gradient near 0 as for any other, so that rounding turns some around; if all went astray, the
# error would be above 1e-2.
WORKLOADS = (
    training(
        "mlp-adam-64",
        lambda library: models.multilayer(library.nn),
        jax_models.multilayer,
        labelled((64, 784), 10),
        6.0 * 64 * (784 * 512 + 512 * 256 + 256 * 10),
        1e-4,
        quick=True,
    ),
    training(
        "digits-64",
        lambda library: models.digits(library.nn),
        jax_models.digits,
        labelled((64, 1, 28, 28), 10),
        6.0 * 64 * (24 * 24 * 16 * 25 + 8 * 8 * 32 * 400 + 5120),
        1e-4,
        quick=True,
    ),
    training(
        "resnet18-8",
        lambda library: models.resnet18(library.nn),
        jax_models.resnet18,
        labelled((8, 3, 224, 224), 1000),
        6.0 * 8 * 1.82e9,
        5e-3,
        quick=False,
    ),
    training(
        "encoder-6x384-128",
        encoder,
        jax_models.encoder(ENCODER["layers"], ENCODER["heads"]),
        labelled((1, 128, 384), 10),
        6.0 * 128 * weights_of(**ENCODER),
        1e-3,
        quick=False,
    ),
    Workload(
        "steps/decoder-12x768-token",
        decoder_inputs,
        {
            "torpor": lambda library: filled(library, decoder(library)),
            "torch": lambda library: filled(library, decoder(library)),
            "jax": jax_models.decoding(decoder, DECODER["layers"], DECODER["heads"]),
        },
        in_float64(lambda torch, model: model, decoder),
        flops=2.0 * DECODER_WEIGHTS,
        bytes=4.0 * DECODER_WEIGHTS,
        mix="read",
        builds=True,
    ),
)
