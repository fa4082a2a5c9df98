"""Functions called as PyTorch's documents write them: by the names that arguments have there."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.nn import functional as F


def some(*shape: int, by: float = 7.0) -> Tensor:
    return Tensor(np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) / by)


X, Y, V = some(3, 3), some(3, 3, by=-5.0), some(3)
QUERY, KEY, VALUE = some(1, 2, 3), some(1, 2, 3, by=3.0), some(1, 2, 3, by=4.0)
PLACES, CLASSES = Tensor([[0], [2], [1]]), Tensor([0, 2, 1])
IMAGE = some(1, 1, 4, 4)
BY_NAME = {
    "cdist": (lambda: torpor.cdist(x1=X, x2=Y, p=1.0), lambda: torpor.cdist(X, Y, 1.0)),
    "cosine_similarity": (
        lambda: F.cosine_similarity(x1=X, x2=Y, dim=0), lambda: F.cosine_similarity(X, Y, 0)
    ),
    "dropout": (lambda: F.dropout(input=X, p=0.5, training=False), lambda: X),
    "dropout2d": (lambda: F.dropout2d(input=IMAGE, training=False), lambda: IMAGE),
    "gather": (
        lambda: torpor.gather(X, 1, PLACES, sparse_grad=False), lambda: X.gather(1, PLACES)
    ),
    "grad": (
        lambda: torpor.func.grad(func=lambda x: (x * x).sum())(V), lambda: V * 2
    ),
    "interpolate": (
        lambda: F.interpolate(input=IMAGE, scale_factor=2, mode="bilinear"),
        lambda: F.interpolate(IMAGE, None, 2, "bilinear"),
    ),
    "jacrev": (
        lambda: torpor.func.jacrev(func=lambda x: x * x, chunk_size=2)(V), lambda: (V * 2).diag()
    ),
    "linalg.inv": (
        lambda: torpor.linalg.inv(A=X + torpor.eye(3)), lambda: (X + torpor.eye(3)).inverse()
    ),
    "linalg.vecdot": (lambda: torpor.linalg.vecdot(x=X, y=Y), lambda: (X * Y).sum(-1)),
    "numpy": (lambda: Tensor(X.numpy(force=True)), lambda: X),
    "pad": (lambda: F.pad(input=X, pad=(1, 2)), lambda: X.pad((1, 2))),
    "attention": (
        lambda: F.scaled_dot_product_attention(query=QUERY, key=KEY, value=VALUE, is_causal=True),
        lambda: F.scaled_dot_product_attention(QUERY, KEY, VALUE, None, 0.0, True),
    ),
    "tensordot": (lambda: torpor.tensordot(a=X, b=Y, dims=1), lambda: X @ Y),
    "trapezoid": (lambda: torpor.trapezoid(y=V, x=V * 2), lambda: torpor.trapezoid(V, V * 2)),
    "unravel_index": (
        lambda: torpor.unravel_index(indices=CLASSES, shape=(3, 3))[1], lambda: CLASSES % 3
    ),
    "vmap": (
        lambda: torpor.func.vmap(func=lambda x: x * 2, randomness="different", chunk_size=2)(X),
        lambda: X * 2,
    ),
    "conv_tbc": (
        lambda: F.conv_tbc(some(5, 2, 3), some(2, 3, 4), some(4), pad=1),
        lambda: torpor.stack(
            [
                sum(
                    some(5, 2, 3)[t + k - 1] @ some(2, 3, 4)[k]
                    for k in range(2) if 0 <= t + k - 1 < 5
                ) + some(4)
                for t in range(6)
            ]
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_NAME)
def test_arguments_may_be_given_by_the_names_that_they_have_in_pytorch(name):
    one, other = BY_NAME[name]
    np.testing.assert_allclose(one().numpy(), other().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"size_average": False}, "sum"),
        ({"size_average": True}, "mean"),
        ({"reduce": False}, "none"),
        ({"reduce": False, "size_average": False}, "none"),
        ({"reduce": True, "size_average": False}, "sum"),
        ({"size_average": None, "reduce": None}, "mean"),
        ({"size_average": None, "reduction": "sum"}, "sum"),
    ],
)
@pytest.mark.parametrize("loss", ["mse_loss", "cross_entropy", "soft_margin_loss", "kl_div"])
def test_what_reduction_was_called_once_is_understood(loss, given, meant):
    function = getattr(F, loss)
    found = function(X, Y.softmax(-1), **given)
    expected = function(X, Y.softmax(-1), reduction=meant)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("older", "meant"),
    [
        ((False,), "sum"),
        ((None, False), "none"),
        ((None, None, "sum"), "sum"),
        (("sum",), "sum"),
        ((), "mean"),
    ],
)
def test_what_reduction_was_called_once_has_its_place(older, meant):
    each = np.square(X.numpy() - Y.numpy())
    expected = {"none": each, "sum": each.sum(), "mean": each.mean()}[meant]
    np.testing.assert_allclose(F.mse_loss(X, Y, *older).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("order", [(None, None, 0, None, "none"), (None, 0, "none")])
def test_the_class_that_is_left_out_has_its_place_in_both_orders(order):
    scores, classes = X.numpy().astype(np.float64), np.array([0, 2, 1])
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected = -np.log(shares[np.arange(3), classes]) * (classes != 0)
    found = F.cross_entropy(X, torpor.tensor(classes), *order)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_too_many_arguments_of_a_loss_and_one_given_twice_are_errors():
    with pytest.raises(TypeError, match="at most"):
        F.mse_loss(X, Y, None, None, "sum", None, None)
    with pytest.raises(TypeError, match="reduction"):
        F.mse_loss(X, Y, None, None, "sum", reduction="sum")


def test_softmax_has_the_places_of_pytorch():
    found = F.softmax(X, 1, 5, torpor.float64)
    assert found.dtype == torpor.float64
    np.testing.assert_allclose(found.numpy().sum(1), np.ones(3))


@pytest.mark.parametrize(("loss", "of"), [("mse_loss", np.square), ("l1_loss", np.abs)])
def test_losses_are_weighted(loss, of):
    weight = some(3, 3, by=2.0)
    each = of(X.numpy() - Y.numpy()) * weight.numpy()
    expected = {"none": each, "sum": each.sum(), "mean": each.sum() / weight.numpy().sum()}
    for reduction, wanted in expected.items():
        found = getattr(F, loss)(X, Y, reduction=reduction, weight=weight)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    with pytest.raises(ValueError, match="weights of shape"):
        getattr(F, loss)(X, Y, weight=V)


def test_pools_give_their_indices_by_another_name():
    for name, shape in (
        ("max_pool1d", (1, 6)),
        ("max_pool2d", (1, 4, 4)),
        ("max_pool3d", (1, 4, 4, 4)),
    ):
        found = getattr(F, f"{name}_with_indices")(some(*shape), 2)
        expected = getattr(F, name)(some(*shape), 2, return_indices=True)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    values, places = F.adaptive_max_pool1d_with_indices(some(1, 6), 2)
    assert places.tolist() == [[2, 5]] and values.tolist() == some(1, 6)[:, 2::3].tolist()


def test_functions_that_write_to_their_operand():
    x = Tensor([0.1, 0.5, -1.0])
    assert F.threshold_(x, 0.2, 7.0) is x and x.tolist() == pytest.approx([7.0, 0.5, 7.0])
    x = Tensor([1.0, -1.0])
    F.rrelu_(x, 0.25, 0.75)
    assert x.tolist() == [1.0, -0.5]


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: torpor.nn.Linear(2, 2, biass=True), "Linear.*'biass'; did you mean 'bias'"),
        (lambda: torpor.nn.LSTM(2, 2, bidirection=True), "LSTM.*did you mean 'bidirectional'"),
        (lambda: torpor.nn.CrossEntropyLoss(weights=V), "CrossEntropyLoss.*did you mean 'weight'"),
        (lambda: torpor.optim.SGD([V], momentm=0.9), "SGD.*did you mean 'momentum'"),
        (lambda: torpor.distributions.Normal(locc=0.0, scale=1.0), "Normal.*did you mean 'loc'"),
    ],
)
def test_constructors_say_what_a_keyword_was_meant_to_be(make, meant):
    with pytest.raises(TypeError, match=meant):
        make()
