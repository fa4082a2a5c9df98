"""Losses beside their formulas in NumPy, and values that PyTorch gives."""

import math

import numpy as np
import pytest

import torpor
import torpor.nn.functional as F
from torpor import Tensor, explain, jit, nn
from torpor.base.errors import ShapeError, ValueRangeError

X, Y = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]), np.array([[1.0, -1, 1], [-1, 1, -1]])
Z = X[::-1] * 0.5 + 1
RANDOM = np.random.default_rng(5)


def T(array):
    return Tensor(np.ascontiguousarray(array))


def lengths(array):
    return np.sqrt((array * array).sum(-1))


COSINE = (X * Z).sum(1) / lengths(X) / lengths(Z)
LOSSES = {
    "soft_margin_loss": ((X, Y), {}, np.log1p(np.exp(-Y * X))),
    "margin_ranking_loss": ((X, Z, Y), {"margin": 0.2}, np.maximum(0, 0.2 - Y * (X - Z))),
    "hinge_embedding_loss": ((X, Y), {}, np.where(Y == 1, X, np.maximum(0, 1 - X))),
    "cosine_embedding_loss": (
        (X, Z, np.array([1.0, -1.0])), {"margin": 0.1},
        np.array([1 - COSINE[0], max(0, COSINE[1] - 0.1)]),
    ),
    "multi_margin_loss": (
        (X, np.array([2, 0])), {"p": 2},
        np.array([0, (max(0, 1 - 1.5 + 0.25) ** 2 + max(0, 1 - 1.5 - 0.75) ** 2) / 3]),
    ),
    "multilabel_margin_loss": (
        (X, np.array([[2, 0, -1], [1, -1, 0]])), {},
        np.array([(max(0, 1 - 2 - 1) + max(0, 1 - 0.5 - 1)) / 3,
                  (max(0, 1 - 0.25 + 1.5) + max(0, 1 - 0.25 - 0.75)) / 3]),
    ),
    "multilabel_soft_margin_loss": (
        (X, (Y > 0) * 1.0), {}, np.log1p(np.exp(-Y * X)).mean(1),
    ),
    "triplet_margin_loss": (
        (X, Z, Y), {"eps": 0.0},
        np.maximum(0, lengths(X - Z) - lengths(X - Y) + 1),
    ),
    "poisson_nll_loss": (
        (X, np.abs(Z)), {"full": True},
        np.exp(X) - abs(Z) * X + np.where(abs(Z) > 1, abs(Z) * np.log(abs(Z)) - abs(Z)
                                          + 0.5 * np.log(2 * math.pi * abs(Z)), 0),
    ),
    "gaussian_nll_loss": (
        (X, Z, abs(Y) * 0.5), {"full": True},
        0.5 * (math.log(0.5) + (X - Z) ** 2 / 0.5) + 0.5 * math.log(2 * math.pi),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    arguments, options, expected = LOSSES[name]
    given = [T(one) for one in arguments]
    made = getattr(F, name)(*given, reduction="none", **options)
    np.testing.assert_allclose(made.numpy(), expected, 1e-9, 1e-12)
    for reduction, total in (("sum", np.sum), ("mean", np.mean)):
        reduced = getattr(F, name)(*given, reduction=reduction, **options)
        assert reduced.item() == pytest.approx(total(expected))
    with pytest.raises(ValueRangeError, match="reduction is"):
        getattr(F, name)(*given, reduction="all", **options)


def test_distances():
    expected = lengths(X - Z + 1e-6)
    np.testing.assert_allclose(F.pairwise_distance(T(X), T(Z)).numpy(), expected)
    rows = np.concatenate([X, Z])
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    expected = [abs(rows[i] - rows[j]).sum() for i, j in pairs]
    np.testing.assert_allclose(F.pdist(T(rows), 1).numpy(), expected)


@pytest.mark.parametrize("p", [0, 1, 2, 3.5, np.inf])
def test_distances_of_all_rows_from_all(p):
    one, other = np.stack([X, Z]), np.stack([Y, X, -X])[:, None]
    apart = one[..., :, None, :] - other[..., None, :, :]
    made = torpor.cdist(T(one), T(other), p)
    np.testing.assert_allclose(made.numpy(), np.linalg.norm(apart, p, -1), 1e-12)


def test_distances_of_equal_rows_have_no_slope():
    x, other = T(X).requires_grad_(), np.concatenate([X[:1], Y])
    (slope,) = torpor.cdist(x, T(other)).sum().gradient(x)
    apart = X[:, None] - other
    length = lengths(apart)[..., None]
    units = np.divide(apart, length, out=np.zeros_like(apart), where=length > 0)
    np.testing.assert_allclose(slope.numpy(), units.sum(1), 1e-12)
    with pytest.raises(ShapeError, match="rows"):
        torpor.cdist(x, x[:, :2])


def test_triplets_by_a_distance_of_ones_own():
    def distance(one, other):
        return (one - other).abs().amax(-1)

    made = F.triplet_margin_with_distance_loss(
        T(X), T(Z), T(Y), distance_function=distance, swap=True, reduction="none"
    )
    far = np.minimum(abs(X - Y).max(1), abs(Z - Y).max(1))
    np.testing.assert_allclose(made.numpy(), np.maximum(0, abs(X - Z).max(1) - far + 1))


def paths(logs, target, blank):
    """Minus the logarithm of the probabilities of all readings that give the target."""
    steps, classes = logs.shape
    total = 0.0
    for place in range(classes**steps):
        path = [place // classes**step % classes for step in range(steps)]
        read = [c for at, c in enumerate(path) if c != blank and (at == 0 or path[at - 1] != c)]
        if read == target:
            total += math.exp(sum(logs[step, c] for step, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def test_ctc_is_the_sum_over_all_readings():
    raw = np.random.default_rng(3).normal(size=(4, 3, 3))
    logs = raw - np.log(np.exp(raw).sum(-1, keepdims=True))
    targets, seen, wanted = [[1, 2], [1, 1], [2, 0]], [4, 4, 2], [2, 2, 1]
    expected = [paths(logs[: seen[n], n], targets[n][: wanted[n]], 0) for n in range(3)]
    x = T(logs).requires_grad_()
    made = F.ctc_loss(x, Tensor(targets), Tensor(seen), Tensor(wanted), reduction="none")
    np.testing.assert_allclose(made.numpy(), expected)
    together = F.ctc_loss(T(logs), Tensor([1, 2, 1, 1, 2]), seen, wanted, reduction="none")
    np.testing.assert_allclose(together.numpy(), expected)
    (slope,) = made.sum().gradient(x)
    assert abs(slope.numpy().sum(-1)).max() < 1e-9  # that of a softmax: shares add up to 1
    assert (slope.numpy()[2:, 2] == 0).all()


def test_ctc_of_many_steps_has_the_whole_gradient_whether_it_is_required_or_not():
    raw = np.random.default_rng(5).normal(size=(50, 1, 4)).astype(np.float32)
    logs = raw - np.log(np.exp(raw).sum(-1, keepdims=True))

    def loss(x):
        return F.ctc_loss(x, Tensor([[1, 2, 3, 1]]), [50], [4], reduction="sum")

    asked = Tensor(logs, requires_grad=True)
    wanted = loss(asked).gradient(asked)[0].numpy()
    for _ in range(2):  # what comes again is computed early
        x = Tensor(logs)
        np.testing.assert_allclose(loss(x).gradient(x)[0].numpy(), wanted, 1e-3, 1e-5)


def test_ctc_of_what_cannot_be_read():
    logs = Tensor(np.log(np.full((1, 1, 3), 1 / 3)))
    two = Tensor([[1, 2]]), [1], [2]
    assert F.ctc_loss(logs, *two, reduction="none").tolist() == [math.inf]
    assert F.ctc_loss(logs, *two, reduction="sum", zero_infinity=True).item() == 0
    x = Tensor(RANDOM.normal(size=(4, 2, 4)), requires_grad=True)
    labels = Tensor([[1, 1, 2], [1, 2, 3]]), [3, 4], [3, 3]
    F.ctc_loss(x, *labels).backward()
    found = np.isnan(x.grad.numpy())
    assert found[:3, 0].all() and not found[3].any() and not found[:, 1].any()
    (slopes,) = F.ctc_loss(x, *labels, zero_infinity=True).gradient(x)
    assert (slopes.numpy()[:, 0] == 0).all() and (slopes.numpy()[:, 1] != 0).all()


def test_lengths_of_ctc_that_are_tensors_are_no_numbers_of_a_jitted_step():
    raw = RANDOM.normal(size=(5, 2, 3))
    logs = raw - np.log(np.exp(raw).sum(-1, keepdims=True))
    targets, seen, wanted = [[1, 2], [2, 1]], [[5, 4], [3, 5], [4, 4]], [[2, 1], [1, 2], [0, 2]]
    step = jit(lambda *given: F.ctc_loss(T(logs), *given, reduction="none"))
    for steps, labels in zip(seen, wanted, strict=True):
        found = step(Tensor(targets), Tensor(steps), Tensor(labels)).numpy()
        rows = [paths(logs[: steps[n], n], targets[n][: labels[n]], 0) for n in range(2)]
        np.testing.assert_allclose(found, rows)
        plain = F.ctc_loss(T(logs), Tensor(targets), steps, labels, reduction="none")
        np.testing.assert_allclose(plain.numpy(), rows)
    assert "trace 2" not in explain(step) and "runs as it is" not in explain(step)
    with pytest.raises(ValueRangeError, match="each of target_lengths is between 0 and 2"):
        step(Tensor(targets), Tensor([5, 5]), Tensor([2, 3]))


def test_bilinear_and_linear_cross_entropy():
    weight = np.arange(18.0).reshape(2, 3, 3)
    made = F.bilinear(T(X), T(Z), T(weight), T(np.array([1.0, 2.0])))
    expected = np.einsum("ni,oij,nj->no", X, weight, Z) + [1, 2]
    np.testing.assert_allclose(made.numpy(), expected)
    with pytest.raises(ShapeError, match="in1, in2"):
        F.bilinear(T(X), T(Z), T(X))
    rows, target = T(weight[0]), Tensor([2, 0])
    made = F.linear_cross_entropy(T(X), rows, target).item()
    assert made == pytest.approx((T(X) @ rows.T).cross_entropy(target).item())


ONE, OTHER = Tensor(X), Tensor(np.abs(Y))


@pytest.mark.parametrize(("module", "loss"), [
    (nn.MSELoss(False), F.mse_loss(ONE, OTHER, reduction="sum")),
    (nn.MSELoss(None, None, "sum"), F.mse_loss(ONE, OTHER, reduction="sum")),
    (nn.MSELoss(True, False), F.mse_loss(ONE, OTHER, reduction="none")),
    (nn.SmoothL1Loss(None, None, "sum", 0.5),
     F.smooth_l1_loss(ONE, OTHER, reduction="sum", beta=0.5)),
    (nn.BCEWithLogitsLoss(None, False, None), None),
    (nn.PoissonNLLLoss(True, False, None, 1e-3, None, "sum"),
     F.poisson_nll_loss(ONE, OTHER, eps=1e-3, reduction="sum")),
    (nn.HuberLoss("sum", 0.5), F.huber_loss(ONE, OTHER, "sum", 0.5)),
])  # fmt: skip
def test_modules_take_arguments_in_the_order_with_size_average(module, loss):
    if loss is None:
        loss = F.binary_cross_entropy_with_logits(ONE, OTHER, reduction="sum")
    assert module(ONE, OTHER).tolist() == loss.tolist()


def test_cross_entropy_as_a_module_takes_arguments_in_either_order():
    scores, classes, weight = Tensor.eye(3), Tensor([0, 1, 2]), Tensor([1.0, 2.0, 3.0])
    expected = F.cross_entropy(scores, classes, weight, ignore_index=1, label_smoothing=0.1)
    for made in (
        nn.CrossEntropyLoss(weight, None, 1, None, "mean", 0.1),
        nn.CrossEntropyLoss(weight, 1, "mean", 0.1),
        nn.CrossEntropyLoss(weight, ignore_index=1, label_smoothing=0.1),
    ):
        assert made(scores, classes).item() == expected.item()
    with pytest.raises(TypeError):
        nn.CrossEntropyLoss(weight, None, 1, None, "mean", 0.1, 0)


@pytest.mark.parametrize("more", [(), (2, 3)])
def test_linear_cross_entropy_as_a_module(more):
    torch = pytest.importorskip("torch")
    weight = np.linspace(0.5, 2, 5).astype("f4")
    options = {"out_features": more, "bias": True, "label_smoothing": 0.1, "ignore_index": 1}
    theirs = torch.nn.LinearCrossEntropyLoss(4, 5, weight=torch.tensor(weight), **options)
    ours = nn.LinearCrossEntropyLoss(
        4, 5, weight=Tensor(weight), **options, device="CPU", dtype="float32"
    )
    ours.load_state_dict({name: Tensor(x.numpy()) for name, x in theirs.state_dict().items()})
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    x = np.random.default_rng(2).standard_normal((7, 4)).astype("f4")
    target = np.random.default_rng(2).integers(0, 5, (7, *more))
    expected = theirs(torch.tensor(x), torch.tensor(target))
    np.testing.assert_allclose(ours(Tensor(x), Tensor(target)).item(), expected.item(), rtol=1e-5)
    assert nn.LinearCrossEntropyOptions(batch_chunk_size=2).allow_retain_graph is False
