"""Hooks of optimisers: called when PyTorch calls them, with what it hands them, once each."""

import pytest

import torpor
from torpor import Tensor, nn, optim

KINDS = {
    "step_pre": lambda seen: lambda *given: seen.append(("before", len(given[1]), given[2])),
    "step_post": lambda seen: lambda *given: seen.append(("after", len(given[1]), given[2])),
    "state_dict_pre": lambda seen: lambda *given: seen.append(("saving", len(given))),
    "state_dict_post": lambda seen: lambda *given: seen.append(("saved", sorted(given[1]))),
    "load_state_dict_pre": lambda seen: lambda *given: seen.append(("loading", sorted(given[1]))),
    "load_state_dict_post": lambda seen: lambda *given: seen.append(("loaded", len(given))),
}


def written(library):
    """A class that is written as for PyTorch, of its optimisers or torpor's."""

    class Descent(library.optim.Optimizer):
        def __init__(self, params, lr=0.5):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            with library.no_grad():
                for group in self.param_groups:
                    for one in group["params"]:
                        one.add_(one.grad, alpha=-group["lr"])
            return None if closure is None else closure()

    return Descent


def calls(library, name):
    """What the hooks see of a step, of saving and of loading."""
    weight = library.ones(2)
    weight.requires_grad_()
    kind = written(library) if name == "written" else getattr(library.optim, name)
    optimiser, seen = kind([weight], lr=0.5), []
    for hook, make in KINDS.items():
        getattr(optimiser, f"register_{hook}_hook")(make(seen))

    def closure():
        optimiser.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    closure()
    optimiser.step(closure)
    if name != "LBFGS":
        optimiser.step(closure=closure)
        optimiser.step()
    optimiser.load_state_dict(optimiser.state_dict())
    return [(one[0], *(sorted(x) if isinstance(x, dict) else x for x in one[1:])) for one in seen]


@pytest.mark.parametrize("name", ["SGD", "Adam", "LBFGS", "written"])
def test_hooks_are_called_as_in_pytorch(name):
    assert calls(torpor, name) == calls(pytest.importorskip("torch"), name)


class Doubled(optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


@pytest.mark.parametrize("kind", [optim.SGD, Doubled])
def test_hooks_change_what_a_step_and_a_state_are_and_can_be_taken_back(kind):
    weight = Tensor.ones(1, requires_grad=True)
    optimiser, counted = kind([weight], lr=0.5), []
    removable = optimiser.register_step_pre_hook(lambda one, args, kwargs: ((one, abs), {}))
    optimiser.register_step_post_hook(lambda *given: counted.append(given[1][1:]))
    with pytest.raises(TypeError):
        optimiser.step()  # `abs` is no closure
    removable.remove()
    (weight * 1).sum().backward()
    optimiser.step()
    assert counted == ([(None,)] if kind is Doubled else [()])
    optimiser.register_state_dict_post_hook(lambda one, state: {**state, "note": 1})
    optimiser.register_state_dict_post_hook(lambda one, state: state.pop("note", None) and None,
                                            prepend=True)  # fmt: skip
    assert optimiser.state_dict()["note"] == 1
    with optimiser.register_load_state_dict_pre_hook(
        lambda one, state: state | {"param_groups": [{**state["param_groups"][0], "lr": 0.125}]}
    ):
        optimiser.load_state_dict(state_dict=optimiser.state_dict())
    assert optimiser.lr == 0.125
    optimiser.register_step_pre_hook(lambda *given: 3)
    with pytest.raises(ValueError, match="before a step gives"):
        optimiser.step()


def test_hooks_are_part_of_a_jitted_step():
    weight = Tensor.full((2,), 8.0, requires_grad=True)
    optimiser = optim.SGD([weight], lr=0.5)

    def halve(*given):
        weight.grad.mul_(0.5)

    def add(*given):
        weight.data.add_(1)

    @torpor.jit
    def step():
        weight.sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    found = []

    def run():
        for _ in range(3):
            step()
        found.append(weight.tolist()[0])

    run()  # 3 times 0.5 less
    before = optimiser.register_step_pre_hook(halve)
    run()  # 3 times 0.25 less
    after = optimiser.register_step_post_hook(add)
    run()  # 3 times 0.75 more
    before.remove()
    run()
    after.remove()
    run()
    assert found == [6.5, 5.75, 8.0, 9.5, 8.0]


def test_hooks_are_no_state():
    layer = nn.Linear(2, 1)
    optimiser = optim.Adam(layer.parameters())
    before = sorted(optimiser.state_dict())
    optimiser.register_step_post_hook(print)
    assert sorted(optimiser.state_dict()) == before
