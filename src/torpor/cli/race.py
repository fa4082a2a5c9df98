"""`torpor demo --against torch`: the same network and data, trained by an installed peer."""

from __future__ import annotations

import time
from typing import Any

from torpor.base.errors import DeviceError
from torpor.cli.training import RATE, Trainer


def import_torch() -> Any:
    """PyTorch; a `DeviceError` where it is not installed."""
    try:
        import torch
    except ImportError:
        raise DeviceError("torch is not installed; pip install torch, then race again") from None
    return torch


def race_torch(trainer: Trainer) -> tuple[float, float]:
    """Train the same network with PyTorch on the batches of a fresh trainer: (seconds, test
    accuracy). Making batches, looking at loss and accuracy after each step, and the first step's
    start are part of the time on both sides; importing is not.
    """
    torch = import_torch()
    functional = torch.nn.functional
    torch.manual_seed(trainer.seed)
    first, second = torch.nn.Conv2d(1, 16, 5), torch.nn.Conv2d(16, 32, 5)
    last = torch.nn.Linear(512, 10)

    def model(x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(first(x)), 2)
        x = functional.max_pool2d(functional.relu(second(x)), 2)
        return last(x.flatten(1))

    parameters = [p for layer in (first, second, last) for p in layer.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=RATE)
    steps = trainer.epochs * trainer.steps
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    started = time.perf_counter()
    for _ in range(trainer.epochs):
        right = 0
        for images, labels in trainer.batches():
            x, y = torch.from_numpy(images), torch.from_numpy(labels)
            optimiser.zero_grad()
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            optimiser.step()
            schedule.step()
            right += int((logits.detach().argmax(1) == y).sum().item())
            loss.item()
    seconds = time.perf_counter() - started
    with torch.no_grad():
        predicted = model(torch.from_numpy(trainer.test_images)).argmax(1).numpy()
    return seconds, float((predicted == trainer.test_labels).mean())
