"""Modules that hold others: names, order, and what lists and dicts can do."""

import pytest

from torpor import Tensor, nn


def test_members_have_numbers_or_names_in_the_state():
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU(), "last": nn.Linear(3, 1)})
    assert list(net.state_dict()) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert net.first is net[0]
    assert [name for name, _ in net.named_children()] == ["first", "act", "last"]
    assert len(net[1:]) == 2
    assert net[1:][1] is net.last

    class Net(nn.Sequential):
        """A container by another name is one."""

    assert list(Net(nn.Linear(1, 1)).state_dict()) == ["0.weight", "0.bias"]
    both = Net(nn.ReLU()) + nn.Sequential(nn.Tanh())
    assert [type(layer).__name__ for layer in both] == ["ReLU", "Tanh"]


def test_attributes_that_are_set_go_inside():
    net = nn.Sequential({"first": nn.Linear(2, 3), "head": nn.Linear(3, 4)})
    net.head = nn.Linear(3, 7)
    assert net(Tensor.ones(1, 2)).shape == (1, 7) and net[1] is net.head
    net.last = nn.Linear(7, 1)
    assert (len(net), net(Tensor.ones(1, 2)).shape) == (3, (1, 1))
    assert list(net.state_dict())[-1] == "last.bias"
    del net.last
    assert (len(net), hasattr(net, "last")) == (2, False)
    net.scale, net.note = nn.Parameter(Tensor.ones(1)), "a text"
    assert (len(net), "scale" in net.state_dict(), net.note) == (2, True, "a text")
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    heads.a, heads.b = nn.ReLU(), nn.Tanh()
    assert [type(head) for head in heads.values()] == [nn.ReLU, nn.Tanh]
    with pytest.raises(AttributeError):
        del heads.c


def test_modules_are_replaced_while_they_are_walked_through():
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4)))

    def replace(module):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm1d):
                setattr(module, name, nn.LayerNorm(child.num_features))
            else:
                replace(child)

    replace(net)
    assert not any(isinstance(module, nn.BatchNorm1d) for module in net.modules())
    assert net(Tensor.ones(1, 2)).mean(1).abs().item() < 1e-6


def test_lists_change():
    layers = nn.ModuleList(nn.Linear(n, 1) for n in (1, 2))
    layers.append(nn.Linear(3, 1)).extend([nn.Linear(4, 1)])
    layers.insert(0, nn.Linear(9, 1))
    assert [layer.in_features for layer in layers] == [9, 1, 2, 3, 4]
    assert layers.pop(1).in_features == 1
    del layers[-1]
    layers[0] = nn.Linear(7, 1)
    assert [layer.in_features for layer in layers[:2]] == [7, 2]
    assert list(layers.state_dict())[-1] == "2.bias"
    assert nn.ModuleList()[:0]._inside == {}


def test_dicts_change():
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    heads["b"] = nn.Linear(2, 1)
    heads.update([("c", nn.ReLU())])
    assert list(heads) == list(heads.keys()) == ["a", "b", "c"]
    assert "b" in heads
    assert heads.pop("a").in_features == 1
    assert [type(v).__name__ for _, v in heads.items()] == ["Linear", "ReLU"]
    with pytest.raises(KeyError, match="dot"):
        heads["a.b"] = nn.ReLU()


def test_tensors_in_lists_and_dicts_of_parameters_are_trained():
    scales = nn.ParameterList([Tensor.ones(2), nn.Parameter(Tensor.zeros(1))])
    assert [name for name, _ in scales.named_parameters()] == ["0", "1"]
    tables = nn.ParameterDict({"left": Tensor.ones(2)})
    assert list(dict(tables.named_parameters())) == ["left"]
    assert tables.get("right") is None
    assert tables.left.requires_grad


def test_a_dict_of_parameters_is_one_in_what_dicts_have():
    made = nn.ParameterDict({"a": Tensor([1.0])})
    assert made.setdefault("b", Tensor([2.0])) is made["b"]
    assert made["b"].requires_grad
    assert made.setdefault("a", None) is made["a"]
    same = made.copy()
    assert same["a"] is made["a"]
    assert made.popitem()[0] == "b"
    assert (list(made), list(same)) == (["a"], ["a", "b"])


def test_containers_that_hold_nothing_yet_do_not_call_what_a_subclass_says():
    class Counted(nn.ModuleDict):
        def __init__(self):
            super().__init__()
            self.count = 0

        def update(self, modules):
            self.count += len(modules)
            super().update(modules)

    made = Counted()
    made.update({"one": nn.Linear(1, 1)})
    assert made.count == len(made) == 1


def test_data_parallel_names_the_module_as_pytorchs_does():
    layer = nn.Linear(2, 1)
    model = nn.DataParallel(layer, device_ids=[0])
    assert [*model.state_dict()] == ["module.weight", "module.bias"]
    x = Tensor.ones(3, 2)
    assert model(x).tolist() == layer(x).tolist() and model.module is layer
    with pytest.raises(RuntimeError, match="over 2 devices; shard"):
        nn.DataParallel(layer, device_ids=[0, 1])
