"""Parameters after eight steps, as PyTorch has them, the second one resting in steps 0 and 3."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import TorporError, ValueRangeError

CASES = [
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01},
        [
            -1.333071696,
            -0.870868705,
            0.226119228,
            0.368811688,
            0.122630642,
            0.930953489,
            0.172338882,
        ],
    ),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True},
        [
            -0.485952555,
            -0.464021584,
            -0.749087586,
            0.205515408,
            1.147666326,
            0.85335701,
            0.676441146,
        ],
    ),
    (
        "Adam",
        {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1},
        [
            -1.153485777,
            -0.637530239,
            -0.014022993,
            0.219966324,
            0.41428493,
            0.962218593,
            0.392218815,
        ],
    ),
    (
        "AdamW",
        {"lr": 0.05, "amsgrad": True},
        [
            -1.186031647,
            -0.662493179,
            -0.016061678,
            0.229871995,
            0.427314136,
            1.005329213,
            0.400727862,
        ],
    ),
    (
        "RMSprop",
        {},
        [
            -1.15616009,
            -0.670621407,
            -0.061999084,
            0.252777354,
            0.476571988,
            0.971469912,
            0.450267476,
        ],
    ),
    (
        "RMSprop",
        {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
        [
            -1.938642689,
            -0.695275594,
            0.687567869,
            0.224844875,
            -0.190631299,
            0.902124656,
            0.091569628,
        ],
    ),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.01},
        [
            -1.130875893,
            -0.6565364,
            -0.065789957,
            0.236976364,
            0.475341026,
            0.984966884,
            0.436339987,
        ],
    ),
    (
        "Adadelta",
        {"weight_decay": 0.1},
        [
            -0.999987826,
            -0.602025439,
            -0.196513511,
            0.202878296,
            0.595569069,
            0.994306894,
            0.500015713,
        ],
    ),
    ("Rprop", {}, [-1.034672, -0.61672, -0.189808, 0.19972, 0.589808, 1.00028, 0.4912]),
    (
        "ASGD",
        {"lr": 0.1, "t0": 1.0, "lambd": 0.01, "weight_decay": 0.1},
        [
            -0.938444866,
            -0.640889436,
            -0.136590607,
            0.262692124,
            0.482292947,
            0.853211918,
            0.484148525,
        ],
    ),
    (
        "NAdam",
        {"lr": 0.05},
        [
            -1.081775901,
            -0.65117718,
            -0.12444454,
            0.241602896,
            0.529059979,
            0.972373566,
            0.475715898,
        ],
    ),
    (
        "NAdam",
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
        [
            -1.038762439,
            -0.626949595,
            -0.119776878,
            0.233588571,
            0.508175055,
            0.932675854,
            0.462188518,
        ],
    ),
    (
        "RAdam",
        {"lr": 0.05},
        [
            -1.121491265,
            -0.654253959,
            -0.064505364,
            0.219344293,
            0.459504701,
            1.016839072,
            0.405931042,
        ],
    ),
    (
        "RAdam",
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
        [
            -1.079126543,
            -0.628555029,
            -0.0602468,
            0.210296621,
            0.439829195,
            0.977711239,
            0.393311392,
        ],
    ),
    (
        "Adamax",
        {"lr": 0.05, "weight_decay": 0.1},
        [
            -1.130899064,
            -0.64301742,
            -0.046644507,
            0.228268759,
            0.441150632,
            0.963661176,
            0.394465991,
        ],
    ),
    (
        "Adafactor",
        {"lr": 0.05, "weight_decay": 0.1},
        [
            -0.977696157,
            -0.612789523,
            -0.162042305,
            0.232128878,
            0.549512355,
            0.929746532,
            0.485714559,
        ],
    ),
]


def gradient(step, shape):
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return Tensor(np.sin(places * 1.7 + step * 0.9 + 0.3))


def begun():
    matrix = Tensor(np.linspace(-1, 1, 6).reshape(2, 3), requires_grad=True)
    return [matrix, Tensor(np.array(0.5), requires_grad=True)]


def step(optimiser, parameters, number):
    matrix, single = parameters
    matrix.grad = gradient(number, (2, 3))
    single.grad = None if number in (0, 3) else gradient(number, ())
    optimiser.step()


def values(parameters):
    return [*parameters[0].numpy().ravel(), parameters[1].item()]


@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_steps_are_pytorchs(name, options, expected):
    parameters = begun()
    optimiser = getattr(nn.optim, name)(parameters, **options)
    for number in range(8):
        step(optimiser, parameters, number)
    np.testing.assert_allclose(values(parameters), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_a_run_that_is_taken_up_again_goes_on_to_the_bit(name, options, expected):
    one = begun()
    optimiser = getattr(nn.optim, name)(one, **options)
    for number in range(4):
        step(optimiser, one, number)
    other = [Tensor(p.numpy(), requires_grad=True) for p in one]
    resumed = getattr(nn.optim, name)(other, **options)
    resumed.load_state_dict(optimiser.state_dict())
    for number in range(4, 8):
        step(optimiser, one, number)
        step(resumed, other, number)
    assert values(one) == values(other)


def test_the_length_of_lambs_change_is_that_of_the_parameter():
    parameter = Tensor([3.0, 4.0], requires_grad=True)
    optimiser = nn.optim.LAMB([parameter], lr=0.1)
    parameter.grad = Tensor([1.0, -1.0])
    optimiser.step()
    # the corrected change is the gradient's sign, of length sqrt(2); the parameter's length is 5
    expected = np.array([3.0, 4.0]) - 0.1 * 5 / np.sqrt(2) * np.array([1.0, -1.0])
    np.testing.assert_allclose(parameter.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_muons_change_is_nearly_orthogonal(shape):
    start = np.random.default_rng(0).standard_normal(shape)
    parameter = Tensor(np.zeros(shape), requires_grad=True)
    optimiser = nn.optim.Muon([parameter], lr=1.0, weight_decay=0.0)
    parameter.grad = Tensor(start)
    optimiser.step()
    change = -parameter.numpy() / max(1, shape[0] / shape[1]) ** 0.5
    left, _, right = np.linalg.svd(start, full_matrices=False)
    sizes = np.linalg.svd(change, compute_uv=False)
    assert (sizes > 0.6).all() and (sizes < 1.3).all()
    mixed = left.T @ change @ right.T
    assert np.abs(mixed - np.diag(np.diag(mixed))).max() < 1e-6
    with pytest.raises(TorporError, match="matrices"):
        nn.optim.Muon([Tensor([1.0], requires_grad=True)])


def test_groups_have_numbers_of_their_own():
    one, other = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([{"params": [one]}, {"params": other, "lr": 0.5}], lr=0.1)
    later = Tensor([1.0], requires_grad=True)
    optimiser.add_param_group({"params": [later], "lr": 0.25})
    for parameter in (one, other, later):
        parameter.grad = Tensor([1.0])
    optimiser.step()
    np.testing.assert_allclose([one.item(), other.item(), later.item()], [0.9, 0.5, 0.75])
    with pytest.raises(TorporError, match="two groups"):
        optimiser.add_param_group({"params": [one]})
    with pytest.raises(TorporError, match="no option 'momenta'"):
        optimiser.add_param_group({"params": [Tensor([1.0])], "momenta": 1})
    with pytest.raises(TypeError, match="momenta"):
        nn.optim.SGD([one], momenta=1)


def test_what_is_set_on_a_group_reaches_a_jitted_step_without_a_trace():
    weight = Tensor([1.0, 1.0], requires_grad=True)
    optimiser = nn.optim.SGD([weight], lr=1.0, momentum=0.5)
    group, traces, value, velocity = optimiser.param_groups[0], [], 1.0, 0.0

    @torpor.jit
    def run(x):
        traces.append(1)
        optimiser.zero_grad()
        (weight * x).sum().backward()
        optimiser.step()

    for number in range(8):
        group["lr"] *= 0.5
        group["momentum"] = 0.9 - number / 10
        run(Tensor([1.0, 1.0]))
        velocity = velocity * (0.9 - number / 10) + 1
        value -= velocity * 0.5 ** (number + 1)
        np.testing.assert_allclose(weight.numpy(), [value, value], rtol=1e-5)
    assert len(traces) == 1


def test_clipping_in_a_jitted_step_does_not_guard_it_by_the_rate():
    layer, traces = nn.Linear(2, 1), []
    optimiser = nn.optim.AdamW(layer.parameters(), lr=0.1)

    @torpor.jit
    def run(x):
        traces.append(1)
        optimiser.zero_grad()
        layer(x).sum().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimiser.step()

    for _ in range(4):
        run(Tensor([1.0, 1.0]))
        optimiser.param_groups[0]["lr"] *= 0.5
    assert len(traces) == 1


def test_state_has_pytorchs_layout():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    optimiser = nn.optim.Adam([weight], amsgrad=True)
    weight.grad = Tensor([1.0, 1.0])
    optimiser.step()
    state = optimiser.state_dict()
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    assert state["state"][0]["step"].item() == 1
    assert state["param_groups"][0]["params"] == [0]
    assert optimiser.state[weight]["exp_avg"].tolist() == pytest.approx([0.1, 0.1])
    with pytest.raises(TorporError, match="groups of"):
        nn.optim.Adam([weight, Tensor([1.0])]).load_state_dict(state)


def test_a_closure_gives_its_loss():
    weight = Tensor([1.0], requires_grad=True)
    optimiser = nn.optim.SGD([weight], lr=0.5)

    def closure():
        loss = weight.square().sum()
        loss.backward()
        return loss

    assert optimiser.step(closure).item() == 1.0
    assert weight.item() == 0.0


def test_averaged_models():
    layer = nn.Linear(2, 1, bias=False)
    mean = nn.optim.swa_utils.AveragedModel(layer)
    decay = nn.optim.swa_utils.get_ema_avg_fn(0.5)
    moving = nn.optim.swa_utils.AveragedModel(layer, avg_fn=decay)
    several = nn.optim.swa_utils.AveragedModel(
        layer, "CPU", multi_avg_fn=nn.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    for value in (2.0, 4.0, 9.0):
        layer.weight.requires_grad_(False)
        layer.weight.fill_(value)
        layer.weight.requires_grad_(True)
        mean.update_parameters(layer)
        moving.update_parameters(layer)
        several.update_parameters(layer)
    assert mean.module.weight.tolist() == [[5.0, 5.0]]
    assert moving.module.weight.tolist() == several.module.weight.tolist() == [[6.0, 6.0]]
    assert layer.weight.tolist() == [[9.0, 9.0]]


def test_averaged_models_average_counts_too():
    tools = nn.optim.swa_utils
    known = [
        ({}, 1), ({"multi_avg_fn": tools.get_swa_multi_avg_fn()}, 1),
        ({"avg_fn": tools.get_ema_avg_fn(0.3)}, 5),
        ({"multi_avg_fn": tools.get_ema_multi_avg_fn(0.3)}, 5),
        ({"avg_fn": lambda mean, value, count: mean + value}, 21),
    ]  # fmt: skip
    for options, expected in known:  # what PyTorch 2.13 counts
        norm = nn.BatchNorm1d(1)
        mean = tools.AveragedModel(norm, use_buffers=True, **options)
        for _ in range(6):
            norm(Tensor.ones(4, 1))
            mean.update_parameters(norm)
        assert mean.module.num_batches_tracked.item() == expected
    plain = tools.AveragedModel(norm)
    plain.update_parameters(norm)
    norm.num_batches_tracked += 1
    plain.update_parameters(norm)
    assert plain.module.num_batches_tracked.item() == 7  # copied


def test_statistics_are_computed_anew():
    norm = nn.BatchNorm1d(1)
    batches = [Tensor([[1.0], [3.0]]), Tensor([[5.0], [9.0]])]
    nn.optim.swa_utils.update_bn(batches, norm)
    assert norm.running_mean.tolist() == [4.5]
    nn.optim.swa_utils.update_bn(batches, norm, device="CPU")
    assert norm.running_mean.tolist() == [4.5]
    assert norm.running_var.tolist() == [5.0]
    assert norm.momentum == 0.1


def test_matrices_and_vectors_of_one_group_move_as_alone():
    values = [np.arange(6.0).reshape(2, 3), np.array([1.0, -2.0])]

    def moved(which):
        given = [Tensor(values[one], requires_grad=True) for one in which]
        optimiser = nn.optim.Adafactor(given, lr=0.1)
        for step in range(3):
            for one in given:
                one.grad = one.detach() * (step - 1) + 0.5
            optimiser.step()
        return [one.numpy() for one in given]

    together, (matrix,), (vector,) = moved([0, 1]), moved([0]), moved([1])
    np.testing.assert_allclose(together[0], matrix, rtol=1e-12)
    np.testing.assert_allclose(together[1], vector, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"momentum": 0.9, "dampening": 0.3}), ("Rprop", {"etas": (0.4, 1.3)})],
)
def test_numbers_are_not_rounded_to_float32(name, options):
    """SGD: v = 0.9 v + 0.7 g behind the first step; Rprop: steps grow by 1.3."""
    one = Tensor(np.array([1.0]), requires_grad=True)
    optimiser = getattr(nn.optim, name)([one], lr=0.1, **options)
    found, expected, velocity, value = [], [], 0.0, 1.0
    for step in range(3):
        one.grad = Tensor(np.array([1.0]))
        optimiser.step()
        found.append(one.item())
        velocity = 0.9 * velocity + (0.7 if step else 1.0)
        value -= 0.1 * (velocity if name == "SGD" else 1.3**step)
        expected.append(value)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_adafactor_takes_bounds_of_changes_from_one_on():
    for d in (1.0, 2):
        nn.optim.Adafactor([Tensor.zeros(2, requires_grad=True)], d=d)
    with pytest.raises(ValueRangeError, match="d is"):
        nn.optim.Adafactor([Tensor.zeros(2, requires_grad=True)], d=0.5)
    with pytest.raises(ValueRangeError, match="beta2_decay is between -inf and 0"):
        nn.optim.Adafactor([Tensor.zeros(2, requires_grad=True)], beta2_decay=0.8)
    with pytest.raises(ValueRangeError, match="eps is between 0"):
        nn.optim.Adafactor([Tensor.zeros(2, requires_grad=True)], eps=(-1e-30, 1e-3))
