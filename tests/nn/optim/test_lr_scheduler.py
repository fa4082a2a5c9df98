"""Rates of twelve steps and momenta of the first, fourth and eighth, as PyTorch has them."""

import json

import numpy as np
import pytest

import torpor
from torpor import Tensor, nn, optim
from torpor.base.errors import TorporError
from torpor.nn.optim import lr_scheduler

CASES = [
    (
        "SWALR",
        {"swa_lr": 0.02, "anneal_epochs": 4},
        [0.1, 0.08828427, 0.06, 0.03171573, *[0.02] * 8],
        [0.9, 0.9, 0.9],
    ),
    (
        "SWALR",
        {"swa_lr": 0.3, "anneal_epochs": 5, "anneal_strategy": "linear"},
        [0.1, 0.14, 0.18, 0.22, 0.26, *[0.3] * 7],
        [0.9, 0.9, 0.9],
    ),
    (
        "StepLR",
        {"step_size": 3},
        [0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.0001, 0.0001, 0.0001],
        [0.9, 0.9, 0.9],
    ),
    (
        "MultiStepLR",
        {"milestones": [2, 5, 5, 8]},
        [0.1, 0.1, 0.01, 0.01, 0.01, 0.0001, 0.0001, 0.0001, 1e-05, 1e-05, 1e-05, 1e-05],
        [0.9, 0.9, 0.9],
    ),
    (
        "ConstantLR",
        {"total_iters": 4},
        [0.03333333, 0.03333333, 0.03333333, 0.03333333, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
        [0.9, 0.9, 0.9],
    ),
    (
        "LinearLR",
        {"total_iters": 4},
        [0.03333333, 0.05, 0.06666667, 0.08333333, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
        [0.9, 0.9, 0.9],
    ),
    (
        "LinearLR",
        {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 6},
        [0.1, 0.08333333, 0.06666667, 0.05, 0.03333333, 0.01666667, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.9, 0.9, 0.9],
    ),
    (
        "ExponentialLR",
        {"gamma": 0.9},
        [
            0.1,
            0.09,
            0.081,
            0.0729,
            0.06561,
            0.059049,
            0.0531441,
            0.04782969,
            0.04304672,
            0.03874205,
            0.03486784,
            0.03138106,
        ],
        [0.9, 0.9, 0.9],
    ),
    (
        "PolynomialLR",
        {"total_iters": 7, "power": 2.0},
        [
            0.1,
            0.07346939,
            0.05102041,
            0.03265306,
            0.01836735,
            0.00816327,
            0.00204082,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ],
        [0.9, 0.9, 0.9],
    ),
    (
        "CosineAnnealingLR",
        {"T_max": 5, "eta_min": 0.001},
        [
            0.1,
            0.09054634,
            0.06579634,
            0.03520366,
            0.01045366,
            0.001,
            0.01045366,
            0.03520366,
            0.06579634,
            0.09054634,
            0.1,
            0.09054634,
        ],
        [0.9, 0.9, 0.9],
    ),
    (
        "CosineAnnealingWarmRestarts",
        {"T_0": 2, "T_mult": 2, "eta_min": 0.001},
        [
            0.1,
            0.0505,
            0.1,
            0.08550179,
            0.0505,
            0.01549821,
            0.1,
            0.09623204,
            0.08550179,
            0.06944283,
            0.0505,
            0.03155717,
        ],
        [0.9, 0.9, 0.9],
    ),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5},
        [0.01, 0.04, 0.07, 0.1, 0.082, 0.064, 0.046, 0.028, 0.01, 0.04, 0.07, 0.1],
        [0.9, 0.8, 0.88],
    ),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "mode": "triangular2"},
        [0.01, 0.055, 0.1, 0.055, 0.01, 0.0325, 0.055, 0.0325, 0.01, 0.02125, 0.0325, 0.02125],
        [0.9, 0.85, 0.875],
    ),
    (
        "CyclicLR",
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "mode": "exp_range", "gamma": 0.9},
        [
            0.01,
            0.0505,
            0.0829,
            0.042805,
            0.01,
            0.03657205,
            0.05782969,
            0.03152336,
            0.01,
            0.02743392,
            0.04138106,
            0.02412148,
        ],
        [0.9, 0.86355, 0.87608516],
    ),
    (
        "OneCycleLR",
        {"max_lr": 0.2, "total_steps": 13},
        [
            0.008,
            0.05903279,
            0.15787396,
            0.19994041,
            0.19287565,
            0.17485118,
            0.14799396,
            0.11547327,
            0.08112672,
            0.04900734,
            0.02290539,
            0.00590101,
        ],
        [0.95, 0.85002979, 0.89226353],
    ),
    (
        "OneCycleLR",
        {"max_lr": 0.2, "total_steps": 13, "anneal_strategy": "linear", "three_phase": True},
        [
            0.008,
            0.0742069,
            0.14041379,
            0.19337931,
            0.12717241,
            0.06096552,
            0.00774196,
            0.00645177,
            0.00516157,
            0.00387138,
            0.00258119,
            0.00129099,
        ],
        [0.95, 0.85344828, 0.95],
    ),
]


def optimiser(rate=0.1):
    return nn.optim.SGD([Tensor([0.0], requires_grad=True)], lr=rate, momentum=0.9)


def rates(rule, schedule, count):
    found = []
    for _ in range(count):
        found.append(rule.lr)
        schedule.step()
    return found


@pytest.mark.parametrize(("name", "options", "expected", "momenta"), CASES)
def test_rates_are_pytorchs(name, options, expected, momenta):
    rule = optimiser()
    schedule, found, seen = getattr(lr_scheduler, name)(rule, **options), [], []
    for _ in range(12):
        found.append(schedule.get_last_lr()[0])
        seen.append(rule.param_groups[0]["momentum"])
        schedule.step()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose([seen[0], seen[3], seen[7]], momenta, rtol=1e-6)


def test_functions_of_the_step():
    rule = optimiser(1.0)
    assert rates(rule, lr_scheduler.LambdaLR(rule, lambda at: 1 / (at + 1)), 3) == [1, 1 / 2, 1 / 3]
    rule = optimiser(1.0)
    found = rates(rule, lr_scheduler.MultiplicativeLR(rule, lambda at: 1 / (at + 1)), 3)
    np.testing.assert_allclose(found, [1, 1 / 2, 1 / 6])


def test_one_after_the_other_and_all_at_once():
    rule = optimiser(1.0)
    parts = [lr_scheduler.LinearLR(rule, 0.5, total_iters=2), lr_scheduler.ExponentialLR(rule, 0.1)]
    found = rates(rule, lr_scheduler.SequentialLR(rule, parts, [3]), 6)
    np.testing.assert_allclose(found, [0.5, 0.75, 1, 1, 0.1, 0.01])
    rule = optimiser(1.0)
    parts = [lr_scheduler.ConstantLR(rule, 0.5, 2), lr_scheduler.ExponentialLR(rule, 0.1)]
    found = rates(rule, lr_scheduler.ChainedScheduler(parts), 4)
    np.testing.assert_allclose(found, [0.5, 0.05, 0.01, 0.001])


def test_a_plateau():
    rule = optimiser(1.0)
    schedule = lr_scheduler.ReduceLROnPlateau(rule, patience=1, factor=0.5, cooldown=1)
    found = []
    for value in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0):
        schedule.step(Tensor(value))
        found.append(rule.lr)
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(("name", "options", "expected", "momenta"), CASES[:9])
def test_a_schedule_that_is_taken_up_again(name, options, expected, momenta):
    rule = optimiser()
    schedule = getattr(lr_scheduler, name)(rule, **options)
    rates(rule, schedule, 5)
    other = optimiser()
    resumed = getattr(lr_scheduler, name)(other, **options)
    resumed.load_state_dict(schedule.state_dict())
    other.load_state_dict(rule.state_dict())
    assert rates(rule, schedule, 5) == rates(other, resumed, 5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1), "total_steps"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 5, anneal_strategy="x"), "'cos' or 'linear'"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="x"), "triangular"),
        (lambda o: lr_scheduler.StepLR(o, 0), "step_size"),
        (lambda o: lr_scheduler.LambdaLR(o, [abs, abs]), "2 functions for 1"),
        (lambda o: lr_scheduler.StepLR(o, 1, last_epoch=4), "initial_lr"),
        (lambda o: lr_scheduler.SequentialLR(o, [], [1]), "schedules"),
    ],
)
def test_arguments_that_make_no_sense(make, text):
    with pytest.raises(TorporError, match=text):
        make(optimiser())


def test_one_cycle_ends():
    rule = optimiser()
    schedule = lr_scheduler.OneCycleLR(rule, 0.1, 3)
    for _ in range(3):
        schedule.step()
    with pytest.raises(TorporError, match="3 steps"):
        schedule.step()


def test_the_first_rate_that_a_schedule_noted_may_be_forgotten():
    optimiser = optim.SGD([Tensor.ones(1, requires_grad=True)], lr=1.0)
    optim.lr_scheduler.StepLR(optimiser, 1)
    optimiser.param_groups[0]["lr"] = 0.5
    del optimiser.param_groups[0]["initial_lr"]
    assert optim.lr_scheduler.StepLR(optimiser, 1).base_lrs == [0.5]
    with pytest.raises(ValueError, match="keeps its lr"):
        del optimiser.param_groups[0]["lr"]


def written(library):
    """A schedule that is written as for PyTorch, of its schedules or torpor's."""

    class Warmup(library.optim.lr_scheduler.LRScheduler):
        def __init__(self, optimizer, steps, last_epoch=-1):
            self.steps = steps
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            share = min(1, (self.last_epoch + 1) / self.steps)
            return [base * share for base in self.base_lrs]

    return Warmup


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, on the order of steps
def test_a_schedule_that_is_written_as_for_pytorch():
    found = []
    for library in (pytest.importorskip("torch"), torpor):
        weight, other = library.ones(1), library.ones(1)
        groups = [{"params": [weight.requires_grad_()], "lr": 4.0}, {"params": [other]}]
        rule = library.optim.SGD(groups, lr=1.0)
        schedule, made = written(library)(rule, 4), []
        for _ in range(5):
            made.append(schedule.get_last_lr())
            schedule.step()
        schedule.step(1)
        made.append(schedule.get_last_lr())
        resumed = written(library)(rule, steps=2, last_epoch=0)
        found.append((made, schedule.last_epoch, schedule.steps, resumed.get_last_lr()))
    assert found[0] == found[1]


def test_a_schedule_of_torpor_with_a_constructor_of_its_own():
    class Halved(lr_scheduler.StepLR):
        def __init__(self, optimizer, *, every):
            super().__init__(optimizer, every, gamma=0.5)

        def get_lr(self):
            return [max(0.2, rate) for rate in super().get_lr()]

    rule = optimiser(1.0)
    assert rates(rule, Halved(rule, every=2), 6) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert rates(rule, Halved(rule, every=1), 2) == [0.2, 0.2]


def two_groups():
    parameters = [Tensor.zeros(2, requires_grad=True) for _ in range(2)]
    groups = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.2}]
    return optim.SGD(groups, lr=0.1, momentum=0.9)


def both(schedule, steps):
    found = []
    for _ in range(steps):
        schedule.step()
        groups = schedule.optimizer.param_groups
        found.append([(round(one["lr"], 5), round(one["momentum"], 5)) for one in groups])
    return found


def test_cycles_of_each_group():
    momenta = {"base_momentum": [0.8, 0.7], "max_momentum": [0.9, 0.95]}
    cycles = lr_scheduler.CyclicLR(two_groups(), [0.01, 0.02], [0.1, 0.3], 3, **momenta)
    assert both(cycles, 3) == [
        [(0.04, 0.86667), (0.11333, 0.86667)],
        [(0.07, 0.83333), (0.20667, 0.78333)],
        [(0.1, 0.8), (0.3, 0.7)],
    ]
    once = lr_scheduler.OneCycleLR(two_groups(), [0.5, 0.2], total_steps=10, **momenta)
    assert both(once, 3) == [
        [(0.26, 0.85), (0.104, 0.825)],
        [(0.5, 0.8), (0.2, 0.7)],
        [(0.47524, 0.80495), (0.1901, 0.71238)],
    ]
    with pytest.raises(TorporError, match="1 values for 2 groups"):
        lr_scheduler.OneCycleLR(two_groups(), [0.5], total_steps=10)


# What PyTorch has after five steps, where a group with the rate 0.01 came after the first.
LATER = {
    "StepLR": ({"step_size": 2, "gamma": 0.5}, [0.025, 0.0025]),
    "MultiStepLR": ({"milestones": [1, 3], "gamma": 0.5}, [0.025, 0.005]),
    "ExponentialLR": ({"gamma": 0.9}, [0.059049, 0.006561]),
    "CosineAnnealingLR": ({"T_max": 10}, [0.05, 0.005125]),
    "LinearLR": ({"start_factor": 0.5, "total_iters": 4}, [0.1, 0.016]),
    "ConstantLR": ({"factor": 0.5, "total_iters": 3}, [0.1, 0.02]),
    "PolynomialLR": ({"total_iters": 6}, [0.016667, 0.002]),
    "LambdaLR": ({"lr_lambda": lambda step: 0.5**step}, [0.003125, 0.000313]),  # an error there
}


@pytest.mark.parametrize(("name", "given"), LATER.items())
def test_a_group_that_comes_after_the_schedule_goes_on_from_its_rate(name, given):
    options, expected = given
    optimiser = optim.SGD([Tensor.zeros(2, requires_grad=True)], lr=0.1)
    schedule = getattr(lr_scheduler, name)(optimiser, **options)
    for step in range(5):
        if step == 1:
            late = [Tensor.zeros(2, requires_grad=True)]
            optimiser.add_param_group({"params": late, "lr": 0.01})
        schedule.step()
    assert [round(group["lr"], 6) for group in optimiser.param_groups] == expected
    assert [round(rate, 6) for rate in schedule.get_last_lr()] == expected


def test_a_group_that_comes_after_a_plateau_or_after_functions_of_other_groups():
    optimiser = two_groups()
    plateau = lr_scheduler.ReduceLROnPlateau(optimiser, patience=0, min_lr=0.001)
    optimiser.add_param_group({"params": [Tensor.zeros(2, requires_grad=True)], "lr": 0.005})
    for _ in range(3):
        plateau.step(1.0)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([0.001, 0.002, 0.001])
    optimiser = two_groups()
    halved = lr_scheduler.LambdaLR(optimiser, [lambda step: 0.5, lambda step: 0.25])
    optimiser.add_param_group({"params": [Tensor.zeros(2, requires_grad=True)]})
    with pytest.raises(TorporError, match="nothing for a later group"):
        halved.step()


def test_restarts_by_parts_of_epochs():
    optimiser = optim.SGD([Tensor.zeros(2, requires_grad=True)], lr=0.1)
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=2, T_mult=2)
    found = []
    for epoch in (0.5, 1.75, 2.25, 5.5, None):  # the last goes on from there
        schedule.step(epoch)
        found.append(round(optimiser.param_groups[0]["lr"], 6))
    assert found == [0.085355, 0.003806, 0.099039, 0.003806, 0.099039]
    assert schedule.last_epoch == 6
    with pytest.raises(TorporError, match="epoch is between 0"):
        schedule.step(-1)


@pytest.mark.parametrize("longer", [1, 2])
def test_restarts_go_on_from_a_state_of_pytorch(longer):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    theirs = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    other = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 3, longer)
    for _ in range(4):
        theirs.step()
        other.step()
    ours = optim.SGD([Tensor.zeros(2, requires_grad=True)], lr=0.1)
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(ours, 3, longer)
    schedule.load_state_dict(other.state_dict())
    for _ in range(8):
        schedule.step()
        other.step()
        assert schedule.get_last_lr() == pytest.approx(other.get_last_lr())
        assert (schedule.T_cur, schedule.T_i) == (other.T_cur, other.T_i)
    own = lr_scheduler.CosineAnnealingWarmRestarts(ours, 3, longer).state_dict()
    assert own.keys() <= other.state_dict().keys()


def as_json(state):
    return json.loads(json.dumps(state))


def with_a_list(state):
    return {**state, "milestones": [2]}


@pytest.mark.parametrize("made", [as_json, with_a_list])
def test_milestones_are_read_from_files(made):
    rule = optim.SGD([nn.Parameter(Tensor([1.0]))], lr=1.0)
    schedule = lr_scheduler.MultiStepLR(rule, [2], 0.5)
    schedule.load_state_dict(made(schedule.state_dict()))
    assert rates(rule, schedule, 4) == [1.0, 1.0, 0.5, 0.5]
