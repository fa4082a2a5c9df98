"""Modules that compute functions: their formulas, their constructors, and what they write."""

import math

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn

X = np.linspace(-3, 3, 25)
NORMAL = np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in X])
CASES = [
    (nn.ReLU(), np.maximum(X, 0)),
    (nn.LeakyReLU(0.2), np.where(X > 0, X, 0.2 * X)),
    (nn.ELU(2.0), np.where(X > 0, X, 2 * np.expm1(X))),
    (nn.GELU(), X * NORMAL),
    (nn.GELU("tanh"), X / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))),
    (nn.SiLU(), X / (1 + np.exp(-X))),
    (nn.Sigmoid(), 1 / (1 + np.exp(-X))),
    (nn.Tanh(), np.tanh(X)),
    (nn.Softplus(2.0), np.log1p(np.exp(2 * X)) / 2),
    (nn.Softmax(0), np.exp(X) / np.exp(X).sum()),
    (nn.LogSoftmax(dim=0), X - np.log(np.exp(X).sum())),
    (nn.Softmin(0), np.exp(-X) / np.exp(-X).sum()),
    (nn.CELU(2.0), np.where(X > 0, X, 2 * np.expm1(X / 2))),
    (nn.Hardshrink(), np.where(abs(X) > 0.5, X, 0)),
    (nn.Hardsigmoid(), np.clip(X / 6 + 0.5, 0, 1)),
    (nn.Hardswish(), X * np.clip(X / 6 + 0.5, 0, 1)),
    (nn.Hardtanh(-2, 0.5), np.clip(X, -2, 0.5)),
    (nn.LogSigmoid(), -np.log1p(np.exp(-X))),
    (nn.Mish(), X * np.tanh(np.log1p(np.exp(X)))),
    (nn.RReLU().eval(), np.where(X >= 0, X, X * (1 / 8 + 1 / 3) / 2)),
    (nn.ReLU6(), np.clip(X, 0, 6)),
    (nn.Softshrink(), np.sign(X) * np.maximum(abs(X) - 0.5, 0)),
    (nn.Softsign(), X / (1 + abs(X))),
    (nn.Tanhshrink(), X - np.tanh(X)),
    (nn.Threshold(0.1, 20), np.where(X > 0.1, X, 20)),
    (nn.Unflatten(0, (5, 5)), X.reshape(5, 5)),
    (nn.Dropout(0.3).eval(), X),
    (nn.Identity(3, what=4), X),
]


@pytest.mark.parametrize(("layer", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_formulas(layer, expected):
    assert np.allclose(layer(Tensor(X)).numpy(), expected, atol=1e-9)
    assert not layer.state_dict()


def test_constructors_are_those_of_the_functions():
    pool = nn.MaxPool2d(3, 2, 1, 1, True)  # PyTorch's order: return_indices before ceil_mode
    assert (pool.kernel_size, pool.return_indices, pool.ceil_mode) == (3, True, False)
    assert repr(nn.LeakyReLU(0.2)) == "LeakyReLU(negative_slope=0.2)"
    assert isinstance(nn.GELU(), nn.Module)
    with pytest.raises(TypeError, match="slope"):
        nn.LeakyReLU(slope=0.1)
    unpool = nn.MaxUnpool1d(2)
    values, places = nn.MaxPool1d(2, return_indices=True)(Tensor([[[1.0, 3.0, 2.0, 0.0, 9.0]]]))
    back = unpool(values, places, output_size=(1, 1, 5))
    assert back.tolist() == [[[0.0, 3.0, 2.0, 0.0, 0.0]]]


def test_older_words_say_the_reduction():
    assert nn.MSELoss(size_average=False).reduction == "sum"
    assert nn.NLLLoss(size_average=True, reduce=False).reduction == "none"
    assert nn.CrossEntropyLoss(reduce=True, ignore_index=3).reduction == "mean"


def test_channels_are_divided_by_their_neighbours():
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 3))
    square = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    near = square[:, :-2] + square[:, 1:-1] + square[:, 2:]
    near[:, 2:] += square[:, 1:2]  # PyTorch's sum never lets go of the first
    found = nn.CrossMapLRN2d(3, alpha=0.3, beta=0.5, k=2.0)(Tensor(x)).numpy()
    np.testing.assert_allclose(found, x / (2 + 0.1 * near) ** 0.5, rtol=1e-9)


def test_in_place_the_operand_changes():
    for layer in (nn.ReLU(inplace=True), nn.ReLU(True)):
        x = Tensor([-1.0, 2.0])
        assert layer(x) is x
        assert x.tolist() == [0.0, 2.0]
    x = Tensor([-1.0, 2.0])
    assert nn.functional.relu(x, True) is x
    nn.ReLU()(x - 1)
    assert x.tolist() == [0.0, 2.0]


def test_padding_is_by_side_or_the_same_everywhere():
    x = np.arange(12.0).reshape(1, 1, 3, 4)
    assert (nn.ZeroPad2d((1, 0, 2, 0))(Tensor(x)).numpy()
            == np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 0)))).all()  # fmt: skip
    for layer, mode in ((nn.ReflectionPad2d(2), "reflect"), (nn.ReplicationPad2d(2), "edge"),
                        (nn.CircularPad2d(2), "wrap")):  # fmt: skip
        wanted = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), mode=mode)
        assert (layer(Tensor(x)).numpy() == wanted).all()
    assert nn.ConstantPad1d(1, 7.0)(Tensor([[[1.0]]])).tolist() == [[[7.0, 1.0, 7.0]]]


def test_losses_have_their_arguments_and_weights_in_the_state():
    logits, target = Tensor([[1.0, 2.0, 0.5], [0.25, 0.5, 0.75]]), Tensor([1, 2])
    loss = nn.CrossEntropyLoss(weight=Tensor([1.0, 2.0, 3.0]), reduction="sum")
    logs = logits.numpy() - np.log(np.exp(logits.numpy()).sum(1, keepdims=True))
    assert np.isclose(loss(logits, target).item(), -2 * logs[0, 1] - 3 * logs[1, 2])
    assert list(loss.state_dict()) == ["weight"]
    assert nn.MSELoss(reduction="none")(logits, logits + 2).tolist() == [[4.0] * 3] * 2
    assert nn.CTCLoss(zero_infinity=True).zero_infinity


def test_channels_are_dropped_whole():
    layer = nn.Dropout2d(0.5)
    made = layer(Tensor.ones(50, 20, 2, 3)).numpy().reshape(1000, 6)
    assert (made == made[:, :1]).all()
    assert set(np.unique(made)) == {0.0, 2.0}
    assert 400 < (made[:, 0] == 0).sum() < 600
    assert (layer.eval()(Tensor.ones(1, 2, 2, 2)).numpy() == 1).all()


def test_losses_that_programs_write_have_pytorchs_bases():
    class Absolute(nn.modules.loss._Loss):
        def forward(self, x):
            return getattr(x.abs(), self.reduction)()

    assert Absolute()(Tensor([-1.0, 3.0])).item() == 2.0
    assert Absolute(reduction="sum")(Tensor([-1.0, 3.0])).item() == 4.0
    assert Absolute(size_average=False).reduction == "sum"
    assert isinstance(nn.SyncBatchNorm(1), nn.modules.batchnorm._BatchNorm)
    assert not isinstance(nn.InstanceNorm1d(1), nn.modules.batchnorm._BatchNorm)


@pytest.mark.parametrize("name", ["MaxPool2d", "AvgPool2d", "LPPool2d"])
def test_a_window_set_later_keeps_the_stride_as_in_pytorch(name):
    def run(library, tensor):
        norm = [2] if name == "LPPool2d" else []
        pool = getattr(library.nn, name)(*norm, 2)
        pool.kernel_size = 3
        return pool.stride, pool(tensor(X[:25].reshape(1, 1, 5, 5))).tolist()

    stride, found = run(torpor, Tensor)
    assert (stride, len(found[0][0])) == ((None, 1) if name == "LPPool2d" else (2, 2))
    torch = pytest.importorskip("torch")
    expected = run(torch, torch.tensor)
    assert expected[0] == stride
    np.testing.assert_allclose(found, expected[1], rtol=1e-6)
