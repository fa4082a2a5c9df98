"""What is dropped, mixed or taken at random: its distribution, and that nothing else changes."""

import numpy as np
import pytest

import torpor.nn.functional as F
from torpor import Tensor


def test_alpha_dropout_keeps_mean_and_variance():
    x = Tensor(np.random.default_rng(0).standard_normal(50_000))
    made = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(made.mean()) < 0.01
    assert abs(made.std() - 1) < 0.01
    rows = F.feature_alpha_dropout(Tensor.ones(30, 20, 5), 0.5, training=True).numpy()
    assert (rows == rows[..., :1]).all()
    assert len(np.unique(rows)) == 2
    assert F.alpha_dropout(x) is x


def test_slopes_of_rrelu_are_uniform():
    x = Tensor.full((20_000,), -1.0)
    slopes = -F.rrelu(x, 0.25, 0.75, training=True).numpy()
    assert 0.25 <= slopes.min() < 0.26
    assert 0.74 < slopes.max() <= 0.75
    assert abs(slopes.mean() - 0.5) < 0.01


def test_gumbel_softmax_samples_classes():
    logits = Tensor(np.log([0.2, 0.5, 0.3])).expand(20_000, 3).contiguous().requires_grad_()
    hard = F.gumbel_softmax(logits, tau=0.7, hard=True)
    assert np.allclose(hard.detach().numpy().mean(0), [0.2, 0.5, 0.3], atol=0.02)
    assert np.allclose(np.sort(hard.detach().numpy(), 1)[:, :2], 0, atol=1e-6)
    (gradient,) = (hard * Tensor([1.0, 2.0, 3.0])).sum().gradient(logits)
    assert np.abs(gradient.numpy()).max() > 0.1


def test_fractional_pools_take_windows_that_cover_the_ends():
    x = Tensor(np.arange(2 * 9 * 8.0).reshape(1, 2, 9, 8))
    made, places = F.fractional_max_pool2d(x, 2, (5, 4), return_indices=True)
    assert made.shape == (1, 2, 5, 4)
    flat, found = x.numpy().reshape(2, 72), places.numpy().reshape(2, 20)
    assert (np.take_along_axis(flat, found, 1) == made.numpy().reshape(2, 20)).all()
    assert (made.numpy()[..., -1, -1] == flat.max(1)).all()
    cube = x.reshape(1, 2, 2, 6, 6)
    assert F.fractional_max_pool3d(cube, 1, output_ratio=0.5).shape == (1, 2, 1, 3, 3)


def test_windows_begin_where_the_sample_says():
    x = Tensor(np.arange(10.0).reshape(1, 1, 1, 10))
    sample = Tensor([[[0.5, 0.5]]])
    made = F.fractional_max_pool2d(x, (1, 2), (1, 4), _random_samples=sample)
    starts = np.floor((np.arange(4) + 0.5) * 8 / 3) - np.floor(0.5 * 8 / 3)
    starts[-1] = 8
    assert made.numpy().ravel().tolist() == (starts + 1).tolist()


def test_dropout2d_of_fewer_axes_drops_channels_of_each_row():
    for shape in ((64, 32), (64, 32, 5)):
        with pytest.warns(UserWarning, match="second for channels"):
            made = F.dropout2d(Tensor.ones(*shape), 0.5).numpy().reshape(64, 32, -1)
        assert (made == made[:, :, :1]).all() and set(made.ravel()) == {0.0, 2.0}
        assert 0.4 < made.astype(bool).mean() < 0.6
