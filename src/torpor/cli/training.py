"""The demo's training: a network, an optimiser, batches; and its test."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from torpor.capture import jit
from torpor.nn.data import load_digits
from torpor.nn.models import DigitNet
from torpor.nn.optim import Adam
from torpor.tensor import Tensor, no_grad

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

IMAGES: Final = 8000  # for training
BATCH: Final = 64
RATE: Final = 2e-3  # learning rate at the start; it falls to 0 along half a cosine
TEST_BATCH: Final = 500
SHIFT: Final = 1  # pixels that training images are moved by at most, so that more is seen of each


@dataclass(frozen=True)
class Progress:
    """How training stands: `loss` is of the last batch, `accuracy` of the epoch so far."""

    epoch: int
    step: int
    steps: int
    loss: float
    accuracy: float
    images_per_second: float


def as_input(images: NDArray[np.uint8]) -> Images:
    """Pixels as the network wants them: [image, 1, row, column], 0 paper to 1 ink."""
    return (images.astype(np.float32) / np.float32(255)).reshape(-1, 1, 28, 28)


def shifted(images: Images, generator: np.random.Generator) -> Images:
    """Each image moved by up to SHIFT pixels, the border filled with paper."""
    padded = np.pad(images, ((0, 0), (0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    moved = np.empty_like(images)
    offsets = generator.integers(0, 2 * SHIFT + 1, (len(images), 2))
    for number, (down, right) in enumerate(offsets):
        moved[number] = padded[number, :, down : down + 28, right : right + 28]
    return moved


class Trainer:
    """Trains a `DigitNet` on the first `images` of 8,000 digits. Nothing in training looks at the
    2,000 of the test.
    """

    def __init__(self, seed: int = 0, epochs: int = 6, images: int = IMAGES):
        Tensor.manual_seed(seed)
        self.generator = np.random.default_rng(seed)
        self.seed, self.epochs = seed, epochs
        self.model = DigitNet()
        self.optimiser = Adam(self.model.parameters(), lr=RATE)
        train_images, train_labels, test_images, test_labels = load_digits()
        self.images = as_input(train_images[:images])
        self.labels = train_labels[:images].astype(np.int64)
        self.test_images, self.test_labels = as_input(test_images), test_labels.astype(np.int64)
        self.steps = len(self.images) // BATCH
        self.step = jit(self.plain_step)
        self.predict = jit(self.plain_predict)

    def plain_step(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the loss before it, and how many of the batch were right."""
        self.optimiser.zero_grad()
        logits = self.model(images)
        loss = logits.cross_entropy(labels)
        right = (logits.detach().argmax(1) == labels).sum()
        loss.backward()
        changed = self.optimiser.schedule_step()
        loss.realize(right, *changed)
        self.optimiser.zero_grad()
        return loss.detach(), right

    def plain_predict(self, images: Tensor) -> Tensor:
        """The logits of images, without gradients."""
        with no_grad():
            logits: Tensor = self.model(images)
            return logits.realize()

    def batches(self) -> Iterator[tuple[Images, Labels]]:
        """The training data once, in a new order, as batches."""
        order = self.generator.permutation(len(self.images))
        for start in range(0, self.steps * BATCH, BATCH):
            chosen = order[start : start + BATCH]
            yield shifted(self.images[chosen], self.generator), self.labels[chosen]

    def train(self) -> Iterator[Progress]:
        """Train; says after every step how it went."""
        total = self.epochs * self.steps
        for epoch in range(self.epochs):
            right = seen = 0
            started = time.perf_counter()
            for step, (images, labels) in enumerate(self.batches()):
                done = (epoch * self.steps + step) / total
                self.optimiser.lr = RATE * 0.5 * (1 + math.cos(math.pi * done))
                loss, correct = self.step(Tensor(images), Tensor(labels))
                right += int(correct.item())
                seen += BATCH
                rate = seen / (time.perf_counter() - started)
                yield Progress(epoch, step, self.steps, loss.item(), right / seen, rate)

    def logits(self, images: Images) -> NDArray[np.float32]:
        """The network's logits [image, 10] of images [image, 1, 28, 28]."""
        parts = []
        for start in range(0, len(images), TEST_BATCH):
            parts.append(self.predict(Tensor(images[start : start + TEST_BATCH])).numpy())
        return np.concatenate(parts)

    def test(self) -> tuple[float, NDArray[np.int64]]:
        """The share of the 2,000 that is right, and the prediction for each."""
        predicted = self.logits(self.test_images).argmax(1)
        return float((predicted == self.test_labels).mean()), predicted
