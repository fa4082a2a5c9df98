"""Weights that are computed from others: their names, values, gradients and copies."""

import copy
import pickle

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.nn.utils import parametrizations, parametrize

WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Scaled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def layer(kind=None, **options):
    torpor.manual_seed(0)
    made = nn.Linear(3, 4)
    made.weight = nn.Parameter(Tensor(WEIGHT))
    return made if kind is None else kind(made, **options)


def test_a_tensor_is_what_parametrisations_make_of_the_original():
    made = nn.Linear(3, 3)
    before = made.weight.numpy()
    assert parametrize.register_parametrization(made, "weight", Symmetric()) is made
    assert list(made.state_dict()) == ["bias", "parametrizations.weight.original"]
    upper = np.triu(before) + np.triu(before, 1).T
    np.testing.assert_array_equal(made.weight.numpy(), upper)
    made(Tensor.ones(1, 3)).sum().backward()
    assert (np.tril(made.parametrizations.weight.original.grad.numpy(), -1) == 0).all()
    parametrize.register_parametrization(made, "weight", Scaled())
    np.testing.assert_array_equal(made.weight.numpy(), 2 * upper)
    assert parametrize.is_parametrized(made) and not parametrize.is_parametrized(made, "bias")
    assert parametrize.type_before_parametrizations(made) is nn.Linear
    with parametrize.cached():
        assert made.weight is made.weight
    assert made.weight is not made.weight
    parametrize.remove_parametrizations(made, "weight")
    assert type(made) is nn.Linear and list(made.state_dict()) == ["bias", "weight"]
    np.testing.assert_array_equal(made.weight.numpy(), 2 * upper)


def test_setting_goes_to_the_original():
    made = parametrize.register_parametrization(layer(), "weight", Scaled())
    np.testing.assert_allclose(made.weight.numpy(), WEIGHT)
    made.weight = Tensor(WEIGHT + 1)
    np.testing.assert_allclose(made.parametrizations.weight.original.numpy(), (WEIGHT + 1) / 2)
    with pytest.raises(ValueError, match="unsafe=True"):
        parametrize.register_parametrization(layer(), "weight", nn.Flatten(0))
    with pytest.raises(AttributeError, match="no tensor 'wieght'"):
        parametrize.register_parametrization(made, "wieght", Scaled())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (nn.utils.weight_norm, ["weight_g", "weight_v"]),
        (nn.utils.spectral_norm, ["weight_orig", "weight_u", "weight_v"]),
        (parametrizations.weight_norm, ["weight.original0", "weight.original1"]),
        (parametrizations.spectral_norm, ["weight.original", "weight.0._u", "weight.0._v"]),
        (parametrizations.orthogonal, ["weight.original", "weight.0.base"]),
    ],
)
def test_names_copies_pickles_and_jit(kind, names):
    made = layer(kind).eval()
    prefix = "parametrizations." if "." in names[0] else ""
    assert list(made.state_dict()) == ["bias", *[prefix + name for name in names]]
    x = Tensor(np.ones((2, 3), "f4"))
    expected = made(x).numpy()
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), torpor.jit(made)):
        for _ in range(2):
            np.testing.assert_allclose(other(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    changed = copy.deepcopy(made)
    with torpor.no_grad():
        changed.bias.zero_()
    np.testing.assert_array_equal(made(x).numpy(), expected)


@pytest.mark.parametrize("kind", [nn.utils.weight_norm, parametrizations.weight_norm])
def test_lengths_are_trained_apart(kind):
    made = layer(kind, dim=0)
    np.testing.assert_allclose(made.weight.numpy(), WEIGHT, rtol=1e-6)
    lengths, v = [p for p in made.parameters() if p.ndim == 2]
    np.testing.assert_allclose(lengths.numpy()[:, 0], np.linalg.norm(WEIGHT, axis=1), rtol=1e-6)
    made(Tensor.ones(1, 3)).sum().backward()
    along = (v.grad.numpy() * WEIGHT).sum(1)
    np.testing.assert_allclose(along, 0, atol=1e-6)  # a direction moves across itself
    whole = layer(kind, dim=None)
    assert [p.shape for p in whole.parameters()][1] == ()
    nn.utils.remove_weight_norm(layer(nn.utils.weight_norm))


@pytest.mark.parametrize("kind", [nn.utils.spectral_norm, parametrizations.spectral_norm])
def test_the_greatest_singular_value_becomes_1(kind):
    torpor.manual_seed(0)
    made = layer(kind, n_power_iterations=30)
    np.testing.assert_allclose(np.linalg.norm(made.weight.numpy(), 2), 1, rtol=1e-4)
    np.testing.assert_allclose(made.weight.numpy() * np.linalg.norm(WEIGHT, 2), WEIGHT, rtol=1e-3)
    turned = kind(nn.ConvTranspose2d(3, 5, 2))
    shapes = [tuple(b.shape) for b in turned.buffers()]
    assert shapes == [(5,), (12,)]
    made.eval()
    np.testing.assert_array_equal(made.weight.numpy(), made.weight.numpy())


def test_what_was_removed_is_a_parameter():
    for kind, back in (
        (nn.utils.spectral_norm, nn.utils.remove_spectral_norm),
        (nn.utils.weight_norm, nn.utils.remove_weight_norm),
    ):
        made = layer(kind)
        expected = made.eval().weight.numpy()
        assert list(back(made).state_dict()) == ["bias", "weight"]
        np.testing.assert_allclose(made.weight.numpy(), expected)
        with pytest.raises(ValueError, match="not computed so"):
            back(made)


@pytest.mark.parametrize(
    ("name", "shape", "trivial"),
    [
        ("matrix_exp", (3, 3), True),
        ("matrix_exp", (2, 3), False),
        ("cayley", (5, 3), True),
        ("householder", (5, 3), True),
        ("householder", (2, 3), False),
    ],
)
def test_orthogonal_weights_stay_so(name, shape, trivial):
    torpor.manual_seed(0)
    made = nn.Linear(shape[1], shape[0], bias=False)
    parametrizations.orthogonal(made, "weight", name, use_trivialization=trivial)
    (weight,) = made.parameters()
    with torpor.no_grad():
        weight.assign(weight + Tensor.randn(*shape).tril(-1) * 0.1)

    def off():
        w = made.weight.numpy().astype("f8")
        return abs((w.T @ w if shape[0] >= shape[1] else w @ w.T) - np.eye(min(shape))).max()

    assert off() < 1e-5
    q = np.linalg.qr(np.random.default_rng(1).normal(size=sorted(shape, reverse=True)))[0]
    q = (q if shape[0] >= shape[1] else q.T).astype("f4")
    if trivial or name == "householder":
        made.weight = Tensor(q)
        np.testing.assert_allclose(made.weight.numpy(), q, atol=1e-5)
    else:
        with pytest.raises(NotImplementedError):
            made.parametrizations.weight[0].right_inverse(Tensor(q))
