"""Which indices and divisors have to be right: all that were given, and those that count."""

import numpy as np
import pytest

from tests.devices import needs
from torpor import Tensor, jit, where
from torpor.schedule.asked import ask_for_all

DEVICES = ["CPU", "PYTHON", "OPENCL"]
NUMBERS = [10, 20, 30]


def plainly(function, *operands):
    return function(*operands)


def jitted(function, *operands):
    """The answer of a trace; the good one of a replay comes before."""
    made = jit(lambda *given: function(*given).realize())
    for _ in range(3):
        made(operands[0], operands[1].clip(0, 1))
    return made(*operands)


@pytest.fixture(params=DEVICES)
def device(request):
    return needs(request.param)


def tensors(device, *values):
    return [Tensor(value).to(device).realize() for value in values]


@pytest.mark.parametrize("called", [plainly, jitted])
@pytest.mark.parametrize(
    "used",
    [
        lambda x, i: x[i][:1],
        lambda x, i: x[i][1:2],
        lambda x, i: x[i].flip(0)[2:] * 2,
        lambda x, i: x.gather(0, i)[:1],
        lambda x, i: x.index_select(0, i)[:1].sum(),
        lambda x, i: x.take(i)[::2],
        lambda x, i: x[i][Tensor([0]).to(x.device)],
        lambda x, i: x.reshape(3, 1)[i, 0 * i][:1],
        lambda x, i: x.reshape(3, 1).expand(3, 4)[i][:1, 2:],
    ],
)
def test_an_index_that_was_given_has_to_be_inside(used, called, device):
    x, places = tensors(device, NUMBERS, [1, 0, 9])
    with pytest.raises(IndexError, match="out of bounds for axis 0 of length 3"):
        called(used, x, places).tolist()


@pytest.mark.parametrize("called", [plainly, jitted])
def test_what_a_condition_does_not_choose_is_guarded_by_it(called, device):
    x, places, divisors = tensors(device, NUMBERS, [1, 0, 9], [5, 0, 3])

    def chosen(x, places):
        return (places < 3).where(x[places], -1)

    def chosen_part(x, places):
        return (places < 3).where(x[places], -1)[1:]

    def divided(x, divisors):
        return (divisors != 0).where(x // divisors, -1)

    assert called(chosen, x, places).tolist() == [20, 10, -1]
    assert called(chosen_part, x, places).tolist() == [10, -1]
    assert plainly(divided, x, divisors).tolist() == [2, -1, 10]


def test_what_is_cut_away_is_not_divided(device):
    x, divisors = tensors(device, NUMBERS, [5, 0, 3])
    assert (x // divisors)[2:].tolist() == [10]
    with pytest.raises(ZeroDivisionError):
        (x // divisors)[1:].tolist()


def test_a_constant_condition_guards_too():
    assert where(True, 1, Tensor(1) // 0).item() == 1
    with pytest.raises(ZeroDivisionError):
        where(False, 1, Tensor(1) // 0).item()


def test_nothing_is_asked_of_what_nobody_uses():
    x = Tensor(NUMBERS)
    x[[1, 9]]  # never computed
    assert x[[1, 9]][:0].tolist() == []


@pytest.mark.parametrize(
    ("used", "index"),
    [
        (lambda x: x[[1, 9]], 9),
        (lambda x: x[[1, 9]][:1], 9),
        (lambda x: x[[2, -4]], -4),
        (lambda x: x.reshape(3, 1)[[0, 1], [0, 7]], 7),
        (lambda x: x.reshape(1, 3)[[0, -2], [0, 1]][:1], -2),
        (lambda x: x[Tensor([0, 250], dtype="int16").to(x.device)], 250),
        (lambda x: x.gather(0, Tensor([0, -1]).to(x.device)), -1),
        (lambda x: x.scatter(0, Tensor([0, 5]).to(x.device), 1), 5),
        (lambda x: x[[2, 1]][[0, 6]], 6),
        (lambda x: (x // 10).one_hot(3), 3),
    ],
)
def test_the_error_says_which_index_it_was(used, index, device):
    (x,) = tensors(device, NUMBERS)
    with pytest.raises(IndexError, match=rf": {index}\n"):
        used(x).tolist()
    with pytest.raises(IndexError, match=rf": {index}\n"):
        used(x).tolist()  # of a graph whose like has been computed before


def test_indices_of_which_all_are_read_are_looked_at_where_they_are_read():
    root = (Tensor(np.arange(6))[Tensor([1, 2])] + 1).sum()._node.src[0]
    assert ask_for_all(root) is root
