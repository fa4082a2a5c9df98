"""Transforms of vectors and matrices: undone again, and stretching as differences say."""

import numpy as np
import pytest
from torpor.distributions import constraints as c

from torpor import Tensor
from torpor import distributions as d
from torpor.base.errors import ShapeError

RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((2, 6))
MATRIX = RANDOM.standard_normal((2, 3, 3))
ROWS = {
    "stick": (d.StickBreakingTransform(), X),
    "correlations": (d.CorrCholeskyTransform(), X),
    "reshape": (d.ReshapeTransform((6,), (2, 3)), X),
    "independent": (d.IndependentTransform(d.ExpTransform(), 1), X),
    "cat": (d.CatTransform([d.ExpTransform(), d.TanhTransform()], 1, [2, 4]), X),
    "stack": (d.StackTransform([d.ExpTransform(), d.SigmoidTransform()]), X),
    "two": (d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]), X),
    "others": (
        d.ComposeTransform(
            [d.ExpTransform(), d.ReshapeTransform((6,), (2, 3)), d.AffineTransform(0.0, 3.0)]
        ),
        X,
    ),
    "cdf": (d.CumulativeDistributionTransform(d.Normal(Tensor(0.0), Tensor(1.0))), X),
    "identity": (d.identity_transform, X),
}


def free(y, name):
    """As many numbers of an event as there are of x."""
    if name in ("stick", "two"):
        return y[..., :-1]
    return y[..., *np.tril_indices(4, -1)] if name == "correlations" else y.reshape(-1)


@pytest.mark.parametrize("name", ROWS)
def test_slopes_and_inverses(name):
    transform, x = ROWS[name]
    y = transform(Tensor(x))
    assert transform.codomain.check(y).all().item() and y.shape == transform.forward_shape(x.shape)
    assert np.allclose(transform.inv(y).numpy(), x) and transform.inv.inv is transform
    assert transform.inverse_shape(y.shape) == x.shape
    slope = transform.log_abs_det_jacobian(Tensor(x), y).numpy()
    assert slope.ndim == x.ndim - transform.event_dim
    moves = np.eye(6) * 1e-6
    if name in ("cat", "stack", "cdf", "identity"):  # number by number
        moved = [transform(Tensor(x + sign * 1e-6)).numpy() for sign in (1, -1)]
        expected = np.log((moved[0] - moved[1]) / 2e-6)
    else:
        both = (transform(Tensor(x[0] + sign * moves)).numpy() for sign in (1, -1))
        columns = [[free(one, name).reshape(-1) for one in part] for part in both]
        expected = np.linalg.slogdet(np.subtract(*columns) / 2e-6)[1]
        slope = slope[0]
    assert np.allclose(slope, expected, atol=1e-5)


@pytest.mark.parametrize("registry", [d.biject_to, d.transform_to])
def test_registries_lead_to_constraints(registry):
    for constraint in (
        c.real, c.positive, c.nonnegative, c.unit_interval, c.interval(1.0, 3.0), c.less_than(2.0),
        c.half_open_interval(0.0, 2.0), c.simplex, c.corr_cholesky, c.independent(c.positive, 1),
        c.cat([c.positive, c.real], 1, [2, 4]), c.stack([c.positive, c.unit_interval]),
    ):  # fmt: skip
        made = registry(constraint)
        assert constraint.check(made(Tensor(X))).all().item()
        assert made.bijective or registry is d.transform_to
    with pytest.raises(NotImplementedError, match="no transform leads to boolean"):
        registry(c.boolean)


def test_matrices_of_all_numbers():
    for constraint in (c.lower_cholesky, c.positive_definite):
        made = d.transform_to(constraint)
        y = made(Tensor(MATRIX))
        assert constraint.check(y).all().item()
        assert np.allclose(made.inv(y).numpy(), np.tril(MATRIX))


def test_a_registry_learns():
    registry = type(d.biject_to)("Another.")
    registry.register(c.positive, lambda _: d.SoftplusTransform())
    assert isinstance(registry(c.greater_than(3.0)), d.SoftplusTransform)

    @registry.register(c.simplex)
    def soft(_):
        return d.SoftmaxTransform()

    assert isinstance(registry(c.simplex), d.SoftmaxTransform)


def test_events_have_the_axes_that_transforms_need():
    base = d.Normal(Tensor(X), 1.0)
    one = d.TransformedDistribution(base, d.StickBreakingTransform())
    assert (one.batch_shape, one.event_shape) == ((2,), (7,))
    assert one.log_prob(one.sample((3,))).shape == (3, 2)
    assert one.expand((4, 2)).sample().shape == (4, 2, 7)
    shaped = d.TransformedDistribution(base, [d.ReshapeTransform((6,), (2, 3)), d.ExpTransform()])
    x = shaped.sample((4,))
    expected = d.LogNormal(Tensor(X), 1.0).log_prob(x.reshape(4, 2, 6)).sum(-1)
    assert np.allclose(shaped.log_prob(x).numpy(), expected.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match=r"a value of Transformed.*found .*-1"):
        d.TransformedDistribution(base, d.ExpTransform()).log_prob(Tensor(-np.ones((2, 6))))
    with pytest.raises(ShapeError, match="needs 1 axes"):
        d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform())
    with pytest.raises(ShapeError, match="no triangle"):
        d.CorrCholeskyTransform()(Tensor([1.0, 2.0]))
