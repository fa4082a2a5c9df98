"""Modules as functions of their tensors."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, func, nn

X = np.random.default_rng(0).normal(size=(6, 3)).astype("f4")


def network():
    torpor.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1))


def test_gradients_by_functional_call_are_those_of_backward():
    net, x = network(), Tensor(X)
    parameters = dict(net.named_parameters())

    def loss(parameters, x):
        return func.functional_call(net, parameters, (x,)).square().mean()

    made = func.grad(loss)(parameters, x)
    step = torpor.jit(func.grad_and_value(loss))
    for _ in range(3):
        jitted, value = step({name: one.detach() for name, one in parameters.items()}, x)
    net(x).square().mean().backward()
    for name, one in net.named_parameters():
        np.testing.assert_allclose(made[name].numpy(), one.grad.numpy(), atol=1e-6)
        np.testing.assert_allclose(jitted[name].numpy(), one.grad.numpy(), atol=1e-6)
        assert parameters[name] is one
    assert np.isclose(value.item(), net(x).square().mean().item())
    assert "replayed 2 times" in torpor.explain(step) and "as it is" not in torpor.explain(step)


def test_buffers_are_written_in_what_is_given_and_names_have_to_fit():
    net, x = network(), Tensor(X)
    given = {name: one.clone() for name, one in net.named_buffers()}
    func.functional_call(net, given, x)
    assert given["2.num_batches_tracked"].item() == 1 and net[2].num_batches_tracked.item() == 0
    with pytest.raises(KeyError, match="unexpected"):
        func.functional_call(net, {"4.weight": x}, x)
    with pytest.raises(KeyError, match=r"missing \['0.bias'"):
        func.functional_call(net, given, x, strict=True)


def test_tied_tensors_change_together():
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    double = {"0.weight": Tensor(np.eye(3, dtype="f4") * 2)}
    np.testing.assert_allclose(func.functional_call(net, double, Tensor(X)).numpy(), X * 4)
    alone = func.functional_call(net, double, Tensor(X), tie_weights=False)
    np.testing.assert_allclose(alone.numpy(), (X * 2) @ net[0].weight.numpy().T, rtol=1e-5)


def test_an_ensemble_by_vmap():
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    assert parameters["weight"].shape == (4, 2, 3) and buffers == {}

    def run(parameters, x):
        return func.functional_call(models[0], parameters, (x,))

    made = func.vmap(run, in_dims=(0, None))(parameters, Tensor(X))
    each = np.stack([model(Tensor(X)).numpy() for model in models])
    np.testing.assert_allclose(made.numpy(), each, rtol=1e-5, atol=1e-6)


def test_linear_parts_and_norms_without_statistics():
    value, push = func.linearize(Tensor.square, Tensor(3.0))
    assert (value.item(), push(Tensor(2.0)).item()) == (9, 12)
    net = func.replace_all_batch_norm_modules_(network())
    assert net[2].running_mean is None and not list(net.buffers())
    net.eval()
    inner = net[1](net[0](Tensor(X))).numpy()
    wanted = (inner - inner.mean(0)) / np.sqrt(inner.var(0) + 1e-5)
    np.testing.assert_allclose(net[2](net[1](net[0](Tensor(X)))).numpy(), wanted, atol=1e-5)


def test_functions_are_functional_already():
    def raised(x):
        x.add_(1)
        return x * 2

    assert torpor.func.functionalize(raised)(Tensor([1.0])).tolist() == [4.0]
