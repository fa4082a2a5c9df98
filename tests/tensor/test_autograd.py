"""PyTorch's autograd by its names: functions with a gradient of their own, hooks, modes."""

import pytest

import torpor
from torpor import Tensor
from torpor.base.errors import GradientError


class Scaled(torpor.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 2 * ctx.factor, None


def test_functions_have_gradients_of_their_own_to_any_order():
    x = Tensor([3.0, -1.0], requires_grad=True)
    (first,) = torpor.autograd.grad(Scaled.apply(x, 5.0).sum(), x, create_graph=True)
    assert first.tolist() == [30.0, -10.0]
    assert first.sum().gradient(x)[0].tolist() == [10.0, 10.0]
    assert not Scaled.apply(x.detach(), 5.0).requires_grad


class Parts(torpor.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x + y, x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, one, other):
        x, y = ctx.saved_tensors
        return one + other * y, one * 100 + other * x


def test_functions_of_several_results_get_all_gradients_at_once():
    x, y = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    total, product = Parts.apply(x, y)
    assert (total.tolist(), product.tolist()) == ([5.0], [6.0])
    (total + product * 10).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([31.0], [120.0])


def test_hooks_see_and_change_gradients():
    x, seen = Tensor([2.0], requires_grad=True), []
    y = x * 3
    hook = y.register_hook(lambda g: seen.append(g.tolist()))
    changing = y.register_hook(lambda g: g * 2)
    y.retain_grad()
    (y * y).sum().backward()
    assert (seen, y.grad.tolist(), x.grad.tolist()) == ([[12.0]], [24.0], [72.0])
    hook.remove()
    changing.remove()
    assert (y * y).sum().gradient(x)[0].tolist() == [36.0]
    with pytest.raises(GradientError, match="requires"):
        x.detach().register_hook(print)


def test_inputs_that_nothing_depends_on():
    x, y = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    with pytest.raises(GradientError, match="allow_unused"):
        torpor.autograd.grad((x * x).sum(), [x, y])
    assert torpor.autograd.grad((x * x).sum(), [x, y], allow_unused=True)[1] is None
    both = torpor.autograd.grad([x * x, x * 5], [x], grad_outputs=[Tensor([1.0]), Tensor([2.0])])
    assert both[0].tolist() == [14.0]


def test_modes_hold_for_a_block_a_function_or_from_here_on():
    x = Tensor([1.0], requires_grad=True)
    with torpor.inference_mode():
        assert not torpor.is_grad_enabled()
        with torpor.set_grad_enabled(True):
            assert (x * 2).requires_grad
    assert torpor.no_grad(lambda: (x * 2).requires_grad)() is False
    torpor.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    torpor.set_grad_enabled(True)
    assert (x * 2).requires_grad
