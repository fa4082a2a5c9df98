"""The shipped digits are whole, sane, small, and split once and for all."""

import hashlib
from importlib import resources

import numpy as np
import pytest

from torpor.nn.data.digits import load_digits

# Of the images and labels of each part; a new value here means a new split, and old figures for
# accuracy no longer compare.
CHECKSUMS = ("e5d5ab8a819766f6", "ac479c8b4a6ad1dc", "8167e8c55bd383ff", "aa4773071dc7273b")

CLASS_COUNTS = (1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978)


@pytest.fixture(scope="module")
def parts():
    return load_digits()


def test_counts_shapes_and_dtypes(parts):
    assert [part.shape for part in parts] == [(8000, 28, 28), (8000,), (2000, 28, 28), (2000,)]
    assert {part.dtype for part in parts} == {np.dtype(np.uint8)}


def test_the_split_is_fixed(parts):
    assert tuple(hashlib.sha256(part.tobytes()).hexdigest()[:16] for part in parts) == CHECKSUMS


def test_every_image_is_in_exactly_one_part_and_once(parts):
    train, test = ({image.tobytes() for image in images} for images in (parts[0], parts[2]))
    assert (len(train), len(test), len(train & test)) == (8000, 2000, 0)


def test_values_span_a_byte_and_the_margin_is_paper(parts):
    images = np.concatenate([parts[0], parts[2]])
    assert (images.min(), images.max()) == (0, 255)
    assert images.reshape(len(images), -1).max(axis=1).min() > 100  # no image is blank
    assert 0.12 < images.mean() / 255 < 0.14
    corners = images[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert not corners.any()


def test_labels_are_those_of_the_source_in_both_parts(parts):
    train, test = np.bincount(parts[1], minlength=10), np.bincount(parts[3], minlength=10)
    assert tuple(train + test) == CLASS_COUNTS
    assert test.min() >= 150


def test_labels_belong_to_their_images(parts):
    """Nearest class mean is a poor classifier, yet far above the 0.1 of shuffled labels."""
    train_images, train_labels, test_images, test_labels = parts
    means = np.stack([train_images[train_labels == d].mean(axis=0) for d in range(10)])
    scores = test_images.reshape(-1, 784).astype(float) @ means.reshape(10, 784).T
    distance = (means.reshape(10, 784) ** 2).sum(axis=1) - 2 * scores
    assert (distance.argmin(axis=1) == test_labels).mean() > 0.75


def test_the_callers_arrays_are_its_own(parts):
    mine = load_digits()[0]
    mine[:] = 0
    assert parts[0].any()
    assert load_digits()[0].any()


def test_the_file_is_small_and_its_terms_lie_beside_it():
    folder = resources.files("torpor.nn.data")
    with resources.as_file(folder.joinpath("digits.npz")) as path:
        assert path.stat().st_size <= 2_500_000
    terms = folder.joinpath("DIGITS.md").read_text(encoding="utf-8")
    assert "Creative Commons" in terms
    assert "MIT" in terms
