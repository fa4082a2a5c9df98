"""Digits that nobody wrote: a variational autoencoder with a plane of codes; about a minute.

The encoder says where in the plane an image lies, and how surely; the decoder draws what lies at a
place. The picture shows what is drawn all over the plane.
"""

import argparse

import numpy as np
from PIL import Image

from torpor import Tensor, jit, manual_seed, nn, no_grad
from torpor.nn.data import load_digits

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--images", type=int, default=8000)
parser.add_argument("--out", default="vae.png")
options = parser.parse_args()


class VAE(nn.Module):
    """Pixels [image, 784] to scores of ink [image, 784], by codes [image, 2]."""

    def __init__(self) -> None:
        self.encoder = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 4))
        self.decoder = nn.Sequential(
            nn.Linear(2, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 784)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + (log_variance / 2).exp() * Tensor.randn(*mean.shape)
        return self.decoder(code), mean, log_variance


manual_seed(0)
images = (Tensor(load_digits()[0][: options.images]).flatten(1).float() / 255).realize()
model = VAE()
optimiser = nn.optim.Adam(model.parameters(), lr=2e-3)


@jit
def step(chosen: Tensor) -> Tensor:
    x = images[chosen]
    optimiser.zero_grad()
    ink, mean, log_variance = model(x)
    error = ink.binary_cross_entropy_with_logits(x, reduction="sum")
    divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum() / 2
    loss = (error + divergence) / len(chosen)
    loss.backward()
    optimiser.step()
    return loss.detach()


losses = []
for epoch in range(options.epochs):
    batches = Tensor.randperm(len(images)).reshape(-1, 100).realize()
    losses.append(Tensor.stack([step(batch) for batch in batches]).mean().item())
    print(f"epoch {epoch + 1:2}: {losses[-1]:.1f} nats an image")

side = 16
places = Tensor.linspace(0.03, 0.97, side)
line = 2**0.5 * (2 * places - 1).erfinv()  # quantiles of the normal distribution
rows, columns = Tensor.meshgrid(line, line, indexing="ij")
with no_grad():
    drawn = model.decoder(Tensor.stack([columns, rows], dim=-1).flatten(0, 1)).sigmoid()
tiles = drawn.reshape(side, side, 28, 28).transpose(1, 2).reshape(side * 28, side * 28)
Image.fromarray((255 * (1 - tiles)).numpy().astype(np.uint8)).save(options.out)
