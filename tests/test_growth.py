"""What compiling takes grows as programs do: calls of functions are counted, not seconds."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from torpor import Context, Tensor
from torpor.pipeline import pieces, recipe
from torpor.pipeline.report import measuring

TIMES = 4  # as long a program
SLACK = 1.25  # of what so many times as much would be


def calls(work: Callable[[], object]) -> int:
    """How many Python functions are called meanwhile by this thread."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32)).realize()


def elementwise(length: int) -> Tensor:
    x = ones(length % 7 + 24)  # compiled for each length
    for step in range(length):
        x = x * 0.5 + float(step % 3)
    return x


def reductions(length: int) -> Tensor:
    x = ones(6, 12)
    for _ in range(length):
        x = x - x.mean(1, keepdim=True)
    return x


def products(length: int) -> Tensor:
    x, weights = ones(8, 8), ones(8, 8)
    for _ in range(length):
        x = (x @ weights).relu()
    return x


def updates(length: int) -> Tensor:
    x = ones(24)
    for step in range(length):
        x[step % 24] = x[(step + 1) % 24] + 1
    return x


@pytest.mark.parametrize(
    ("program", "length"),
    [(elementwise, 51), (reductions, 15), (products, 15), (updates, 15)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_longer_program_takes_as_much_longer(program, length):
    def computed(length: int) -> Callable[[], object]:
        return lambda: program(length).realize()

    with Context(CACHE=0):
        program(length + 1).realize()  # what is done once a process
        recipe.forget()
        pieces._fresh.clear()  # other programs are of this line, too
        short = calls(computed(length))
        recipe.forget()
        long = calls(computed(TIMES * length))
    assert long < TIMES * SLACK * short


def outputs(count: int) -> list[Tensor]:
    x = Tensor.empty(24)
    return [x * float(number) for number in range(count)]


def sums(count: int) -> list[Tensor]:
    x = Tensor.empty(24, 40)
    return [(x * float(number)).sum(1) for number in range(count)]


def warped(side: int) -> Tensor:
    """Each cell is made of a stack of three cells before it, and is in the stacks of three."""
    row, costs = [Tensor(0.0)] + [Tensor(1e6)] * side, ones(side, side)
    for i in range(side):
        made = [Tensor(1e6)]
        for j in range(side):
            made.append(costs[i, j] + Tensor.stack([*row[j : j + 2], made[-1]]).logsumexp(0))
        row = made
    return row[-1]


def test_one_element_under_many_conditions_is_scheduled_once():
    warped(1).schedule()  # what is done once a process
    short, long = (calls(lambda side=side: warped(side).schedule()) for side in (2, 3))
    assert long < TIMES * short


@pytest.mark.parametrize("program", [outputs, sums])
def test_many_results_of_one_tensor_are_scheduled_in_a_time_like_their_number(program):
    def scheduled(count: int) -> Callable[[], object]:
        results = program(count)
        return lambda: results[0].schedule(*results[1:])

    scheduled(8)()
    few = calls(scheduled(60))  # first: what is kept for those would be no work for these
    assert calls(scheduled(60 * TIMES)) < TIMES * SLACK * few


def layers(count: int, x: Tensor) -> Tensor:
    weights = ones(12, 12)
    for _ in range(count):
        x = x + (x @ weights).softmax(-1) @ weights
    return x


def test_equal_layers_share_their_kernels():
    compiled = []
    for count in (3, 7):
        with Context(CACHE=0), measuring() as seen:
            layers(count, ones(5, 12)).realize()
        compiled.append(len(seen.compiles))
        assert len(seen.runs) >= count
    assert compiled[1] == 0, "of seven layers there is no kernel that three have not"


def test_a_deep_program_does_not_meet_the_limit_of_recursion():
    depth = 3 * sys.getrecursionlimit()
    x = ones(3)
    for step in range(depth):
        x = x + float(step & 1)
    np.testing.assert_array_equal(x.numpy(), np.full(3, 1 + depth // 2, np.float32))
