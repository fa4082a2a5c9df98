"""What is added to `.grad`, and where: by hand."""

import pytest

import torpor
from torpor import Tensor


@pytest.mark.parametrize("compiled", [torpor.jit, lambda function: function])
def test_gradients_are_added_where_somebody_holds_them(compiled):
    flat = Tensor.zeros(5)
    x, y = torpor.ones(2, requires_grad=True), torpor.ones(3, requires_grad=True)
    x.grad, y.grad = flat[:2], flat[2:]
    held = x.grad
    optimiser = torpor.optim.SGD([x, y], lr=0.5)

    @compiled
    def add(factor):
        (x.sum() * factor + y.sum()).backward()

    for number in range(1, 5):
        add(Tensor(2.0))
        assert flat.tolist() == [2.0 * number] * 2 + [number] * 3
    assert held is x.grad and held.tolist() == [8.0, 8.0]
    optimiser.step()
    assert x.tolist() == [-3.0, -3.0]
    optimiser.zero_grad(set_to_none=False)
    assert flat.tolist() == [0.0] * 5 and held is x.grad
    optimiser.zero_grad()
    add(Tensor(2.0))
    assert flat.tolist() == [0.0] * 5 and x.grad.tolist() == [2.0, 2.0]


def test_gradients_that_can_be_differentiated_are_added_to_and_stay_so():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    (x**3).sum().backward(create_graph=True)
    assert first.tolist() == [3.0, 12.0] and x.grad.tolist() == [6.0, 24.0]
    x.grad.sum().backward()  # the derivative of 6 x²
    assert x.grad.tolist() == [6.0 + 12.0, 24.0 + 24.0]
