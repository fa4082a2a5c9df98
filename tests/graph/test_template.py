"""Nodes that were made once, made again of others."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.device import Device
from torpor.graph.build import constant, elementwise, expand, reshape
from torpor.graph.template import Template, Templates, described
from torpor.ir.infer import device_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


def slot(name: str, *shape: int) -> UOp:
    return UOp(Ops.SLOT, dtypes.float32, (), (name, shape))


def affine(x: UOp, y: UOp) -> UOp:
    """2 x + y, of any shapes that broadcast."""
    two = constant(2, dtypes.float32)
    return elementwise(Ops.ADD, elementwise(Ops.MUL, x, two), y)


def test_the_nodes_are_those_that_the_function_makes():
    inputs, others = (slot("a", 3, 1), slot("b", 4)), (slot("c", 3, 1), slot("d", 4))
    made = Template(inputs, [affine(*inputs), None, inputs[1]]).made(others, lambda _: ())
    assert made == [affine(*others), None, others[1]]


def test_what_reads_more_than_its_inputs_is_not_whole():
    x, y = slot("a", 3), slot("b", 3)
    assert Template((x, y), [affine(x, y)]).is_whole()
    assert not Template((x,), [affine(x, y)]).is_whole()


def test_constants_are_known_as_a_whole_and_all_else_by_its_kind():
    one, two = (expand(reshape(constant(n, dtypes.float32), (1,)), (3,)) for n in (1, 2))
    assert described(one) != described(two)
    assert described(slot("a", 3)) == described(slot("b", 3)) != described(slot("c", 4))


def test_one_is_written_down_once():
    known, x = Templates(), slot("a", 3)
    assert known.get("key") is None
    assert known.is_wanted("key")
    template = Template((x,), [affine(x, x)])
    known.learn("key", template)
    assert known.get("key") is template
    assert not any(known.is_wanted("key") for _ in range(20))


def test_of_many_that_come_once_few_are_written_down_and_what_comes_often_is():
    known = Templates()
    assert sum(known.is_wanted(("size", number)) for number in range(1000)) < 100
    assert any(known.is_wanted("often") for _ in range(20))


@pytest.mark.parametrize("factor", [0.0, -0.0, 3.0])
def test_gradients_of_equal_steps_have_the_numbers_of_each(factor):
    for _ in range(8):  # with another number, then with this one: neither is the other's
        for number in (2.0, factor):
            x = Tensor([1.0, 2.0], requires_grad=True)
            (x * x * number).sum().backward()
            found = x.grad.numpy()
            np.testing.assert_array_equal(found, np.float32([2, 4]) * np.float32(number))
            assert np.signbit(found).tolist() == [np.signbit(number)] * 2


def test_gradients_to_any_order_and_where_some_are_not_asked_for():
    for pass_ in range(14):
        x = Tensor([2.0], requires_grad=True)
        y = Tensor([3.0], requires_grad=pass_ % 2 == 0)
        first = (x**3 * y).sum().gradient(x)[0]
        second = first.sum().gradient(x)[0]
        third = second.sum().gradient(x)[0]
        assert [first.item(), second.item(), third.item()] == [36, 36, 18]
        if pass_ % 2 == 0:
            assert (x**3 * y).sum().gradient(x, y)[1].item() == 8


def test_what_happens_to_be_made_by_a_rule_need_not_be_so_the_next_time():
    for number in range(12):
        x, w = (Tensor([n], requires_grad=True) for n in (2.0, 3.0))
        factor, seed, other = Tensor([5.0]), Tensor([7.0]), Tensor([11.0])
        beside = (seed if number < 6 else other) * factor  # the gradient of x, then it is not
        (x * factor + w * beside).backward(seed)
        assert [x.grad.item(), w.grad.item()] == [35, 7 * (35 if number < 6 else 55)]


def test_a_gradient_goes_back_to_the_device_of_its_tensor():
    for device in ("PYTHON", "CPU:1") * 8:
        x = Tensor([1.0, 2.0], device=device, requires_grad=True)
        (found,) = (x.to("CPU") * 3).sum().gradient(x)
        assert device_of(found._current()) == Device.canonicalize(device)
        assert found.tolist() == [3, 3]


def test_an_index_is_told_apart_by_what_it_asks_for():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for place in (0, 1, 1, 0) * 4:
        x.grad = None
        x[place].sum().backward()
        wanted = np.zeros((2, 2))
        wanted[place] = 1
        np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_what_comes_in_one_computation_alone_is_no_call():
    """Graphs of sizes that are always new are then alike, whatever templates they are built by."""
    x, y = slot("a", 3), slot("b", 3)
    long = x
    for _ in range(10):
        long = affine(long, y)
    template = Template((x, y), [long])
    assert template.called((x, y), lambda _: ()) == [long]
    Tensor([1.0]).exp().realize()
    (call,) = template.called((x, y), lambda _: ())
    assert call.op is Ops.CALL
