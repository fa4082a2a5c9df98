"""Modules: their tensors and the modules inside, moved and converted in place."""

import copy
import pickle

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import DTypeError


class Net(nn.Module):
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3))
        self.heads = nn.ModuleList([nn.Linear(3, 1)])
        self.scales = nn.ParameterList([Tensor.ones(1, requires_grad=True)])
        self.parts = {"last": nn.Linear(1, 1, bias=False)}

    def forward(self, x):
        return self.parts["last"](self.heads[0](self.body(x)) * self.scales[0])


PARAMETERS = [
    "body.0.weight", "body.0.bias", "body.2.weight", "body.2.bias", "heads.0.weight",
    "heads.0.bias", "scales.0", "parts.last.weight",
]  # fmt: skip


def test_names_of_parameters_and_state():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == PARAMETERS
    buffers = ["body.2.running_mean", "body.2.running_var", "body.2.num_batches_tracked"]
    assert set(net.state_dict()) == {*PARAMETERS, *buffers}
    assert len(list(net.parameters())) == len(nn.state.get_parameters(net)) == len(PARAMETERS)


def test_tied_parameters_are_one():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(net.state_dict()) == 4
    again = copy.deepcopy(net)
    assert again[0].weight is again[1].weight
    assert again[0].weight is not net[0].weight


def test_training_is_set_everywhere():
    net = Net()
    assert not any(module.training for module in net.eval().modules())
    assert all(module.training for module in net.train().modules())


def test_apply_goes_from_the_inside_out():
    seen = []
    net = Net()
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen[-1] == "Net"
    assert sorted(seen) == sorted(type(module).__name__ for module in net.modules())


def test_state_goes_from_one_module_to_another():
    one, other = Net().eval(), Net().eval()
    x = Tensor([[1.0, -2.0], [0.5, 3.0]])
    other.load_state_dict(one.state_dict())
    assert (one(x).numpy() == other(x).numpy()).all()
    with pytest.raises(KeyError, match="Missing key"):
        one.load_state_dict({})
    one.load_state_dict({}, strict=False)
    again = pickle.loads(pickle.dumps(one))
    assert (again(x).numpy() == one(x).numpy()).all()


def test_formats_change_in_place_and_integers_stay():
    net = Net()
    weight = net.body[0].weight
    optimiser = nn.optim.SGD(net.parameters(), lr=0.1)
    values = weight.numpy()
    assert net.double() is net
    assert net.body[0].weight is weight
    assert weight.dtype.name == "float64"
    assert weight.requires_grad
    assert net.scales[0].dtype.name == "float64"  # inside a list
    assert net.body[2].num_batches_tracked.dtype.name == "int64"
    assert (weight.numpy() == values).all()
    net(Tensor(np.ones((2, 2)))).sum().backward()
    optimiser.step()
    assert weight.dtype.name == "float64"
    assert net.half().body[2].running_mean.dtype.name == "float16"
    assert net.bfloat16().float().heads[0].weight.dtype.name == "float32"
    with pytest.raises(DTypeError, match="stay floats"):
        net.to("int32")


def test_devices_change_in_place_and_gradients_follow():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    layer(Tensor.ones(1, 2)).sum().backward()
    layer.to("PYTHON", "float64")
    assert layer.weight is weight
    assert (weight.device, weight.grad.device, weight.grad.dtype.name) == (
        "PYTHON", "PYTHON", "float64",
    )  # fmt: skip
    assert layer(Tensor.ones(1, 2, dtype="float64", device="PYTHON")).device == "PYTHON"
    layer.zero_grad()
    assert weight.grad is None


def test_a_module_that_says_nothing_says_so():
    with pytest.raises(NotImplementedError, match="Silent"):
        type("Silent", (nn.Module,), {})()(1)


def test_tensors_that_do_not_require_a_gradient_for_now_stay_parameters():
    net = Net()
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())
    assert [name for name, _ in net.named_parameters()] == PARAMETERS
    again = pickle.loads(pickle.dumps(copy.deepcopy(net).double()))
    assert [name for name, _ in again.named_parameters()] == PARAMETERS
    assert isinstance(net.body[0].weight, nn.Parameter)
    for parameter in net.parameters():
        parameter.requires_grad = True
    assert all(p.requires_grad for p in net.parameters())
    fixed = nn.Parameter(Tensor.ones(2), requires_grad=False)
    assert isinstance(fixed, nn.Parameter)
    assert not fixed.requires_grad
    assert not isinstance(fixed.detach(), nn.Parameter)


def test_frozen_parameters_stay_parameters_whatever_is_done_to_the_model():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).requires_grad_(False)

    def count(one):
        return len(list(one.parameters()))

    state = {name: value.detach() + 1 for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    assert (count(model), count(copy.deepcopy(model))) == (4, 4)
    assert count(pickle.loads(pickle.dumps(model))) == 4
    model[0].weight += 1
    model[0].weight.realize()
    assert (count(model), count(model.to("float64"))) == (4, 4)
    assert not any(p.requires_grad for p in model.parameters())
    assert sum(p.requires_grad for p in model.requires_grad_().parameters()) == 4


def test_buffers_that_are_not_persistent_move_and_are_not_saved():
    net = nn.Module()
    net.register_buffer("mask", Tensor.ones(2), persistent=False)
    net.register_buffer("count", Tensor.zeros(1))
    net.register_buffer("nothing", None)
    net.register_parameter("scale", nn.Parameter(Tensor.ones(1)))
    net.add_module("inner", nn.BatchNorm1d(2, affine=False))
    net.inner.cache = nn.Buffer(Tensor.ones(2), persistent=False)
    assert net.inner.half().cache.dtype.name == "float16"
    net.inner.cache = net.inner.cache + 1
    net.inner.trained = nn.Buffer(Tensor.ones(2), persistent=False)
    assert "inner.trained" not in net.state_dict()
    net.inner.trained = nn.Parameter(Tensor.ones(2))  # as in PyTorch it is no buffer any more
    assert "inner.trained" in net.state_dict()
    del net.inner.trained
    assert list(net.state_dict(prefix="net.")) == [
        "net.scale", "net.count", "net.inner.running_mean", "net.inner.running_var",
        "net.inner.num_batches_tracked",
    ]  # fmt: skip
    assert [n for n, _ in net.named_buffers(recurse=False)] == ["mask", "count"]
    assert [n for n, _ in net.named_parameters(prefix="net")] == ["net.scale"]
    assert net.double().mask.dtype.name == "float64"
    assert net.get_buffer("inner.running_var").tolist() == [1.0, 1.0]
    with pytest.raises(KeyError, match="already"):
        net.register_buffer("forward", Tensor.ones(1))
    with pytest.raises(AttributeError, match="scale"):
        net.get_buffer("scale")


def test_modules_are_found_and_put_by_name():
    net = Net()
    assert net.get_submodule("body.0") is net.body[0]
    assert net.get_submodule("") is net
    net.set_submodule("body.1", nn.Tanh())
    assert isinstance(net.body[1], nn.Tanh)
    names = [name for name, _ in net.named_modules()]
    assert names == [
        "", "body", "body.0", "body.1", "body.2", "heads", "heads.0", "scales", "parts.last",
    ]  # fmt: skip
    with pytest.raises(AttributeError, match="nowhere"):
        net.get_submodule("nowhere")


def test_what_does_not_fit_is_named():
    net = nn.Linear(2, 1)
    misfit = net.load_state_dict({"bias": np.ones(1), "other": np.ones(1)}, strict=False)
    assert misfit.missing_keys == ["weight"]
    assert misfit.unexpected_keys == ["other"]
    assert net.bias.tolist() == [1.0]
    values = {name: np.ones(t.shape) for name, t in net.state_dict().items()}
    net.load_state_dict(values, assign=True)
    assert net.weight.dtype.name == "float64"
    assert net.weight.requires_grad


def test_layers_are_made_on_a_device_and_in_a_format():
    layer = nn.Linear(2, 3, device="PYTHON", dtype="float64")
    assert (layer.weight.device, layer.bias.dtype.name) == ("PYTHON", "float64")
    assert Tensor([1.0]).dtype.name == "float32"
    assert nn.BatchNorm1d(2, dtype="float16").num_batches_tracked.dtype.name == "int64"

    class Own(nn.Linear):
        def __init__(self, dtype):
            super().__init__(1, 1, dtype=dtype)
            self.own = dtype

    assert Own("float64").weight.dtype.name == "float64"


def test_text_shows_what_is_inside():
    net = nn.Sequential(nn.Linear(2, 3, bias=False), *(nn.ReLU() for _ in range(3)), nn.Dropout())
    assert repr(net) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=False)\n"
        "  (1-3): 3 x ReLU()\n  (4): Dropout(p=0.5)\n)"
    )
    assert repr(nn.Conv2d(1, 2, 3, padding=1)) == (
        "Conv2d(in_channels=1, out_channels=2, kernel_size=(3, 3), padding=(1, 1), bias=True)"
    )


@pytest.mark.parametrize("name", ["input", "x"])
def test_layers_take_what_they_are_given_by_pytorchs_names(name):
    for layer, shape in (
        (nn.Linear(2, 3), (4, 2)), (nn.Conv1d(2, 1, 1), (1, 2, 3)), (nn.BatchNorm1d(2), (3, 2)),
        (nn.LayerNorm(2), (3, 2)), (nn.Flatten(), (2, 2, 2)), (nn.ZeroPad1d(1), (1, 1, 3)),
        (nn.PReLU(), (3,)), (nn.ReLU(), (3,)), (nn.Sequential(nn.ReLU()), (3,)),
        (nn.Identity(), (2,)),
    ):  # fmt: skip
        x = Tensor.randn(shape)
        np.testing.assert_allclose(layer(**{name: x}).numpy(), layer(x).numpy(), rtol=1e-5)
    x, h = Tensor.ones(4, 1, 2), Tensor.ones(1, 1, 3)
    for layer, state in ((nn.GRU(2, 3), h), (nn.LSTM(2, 3), (h, h))):
        expected = layer(x, state)[0].numpy()
        np.testing.assert_array_equal(layer(**{name: x}, hx=state)[0].numpy(), expected)
        np.testing.assert_array_equal(layer(x, state=state)[0].numpy(), expected)
    pair = nn.Bilinear(2, 2, 1)
    assert pair(input1=x, input2=x).shape == (4, 1, 1)


def test_keywords_of_a_users_own_module_are_its_own():
    class Own(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(TypeError, match="unexpected keyword argument 'input'"):
        Own()(input=Tensor([1.0]))


def test_modules_are_given_as_often_as_they_occur_where_asked():
    inner = nn.Linear(2, 2)
    twice = nn.Sequential(inner, inner)
    assert [one is inner for one in twice.modules()] == [False, True]
    again = twice.modules(remove_duplicate=False)
    assert [one is inner for one in again] == [False, True, True]


def test_a_module_says_what_it_is_called_in_its_text():
    class Named(nn.Module):
        def _get_name(self):
            return "Another"

    assert nn.Linear(2, 2)._get_name() == "Linear"
    assert repr(Named()) == "Another()"


class Waves(nn.Module):
    """Complex numbers that are trained, and such that are not."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(Tensor([1 + 2j, 3 - 1j]))
        self.register_buffer("turns", Tensor([1j, 1 + 1j]))
        self.last = nn.Linear(2, 1)

    def forward(self, x):
        return self.last((x * self.weight * self.turns).abs())


def test_complex_tensors_are_parameters_and_buffers():
    net = Waves()
    assert [name for name, _ in net.named_parameters()] == ["weight", "last.weight", "last.bias"]
    assert [name for name, _ in net.named_buffers()] == ["turns"]
    assert list(net.state_dict()) == ["weight", "turns", "last.weight", "last.bias"]
    with torpor.no_grad():
        copied = copy.deepcopy(net)
        copied.weight.zero_()
    copied.load_state_dict(net.state_dict())
    assert copied.weight.tolist() == [1 + 2j, 3 - 1j]
    copied.weight.data *= 2
    copied.weight.data = copied.weight.data - 1
    assert (copied.weight.tolist(), copied.weight.requires_grad) == ([1 + 4j, 5 - 2j], True)
    copied.requires_grad_(False)
    assert isinstance(copied.weight, nn.Parameter)
    assert not isinstance(copied.turns, nn.Parameter)


def test_complex_tensors_stay_complex_in_other_formats():
    net = Waves()
    held = net.weight
    net.double()
    assert (net.weight.dtype.name, net.last.weight.dtype.name) == ("complex64", "float64")
    net = torpor.nn.ParameterList([held]).to("complex128")
    assert (held.dtype.name, held.tolist(), held.requires_grad) == (
        "complex128", [1 + 2j, 3 - 1j], True,
    )  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda step: step, torpor.jit])
def test_complex_parameters_are_trained_as_pytorch_trains_them(wrap):
    torch = pytest.importorskip("torch")

    def trained(library, net, wrap):
        optimiser = library.optim.Adam(net.parameters(), lr=0.1)

        def step(x):
            optimiser.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            norm = library.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            return loss, norm

        step = wrap(step)
        given = np.random.default_rng(4).normal(size=(5, 3, 2, 2)).astype(np.float32)
        xs = [library.tensor(x[..., 0] + 1j * x[..., 1]) for x in given]
        seen = [[part.item() for part in step(x)] for x in xs]
        return seen, net.weight.detach().numpy()

    class Same(torch.nn.Module):
        def __init__(self, own):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(own.weight.tolist()))
            self.turns, self.last = torch.tensor(own.turns.tolist()), torch.nn.Linear(2, 1)
            same = {name: torch.tensor(one.numpy()) for name, one in own.last.state_dict().items()}
            self.last.load_state_dict(same)

        forward = Waves.forward

    net = Waves()
    expected, there = trained(torch, Same(net), lambda step: step)
    found, here = trained(torpor, net, wrap)
    np.testing.assert_allclose(found, expected, 1e-4)
    np.testing.assert_allclose(here, there, 1e-4)


def test_grad_takes_what_parameters_and_values_of_a_dict_give():
    module, x = nn.Linear(2, 1), Tensor([[1.0, 2.0]])
    named = dict(module.named_parameters())
    for inputs in (module.parameters(), named.values(), iter(named.values())):
        weight, bias = torpor.autograd.grad(module(x), inputs)
        assert (weight.tolist(), bias.tolist()) == ([[1.0, 2.0]], [1.0])
    torpor.autograd.backward(iter([module(x), module(x)]), iter([Tensor([[1.0]]), None]))
    assert module.bias.grad.tolist() == [2.0]
    with pytest.raises(DTypeError, match="not 3"):
        torpor.autograd.grad(module(x), 3)


def test_what_a_module_computes_and_keeps_is_neither_parameter_nor_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.kept = nn.Linear(2, 2), []

        def forward(self, x):
            self.hidden = self.layer(x)
            self.kept = [self.hidden.relu(), self.layer.weight[0]]
            return self.kept[0]

    net = Net()
    before = list(net.state_dict())
    made = net(torpor.ones(1, 2))
    assert not isinstance(made, nn.Parameter) and isinstance(net.layer.weight, nn.Parameter)
    assert list(net.state_dict()) == before == [name for name, _ in net.named_parameters()]
    assert not list(net.buffers()) and "hidden" not in {**net._parameters, **net._buffers}
    torpor.optim.SGD(net.parameters(), 0.1)
    Net().load_state_dict(net.state_dict())
    net.layer.weight.requires_grad_(False)
    assert isinstance(net.layer.weight, nn.Parameter)


def test_modules_may_hold_the_module_that_they_are_in():
    class Inner(nn.Module):
        def __init__(self, outer):
            super().__init__()
            self.layer, self.outer = nn.Linear(1, 1, bias=False), [outer]

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner(self)

    one, other = Outer(), Outer()
    assert [name for name, _ in one.named_modules()] == ["", "inner", "inner.layer"]
    assert list(one.state_dict()) == [name for name, _ in one.named_parameters()]
    assert list(one.state_dict()) == ["inner.layer.weight"] and "..." in repr(one)
    other.load_state_dict(one.state_dict())
    assert other.inner.layer.weight.tolist() == one.inner.layer.weight.tolist()
    twice = nn.Sequential(layer := nn.Linear(1, 1), layer)
    assert len(list(twice.modules(remove_duplicate=False))) == 3


def test_a_registered_buffer_is_one_whatever_its_value_is():
    module = nn.Linear(2, 2)
    module.register_buffer("twice", module.weight * 2)
    module.looked_at = module(torpor.ones(1, 2))
    assert list(module.state_dict()) == ["weight", "bias", "twice"]
    assert [name for name, _ in module.named_buffers()] == ["twice"]
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]
    assert module.double().twice.dtype is torpor.float64


def test_what_was_none_has_its_place_where_it_becomes_something():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.middle = self.scale = None
            self.register_parameter("late", None)
            self.first = nn.Linear(1, 1, bias=False)
            self.middle = nn.Linear(1, 1, bias=False)
            self.last, self.late = nn.Linear(1, 1, bias=False), nn.Parameter(Tensor.ones(1))
            self.scale = nn.Parameter(Tensor.ones(1))

    net = Net()
    names = ["late", "scale", "first.weight", "middle.weight", "last.weight"]  # PyTorch's order
    assert list(net.state_dict()) == names
    net.first = net.late = None
    net.first, net.late = nn.Linear(2, 2, bias=False), nn.Parameter(Tensor.zeros(1))
    assert [name for name, _ in net.named_parameters()] == names


def test_bases_behind_module_are_initialised_where_a_class_says_so():
    class Mixin:
        def __init__(self, width):
            self.width = width

    class Alone(nn.Module, Mixin):
        def __init__(self):
            super().__init__()
            Mixin.__init__(self, 3)

    class Together(nn.Module, Mixin):
        call_super_init = True

        def __init__(self):
            super().__init__(4)

    assert (Alone().width, Together().width) == (3, 4)
    with pytest.raises(TypeError, match="Module was given what it does not take: 1, width"):
        nn.Module(1, width=2)
