"""Functions by PyTorch's names: methods, or what layers do, against NumPy."""

import numpy as np
import pytest

from torpor import Tensor, nn
from torpor.base.errors import ShapeError
from torpor.nn import functional as F
from torpor.nn import losses

RNG = np.random.default_rng(6)


def test_functions_are_the_methods_of_their_names():
    names = [
        n for n, f in vars(F).items()
        if getattr(getattr(f, "__wrapped__", None), "__module__", "").startswith("torpor.tensor")
    ]  # fmt: skip
    assert len(names) > 40
    lost = [n for n in vars(losses) if n.endswith(("loss", "entropy"))]
    for name in [name for name in names + lost if hasattr(Tensor, name)]:
        assert getattr(F, name).__wrapped__ is getattr(Tensor, name)


def test_functions_take_pytorchs_arguments():
    x = Tensor([[0.5, -1.0], [2.0, 0.0]])
    assert F.softmax(x, dim=1).tolist() == x.softmax(1).tolist()
    assert F.relu(input=x).tolist() == x.relu().tolist()
    loss = F.cross_entropy(x, Tensor([0, 1]), reduction="sum")
    assert loss.item() == x.cross_entropy(Tensor([0, 1]), reduction="sum").item()


def test_dropout_drops_in_training_only():
    x = Tensor.ones(1000)
    assert F.dropout(x, 0.5, training=False) is x
    found = F.dropout(x, 0.75).numpy()
    assert set(found.tolist()) == {0.0, 4.0}
    assert 150 < np.count_nonzero(found) < 350


def test_cosine_similarity():
    x, y = RNG.standard_normal((2, 3, 5))
    x[0] = 0
    found = F.cosine_similarity(Tensor(x.astype("f4")), Tensor(y.astype("f4"))).numpy()
    lengths = np.maximum(np.linalg.norm(x, axis=1), 1e-8) * np.linalg.norm(y, axis=1)
    assert np.allclose(found, (x * y).sum(1) / lengths, atol=1e-6)


def test_embedding_rows_and_gradients():
    weight = Tensor.arange(6).reshape(3, 2).float().requires_grad_()
    rows = F.embedding(Tensor([[0, 2], [2, 1]]), weight, padding_idx=-1)
    assert rows.tolist() == [[[0, 1], [4, 5]], [[4, 5], [2, 3]]]
    rows.sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("row", [-1, -3, 3])
def test_embedding_of_rows_that_there_are_not(row):
    weight = Tensor.ones(3, 2).requires_grad_()
    rows = F.embedding(Tensor([[0, row]]), weight)
    for found in (rows, *rows.sum().gradient(weight)):
        with pytest.raises(IndexError, match="embedding: an index is out of bounds for axis 0"):
            found.tolist()
    assert F.embedding(Tensor(2), weight).tolist() == [1, 1]
    assert F.embedding(Tensor.zeros(0, 4, dtype="int64"), weight).shape == (0, 4, 2)


def test_batch_norm_in_training_and_after():
    x = RNG.standard_normal((4, 3, 5)) * 2 + 1
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    weight, bias = RNG.standard_normal((2, 3))
    running = Tensor.zeros(3).contiguous(), Tensor.ones(3).contiguous()
    scaled = [Tensor(v.astype("f4")) for v in (weight, bias)]
    found = F.batch_norm(Tensor(x.astype("f4")), *running, *scaled, training=True, momentum=0.25)
    along = (slice(None), None)
    exact = (x - mean[along]) / np.sqrt(variance[along] + 1e-5) * weight[along] + bias[along]
    assert np.allclose(found.numpy(), exact, atol=1e-5)
    assert np.allclose(running[0].numpy(), 0.25 * mean, atol=1e-5)
    assert np.allclose(running[1].numpy(), 0.75 + 0.25 * variance * 20 / 19, atol=1e-5)
    means, variances = (t.numpy()[along] for t in running)
    after = F.batch_norm(Tensor(x.astype("f4")), *running).numpy()
    assert np.allclose(after, (x - means) / np.sqrt(variances + 1e-5), atol=1e-5)
    own = F.batch_norm(Tensor(x), None, None, training=True)
    assert np.allclose(own.numpy().mean((0, 2)), 0)


def test_layers_count_the_batches_that_they_follow():
    layer = nn.BatchNorm1d(3)
    layer(Tensor(RNG.standard_normal((4, 3)).astype("f4")))
    assert layer.num_batches_tracked.item() == 1
    layer.eval()(Tensor.ones(4, 3))
    assert layer.num_batches_tracked.item() == 1


@pytest.mark.parametrize("shape", [(0, 2), (3, 2, 0), (0, 2, 4, 4)])
def test_batches_of_nothing_leave_running_statistics(shape):
    mean, variance = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    made = F.batch_norm(Tensor.zeros(*shape), mean, variance, training=True)
    assert made.shape == shape
    assert mean.tolist() == [1, 2] and variance.tolist() == [3, 4]


def test_batch_norm_of_16_bits_is_computed_in_32():
    x = np.array([[30000.0], [-30000.0], [0.0]], np.float16)
    running = Tensor.zeros(1, dtype="float16").contiguous(), Tensor.ones(1).contiguous()
    found = F.batch_norm(Tensor(x), *running, training=True)
    assert found.dtype.name == running[0].dtype.name == "float16"
    np.testing.assert_allclose(found.numpy(), x / np.float32(np.sqrt(6e8)), rtol=1e-3)
    np.testing.assert_allclose(running[1].numpy(), [0.9 + 0.1 * 9e8], rtol=1e-5)


def test_one_value_of_a_channel_has_no_statistics():
    for shape in ((1, 3), (1, 3, 1)):
        with pytest.raises(ValueError, match="no statistics"):
            F.batch_norm(Tensor.ones(*shape), None, None, training=True)
    mean, variance = Tensor.zeros(3), Tensor.ones(3)
    assert F.batch_norm(Tensor.ones(1, 3), mean, variance, eps=0.0).tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("row", [3, -4])
def test_a_row_of_padding_is_there(row):
    with pytest.raises(ValueError, match="padding_idx"):
        F.embedding(Tensor([1]), Tensor.ones(3, 2), padding_idx=row)


def test_windows_as_columns_and_back():
    image = RNG.normal(size=(2, 3, 5, 6)).astype(np.float32)
    x = Tensor(image).requires_grad_()
    made = F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    columns = [
        padded[:, :, r : r + 3 : 2, c : c + 3].reshape(2, -1) for r in range(5) for c in (0, 2, 4)
    ]
    assert (made.numpy() == np.stack(columns, -1)).all()
    back = F.fold(made, (5, 6), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))
    counts = F.fold(made.ones_like(), (5, 6), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))
    np.testing.assert_allclose(back.numpy(), image * counts.numpy(), 1e-5)
    np.testing.assert_allclose(made.sum().gradient(x)[0].numpy(), counts.numpy())


def test_local_response_norm():
    x = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0)))
    mean = (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]) / 3
    expected = x / (2 + 0.1 * mean) ** 0.75
    np.testing.assert_allclose(
        F.local_response_norm(Tensor(x), 3, 0.1, k=2.0).numpy(), expected, 1e-5
    )


def test_instance_norm_follows_the_means_of_samples():
    x = RNG.normal(size=(2, 3, 8)).astype(np.float32)
    mean, variance = Tensor.zeros(3).contiguous(), Tensor.ones(3).contiguous()
    made = F.instance_norm(Tensor(x), mean, variance, momentum=0.5).numpy()
    expected = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(made, expected, 1e-4, 1e-5)
    np.testing.assert_allclose(mean.numpy(), x.mean(2).mean(0) / 2, 1e-5, 1e-6)
    expected = 0.5 + x.var(2, ddof=1).mean(0) / 2
    np.testing.assert_allclose(variance.numpy(), expected, 1e-5)
    after = F.instance_norm(Tensor(x), mean, variance, use_input_stats=False).numpy()
    known = (x - mean.numpy()[:, None]) / np.sqrt(variance.numpy()[:, None] + 1e-5)
    np.testing.assert_allclose(after, known, 1e-5, 1e-6)


def test_bags_of_embeddings():
    weight = RNG.normal(size=(6, 3)).astype(np.float32)
    bags, starts = [[1, 2], [], [4, 4, 0]], Tensor([0, 2, 2])
    flat = Tensor([1, 2, 4, 4, 0])
    for mode, of in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        made = F.embedding_bag(flat, Tensor(weight), starts, mode=mode).numpy()
        expected = [of(weight[bag], 0) if bag else np.zeros(3) for bag in bags]
        np.testing.assert_allclose(made, expected, 1e-5, 1e-6)
    made = F.embedding_bag(Tensor([[1, 2], [2, 4]]), Tensor(weight), padding_idx=2)
    np.testing.assert_allclose(made.numpy(), weight[[1, 4]], 1e-6)
    shares = Tensor([0.5, 2.0])
    made = F.embedding_bag(
        Tensor([1, 2]), Tensor(weight), Tensor([0, 2]), mode="sum", per_sample_weights=shares,
        include_last_offset=True,
    )  # fmt: skip
    np.testing.assert_allclose(made.numpy(), [weight[1] * 0.5 + weight[2] * 2], 1e-5)


def test_the_angle_of_what_is_broadcast_is_along_an_axis_of_both():
    x, y = np.random.default_rng(1).normal(size=(2, 2, 3))
    x, y = x.reshape(1, 2, 3), y.reshape(2, 1, 3)
    one, other = np.broadcast_arrays(x, y)
    expected = (one * other).sum(-2)
    expected /= np.linalg.norm(one, axis=-2) * np.linalg.norm(other, axis=-2)
    made = F.cosine_similarity(Tensor(x), Tensor(y), dim=-2)
    np.testing.assert_allclose(made.numpy(), expected, 1e-12)


def test_fold_asks_for_gradients_where_its_input_does():
    columns = Tensor.ones(1, 4, 4)
    assert not F.fold(columns, (3, 3), (2, 2)).requires_grad
    columns.requires_grad_()
    made = F.fold(columns, (3, 3), (2, 2))
    made.square().sum().backward()
    assert columns.grad.sum().item() == 2 * (4 * 1 + 4 * 4 + 1 * 16)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 3, 4, 5)])
def test_shares_without_an_axis_are_along_the_one_that_pytorch_takes(shape):
    x = np.random.default_rng(1).standard_normal(shape)
    axis = 0 if len(shape) in (1, 3) else 1
    wanted = np.exp(x) / np.exp(x).sum(axis, keepdims=True)
    for made in (F.softmax(Tensor(x)), nn.Softmax()(Tensor(x)), F.softmax(input=Tensor(x))):
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(nn.LogSoftmax()(Tensor(x)).numpy(), np.log(wanted), rtol=1e-12)
    np.testing.assert_allclose(F.softmin(Tensor(-x)).numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("case", ["rows", "columns", "width", "stacks"])
def test_products_of_groups(case):
    left = {"rows": (8, 8), "width": (4, 8)}.get(case, (3, 4, 8))
    right = {"columns": (8, 8), "width": (8, 8)}.get(case, (3, 8, 8))
    a, b = (np.random.default_rng(3).standard_normal(size).astype("f4") for size in (left, right))
    spans = (0, 2), (2, 2), (2, 7)  # an empty group, and one place in none
    if case == "stacks":
        expected = a @ b
    elif case == "width":
        expected = np.stack([a[:, i:j] @ b[i:j] for i, j in spans])
        a[:, 7] = np.nan
    else:
        expected = np.zeros((8, 8) if case == "rows" else (4, 8), "f4")
        for group, (i, j) in enumerate(spans):
            if case == "rows":
                expected[i:j] = a[i:j] @ b[group]
            else:
                expected[:, i:j] = a[group] @ b[:, i:j]
    offs = None if case == "stacks" else Tensor([2, 2, 7], dtype="int32")
    made = F.grouped_mm(Tensor(a), Tensor(b), offs=offs, bias=Tensor(1.0), out_dtype="float64")
    assert made.dtype.name == "float64"
    np.testing.assert_allclose(made.numpy(), expected + 1, atol=1e-5)
    with pytest.raises(ShapeError, match="offs"):
        F.grouped_mm(Tensor(a), Tensor(b[0] if b.ndim == 3 else b))
