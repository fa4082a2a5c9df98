"""Updates against their formulas in float64, and what a step computes besides."""

import gc

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import TorporError
from torpor.tensor.mode import default_float
from torpor.tensor.pending import taken_along


def test_a_step_computes_the_loss_along_with_the_update():
    layer = nn.Linear(8, 4)
    optimiser = nn.optim.SGD(layer.parameters(), lr=0.1)
    x = Tensor.ones(16, 8).realize()
    for _ in range(2):
        optimiser.zero_grad()
        loss = layer(x).square().mean()
        before = (x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()) ** 2
        loss.backward()
        optimiser.step()
        assert not loss.schedule(), "its value is there already"
        np.testing.assert_allclose(loss.item(), before.mean(), rtol=1e-5)


def test_losses_that_nobody_holds_are_not_computed():
    weight = Tensor([1.0], requires_grad=True)
    kept = (weight * 2).sum().backward()
    (weight * 3).sum().backward()
    added = weight.grad._storage  # computed along, as all that is written to
    (found,) = (one for one in taken_along() if one is not added)
    assert found is kept._storage
    assert not taken_along()


def test_a_loaded_state_brings_what_its_options_keep():
    steps = gradients(4, 1)
    whole = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([whole], lr=0.1, momentum=0.9)
    run(optimiser, whole, steps[:2])
    again = Tensor(whole.numpy(), requires_grad=True)
    resumed = nn.optim.SGD([again], lr=0.5)
    resumed.load_state_dict(optimiser.state_dict())
    found = run(resumed, again, steps[2:])
    assert found.tolist() == run(optimiser, whole, steps[2:]).tolist()
    assert not nn.optim.SGD([again], lr=0.5).state_dict()["state"]


def gradients(count, size):
    return np.random.default_rng(7).standard_normal((count, size))


def run(optimiser, parameter, steps):
    """The parameter after each step with a given gradient."""
    found = []
    for gradient in steps:
        parameter.grad = Tensor(gradient.astype(np.float32))
        optimiser.step()
        found.append(parameter.numpy())
    return np.array(found)


def sgd(value, steps, lr, momentum, decay, nesterov):
    """v = momentum*v + g, p -= lr * (g + momentum*v if nesterov else v), as in PyTorch."""
    velocity, found = 0.0, []
    for gradient in steps:
        gradient = gradient + decay * value
        velocity = momentum * velocity + gradient
        value = value - lr * (gradient + momentum * velocity if nesterov else velocity)
        found.append(value)
    return np.array(found)


def adam(value, steps, lr, betas, decay, decoupled):
    """Kingma and Ba, 2015, algorithm 1; Loshchilov and Hutter, 2019, algorithm 2."""
    first = second = 0.0
    found = []
    for count, gradient in enumerate(steps, 1):
        gradient = gradient if decoupled else gradient + decay * value
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        change = first / (1 - betas[0] ** count)
        change = change / (np.sqrt(second / (1 - betas[1] ** count)) + 1e-8)
        value = value - lr * (change + (decay * value if decoupled else 0))
        found.append(value)
    return np.array(found)


START = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd(momentum, nesterov):
    parameter, steps = Tensor(START.astype("f4"), requires_grad=True), gradients(4, 3)
    optimiser = nn.optim.SGD([parameter], 0.1, momentum, weight_decay=0.01, nesterov=nesterov)
    expected = sgd(START, steps, 0.1, momentum, 0.01, nesterov)
    np.testing.assert_allclose(run(optimiser, parameter, steps), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [nn.optim.Adam, nn.optim.AdamW])
def test_adam(kind):
    parameter, steps = Tensor(START.astype("f4"), requires_grad=True), gradients(5, 3)
    optimiser = kind([parameter], 0.05, (0.8, 0.95), weight_decay=0.1)
    expected = adam(START, steps, 0.05, (0.8, 0.95), 0.1, kind is nn.optim.AdamW)
    np.testing.assert_allclose(run(optimiser, parameter, steps), expected, rtol=1e-4)


@pytest.mark.parametrize("default", ["float16", "float32", "float64"])
def test_steps_are_as_exact_as_the_parameters(default):
    """Whatever the default float is: rates and what is left of 1 - beta are too small for it."""
    before, steps = default_float(), gradients(5, 3)
    torpor.set_default_dtype(default)
    try:
        for dtype, limit in (("float64", 1e-14), ("float32", 1e-6)):
            parameter = Tensor(START.astype(dtype), requires_grad=True)
            found = []
            optimiser = nn.optim.AdamW([parameter], 1e-8, weight_decay=0.1)
            for gradient in steps:
                parameter.grad = Tensor(gradient.astype(dtype) * 1e7)
                optimiser.step()
                found.append(parameter.numpy())
            expected = adam(START, steps * 1e7, 1e-8, (0.9, 0.999), 0.1, True)
            np.testing.assert_allclose(np.array(found), expected, rtol=limit)
            np.testing.assert_allclose(found[-1] - START, expected[-1] - START, atol=limit)
            parameter = Tensor([0.0], dtype=dtype, requires_grad=True)
            parameter.grad = Tensor([3.0], dtype=dtype)
            nn.optim.SGD([parameter], 1e-8).step()
            np.testing.assert_allclose(parameter.numpy(), [-3e-8], rtol=limit)
    finally:
        torpor.set_default_dtype(before)


def test_parameters_of_16_bits():
    """What is too small for them, rates, decays, squares and eps, still counts."""
    for dtype in ("float16", "bfloat16"):
        parameter = Tensor([0.0, 0.0], dtype=dtype, requires_grad=True)
        parameter.grad = Tensor([2.0**15, 0], dtype=dtype)
        nn.optim.SGD([parameter], 1e-8).step()
        np.testing.assert_allclose(parameter.tolist(), [-(2.0**15) * 1e-8, 0], rtol=1e-2)
        parameter = Tensor([0.0, 0.0], dtype=dtype, requires_grad=True)
        optimiser = nn.optim.Adam([parameter], 0.5)
        for step in range(3):
            parameter.grad = Tensor([1e-3, 0.0], dtype=dtype)
            optimiser.step()
            assert parameter.dtype.name == dtype
            np.testing.assert_allclose(parameter.tolist(), [-0.5 * (step + 1), 0], rtol=1e-2)


def test_defaults_are_pytorchs():
    parameter = Tensor.ones(1, requires_grad=True)
    plain, decoupled = nn.optim.Adam([parameter]), nn.optim.AdamW([parameter])
    assert plain.lr == 1e-3
    chosen = plain.param_groups[0]
    assert (chosen["betas"], chosen["eps"], chosen["weight_decay"]) == ((0.9, 0.999), 1e-8, 0)
    assert decoupled.param_groups[0]["weight_decay"] == 0.01


def test_the_learning_rate_changes():
    parameter = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([parameter], lr=0.5)
    steps = np.ones((1, 1))
    assert run(optimiser, parameter, steps).tolist() == [[0.5]]
    optimiser.lr = 0.25
    assert run(optimiser, parameter, steps).tolist() == [[0.25]]
    optimiser.zero_grad()
    optimiser.step()  # no parameter has a gradient: none moves
    assert parameter.tolist() == [0.25]
    for wrong in (lambda: nn.optim.SGD([]), lambda: nn.optim.SGD([parameter], lr=-1.0)):
        with pytest.raises(ValueError, match=r"parameters|lr is between"):
            wrong()


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_a_parameter_that_a_group_has_twice_makes_two_steps(name):
    torch = pytest.importorskip("torch")
    found = []
    for library in (torch, torpor):
        twice, once = (library.ones(2, requires_grad=True) for _ in range(2))
        with pytest.warns(UserWarning, match=r"duplicate|several times"):
            optimiser = getattr(library.optim, name)([twice, once, twice], lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            (twice.square().sum() + once.square().sum()).backward()
            optimiser.step()
        state = optimiser.state_dict()
        numbers = [group["params"] for group in state["param_groups"]]
        found.append((twice.tolist(), once.tolist(), numbers, sorted(state["state"])))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)
    assert found[1][2:] == found[0][2:]


def test_names_of_parameters_are_kept_in_groups_and_state():
    model = nn.Linear(2, 2)
    optimiser = nn.optim.Adam(model.named_parameters())
    assert optimiser.param_groups[0]["param_names"] == ["weight", "bias"]
    state = optimiser.state_dict()
    assert state["param_groups"][0]["param_names"] == ["weight", "bias"]
    plain = nn.optim.Adam(nn.Linear(2, 2).parameters())
    plain.load_state_dict(state)
    assert plain.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="names"):
        nn.optim.SGD([("weight", model.weight), model.bias])
    with pytest.raises(ValueError, match="names"):
        optimiser.add_param_group({"params": nn.Linear(1, 1).parameters()})


def test_a_step_computes_running_statistics_along_with_the_update():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    optimiser = nn.optim.SGD(model.parameters(), lr=0.1)
    x = Tensor.randn(3, 2, 6, 6).realize()
    norm = model[1]
    before = model[0](x).numpy()
    loss = model(x).square().mean()
    loss.backward()
    optimiser.step()
    assert not norm.running_mean.schedule(norm.running_var), "their values are there already"
    mean = before.mean((0, 2, 3)) * 0.1
    variance = 0.9 + before.var((0, 2, 3), ddof=1) * 0.1
    np.testing.assert_allclose(norm.running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norm.running_var.numpy(), variance, rtol=1e-4)


def test_statistics_that_nobody_holds_are_not_computed():
    taken_along()
    nn.BatchNorm2d(4)(Tensor.ones(3, 4, 2, 2))
    kept = nn.BatchNorm2d(4)
    kept(Tensor.ones(3, 4, 2, 2))
    gc.collect()
    found = {id(one) for one in taken_along()}
    counted = kept.running_mean, kept.running_var, kept.num_batches_tracked
    assert found == {id(one._storage) for one in counted}
    assert not taken_along()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: nn.optim.SGD(p, 0.1, momentum=-1), "momentum"),
        (lambda p: nn.optim.SGD(p, 0.1, weight_decay=-1), "weight_decay"),
        (lambda p: nn.optim.SGD(p, 0.1, nesterov=True), "needs a momentum"),
        (lambda p: nn.optim.SGD(p, float("nan")), "lr"),
        (lambda p: nn.optim.Adam(p, betas=(0.9, 1.0)), "betas"),
        (lambda p: nn.optim.Adam(p, betas=(-0.1, 0.9)), "betas"),
        (lambda p: nn.optim.Adam(p, betas=(0.9,)), "two numbers"),
        (lambda p: nn.optim.Adam(p, betas=0.9), "two numbers"),
        (lambda p: nn.optim.Adam(p, eps=-1), "eps"),
        (lambda p: nn.optim.AdamW(p, weight_decay=-1), "weight_decay"),
        (lambda p: setattr(nn.optim.Adam(p), "lr", -1.0), "lr"),
        (lambda p: nn.optim.SGD(p, differentiable=True), "no gradient flows through steps"),
        (lambda p: nn.optim.SGD(p[0]), r"write \[parameter\]"),
        (lambda p: nn.optim.SGD([1.0]), "takes tensors"),
        (lambda p: nn.optim.SGD([p[0] * 2]), "leaves"),
    ],
)
def test_arguments_that_make_no_sense(make, text):
    with pytest.raises(TorporError, match=text):
        make([Tensor([1.0], requires_grad=True)])


@pytest.mark.parametrize("make", [nn.optim.SGD, nn.optim.Adam])
def test_a_step_that_raises_leaves_everything_as_it_was(make):
    embedding = nn.Embedding(5, 2)
    optimiser = make(embedding.parameters(), lr=0.1)
    before = [one.numpy() for one in (*optimiser.params, *optimiser.tensors())]
    loss = embedding(Tensor([1, 7])).sum()
    loss.backward()
    with pytest.raises(IndexError):
        optimiser.step()
    for one, kept in zip((*optimiser.params, *optimiser.tensors()), before, strict=True):
        np.testing.assert_array_equal(one.numpy(), kept)
    optimiser.zero_grad()
    embedding(Tensor([2])).sum().backward()
    optimiser.step()
    changed = (embedding.weight.numpy() != before[0]).any(1)
    assert changed.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "LBFGS"])
def test_complex_parameters_are_trained_as_their_parts(name):
    numbers = np.array([1 + 1j, 2 - 3j], np.complex64)
    w = Tensor(numbers, requires_grad=True)
    parts = Tensor(np.stack([numbers.real, numbers.imag]), requires_grad=True)
    for optimiser, loss in (
        (getattr(nn.optim, name)([w], lr=0.1), lambda: (w * w.conj()).real.sum()),
        (getattr(nn.optim, name)([parts], lr=0.1), lambda: (parts * parts).sum()),
    ):

        def closure(optimiser=optimiser, loss=loss):
            optimiser.zero_grad()
            made = loss()
            made.backward()
            return made

        for _ in range(3):
            optimiser.step(closure)
    assert np.allclose(np.stack([w.numpy().real, w.numpy().imag]), parts.numpy(), atol=1e-6)
    assert not np.allclose(w.numpy(), numbers)


class Heavy(nn.optim.Optimizer):
    """Descent with momentum, as one writes it for PyTorch."""

    def __init__(self, params, lr=0.1, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torpor.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torpor.zeros_like(parameter)
                state["momentum"].mul_(group["beta"]).add_(parameter.grad)
                parameter.add_(state["momentum"], alpha=-group["lr"])


def test_optimisers_are_written_as_for_pytorch():
    gradients = np.random.default_rng(0).standard_normal((6, 3))
    one = Tensor(np.ones(3), requires_grad=True)
    optimiser, expected = Heavy([one]), sgd(np.ones(3), gradients, 0.1, 0.9, 0.0, False)

    def moved(optimiser, rows):
        found = []
        for row in rows:
            optimiser.zero_grad()
            assert one.grad is None
            one.grad = Tensor(row)
            optimiser.step()
            assert not one.schedule(), "it is realised"
            found.append(one.numpy())
        return np.array(found)

    np.testing.assert_allclose(moved(optimiser, gradients[:3]), expected[:3], rtol=1e-12)
    again = Heavy([{"params": [one], "lr": 7.0}])
    again.load_state_dict(optimiser.state_dict())
    assert again.param_groups[0]["lr"] == 0.1 and isinstance(again, Heavy)
    np.testing.assert_allclose(moved(again, gradients[3:]), expected[3:], rtol=1e-12)
    nn.optim.lr_scheduler.StepLR(again, 1).step()
    assert again.param_groups[0]["lr"] == pytest.approx(0.01)
    with pytest.raises(TorporError, match="in two groups"):
        again.add_param_group({"params": one})
    with pytest.raises(TorporError, match="no parameters"):
        Heavy([])
    with pytest.raises(TorporError, match=r"groups of \[1\]"):
        Heavy([one, one * 1]).load_state_dict(again.state_dict())


def test_what_a_group_holds_besides_comes_back():
    """PyTorch's `foreach` and `fused`, and names of the user's own."""
    torch = pytest.importorskip("torch")
    theirs = torch.optim.Adam([torch.nn.Parameter(torch.ones(3))], lr=0.1)
    state = theirs.state_dict()
    state["param_groups"][0]["mine"] = 7
    optimiser = nn.optim.Adam([Tensor.ones(3).requires_grad_()])
    optimiser.load_state_dict(state)
    kept = optimiser.state_dict()["param_groups"][0]
    assert kept["mine"] == 7 and kept["lr"] == 0.1
    assert kept.keys() >= theirs.param_groups[0].keys()


def test_a_group_keeps_what_is_no_option_but_no_near_miss():
    w = Tensor.ones(2, requires_grad=True)
    optimiser = torpor.optim.SGD([{"params": [w], "name": "head", "scale": -1.0}], lr=0.5)
    w.sum().backward()
    optimiser.step()
    assert w.tolist() == [0.5, 0.5] and optimiser.param_groups[0]["name"] == "head"
    assert optimiser.state_dict()["param_groups"][0]["scale"] == -1.0
    with pytest.raises(ValueError, match="did you mean 'momentum'"):
        torpor.optim.SGD([{"params": [Tensor.ones(2)], "momentun": 0.9}], lr=0.5)
