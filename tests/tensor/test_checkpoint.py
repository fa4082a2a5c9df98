"""`checkpoint`: the same values, gradients and random numbers, in less memory."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, checkpoint, jit, no_grad
from torpor.nn import functional
from torpor.nn.optim import SGD

RANDOM = np.random.default_rng(0)


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def plainly(function, *arguments, **options):
    return function(*arguments, **options)


def compared(program):
    """What a program that is given `checkpoint`, and one that is not, makes: lists of arrays."""
    for plain, again in zip(program(plainly), program(checkpoint), strict=True):
        np.testing.assert_allclose(plain, again, rtol=2e-6, atol=2e-6)


def live_bytes(items):
    """The most bytes that kernels have written and that are still to be read, kernel by kernel."""
    last = {buffer: n for n, item in enumerate(items) for buffer in item.buffers}
    made, most = {}, 0
    for number, item in enumerate(items):
        made |= {item.buffers[n]: item.buffers[n].arg.nbytes for n in item.outputs}
        most = max(most, sum(size for buffer, size in made.items() if last[buffer] >= number))
    return most


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a @ b).relu().sum(1),
        lambda a, b: ((a @ b).softmax(1) * b).exp().mean(),
        lambda a, b: (a[1:] * b[:-1]).tanh().cumsum(0),
        lambda a, b: (a * b.detach()).sigmoid(),
        lambda a, b: a * b,
        lambda a, b: a * 2,
        lambda a, b: functional.layer_norm(a @ b.T, (8,)),
    ],
)
def test_values_and_gradients_are_those_of_the_function(function):
    x, y = array(8, 8), array(8, 8)

    def program(call):
        a, b = Tensor(x, requires_grad=True), Tensor(y, requires_grad=True)
        made = call(function, a, b)
        return [t.numpy() for t in (made, *(made * made).sum().gradient(a, b))]

    compared(program)


def test_several_results_in_containers_and_options():
    x = array(6, 4)

    def function(parts, scale=1.0):
        return {"both": [(parts[0] @ parts[1]).tanh(), parts[0] * scale], "name": "kept"}

    def program(call):
        a, b = Tensor(x, requires_grad=True), Tensor(x.T.copy(), requires_grad=True)
        made = call(function, [a, b], scale=3.0)
        assert made["name"] == "kept"
        total = made["both"][0].sum() + (made["both"][1] ** 2).sum()
        total.backward()
        return [total.numpy(), a.grad.numpy(), b.grad.numpy()]

    compared(program)


def test_what_it_reads_from_elsewhere_has_its_gradients():
    x, y = array(5, 5), array(5, 5)

    def program(call):
        w, a = Tensor(y, requires_grad=True), Tensor(x, requires_grad=True)
        hidden = (w * 2).tanh()
        made = call(lambda one: (one @ hidden).tanh() * hidden.sum() + w, a)
        return [t.numpy() for t in made.sum().gradient(a, w, hidden)]

    compared(program)


def test_inside_another_one_and_a_gradient_of_a_gradient():
    x = array(4, 4)

    def inner(one):
        return checkpoint(lambda two: (two @ two).tanh(), one).exp()

    def program(call):
        a = Tensor(x, requires_grad=True)
        (g,) = call(inner, a.sin()).sum().gradient(a)
        (second,) = (g * g).sum().gradient(a)
        return [g.numpy(), second.numpy()]

    compared(program)


def test_random_numbers_are_drawn_once():
    x = array(32, 32)

    def program(call):
        torpor.manual_seed(5)
        a = Tensor(x, requires_grad=True)
        made = call(lambda one: functional.dropout(one * 2, 0.5, True).exp(), a)
        made.sum().backward()
        return [made.numpy(), a.grad.numpy(), Tensor.rand(3).numpy()]

    for plain, again in zip(program(plainly), program(checkpoint), strict=True):
        np.testing.assert_array_equal(plain, again)


def test_without_gradients_it_is_the_function():
    x = Tensor(array(3))
    with no_grad():
        assert checkpoint(lambda one: one, x) is x
    assert not checkpoint(lambda one: one.exp(), x).requires_grad
    w = Tensor(array(3), requires_grad=True)
    assert not checkpoint(lambda one: one.detach(), w).requires_grad
    assert checkpoint(lambda one: (one, 3), w)[1] == 3


def test_a_gradient_that_is_the_input_itself_has_memory_of_its_own():
    x, w = Tensor(array(4)).realize(), Tensor(array(4), requires_grad=True)
    before = x.numpy().copy()
    checkpoint(lambda a, b: a * b, x, w).sum().backward()
    w.grad.zero_()
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(w.grad.numpy(), np.zeros(4))


ROWS, WIDTH, LAYERS = 64, 16, 16  # an activation is 4 KiB, a weight 1 KiB


def deep(call, each):
    """Loss and weights of a network of which so many layers at a time are given to `call`."""
    weights = [Tensor(array(WIDTH, WIDTH) / 4, requires_grad=True) for _ in range(LAYERS)]
    x = Tensor(array(ROWS, WIDTH))
    Tensor.realize(x, *weights)

    def block(x, *weights):
        for weight in weights:
            x = (x @ weight).tanh()
        return x

    for first in range(0, LAYERS, each):
        x = call(block, x, *weights[first : first + each])
    return (x * x).mean(), weights


def test_the_peak_is_that_of_kept_inputs_and_of_one_block():
    def peak(call, each):
        loss, weights = deep(call, each)
        loss.backward()
        return live_bytes(loss.schedule(*[weight.grad for weight in weights]))

    activation, gradients = ROWS * WIDTH * 4, LAYERS * WIDTH * WIDTH * 4
    assert peak(plainly, LAYERS) >= LAYERS * activation
    # the inputs of 4 blocks, the values of one, two gradients on the way
    assert peak(checkpoint, 4) <= (4 + 4 + 2) * activation + gradients


def test_under_the_jit_it_is_the_same_step():
    x, first, second = array(32, 8), array(8, 8), array(8, 8)

    def losses(call):
        weights = [Tensor(one, requires_grad=True) for one in (first, second)]
        optimiser = SGD(weights, lr=0.1)

        @jit
        def step(x):
            optimiser.zero_grad()
            y = call(lambda x: (x @ weights[0]).tanh() @ weights[1], x)
            loss = (y * y).mean()
            loss.backward()
            optimiser.step()
            return loss

        return [step(Tensor(x)).numpy() for _ in range(4)]

    compared(losses)


def test_complex_numbers_are_computed_again():
    z = Tensor([1 + 2j, 0.5j]).requires_grad_()
    slopes = [f(lambda x: x * x * x.exp(), z).abs().sum().gradient(z)[0].numpy()
              for f in (checkpoint, lambda f, x: f(x))]  # fmt: skip
    np.testing.assert_allclose(*slopes, 1e-6)


def test_backward_of_a_gradient():
    x = Tensor([0.5, 1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda a: a**3, x)
    (g,) = torpor.autograd.grad(y.sum(), x, create_graph=True)
    (y.sum() + (g**2).sum()).backward()
    assert np.allclose(x.grad.numpy(), [5.25, 39.0, 300.0])
    w = Tensor([0.5, 1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda a: a**2 * w, Tensor([1.0, 2.0, 3.0]))
    y.sum().backward(create_graph=True)
    assert np.allclose(w.grad.numpy(), [1.0, 4.0, 9.0])


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_functions_in_a_row_are_checkpointed_in_segments(segments):
    steps = [torpor.exp, torpor.sin, lambda x: x * 3, torpor.tanh, torpor.sqrt]
    x = Tensor([0.1, 0.2], requires_grad=True)
    made = torpor.checkpoint_sequential(steps, segments, x)
    plain = (x.exp().sin() * 3).tanh().sqrt()
    np.testing.assert_allclose(made.detach().numpy(), plain.detach().numpy(), rtol=1e-6)
    found, expected = (y.sum().gradient(x)[0].numpy() for y in (made, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
