"""Colours are changed as formulas for one point say."""

import colorsys

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.nn.data import colours
from torpor.nn.data import transforms as t

PICTURES = np.random.default_rng(0).random((4, 3, 6, 8)).astype("f4")
BYTES = (PICTURES * 255).astype("u1")
FLOATS, WHOLE = Tensor(PICTURES), Tensor(BYTES)


def test_hues_move_around_the_circle():
    made = colours.turned(FLOATS, 0.3).numpy()
    for n, i, j in np.ndindex(4, 6, 8):
        hue, saturation, value = colorsys.rgb_to_hsv(*PICTURES[n, :, i, j])
        expected = colorsys.hsv_to_rgb((hue + 0.3) % 1, saturation, value)
        np.testing.assert_allclose(made[n, :, i, j], expected, atol=1e-5)
    grey = Tensor(np.full((1, 3, 2, 2), 0.5, "f4"))
    assert (colours.turned(grey, 0.2).numpy() == 0.5).all()
    torpor.manual_seed(0)
    assert (t.ColorJitter(hue=0.4)(WHOLE).numpy() != BYTES).any()
    with pytest.raises(ValueError, match="hue"):
        t.ColorJitter(hue=0.6)


def test_changes_with_a_probability_of_one():
    assert (t.RandomInvert(1.0)(WHOLE).numpy() == 255 - BYTES).all()
    assert t.RandomInvert()(WHOLE).dtype is torpor.uint8
    assert (t.RandomPosterize(3, 1.0)(WHOLE).numpy() == (BYTES & 0b11100000)).all()
    expected = np.where(BYTES >= 100, 255 - BYTES, BYTES)
    assert (t.RandomSolarize(threshold=100, p=1.0)(WHOLE).numpy() == expected).all()
    low, high = PICTURES.min((2, 3), keepdims=True), PICTURES.max((2, 3), keepdims=True)
    made = t.RandomAutocontrast(p=1.0)(FLOATS).numpy()
    np.testing.assert_allclose(made, (PICTURES - low) / (high - low), atol=1e-6)
    assert (t.RandomInvert(p=0.0)(WHOLE).numpy() == BYTES).all()
    greys = t.RandomGrayscale(1.0)(FLOATS).numpy()
    assert (greys[:, 0] == greys[:, 2]).all()


def test_sharper_and_smoother():
    made = t.RandomAdjustSharpness(0.0, 1.0)(FLOATS).numpy()
    around = PICTURES[:, :, 1:4, 2:5].sum((2, 3)) + 4 * PICTURES[:, :, 2, 3]
    np.testing.assert_allclose(made[:, :, 2, 3], around / 13, atol=1e-6)
    assert (made[:, :, 0] == PICTURES[:, :, 0]).all()
    blurred = t.GaussianBlur((3, 5), 0.8)(FLOATS).numpy()
    weights = [np.exp(-((np.arange(n) - n // 2) ** 2) / (2 * 0.8**2)) for n in (5, 3)]
    kernel = np.outer(*[one / one.sum() for one in weights])
    expected = (PICTURES[:, :, 1:6, 2:5] * kernel).sum((2, 3))
    np.testing.assert_allclose(blurred[:, :, 3, 3], expected, atol=1e-6)
    with pytest.raises(ValueError, match="odd"):
        t.GaussianBlur(4)


def test_each_picture_is_changed_by_itself():
    torpor.manual_seed(1)
    many = Tensor(np.tile(BYTES[:1], (40, 1, 1, 1)))
    for change in (t.RandAugment(), t.RandomApply([t.ColorJitter(0.5)], 0.5),
                   t.RandomResizedCrop((6, 8))):  # fmt: skip
        made = change(many)
        assert made.shape == many.shape and made.dtype is torpor.uint8
        assert len({one.tobytes() for one in made.numpy()}) > 10
    flat = Tensor(np.full((2, 3, 5, 5), 0.25, "f4"))
    assert np.allclose(t.RandomResizedCrop(4)(flat).numpy(), 0.25)
    ramp = Tensor(np.broadcast_to(np.linspace(0, 1, 64, dtype="f4"), (1, 3, 64, 64)))
    part = t.RandomResizedCrop(64, (0.25, 0.25), (1.0, 1.0))(ramp).numpy()
    np.testing.assert_allclose(np.diff(part[0, 0, 0])[2:-2], 0.5 / 63, atol=1e-5)
