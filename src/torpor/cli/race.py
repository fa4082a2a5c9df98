"""`torpor demo --against torch`: the same network and data, trained by an installed peer."""

from __future__ import annotations

import time

from torpor.base.errors import DeviceError
from torpor.cli.training import RATE, Trainer


def race_torch(trainer: Trainer, epochs: int) -> tuple[float, float]:
    """Train the same network with PyTorch: (seconds, test accuracy). The compiler's own start is
    part of the time on both sides; importing is not.
    """
    try:
        import torch
    except ImportError:
        raise DeviceError("torch is not installed; pip install torch, then race again") from None
    functional = torch.nn.functional
    torch.manual_seed(0)
    first, second = torch.nn.Conv2d(1, 16, 5), torch.nn.Conv2d(16, 32, 5)
    last = torch.nn.Linear(512, 10)

    def model(x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(first(x)), 2)
        x = functional.max_pool2d(functional.relu(second(x)), 2)
        return last(x.flatten(1))

    parameters = [p for layer in (first, second, last) for p in layer.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * trainer.steps)
    started = time.perf_counter()
    for _ in range(epochs):
        for images, labels in trainer.batches():
            x, y = torch.from_numpy(images.numpy()), torch.from_numpy(labels.numpy())
            optimiser.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            schedule.step()
    seconds = time.perf_counter() - started
    with torch.no_grad():
        predicted = model(torch.from_numpy(trainer.test_images)).argmax(1).numpy()
    return seconds, float((predicted == trainer.test_labels).mean())
