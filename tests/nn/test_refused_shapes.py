"""Parameters and targets of the wrong shape are refused, not broadcast, and so are settings that
mean nothing. PyTorch refuses each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError

F = nn.functional
ones = Tensor.ones
classes = Tensor([0, 1])

SHAPES: dict[str, Callable[[], Any]] = {
    "running mean of one channel": lambda: F.batch_norm(ones(2, 3, 4), ones(1), ones(1)),
    "running mean of three": lambda: F.batch_norm(ones(2, 1, 4), ones(3), ones(3)),
    "weight of batch_norm": lambda: F.batch_norm(ones(2, 3), ones(3), ones(3), ones(1)),
    "bias of batch_norm": lambda: F.batch_norm(ones(2, 3), ones(3), ones(3), None, ones(1)),
    "weight of instance_norm": lambda: F.instance_norm(ones(2, 3, 4), weight=ones(1)),
    "weight of group_norm": lambda: F.group_norm(ones(2, 4, 3), 2, ones(1)),
    "bias of group_norm": lambda: F.group_norm(ones(2, 4, 3), 2, ones(4), ones(1)),
    "weight of layer_norm": lambda: F.layer_norm(ones(2, 3), (3,), ones(1)),
    "bias of layer_norm": lambda: F.layer_norm(ones(2, 3), (3,), ones(3), ones(1)),
    "weight of rms_norm": lambda: F.rms_norm(ones(2, 3), (3,), ones(1)),
    "sizes of rms_norm": lambda: F.rms_norm(ones(2, 2, 3), (2, 2)),
    "no sizes of rms_norm": lambda: F.rms_norm(ones(2, 3), ()),
    "slopes of prelu": lambda: F.prelu(ones(2, 1, 4), ones(3)),
    "bias of linear": lambda: F.linear(ones(2, 3), ones(1, 3), ones(5)),
    "bias of bilinear": lambda: F.bilinear(ones(2, 3), ones(2, 4), ones(5, 3, 4), ones(1)),
    "batches of bilinear": lambda: F.bilinear(ones(2, 3), ones(1, 4), ones(5, 3, 4)),
    "weights of classes": lambda: F.cross_entropy(ones(2, 3), ones(2, 3), weight=ones(1)),
    "column of targets": lambda: F.binary_cross_entropy_with_logits(ones(2, 3), ones(2, 1)),
    "row of targets": lambda: F.binary_cross_entropy_with_logits(ones(2, 3), ones(3)),
    "margins of classes": lambda: F.multi_margin_loss(ones(2, 3), classes, weight=ones(2)),
    "ranks": lambda: F.margin_ranking_loss(ones(2), ones(2), ones(2, 1)),
    "pdist of a vector": lambda: F.pdist(ones(2)),
    "weights of a bag": lambda: F.embedding_bag(
        classes.reshape(1, 2), ones(3, 2), mode="sum", per_sample_weights=ones(2, 1)
    ),
    "mask of padding": lambda: nn.MultiheadAttention(4, 2)(
        ones(3, 1, 4), ones(3, 1, 4), ones(3, 1, 4), key_padding_mask=ones(3, 1)
    ),
    "batches of attention": lambda: nn.MultiheadAttention(4, 2)(
        ones(3, 2, 4), ones(3, 1, 4), ones(3, 1, 4)
    ),
    "more pools than fit": lambda: F.fractional_max_pool2d(ones(1, 2, 5, 5), 2, output_size=6),
    "renorm of a scalar": lambda: Tensor(2.0).renorm(0.5, 0, 1.0),
    "flipud of a scalar": lambda: Tensor(2.0).flipud(),
    "weights of observations": lambda: ones(5).cov(aweights=ones(1)),
    "no sections": lambda: ones(4, 4).hsplit(0),
}
VALUES: dict[str, Callable[[], Any]] = {
    "eps of batch_norm": lambda: nn.BatchNorm1d(3, eps=0.0)(ones(2, 3)),
    "negative eps": lambda: nn.BatchNorm1d(3, eps=-1.0).eval()(ones(2, 3)),
    "p of multi_margin_loss": lambda: F.multi_margin_loss(ones(2, 3), classes, p=3),
    "weights of means": lambda: F.embedding_bag(
        classes.reshape(1, 2), ones(3, 2), mode="max", per_sample_weights=ones(1, 2)
    ),
    "corners of nearest": lambda: F.interpolate(ones(1, 1, 4), 2, align_corners=True),
    "ignored probabilities": lambda: F.cross_entropy(ones(2, 3), ones(2, 3), ignore_index=0),
    "slopes the wrong way": lambda: F.rrelu(ones(3), lower=0.3, upper=0.1),
    "negative margin": lambda: F.triplet_margin_loss(
        ones(2, 3), ones(2, 3), ones(2, 3), margin=-1.0
    ),
    "negative rtol": lambda: ones(2).isclose(ones(2), rtol=-0.4),
    "negative atol": lambda: (ones(2) * 1j).isclose(ones(2), atol=-0.4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(ShapeError):
        SHAPES[name]()


@pytest.mark.parametrize("name", VALUES)
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(ValueRangeError):
        VALUES[name]()


def test_vectors_of_another_length_have_no_cross_product() -> None:
    with pytest.raises(ShapeError):
        ones(5, 3).cross(ones(5, 1), dim=-1)
    assert ones(2, 3).cross(Tensor([0.0, 0.0, 1.0])).tolist() == [[1, -1, 0]] * 2


def test_only_modules_are_added_as_modules_and_flags_are_bools() -> None:
    with pytest.raises(TypeError, match="Module"):
        nn.Module().add_module("a", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="batch_first"):
        nn.LSTM(3, 4, batch_first="False")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="normal"):
        Tensor.normal(ones(3), 0.0, 1.0)


def test_formats_are_numpys_where_numpy_wants_one() -> None:
    x = Tensor([1.0, 2.0])
    assert np.zeros(3, dtype=x.dtype).dtype == np.float32
    assert np.dtype(Tensor([1]).dtype) == np.int64


def test_a_tuple_of_axes_transposes_as_numpy_does() -> None:
    x = Tensor.arange(24).reshape(2, 3, 4)
    assert x.transpose((2, 0, 1)).tolist() == x.numpy().transpose((2, 0, 1)).tolist()


def test_weights_of_observations_are_whole_or_not_negative():
    with pytest.raises(DTypeError, match="whole"):
        ones(5).cov(fweights=ones(5))
    with pytest.raises(ValueRangeError, match="negative"):
        ones(5).cov(aweights=Tensor([1.0, 1.0, -1.0, 1.0, 1.0])).item()


def test_what_fits_is_taken():
    """As PyTorch takes it: a mask of padding without a batch, statistics without an eps, the first
    axis of length 3 of the first tensor, a bias that is a row.
    """
    attend = nn.MultiheadAttention(4, 2)
    query, key = Tensor.randn(5, 4), Tensor.randn(3, 4)
    padding = Tensor([False, False, True])
    alone, _ = attend(query, key, key, key_padding_mask=padding)
    without, _ = attend(query, key[:2], key[:2])
    np.testing.assert_allclose(alone.tolist(), without.tolist(), rtol=1e-5, atol=1e-6)
    assert nn.BatchNorm1d(3, eps=0.0).eval()(ones(2, 3)).tolist() == [[1, 1, 1]] * 2
    x, y = np.arange(3.0).reshape(1, 3), np.eye(3)
    assert Tensor(x).cross(Tensor(y)).tolist() == np.cross(x, y).tolist()
    assert F.linear(ones(3), ones(4, 3), ones(1, 4)).tolist() == [4] * 4
