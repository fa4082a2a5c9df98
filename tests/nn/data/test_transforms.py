"""Pictures are changed as NumPy says, each by random numbers of its own."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.nn.data import transforms as t

PICTURES = np.random.default_rng(0).random((4, 3, 6, 8), np.float32)
BYTES = (PICTURES * 255).astype(np.uint8)
GREY = np.array([0.299, 0.587, 0.114])[:, None, None]


def test_a_batch_of_any_shape_and_a_picture_alone():
    change = t.Compose([t.ToFloat(), t.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
    expected = (BYTES / 255 - [[[0.5]], [[0.4]], [[0.3]]]) / [[[0.2]], [[0.3]], [[0.4]]]
    assert np.allclose(change(Tensor(BYTES)).numpy(), expected, atol=1e-6)
    assert np.allclose(change(Tensor(BYTES[1])).numpy(), expected[1], atol=1e-6)
    several = change(Tensor(BYTES.reshape(2, 2, 3, 6, 8)))
    assert np.allclose(several.numpy().reshape(expected.shape), expected, atol=1e-6)
    with pytest.raises(ValueError, match="channel, height and width"):
        change(Tensor(BYTES[0, 0]))


def test_parts_and_sizes():
    x = Tensor(PICTURES)
    assert (t.CenterCrop((2, 4))(x).numpy() == PICTURES[:, :, 2:4, 2:6]).all()
    padded = np.pad(PICTURES, ((0, 0), (0, 0), (2, 2), (1, 1)), constant_values=0.5)
    assert (t.Pad((1, 2), 0.5)(x).numpy() == padded).all()
    assert t.Resize(3)(x).shape == (4, 3, 3, 4) and t.Resize((5, 7))(x).shape == (4, 3, 5, 7)
    halves = PICTURES.reshape(4, 3, 3, 2, 4, 2).mean((3, 5))
    assert np.allclose(t.Resize((3, 4))(x).numpy(), halves, atol=1e-6)
    assert t.Resize((3, 4))(Tensor(BYTES)).dtype is torpor.uint8
    with pytest.raises(ValueError, match="a part of size"):
        t.CenterCrop(7)(x)


def test_random_parts_lie_anywhere_in_each_picture():
    torpor.manual_seed(0)
    x = Tensor(BYTES)
    found = set()
    for _ in range(6):
        for made, whole in zip(t.RandomCrop((5, 6))(x).numpy(), BYTES, strict=True):
            places = [(i, j) for i in range(2) for j in range(3)
                      if (whole[:, i : i + 5, j : j + 6] == made).all()]  # fmt: skip
            assert len(places) == 1
            found.update(places)
    assert len(found) >= 5
    assert t.RandomCrop(8, padding=1)(x).shape == (4, 3, 8, 8)


def test_flips_turn_some_pictures_around():
    torpor.manual_seed(0)
    x = Tensor(np.tile(PICTURES[:1], (64, 1, 1, 1)))
    for kind, axis in ((t.RandomHorizontalFlip, 3), (t.RandomVerticalFlip, 2)):
        assert (kind(1.0)(Tensor(PICTURES)).numpy() == np.flip(PICTURES, axis)).all()
        made = kind()(x).numpy()
        turned = (made == np.flip(x.numpy(), axis)).all((1, 2, 3))
        assert (turned | (made == x.numpy()).all((1, 2, 3))).all()
        assert 16 < turned.sum() < 48


def test_pictures_are_turned_against_the_clock_and_moved():
    x = Tensor(PICTURES[:, :, :, :6])
    turned = t.RandomRotation((90, 90))(x).numpy()
    assert np.allclose(turned, np.rot90(PICTURES[:, :, :, :6], axes=(2, 3)), atol=1e-5)
    upside = t.RandomRotation((180, 180), "bilinear")(Tensor(PICTURES)).numpy()
    assert np.allclose(upside, PICTURES[:, :, ::-1, ::-1], atol=1e-4)
    torpor.manual_seed(3)
    still = t.RandomAffine(0, translate=(0.25, 0.0))(Tensor(np.tile(PICTURES[:1], (32, 1, 1, 1))))
    steps = set()
    for made in still.numpy():
        moved = [
            n
            for n in range(-2, 3)
            if np.allclose(
                made[:, :, max(n, 0) : 8 + min(n, 0)], PICTURES[0][:, :, max(-n, 0) : 8 - max(n, 0)]
            )
        ]
        assert len(moved) == 1
        steps.update(moved)
    assert len(steps) >= 4
    larger = t.RandomAffine(0, scale=(2.0, 2.0))(Tensor(PICTURES)).numpy()
    assert (larger == PICTURES[:, :, [1, 2, 2, 3, 3, 4]][..., [2, 2, 3, 3, 4, 4, 5, 5]]).all()


def test_boxes_are_erased():
    torpor.manual_seed(0)
    x = Tensor(np.ones((32, 3, 12, 12), np.float32))
    gone = t.RandomErasing(1.0, (0.1, 0.3))(x).numpy() == 0
    for one in gone:
        assert (one == one[0]).all()
        rows, columns = one[0].any(1), one[0].any(0)
        assert (one[0] == rows[:, None] & columns).all() and 6 <= one[0].sum() <= 60
    assert not (t.RandomErasing(0.0)(x).numpy() == 0).any()


def test_colours():
    grey = (PICTURES * GREY).sum(1, keepdims=True)
    x = Tensor(PICTURES)
    assert np.allclose(t.Grayscale()(x).numpy(), grey, atol=1e-6)
    assert t.Grayscale(3)(Tensor(BYTES)).shape == (4, 3, 6, 8)
    brighter = t.ColorJitter(brightness=(1.5, 1.5))
    assert np.allclose(brighter(x).numpy(), np.clip(PICTURES * 1.5, 0, 1), atol=1e-6)
    bytes_of = brighter(Tensor(BYTES)).numpy()
    assert bytes_of.dtype == np.uint8
    assert (abs(bytes_of - np.clip(BYTES * 1.5, 0, 255)) <= 0.5).all()
    mean = grey.mean((1, 2, 3), keepdims=True)
    flat = t.ColorJitter(contrast=(0.5, 0.5))(x).numpy()
    assert np.allclose(flat, (PICTURES + mean) / 2, atol=1e-5)
    assert np.allclose(t.ColorJitter(saturation=(0, 0))(x).numpy(), grey.repeat(3, 1), atol=1e-5)
    torpor.manual_seed(0)
    shares = t.ColorJitter(0.4)(Tensor(np.full((16, 3, 2, 2), 0.5, np.float32))).numpy()[:, 0, 0, 0]
    assert len(set(shares)) > 10 and shares.min() >= 0.3 and shares.max() <= 0.7
