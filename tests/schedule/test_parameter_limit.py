"""No kernel has more parameters than its target takes, and values are the same in parts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate, tensor
from tests.schedule.graphs import compute, kernels, random_graph, values
from torpor import Tensor, dtypes, lower, where
from torpor.device.cpu import CpuDevice
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.pipeline import recipe
from torpor.schedule.parameter_limit import parameters

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))


def total(count, shape=(4, 5)):
    """The sum of so many tensors."""
    operands = [Tensor.empty(*shape) for _ in range(count)]
    return sum(operands[1:], operands[0])


@pytest.fixture
def limit(monkeypatch):
    """A function that limits the parameters of kernels on the CPU."""
    plain = CpuDevice.target.fget

    def limited(number):
        recipe.forget()
        monkeypatch.setattr(
            CpuDevice, "target", property(lambda self: replace(plain(self), parameters=number))
        )

    yield limited
    recipe.forget()


def counts(*tensors, target):
    return [len(program.parameters) for program in lower(*tensors, target=target)]


def test_a_sum_of_twelve_is_cut_where_eight_are_allowed():
    assert counts(total(12), target="wgsl") == [8, 7]
    assert counts(total(12), target="metal") == [13]
    assert counts(total(40), target="metal") == [31, 12]
    assert counts(total(12), target="cpu") == [13]


def test_what_just_fits_stays_whole():
    assert counts(total(7), target="wgsl") == [8]
    assert counts(total(8), target="wgsl") == [8, 3]


def test_the_error_word_is_a_parameter():
    index = Tensor.empty(4, dtype=dtypes.int64)
    gathered = Tensor.empty(9, 5)[index]
    for program in lower(gathered + total(5), gathered + total(6), target="wgsl"):
        assert len(program.parameters) + (program.checks > 0) <= 8


def test_the_cut_says_why(limit):
    limit(8)
    assert [item.reason for item in total(12).schedule()] == ["parameter limit", "output"]


def test_small_values_are_stored_before_they_are_spread(limit):
    limit(8)
    first, last = (total(7, (1, 5)).exp().expand(64, 5) + total(2, (64, 5))).schedule()
    assert first.buffers[0].arg.size == 5
    assert last.buffers[0].arg.size == 320


def test_outputs_that_have_company_part_first(limit):
    x = [Tensor.empty(64, 8) for _ in range(9)]
    wanted = [x[0] + other for other in x[1:]]
    assert len(wanted[0].schedule(*wanted[1:])) == 1
    limit(8)
    items = wanted[0].schedule(*wanted[1:])
    assert all(parameters(item) <= 8 for item in items)


def test_selection_and_reduction_of_many(limit):
    limit(5)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (6, 7)).astype(np.float32) for _ in range(9)]
    a = [Tensor(array) for array in arrays]
    got = where(a[0] > a[1], a[2] * a[3] + a[4], (a[5] - a[6] * a[7]).sum(1, keepdim=True)) / 4
    assert all(parameters(item) <= 5 for item in (got + a[8]).schedule())
    n = arrays
    rows = (n[5] - n[6] * n[7]).sum(1, keepdims=True)
    want = np.where(n[0] > n[1], n[2] * n[3] + n[4], rows) / 4 + n[8]
    np.testing.assert_array_equal((got + a[8]).numpy(), want)


@settings(QUICK, max_examples=4)
@given(st.randoms(use_true_random=False), st.integers(5, 8))
def test_random_graphs_of_many_leaves(limit, random, number):
    """Several random graphs joined: each part is over buffers of its own."""
    limit(number)
    joined = []
    while len(joined) < 9:
        root = random_graph(random, dtypes.int64, random.randint(0, 3))[0]
        largest = build.reduce(root, Ops.MAX, range(len(shape_of(root))))
        joined.append(build.expand(build.reshape(largest, (1,)), (6,)))
        joined.append(tensor(values(random, dtypes.int64, (6,))))
    node = joined[0]
    made = []
    for other in joined[1:]:
        node = build.elementwise(random.choice([Ops.ADD, Ops.MAX, Ops.SUB]), node, other)
        if random.random() < 0.2:
            made.append(node)
    roots = [node, *made]
    assert all(parameters(item) <= number for item in kernels(*roots))
    for one, other in zip(compute(roots), [evaluate(r) for r in roots], strict=True):
        np.testing.assert_array_equal(one, other)
