"""Hooks of modules: when they are called, with what, and what they change."""

import copy

import pytest

import torpor
from torpor import Tensor, nn
from torpor.base.errors import ShapeError


def layer():
    made = nn.Linear(2, 1, bias=False)
    nn.init.constant_(made.weight, 3.0)
    return made


def test_hooks_before_and_after_change_arguments_and_results():
    seen, module, x = [], layer(), Tensor([[1.0, 2.0]])
    before = module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    after = module.register_forward_hook(lambda m, args, out: seen.append(args[0].tolist()))
    assert module(x).tolist() == [[18.0]]
    assert seen == [[[2.0, 4.0]]]
    assert copy.deepcopy(module)(x).tolist() == [[18.0]]
    assert list(module.state_dict()) == ["weight"]
    before.remove()
    after.remove()
    module.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True)
    assert module(x=x).tolist() == [[10.0]]
    assert len(seen) == 2
    with module.register_forward_hook(lambda m, args, out: out * 0, prepend=True):
        assert module(x).tolist() == [[0.0]]
    assert module(x).tolist() == [[9.0]]


def test_hooks_that_are_always_called_see_failures():
    seen, module = [], layer()
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ShapeError, match="multiply"):
        module(Tensor.ones(3))
    assert seen == [None]


def test_hooks_backwards_see_and_change_gradients():
    seen, module = [], layer()
    module.register_full_backward_hook(lambda m, down, up: seen.append((down, up)))
    module.register_full_backward_pre_hook(lambda m, up: (up[0] * 10,))
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [[30.0, 30.0]]
    assert module.weight.grad.tolist() == [[10.0, 20.0]]
    ((down, up),) = seen
    assert down[0].tolist() == [[30.0, 30.0]]
    assert up[0].tolist() == [[10.0]]
    module.register_full_backward_hook(lambda m, down, up: (down[0] * 0,))
    assert module(x).sum().gradient(x)[0].tolist() == [[0.0, 0.0]]


def test_backward_hooks_of_modules_whose_arguments_have_no_gradient():
    module = nn.Linear(2, 1)
    seen = []
    module.register_full_backward_pre_hook(lambda m, up: seen.append(up[0].tolist()))
    module.register_full_backward_hook(lambda m, down, up: seen.append((down, up[0].tolist())))
    module(Tensor([[1.0, 2.0]])).sum().backward()
    assert seen == [[[1.0]], ((None,), [[1.0]])]
    assert module.weight.grad.tolist() == [[1.0, 2.0]]


def test_backward_hooks_see_none_for_an_argument_without_a_gradient():
    class Both(nn.Module):
        def forward(self, one, other):
            return one * other

    module, seen = Both(), []

    def hook(module, down, up):
        seen.append(down)
        return None, down[1] * 10

    module.register_full_backward_hook(hook)
    x = Tensor([2.0], requires_grad=True)
    module(Tensor([3.0]), x).backward()
    assert seen[0][0] is None
    assert seen[0][1].tolist() == [3.0]
    assert x.grad.tolist() == [30.0]


def test_hooks_of_all_modules_are_called_before_each_ones_own():
    from torpor.nn.modules import module as of_all

    inner, seen = layer(), []
    outer, x = nn.Sequential(inner), Tensor([[1.0, 2.0]], requires_grad=True)
    inner.register_forward_hook(lambda m, args, out: seen.append("own"))
    kinds = [
        of_all.register_module_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        of_all.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__)),
        of_all.register_module_full_backward_pre_hook(lambda m, up: (up[0] * 10,)),
        of_all.register_module_full_backward_hook(
            lambda m, down, up: seen.append((type(m).__name__, up[0].tolist()))
        ),
    ]
    outer(x).sum().backward()
    assert seen[:3] == ["Linear", "own", "Sequential"]
    assert seen[3:] == [("Linear", [[100.0]]), ("Sequential", [[10.0]])]
    assert x.grad.tolist() == [[1200.0, 1200.0]]
    for kind in kinds:
        kind.remove()
    assert outer(x).tolist() == [[9.0]]
    assert seen[5:] == ["own"]


def test_a_jitted_function_sees_hooks_of_all_modules_that_come_and_go():
    from torpor.nn.modules.module import register_module_forward_hook

    module, x = layer(), Tensor([[1.0, 2.0]])
    step = torpor.jit(lambda x: module(x))
    results = [step(x).tolist() for _ in range(3)]
    with register_module_forward_hook(lambda m, args, out: out + 1):
        results += [step(x).tolist() for _ in range(3)]
    results += [step(x).tolist() for _ in range(3)]
    assert results == [[[9.0]]] * 3 + [[[10.0]]] * 3 + [[[9.0]]] * 3
