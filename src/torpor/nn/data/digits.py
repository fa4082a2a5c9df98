"""The 10,000 real handwritten digits that come with torpor, in a split that never changes."""

from __future__ import annotations

from importlib import resources

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

TRAIN_COUNT = 8_000
TEST_COUNT = 2_000


def load_digits() -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Images and labels to train on, then images and labels to test on.

    Returns `(train_images, train_labels, test_images, test_labels)`: images are uint8 with axes
    [image, row, column] and shapes [8000, 28, 28] and [2000, 28, 28], 0 the paper and 255 full
    ink; labels are uint8 [8000] and [2000], the digit 0 to 9. The arrays are the caller's own.

    The split is plain random and stored in the file: its images lie in the order of one permutation
    with a fixed seed (`tools/make_digits.py`), of which the first 8,000 train and the others test.
    Each image is in exactly one part, and no two of the 10,000 are equal. `DIGITS.md` beside this
    file names the source and the terms of the data.
    """
    packed = resources.files(__package__).joinpath("digits.npz")
    with packed.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    train, test = slice(0, TRAIN_COUNT), slice(TRAIN_COUNT, TRAIN_COUNT + TEST_COUNT)
    return images[train], labels[train], images[test], labels[test]
