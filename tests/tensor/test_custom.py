"""Functions with gradients of their own, by PyTorch's names."""

import pytest
from torpor.autograd import Function

import torpor
from torpor import Tensor
from torpor.base.errors import DTypeError, ShapeError


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


def test_functions_of_tensors_that_require_nothing_have_their_own_gradient():
    class Clipped(torpor.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale=1):
            return x * scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient.clamp(-1, 1) if ctx.needs_input_grad[0] else None, None

    for x in (Tensor([3.0]), Tensor([3.0], requires_grad=True)):
        assert (Clipped.apply(x, 2) * 5).sum().gradient(x)[0].tolist() == [1.0]
        assert (Clipped.apply(x * 2) * 5).sum().gradient(x)[0].tolist() == [2.0]
    jitted = torpor.jit(lambda x: (Clipped.apply(x) * 5).sum().gradient(x)[0])
    assert [jitted(Tensor([3.0])).item() for _ in range(3)] == [1.0] * 3
    assert not Clipped.apply(Tensor([3.0])).requires_grad


def test_functions_of_complex_numbers_have_gradients_of_their_own():
    class Both(torpor.autograd.Function):
        @staticmethod
        def forward(ctx, c, r):
            ctx.save_for_backward(c, r)
            return c * r, c.abs()

        @staticmethod
        def backward(ctx, g, h):
            c, r = ctx.saved_tensors
            return g * r + h * c / c.abs(), (g * c.conj()).real

    def loss(product, size):
        return (product * product).real.sum() + (size * size).sum()

    for asked in (False, True):
        c = Tensor([1 + 2j, 3 - 1j], requires_grad=asked)
        r = Tensor([2.0, 3.0], requires_grad=asked)
        made = loss(*Both.apply(c, r)).gradient(c, r)
        wanted = loss(c * r, c.abs()).gradient(c, r)
        for one, other in zip(made, wanted, strict=True):
            assert (one - other).abs().max().item() < 1e-5


def test_a_function_may_change_its_argument_and_say_so():
    class Doubled(torpor.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = Tensor.ones(3, requires_grad=True)
    y = x * 1
    z = Doubled.apply(y)
    assert z is y
    (z * y).sum().backward()
    assert y.tolist() == [2, 2, 2] and x.grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_record_gradients_where_a_graph_is_created(create_graph):
    seen = []
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.retain_grad()
    y.register_hook(lambda g: seen.append((g.requires_grad, torpor.is_grad_enabled())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t.grad.requires_grad,) * 2))
    Scaled.apply(y, 3.0).sum().backward(create_graph=create_graph)
    assert y.grad.requires_grad is create_graph and y.grad.tolist() == [6, 24]
    (slope,) = torpor.autograd.grad((y * y).sum(), x, create_graph=create_graph)
    assert slope.requires_grad is create_graph and slope.tolist() == [4, 32]
    assert seen == [(create_graph, create_graph)] * 3


def test_gradients_that_cannot_be_differentiated_again():
    class Cubed(torpor.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torpor.autograd.once_differentiable
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0] ** 2

    x = Tensor([2.0], requires_grad=True)
    (slope,) = torpor.autograd.grad(Cubed.apply(x).sum(), x, create_graph=True)
    assert slope.tolist() == [12.0]
    assert torpor.autograd.grad(slope.sum(), x, allow_unused=True) == (None,)


def test_what_users_give_for_gradients_has_to_fit():
    class Given(Function):
        gradient = None

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return Given.gradient

    x = Tensor([[1.0, 2.0]], requires_grad=True)
    for Given.gradient, kind in ((Tensor([1.0, 1.0, 1.0]), ShapeError), ("a", DTypeError)):
        with pytest.raises(kind, match="gradient"):
            Given.apply(x).sum().gradient(x)
    Given.gradient = Tensor.ones(3, 2)  # summed over what the tensor would be broadcast along
    assert Given.apply(x).sum().gradient(x)[0].tolist() == [[3.0, 3.0]]
    for given, kind in ((Tensor([1.0]), ShapeError), (3.0, DTypeError)):
        hook = x.register_hook(lambda _, given=given: given)
        with pytest.raises(kind, match="gradient"):
            (x * 2).sum().backward()
        hook.remove()


def test_functions_say_what_they_lack():
    class Empty(Function):
        pass

    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(x)
    with pytest.raises(NotImplementedError, match="backward"):
        Forward.apply(x).backward()


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_of_results_that_are_not_used(materialize):
    seen = []

    class Several(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            return x * 2, x * 1j, sign, x * 3

        @staticmethod
        def backward(ctx, *gradients):
            seen.append([one if one is None else one.tolist() for one in gradients])
            return sum(
                factor * one.real
                for factor, one in zip((2, 1, 0, 3), gradients, strict=True)
                if one is not None
            )

    x = Tensor([1.0], requires_grad=True)
    one, _, _, other = Several.apply(x)
    absent = ([0j], [0.0]) if materialize else (None, None)
    other.sum().backward(retain_graph=True)
    (one * 5 + other * 0).sum().backward(retain_graph=True)
    (one * 5).sum().backward()
    zero = [0.0] if materialize else None
    assert seen == [[zero, *absent, [1.0]], [[5.0], *absent, [0.0]], [[5.0], *absent, zero]]
    assert x.grad.tolist() == [23.0]


def test_what_a_function_keeps_is_packed_and_unpacked():
    x = Tensor([3.0, -1.0], requires_grad=True)
    calls = []

    def pack(tensor):
        calls.append("pack")
        assert not torpor.is_grad_enabled()
        return tensor.numpy()

    def unpack(kept):
        calls.append("unpack")
        return Tensor(kept)

    with torpor.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = Scaled.apply(x, 5.0)
    assert calls == ["pack"]
    y.sum().backward()
    assert calls == ["pack", "unpack"] and x.grad.tolist() == [30.0, -10.0]
    with torpor.autograd.graph.save_on_cpu():
        y = Scaled.apply(x, 5.0)
    assert y.sum().gradient(x)[0].tolist() == [30.0, -10.0]
