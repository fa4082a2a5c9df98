"""Layers that learn their width from the first input become those that they are named after."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn

KINDS = {
    "Linear": ((4,), {}, (2, 3, 5)),
    "Conv1d": ((4, 3), {"padding": 1}, (2, 6, 8)),
    "Conv2d": ((4, 3), {}, (2, 6, 8, 8)),
    "Conv3d": ((4, 2), {"bias": False}, (1, 3, 4, 4, 4)),
    "ConvTranspose1d": ((4, 3), {}, (6, 8)),
    "ConvTranspose2d": ((4, 3), {"stride": 2}, (2, 6, 4, 4)),
    "ConvTranspose3d": ((2, 2), {}, (1, 3, 3, 3, 3)),
    "BatchNorm1d": ((), {"eps": 1e-3}, (4, 7)),
    "BatchNorm2d": ((), {}, (2, 3, 4, 4)),
    "BatchNorm3d": ((), {}, (2, 3, 2, 2, 2)),
    "InstanceNorm1d": ((), {"affine": True, "track_running_stats": False}, (2, 3, 8)),
    "InstanceNorm2d": ((), {"affine": False, "track_running_stats": True}, (2, 3, 4, 4)),
    "InstanceNorm3d": ((), {"affine": False, "track_running_stats": False}, (1, 3, 2, 2, 2)),
}
AXES = {"Linear": -1, "BatchNorm1d": 1}


@pytest.mark.parametrize("name", KINDS)
def test_a_lazy_layer_becomes_the_layer(name):
    arguments, options, shape = KINDS[name]
    kind = getattr(nn, name)
    model = nn.Sequential(getattr(nn, f"Lazy{name}")(*arguments, **options))
    assert isinstance(model[0], kind) and not [*model.parameters()]
    x = Tensor(np.random.default_rng(0).standard_normal(shape, np.float32))
    torpor.manual_seed(3)
    made = model(x)
    assert type(model[0]) is kind
    width = shape[AXES.get(name, 1 if len(shape) > 2 else 0)]
    torpor.manual_seed(3)
    plain = kind(width, *arguments, **options)
    assert [*model[0].state_dict()] == [*plain.state_dict()]
    np.testing.assert_allclose(made.numpy(), plain(x).numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model(x).numpy(), plain(x).numpy(), rtol=1e-6, atol=1e-6)


def test_lazy_layers_take_formats_and_are_trained():
    layer = nn.LazyLinear(2, bias=False, dtype=torpor.float64)
    with pytest.raises(TypeError, match="in_features"):
        nn.LazyLinear(2, in_features=3)
    layer.eval()
    layer(Tensor.ones(1, 3, dtype=torpor.float64)).sum().backward()
    assert layer.weight.dtype is torpor.float64 and not layer.training
    assert layer.weight.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_lazy_layers_have_no_parameters_until_they_know_their_shapes():
    layer = nn.LazyConv1d(2, 3)
    assert isinstance(layer, nn.modules.lazy.LazyModuleMixin) and layer.has_uninitialized_params()
    assert layer.cls_to_become is nn.Conv1d
    layer.initialize_parameters(Tensor.ones(1, 4, 8))
    assert type(layer) is nn.Conv1d and layer.weight.shape == (2, 4, 3)
    assert not isinstance(layer.weight, nn.parameter.UninitializedParameter)
    assert not nn.parameter.is_lazy(layer.weight)
    with pytest.raises(TypeError, match="shape"):
        nn.parameter.UninitializedParameter()


def test_adaptive_softmax_gives_each_class_its_probability():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True)
    shapes = {name: tuple(one.shape) for name, one in layer.state_dict().items()}
    assert shapes == {
        "head.weight": (5, 8), "head.bias": (5,), "tail.0.0.weight": (4, 8),
        "tail.0.1.weight": (4, 4), "tail.1.0.weight": (2, 8), "tail.1.1.weight": (5, 2),
    }  # fmt: skip
    x, target = np.random.default_rng(0).standard_normal((4, 8)), [0, 2, 6, 11]
    w = {name: one.numpy().astype(np.float64) for name, one in layer.state_dict().items()}
    softmax = lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True)  # noqa: E731
    head = softmax(x @ w["head.weight"].T + w["head.bias"])
    clusters = [
        softmax(x @ w[f"tail.{n}.0.weight"].T @ w[f"tail.{n}.1.weight"].T) * head[:, 3 + n, None]
        for n in (0, 1)
    ]
    expected = np.concatenate([head[:, :3], *clusters], 1)
    assert np.allclose(expected.sum(1), 1)
    given = Tensor(x.astype(np.float32))
    assert np.allclose(layer.log_prob(given).numpy(), np.log(expected), atol=1e-5)
    output, loss = layer(given, Tensor(target))
    assert np.allclose(output.numpy(), np.log(expected)[range(4), target], atol=1e-5)
    assert np.isclose(loss.item(), -np.log(expected)[range(4), target].mean(), atol=1e-5)
    assert layer.predict(given).tolist() == expected.argmax(1).tolist()
    assert np.isclose(layer(given[1], Tensor(2)).output.item(), np.log(expected)[1, 2], atol=1e-5)
    with pytest.raises(ValueError, match="cutoffs grow"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [7, 3])


def test_lazy_instance_norms_have_parameters_unless_told_otherwise():
    x = torpor.ones(2, 3, 4)
    layer = nn.LazyInstanceNorm1d()
    layer(x)
    assert [*layer.state_dict()] == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked"
    ]  # fmt: skip
    plain = nn.LazyInstanceNorm1d(affine=False, track_running_stats=False)
    plain(x)
    assert not plain.state_dict()
