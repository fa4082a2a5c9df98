"""Grids that are longer than a target takes are folded, and compute the same."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graph.evaluate import evaluate
from tests.schedule.graphs import compute, random_graph
from torpor import Context, Tensor, device, dtypes, lower
from torpor.device.python import PythonDevice
from torpor.kernel.passes.groups import grid_of
from torpor.pipeline import recipe

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=12)


@pytest.fixture
def grid(monkeypatch):
    """A function that limits the grid of the interpreter."""
    plain, key = PythonDevice.target, PythonDevice.key

    def limited(*most):
        recipe.forget()
        monkeypatch.setattr(PythonDevice, "target", replace(plain, grid=most))
        monkeypatch.setattr(PythonDevice, "key", f"{key} {most}")

    yield limited
    recipe.forget()


@given(
    st.integers(1, 1 << 40), st.tuples(*[st.integers(1 << 14, 1 << 20)] * 3)
)  # fmt: skip
def test_a_grid_has_enough_groups_and_none_too_many(total, most):
    sizes = grid_of(total, most)
    assert all(1 <= size <= limit for size, limit in zip(sizes, most, strict=True))
    assert total <= np.prod(sizes, dtype=object) < total + sizes[0] * sizes[2] + sizes[1]


def test_a_grid_is_exact_where_one_nearby_is():
    assert grid_of(1 << 20, (65535,) * 3) == (32768, 32, 1)
    assert grid_of(700021, (65535,) * 3) == (63639, 11, 1)


@pytest.mark.parametrize(
    ("target", "sizes"),
    [("wgsl", (63001, 20, 1)), ("cuda", (1260018, 1, 1)), ("python", (18, 70001, 1))],
)
def test_targets_have_limits(target, sizes):
    """Of a transpose of 70001 by 18, with one element for each group."""
    turned = Tensor.empty(18, 70001).T.contiguous()
    (program,) = lower(turned, target=target, opts=[])
    assert program.global_size == sizes


def test_groups_that_do_not_exist_do_nothing(grid):
    grid(5, 3, 7)
    values = np.arange(101.0)
    got = Tensor(values, device="PYTHON") * 2 + 1
    np.testing.assert_array_equal(got.numpy(), values * 2 + 1)


def test_an_index_out_of_bounds_is_found_in_a_folded_grid(grid):
    grid(5, 3, 7)
    values = Tensor(np.arange(13.0), device="PYTHON")
    index = np.arange(59) % 13
    picked = Tensor(index, device="PYTHON")
    np.testing.assert_array_equal(values[picked].numpy(), index)
    index[58] = 13
    with pytest.raises(IndexError):
        values[Tensor(index, device="PYTHON")].numpy()


def test_random_kernels_compute_the_same(grid):
    @QUICK
    @given(st.randoms(use_true_random=False), st.integers(2, 9), st.sampled_from([0, 1]))
    def check(random, steps, plain):
        grid(random.randint(20, 40), 11, 40)
        roots = random_graph(random, dtypes.int64, steps)
        with Context(NOOPT=plain):
            for got, root in zip(compute(roots, "PYTHON"), roots, strict=True):
                np.testing.assert_array_equal(got, evaluate(root))

    check()


def test_sizes_that_vary_beside_an_axis_without_elements():
    """No group runs, and the kernel does not know the size."""
    with device("PYTHON"):
        for size in (2, 3, 4, 5, 7):
            assert (Tensor(np.ones((size, 0))) * 2).tolist() == [[] for _ in range(size)]
