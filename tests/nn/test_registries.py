"""A module's members by PyTorch's names of its dicts."""

import copy

import numpy as np
import pytest

from torpor import Tensor, jit, nn


def model():
    made = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    made.add_module("head", nn.Linear(3, 1))
    return made


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = model()
        self.scale = nn.Parameter(Tensor.ones(1))
        self.register_buffer("count", Tensor.zeros(1))

    def forward(self, x):
        return self.body(x) * self.scale


def test_members_are_found_by_kind():
    net = Net()
    assert list(net._modules) == ["body"] and list(net.body._modules) == ["0", "1", "head"]
    assert list(net._parameters) == ["scale"] and list(net._buffers) == ["count"]
    assert net._parameters["scale"] is net.scale
    assert sorted(net.body[1]._buffers) == ["num_batches_tracked", "running_mean", "running_var"]
    assert len(net.requires_grad_(False)._parameters) == 1
    with pytest.raises(KeyError):
        _ = net._modules["scale"]


def test_what_is_put_in_is_computed_with():
    net, x = Net().eval(), Tensor([[1.0, 2.0]])
    net._modules["body"]._modules["head"] = nn.Identity()
    assert net(x).shape == (1, 3)
    net._parameters["scale"] = nn.Parameter(Tensor([2.0]))
    assert next(net.named_parameters())[0] == "scale" and net.scale.item() == 2
    del net.body._modules["1"]
    del net._buffers["count"]
    assert [len(net.body), sorted(net.state_dict())[-1]] == [2, "scale"]
    np.testing.assert_allclose(net(x).numpy(), net.body[0](x).numpy() * 2)
    with pytest.raises(KeyError):
        del net._modules["scale"]


def test_a_jitted_function_sees_what_is_put_in():
    net = Net().eval()
    forward = jit(lambda x: net(x))
    x = Tensor([[1.0, 2.0]])
    for _ in range(3):
        forward(x)
    net.body._modules["head"] = nn.Flatten()
    assert forward(x).shape == (1, 3)
    assert copy.deepcopy(net)._modules["body"] is not net.body


def test_attributes_of_these_names_are_a_modules_own():
    class Own(nn.Module):
        def __init__(self):
            self._buffers = [1, 2]

    assert Own()._buffers == [1, 2]
