"""Normalisations against their formulas in float64, and their gradients against each other's."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError

RNG = np.random.default_rng(11)


def standardised(x, axes, eps):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


def set_to(parameter, array):
    parameter.detach().assign(Tensor(array, dtype=parameter.dtype))


@pytest.mark.parametrize("shape", [5, (5,), (4, 5)])
def test_layer_norm(shape):
    x = RNG.standard_normal((3, 4, 5))
    layer = nn.LayerNorm(shape, eps=1e-3)
    sizes = (shape,) if isinstance(shape, int) else shape
    scale, shift = RNG.standard_normal(sizes), RNG.standard_normal(sizes)
    expected = standardised(x, tuple(range(-len(sizes), 0)), 1e-3) * scale + shift
    set_to(layer.weight, scale)
    set_to(layer.bias, shift)
    assert np.allclose(layer(Tensor(x.astype(np.float32))).numpy(), expected, atol=1e-5)


def test_rms_norm():
    x = RNG.standard_normal((3, 6))
    layer = nn.RMSNorm(6, eps=1e-3)
    set_to(layer.weight, scale := RNG.standard_normal(6))
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * scale
    assert np.allclose(layer(Tensor(x.astype(np.float32))).numpy(), expected, atol=1e-5)


def test_group_norm():
    x = RNG.standard_normal((2, 6, 3, 4))
    layer = nn.GroupNorm(3, 6)
    set_to(layer.weight, scale := RNG.standard_normal(6))
    set_to(layer.bias, shift := RNG.standard_normal(6))
    groups = standardised(x.reshape(2, 3, -1), -1, 1e-5).reshape(x.shape)
    expected = groups * scale[:, None, None] + shift[:, None, None]
    assert np.allclose(layer(Tensor(x.astype(np.float32))).numpy(), expected, atol=1e-5)


def test_names_and_what_can_be_left_out():
    assert list(nn.LayerNorm((2, 3)).state_dict()) == ["weight", "bias"]
    assert list(nn.LayerNorm(3, bias=False).state_dict()) == ["weight"]
    assert list(nn.LayerNorm(3, elementwise_affine=False).state_dict()) == []
    assert list(nn.RMSNorm(3).state_dict()) == ["weight"]
    assert list(nn.RMSNorm(3, elementwise_affine=False).state_dict()) == []
    assert list(nn.GroupNorm(1, 3).state_dict()) == ["weight", "bias"]
    assert list(nn.GroupNorm(1, 3, affine=False).state_dict()) == []


def test_they_learn():
    x = Tensor(RNG.standard_normal((4, 6)).astype(np.float32))
    for layer in (nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(2, 6)):
        layer(x).sum().backward()
        plain = layer(x).detach().numpy()  # scale 1 and shift 0 as yet
        assert np.allclose(layer.weight.grad.numpy(), plain.sum(0), atol=1e-5)
        if not isinstance(layer, nn.RMSNorm):
            assert layer.bias.grad.tolist() == [4.0] * 6


def test_instance_norms_may_have_no_shift():
    one = nn.InstanceNorm1d(3, affine=True, bias=False)
    assert list(one.state_dict()) == ["weight"]
    x = np.random.default_rng(0).standard_normal((2, 3, 8))
    mean, deviation = x.mean(-1, keepdims=True), np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(one(Tensor(x)).detach().numpy(), (x - mean) / deviation, atol=1e-6)


def test_other_sizes_are_an_error():
    with pytest.raises(ShapeError, match="the last axes must be"):
        nn.LayerNorm(5)(Tensor.ones(2, 4))


@pytest.mark.parametrize("groups", [0, 2])
def test_groups_that_do_not_divide_the_channels(groups):
    with pytest.raises(ValueError, match="do not divide"):
        nn.GroupNorm(groups, 3)


def test_batch_norms_become_those_of_all_devices():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = net[1].weight
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(made[1]) is nn.SyncBatchNorm and made[1].weight is before
    assert made(Tensor.ones(2, 3)).shape == (2, 4)
    assert nn.SyncBatchNorm(2)(Tensor.ones(1, 2, 3, 4, 5)).shape == (1, 2, 3, 4, 5)


def test_running_statistics_stay_where_they_are_not_to_follow():
    """Told so after the layer was made: in training a batch's own are used, and nothing changes."""
    x = RNG.standard_normal((6, 4))
    layer = nn.BatchNorm1d(4)
    layer(Tensor(x))
    kept = {name: value.numpy().copy() for name, value in layer.named_buffers()}
    layer.track_running_stats = False
    made = layer(Tensor(3 * x + 1)).detach().numpy()
    np.testing.assert_allclose(made, standardised(3 * x + 1, 0, 1e-5), rtol=1e-5, atol=1e-5)
    for name, value in layer.named_buffers():
        np.testing.assert_array_equal(value.numpy(), kept[name])
    mean, variance = kept["running_mean"], kept["running_var"]
    wanted = (x - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(layer.eval()(Tensor(x)).detach().numpy(), wanted, rtol=1e-5)
