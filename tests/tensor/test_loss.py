import math

import numpy as np
import pytest

from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.base.errors import OutOfBoundsError

LOGITS = numbers((6, 4), "float64")
TARGETS = np.array([0, 3, 1, 1, 2, 0])
LOGS = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
WEIGHTS = np.array([0.5, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(reduction, weighted):
    scale = WEIGHTS[TARGETS] if weighted else np.ones(6)
    each = -LOGS[np.arange(6), TARGETS] * scale
    expected = {"mean": each.sum() / scale.sum(), "sum": each.sum(), "none": each}[reduction]
    weight = Tensor(WEIGHTS) if weighted else None
    logits, targets = Tensor(LOGITS), Tensor(TARGETS)
    check(logits.cross_entropy(targets, weight, reduction=reduction), expected)
    check(Tensor(LOGS).nll_loss(targets, weight, reduction=reduction), expected)


def test_cross_entropy_smooths_ignores_and_takes_probabilities():
    logits = Tensor(LOGITS)
    smooth = np.eye(4)[TARGETS] * 0.9 + 0.1 / 4
    expected = -(LOGS * smooth).sum(1).mean()
    check(logits.cross_entropy(Tensor(TARGETS), label_smoothing=0.1), expected)
    check(logits.cross_entropy(Tensor(np.eye(4)[TARGETS]), label_smoothing=0.1), expected)
    kept = TARGETS != 1
    expected = -LOGS[kept, TARGETS[kept]].mean()
    check(logits.cross_entropy(Tensor(TARGETS), ignore_index=1), expected)
    images = LOGITS.reshape(3, 2, 4).transpose(0, 2, 1)  # classes on axis 1
    each = -LOGS[np.arange(6), TARGETS].reshape(3, 2)
    found = Tensor(images).cross_entropy(Tensor(TARGETS.reshape(3, 2)), reduction="none")
    check(found, each)
    check(logits[0].cross_entropy(Tensor(3)), -LOGS[0, 3])


def test_classes_that_do_not_exist_raise():
    with pytest.raises(IndexError):
        Tensor(LOGITS).cross_entropy(Tensor([0, 1, 2, 3, 4, 0])).item()
    with pytest.raises(TypeError, match="integers"):
        Tensor(LOGS).nll_loss(Tensor(LOGITS))
    with pytest.raises(ValueError, match="targets must have shape"):
        Tensor(LOGITS).cross_entropy(Tensor([0, 1]))
    with pytest.raises(ValueError, match="reduction"):
        Tensor(LOGITS).mse_loss(Tensor(LOGITS), reduction="median")


def test_regression_losses():
    a, b = numbers((5, 3), "float64"), numbers((5, 3), "float64", seed=1)
    x, y = Tensor(a), Tensor(b)
    check(x.mse_loss(y), ((a - b) ** 2).mean())
    check(x.l1_loss(y, "sum"), abs(a - b).sum())
    apart = abs(a - b)
    smooth = np.where(apart < 0.5, apart**2, apart - 0.25)
    check(x.smooth_l1_loss(y, "none", 0.5), smooth)
    check(x.huber_loss(y, "none", 0.5), smooth / 2)


def test_binary_losses():
    logits, target = numbers((7,), "float64", -30, 30), np.array([0, 1, 1, 0, 1, 0.3, 0])
    chance = 1 / (1 + np.exp(-logits))
    expected = np.logaddexp(0, -logits) * target + np.logaddexp(0, logits) * (1 - target)
    found = Tensor(logits).binary_cross_entropy_with_logits(Tensor(target), reduction="none")
    check(found, expected)
    near = Tensor(chance[:3]).binary_cross_entropy(Tensor(target[:3]), reduction="none")
    np.testing.assert_allclose(near.numpy(), expected[:3], rtol=1e-3)
    assert Tensor([0.0]).binary_cross_entropy(Tensor([1.0])).item() == 100


def test_normalisation():
    array = numbers((4, 6, 5), "float64")
    weight, bias = numbers((5,), "float64", seed=1), numbers((5,), "float64", seed=2)
    mean, var = array.mean(-1, keepdims=True), array.var(-1, keepdims=True)
    expected = (array - mean) / np.sqrt(var + 1e-5) * weight + bias
    check(Tensor(array).layer_norm(5, Tensor(weight), Tensor(bias)), expected)
    rms = array / np.sqrt((array**2).mean(-1, keepdims=True) + 1e-6)
    check(Tensor(array).rms_norm((5,), eps=1e-6), rms)
    groups = array.reshape(4, 3, -1)
    spread = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    check(Tensor(array).group_norm(3), spread.reshape(array.shape))
    scale = numbers((6,), "float64", 0.5, 2)
    found = Tensor(array).batch_norm(Tensor(scale), Tensor(scale), Tensor(scale), Tensor(scale))
    column = scale[:, None]
    check(found, (array - column) * column * column + column)


def test_dropout():
    x = Tensor.ones(10000)
    assert x.dropout(0.5) is x
    with Tensor.train():
        assert Tensor.training
        dropped = x.dropout(0.25).numpy()
    assert not Tensor.training
    assert set(np.unique(dropped)) == {0, np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02  # five standard deviations
    assert x.dropout(1.0, training=True).sum().item() == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        x.dropout(1.5)
    assert math.isclose(x.dropout(0.5, training=False).mean().item(), 1)


def test_probabilities_have_the_shape_of_the_logits():
    with pytest.raises(ValueError, match="probabilities"):
        Tensor.zeros(3, 3).cross_entropy(Tensor([0.0, 1.0, 2.0]))


def test_divergence_of_distributions():
    p, q = (np.exp(LOGS), np.exp(np.roll(LOGS, 1, 0)))
    q[0] = [0, 1, 0, 0]  # what never happens adds nothing
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(q > 0, q * (np.log(q) - np.log(p)), 0)
    check(Tensor(LOGS).kl_div(Tensor(q), "none"), each)
    check(Tensor(LOGS).kl_div(Tensor(q), "batchmean"), each.sum() / 6)
    logs = np.roll(LOGS, 1, 0)
    found = Tensor(LOGS).kl_div(Tensor(logs), "sum", log_target=True)
    check(found, (np.exp(logs) * (logs - LOGS)).sum())


def test_classes_on_the_last_axis():
    expected = -LOGS[np.arange(6), TARGETS].mean()
    logits, targets = Tensor(LOGITS.reshape(2, 3, 4)), Tensor(TARGETS.reshape(2, 3))
    check(logits.sparse_categorical_crossentropy(targets), expected)


def test_each_channel_of_each_sample_is_normalised():
    images = numbers((2, 3, 4, 5), "float64")
    mean, variance = (f(images, axis=(2, 3), keepdims=True) for f in (np.mean, np.var))
    check(Tensor(images).instance_norm(), (images - mean) / np.sqrt(variance + 1e-5))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradient_of_cross_entropy_is_softmax_less_the_target(reduction):
    logits = Tensor(LOGITS, requires_grad=True)
    loss = logits.cross_entropy(Tensor(TARGETS), ignore_index=3, reduction=reduction)
    kept = (TARGETS != 3)[:, None]
    expected = np.where(kept, np.exp(LOGS) - np.eye(4)[TARGETS], 0)
    check(loss.gradient(logits)[0], expected / (kept.sum() if reduction == "mean" else 1))


def test_gradient_alone_tells_of_a_class_that_there_is_not():
    logits = Tensor(LOGITS, requires_grad=True)
    (found,) = logits.cross_entropy(Tensor([0, 3, 1, 4, 2, 0])).gradient(logits)
    with pytest.raises(OutOfBoundsError, match="target classes: an index is out of bounds"):
        found.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_classes_of_any_integer_format(dtype):
    """The class that does not count, -100, need not fit into it."""
    expected = Tensor(LOGITS).cross_entropy(Tensor(TARGETS)).item()
    classes = Tensor(TARGETS.astype(dtype))
    assert Tensor(LOGITS).cross_entropy(classes).item() == expected
    found = Tensor(LOGITS).log_softmax(1).nll_loss(classes).item()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
