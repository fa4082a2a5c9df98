"""k-means: which digits look alike, without being told what a digit is; some seconds.

Each round gives every image to the nearest centre, and moves each centre to the mean of its images.
The picture shows the centres that are found.
"""

import argparse

import numpy as np
from PIL import Image

from torpor import Tensor, jit, manual_seed
from torpor.nn.data import load_digits

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=30)
parser.add_argument("--images", type=int, default=8000)
parser.add_argument("--out", default="k_means.png")
options = parser.parse_args()
COUNT = 40

manual_seed(0)
pixels = load_digits()[0][: options.images]
images = (Tensor(pixels).flatten(1).float() / 255).realize()


@jit
def improve(centres: Tensor) -> tuple[Tensor, Tensor]:
    """New centres [centre, pixel], and the mean squared distance of images to the old ones."""
    products = images @ centres.T
    distances = images.square().sum(1, keepdim=True) - 2 * products + centres.square().sum(1)
    nearest = distances.argmin(1)
    belongs = nearest.one_hot(COUNT).float()  # [image, centre]
    sizes = belongs.sum(0).unsqueeze(1)
    means = belongs.T @ images / sizes.clamp(min=1)
    return (sizes > 0).where(means, centres), distances.amin(1).mean()


centres = images[Tensor.randperm(len(images))[:COUNT]].realize()
inertia = []
for number in range(options.rounds):
    centres, distance = improve(centres)
    inertia.append(distance.item())
    print(f"round {number + 1:2}: mean squared distance {inertia[-1]:.3f}")

tiles = centres.reshape(4, 10, 28, 28).transpose(1, 2).reshape(4 * 28, 10 * 28)
picture = Image.fromarray((255 * (1 - tiles)).numpy().astype(np.uint8))
picture.resize((picture.width * 2, picture.height * 2)).save(options.out)
