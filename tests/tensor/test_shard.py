"""One tensor over several devices gives what it gives on one."""

import numpy as np
import pytest

from tests.tensor.layouts import numbers
from torpor import Tensor, nn
from torpor.base.errors import DeviceError, ShapeError

DEVICES = ("CPU:0", "CPU:1")
FOUR = ("CPU:0", "CPU:1", "CPU:2", "CPU:3")


def test_parts_live_on_their_devices():
    x = Tensor(numbers((4, 6))).shard(DEVICES, 0)
    assert x.device == ("CPU", "CPU:1")
    assert x.shape == (4, 6)
    np.testing.assert_array_equal(x.numpy(), numbers((4, 6)))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x * x.exp(),
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x.amax(),
        lambda x: x.softmax(1),
        lambda x: x.mean(0, keepdim=True) - x,
        lambda x: x.T,
        lambda x: x.reshape(2, 2, 8),
        lambda x: x.reshape(8, 4),
        lambda x: x[1:3],
        lambda x: x[:, 2:7],
        lambda x: x.flip(0),
        lambda x: x.pad((1, 2)),
        lambda x: x.unsqueeze(1).expand(4, 3, 8),
        lambda x: (x > 0).where(x, 0),
        lambda x: x.argmax(1),
        lambda x: x[Tensor([2, 0]).shard(DEVICES)],
    ],
)
def test_every_kind_of_operation(function, axis):
    array = numbers((4, 8))
    sharded = function(Tensor(array).shard(DEVICES, axis))
    try:
        expected = function(Tensor(array)).numpy()
    except DeviceError:  # the index of the last case is sharded itself
        expected = array[[2, 0]]
    np.testing.assert_allclose(sharded.numpy(), expected, 1e-6, 1e-6)


@pytest.mark.parametrize("left", [0, 1, None])
@pytest.mark.parametrize("right", [0, 1, None])
def test_operands_cut_in_different_ways(left, right):
    a, b = numbers((4, 8)), numbers((8, 4), seed=1)
    x, y = Tensor(a).shard(FOUR, left), Tensor(b).shard(FOUR, right)
    np.testing.assert_allclose((x @ y).numpy(), a @ b, 1e-5, 1e-5)
    np.testing.assert_allclose((x + y.T).numpy(), a + b.T, 1e-6)


def losses(devices):
    Tensor.manual_seed(3)
    model = nn.Linear(6, 3)
    x, y = Tensor(numbers((8, 6))), Tensor(numbers((8, 3), seed=1))
    if devices:
        x, y = x.shard(devices, 0), y.shard(devices, 0)
        for parameter in model.parameters():
            parameter.shard_(devices)
    optimiser = nn.optim.Adam(model.parameters(), lr=0.05)
    found = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = model(x).mse_loss(y)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found, [p.numpy() for p in model.parameters()]


def test_training_over_two_devices_is_training_on_one():
    (alone, weights), (shared, others) = losses(None), losses(DEVICES)
    np.testing.assert_allclose(shared, alone, 1e-5)
    for one, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(other, one, 1e-4, 1e-5)


@pytest.mark.parametrize("axis", [0, None])
def test_gradients_flow_back_through_sharding(axis):
    x = Tensor(numbers((4, 2)), requires_grad=True)
    (x.shard(DEVICES, axis) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * numbers((4, 2)), 1e-6)


def test_back_to_one_device():
    x = Tensor(numbers((4, 2))).shard(DEVICES, 0).to("CPU:1")
    assert x.device == "CPU:1"
    np.testing.assert_array_equal(x.numpy(), numbers((4, 2)))


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(ShapeError, match=r"axis 0 of length 3.*2 devices"):
        Tensor([1, 2, 3]).shard(DEVICES, 0)
    with pytest.raises(ShapeError, match="axis 2"):
        Tensor.ones(2, 2).shard(DEVICES, 2)
    with pytest.raises(ShapeError, match="once"):
        Tensor.ones(2, 2).shard(("CPU", "CPU:0"), 0)


def test_mixing_with_one_device_is_an_error_that_names_both():
    with pytest.raises(DeviceError, match=r"CPU.*CPU:1"):
        Tensor.ones(4).shard(DEVICES, 0) + Tensor(np.ones(4, np.float32))
