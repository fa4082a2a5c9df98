import math

import numpy as np
import pytest

from tests.tensor.layouts import check, numbers
from torpor import Tensor
from torpor.base.errors import OutOfBoundsError, ShapeError, ValueRangeError

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
    for least in (-1, -4, -5, -(2**63)):
        targets = Tensor([0, 1, 2, 3, least, 0])
        for loss in (Tensor(LOGITS).cross_entropy, Tensor(LOGS).nll_loss):
            with pytest.raises(IndexError, match="target classes"):
                loss(targets, reduction="none").numpy()
            assert np.isfinite(loss(targets, ignore_index=least).item())
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


SPECIAL = [0.0, -0.0, 0.5, 2.0, -1.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_divergence_keeps_nan_and_infinities(logarithmic, reduction):
    """By q log(q) - q p as it stands, but for 0 log(0), which is 0."""
    p, q = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    with np.errstate(all="ignore"):
        if logarithmic:
            each = np.exp(q) * (q - p)
        else:
            each = np.where(q == 0, 0, q * np.log(q)) - q * p
        expected = {
            "none": each, "sum": each.sum(), "mean": each.mean(), "batchmean": each.sum() / len(p),
        }[reduction]  # fmt: skip
    found = Tensor(p).kl_div(Tensor(q), reduction, logarithmic)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_divergence_of_single_numbers():
    check(Tensor(-1.0).kl_div(Tensor(0.5), "batchmean"), np.float32(0.5 * math.log(0.5) + 0.5))


def test_losses_near_the_ends_of_their_range():
    """Where 1 - p is 1 in the format, and where exp(x) is too much."""
    small = Tensor([1e-30, 1e-9, 1e-5]).binary_cross_entropy(Tensor([0.0, 0.0, 0.0]), None, "none")
    np.testing.assert_allclose(small.numpy(), [1e-30, 1e-9, -math.log1p(-1e-5)], rtol=1e-6)
    logits, target = Tensor([-math.inf, -1e30, math.inf]), Tensor([2.0, 1.0, 1.0])
    found = logits.binary_cross_entropy_with_logits(target, reduction="none").tolist()
    assert found[0] == math.inf and found[1] == np.float32(1e30) and math.isnan(found[2])


def test_mean_of_no_losses_is_nan():
    none = Tensor.zeros(0, 3)
    for target in (Tensor.zeros(0, dtype="int64"), Tensor.zeros(0, 3)):
        assert math.isnan(none.cross_entropy(target).item())
        assert none.cross_entropy(target, reduction="sum").item() == 0


def test_mean_square_norm_of_small_numbers():
    """The format's own epsilon: 2**-52 for float64."""
    x = np.array([1e-6, 3e-6])
    check(Tensor(x).rms_norm(2), x / np.sqrt(np.mean(x * x) + 2.0**-52))
    check(Tensor(x.astype("f4")).rms_norm(2), (x / np.sqrt(np.mean(x * x) + 2.0**-23)).astype("f4"))


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


@pytest.mark.parametrize("missing", [-1, -4, 4])
def test_gradient_alone_tells_of_a_class_that_there_is_not(missing):
    logits = Tensor(LOGITS, requires_grad=True)
    (found,) = logits.cross_entropy(Tensor([0, 3, 1, missing, 2, 0])).gradient(logits)
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


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x, y: x.cross_entropy(y, label_smoothing=1.5),
            "label_smoothing is between",
        ),
        (lambda x, y: x.cross_entropy(y, weight=Tensor.ones(2)), "each of 3 classes"),
        (lambda x, y: x.nll_loss(y, weight=Tensor.ones(4)), "each of 3 classes"),
        (lambda x, y: x.smooth_l1_loss(x, beta=-1.0), "beta is between"),
        (lambda x, y: x.dropout(1.5), "between 0 and 1"),
    ],
)
def test_arguments_that_make_no_sense(call, text):
    with pytest.raises(ValueError, match=text):
        call(Tensor.ones(2, 3), Tensor([0, 1]))


def test_target_classes_may_be_a_list():
    logits = Tensor([[0.0, 0.0], [0.0, 0.0]])
    assert abs(logits.cross_entropy([0, 1]).item() - math.log(2)) < 1e-6
    with pytest.raises(TypeError, match="no tensor can be made of"):
        logits.cross_entropy("text")


@pytest.mark.parametrize(
    ("given", "target", "which"),
    [(1.5, 1.0, "input"), (-0.5, 1.0, "input"), (math.nan, 1.0, "input"), (0.5, 1.2, "target")],
)
def test_probabilities_are_between_0_and_1(given, target, which):
    loss = Tensor([given]).binary_cross_entropy(Tensor([target]))
    with pytest.raises(ValueRangeError, match=f"its {which} between 0 and 1"):
        loss.item()


def test_binary_cross_entropy_needs_a_target_of_its_shape():
    with pytest.raises(ShapeError, match="target of shape"):
        Tensor([0.5, 0.5]).binary_cross_entropy(Tensor([1.0]))


@pytest.mark.parametrize("delta", [0, -1.0, math.nan])
def test_huber_loss_needs_a_positive_delta(delta):
    with pytest.raises(ValueRangeError, match="above 0"):
        Tensor([1.0]).huber_loss(Tensor([0.0]), delta=delta)


def test_one_value_has_no_statistics():
    for refused in (
        lambda: Tensor.ones(1, 3).group_norm(3),
        lambda: Tensor.ones(2, 3, 1).instance_norm(),
    ):
        with pytest.raises(ShapeError, match="no statistics"):
            refused()
    check(Tensor.ones(1, 3, 2).group_norm(3), np.zeros((1, 3, 2), np.float32))


def test_huber_losses_are_weighed_and_their_mean_is_by_their_number():
    x, weight = np.float32([0.5, 3.0, -1.0]), np.float32([1.0, 2.0, 3.0])
    each = weight * np.where(np.abs(x) < 2, x * x / 2, 2 * (np.abs(x) - 1))
    made = Tensor(x).huber_loss(Tensor(np.zeros(3, "f")), delta=2.0, weight=Tensor(weight))
    assert made.item() == pytest.approx(each.mean())
