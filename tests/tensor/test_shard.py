"""One tensor over several devices gives what it gives on one."""

import copy
import pickle

import numpy as np
import pytest

from tests.tensor.layouts import numbers
from torpor import Tensor, lower, nn
from torpor.base.errors import DeviceError, ShapeError
from torpor.ir.ops import Ops

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


def test_a_product_moves_no_operand_silently():
    x = Tensor(numbers((4, 4)))
    for devices in (DEVICES, ("CPU:1",)):
        with pytest.raises(DeviceError, match=r"CPU:1.* and CPU;"):
            x.shard(devices, 0) @ x
    with pytest.raises(DeviceError, match=r"CPU:3.* and .*CPU:1"):
        x.shard(FOUR, 0) + x.shard(DEVICES, 0)


def test_one_device_is_that_device():
    x = Tensor(numbers((4, 2)), requires_grad=True)
    for devices in (["CPU:1"], "CPU:1"):
        sharded = x.shard(devices, 0)
        assert sharded.device == "CPU:1"
        np.testing.assert_array_equal((sharded + 1).numpy(), numbers((4, 2)) + 1)
    (x.shard("CPU:1") ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * numbers((4, 2)), 1e-6)


def buffers(tensor):
    base = tensor.realize()._storage.base
    return [node.arg for node in base.toposort() if node.op is Ops.BUFFER]


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("devices", [DEVICES[::-1], ("CPU:2", "CPU:3"), FOUR])
def test_to_other_devices(axis, devices):
    x = Tensor(numbers((4, 8))).shard(DEVICES, axis)
    for moved in (x.to(devices), x.shard(devices, 0)):
        assert moved.device == tuple(b.device for b in buffers(moved + 1))
        np.testing.assert_array_equal((moved + 1).numpy(), numbers((4, 8)) + 1)


def test_every_bit_comes_back():
    array = np.array([-0.0, 0.0, np.nan, -np.inf], np.float32)
    x = Tensor(array).shard(DEVICES, 0)
    for back in (x.numpy(), x.to("CPU").numpy(), x.to("CPU:3").numpy()):
        np.testing.assert_array_equal(back.view(np.uint32), array.view(np.uint32))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_writes_reach_all_devices(axis):
    x, array = Tensor(numbers((4, 8))).shard(DEVICES, axis), numbers((4, 8)).copy()
    row = x[1:3]
    x += 1
    x[0] = 5.0
    row *= 2
    array += 1
    array[0] = 5.0
    array[1:3] *= 2
    for device in (*DEVICES, "CPU:2"):
        np.testing.assert_array_equal(x.to(device).numpy(), array)
    np.testing.assert_array_equal(row.numpy(), array[1:3])


@pytest.mark.parametrize("axis", [0, 1, None])
def test_copies_and_pickles_are_over_the_same_devices(axis):
    x = Tensor(numbers((4, 8))).shard(DEVICES, axis)
    for value in (x, x + 1, x.T):
        for made in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert made.device == value.device
            np.testing.assert_array_equal((made * 2).numpy(), value.numpy() * 2)


def test_text_shows_values_and_devices():
    x = Tensor([1.0, 2.0]).shard(DEVICES, 0)
    assert repr(x) == "tensor([1., 2.], device=('CPU', 'CPU:1'))"
    assert repr(x + 1) == "tensor([2., 3.], device=('CPU', 'CPU:1'))"


def test_one_kernel_a_device():
    x = Tensor(numbers((4, 8))).shard(DEVICES, 0)
    kernels = (x * 2 + 1).schedule()
    assert [{b.arg.device for b in kernel.buffers} for kernel in kernels] == [{"CPU"}, {"CPU:1"}]
    assert len(lower(x * 2 + 1)) == 2


def test_errors_of_one_part_are_raised():
    x = Tensor([1, 2, 3, 4]).shard(DEVICES, 0)
    with pytest.raises(ZeroDivisionError):
        (x // Tensor([1, 1, 1, 0]).shard(DEVICES, 0)).realize()
    with pytest.raises(IndexError):
        x[Tensor([0, 9]).shard(DEVICES, 0)].realize()


@pytest.mark.parametrize("axis", [0.5, True, -3])
def test_an_axis_is_an_integer_in_range(axis):
    with pytest.raises(ShapeError, match="axis"):
        Tensor.ones(2, 2).shard(DEVICES, axis)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_gradients_are_on_every_device(axis):
    x = Tensor(numbers((4, 8))).shard(DEVICES, axis).requires_grad_()
    y = Tensor(numbers((4, 8)), requires_grad=True)
    for one in (x, y):
        (one.softmax(1) ** 2).sum().backward()
    for device in DEVICES:
        np.testing.assert_allclose(x.grad.to(device).numpy(), y.grad.numpy(), 1e-5, 1e-7)
    (first,) = (x**3).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    np.testing.assert_allclose(second.numpy(), 6 * numbers((4, 8)), 1e-5)


def test_parameters_stay_equal_on_every_device():
    model = nn.Linear(8, 3)
    for parameter in model.parameters():
        parameter.shard_(FOUR)
    optimiser = nn.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = Tensor(numbers((4, 8))).shard(FOUR, 0)
    y = Tensor(np.array([0, 1, 2, 0])).shard(FOUR, 0)
    for _ in range(2):
        optimiser.zero_grad()
        model(x).cross_entropy(y).backward()
        optimiser.step()
    for parameter in model.parameters():
        copies = [buffer.numpy() for buffer in buffers(parameter)]
        assert len(copies) == 4
        assert all((one == copies[0]).all() for one in copies)


def test_programs_over_devices_whose_graphs_hardly_recur():
    draw, coin = np.random.default_rng(0), np.random.default_rng(1)
    weights = draw.standard_normal((6, 6))
    w = Tensor(weights).shard(("CPU:0", "CPU:1"), axis=0)
    for _ in range(24):
        expected = draw.standard_normal((4, 6))
        x = Tensor(expected).shard(("CPU:0", "CPU:1"), axis=None)
        for choice in coin.random(4) < 0.5:
            x = (x @ w).tanh() if choice else (x @ w).sin()
            expected = (np.tanh if choice else np.sin)(expected @ weights)
        assert x.sum().to("CPU").item() == pytest.approx(expected.sum(), abs=1e-6)


def test_what_lies_on_devices_is_wanted_again_after_a_sum_of_it():
    for _ in range(3):
        x = Tensor(np.ones((4, 6))).shard(("CPU:0", "CPU:1"), axis=None).sin()
        assert x.sum().to("CPU").item() == pytest.approx(24 * np.sin(1))
        np.testing.assert_allclose(x.numpy(), np.full((4, 6), np.sin(1)))
