"""Pieces: large kernels whose conditions change along an outer axis become one for each part."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, cat, jit
from torpor.ir.ops import Ops
from torpor.ir.records import OptOps
from torpor.kernel.choose.nest import MOST_PARTS
from torpor.kernel.split.pieces import WORTH

RANDOM = np.random.default_rng(0)
A, B = (RANDOM.standard_normal((90, 3, 257), np.float32) for _ in range(2))


def kernels(tensor: Tensor) -> list:
    return [item.ast for item in tensor.schedule()]


@pytest.mark.parametrize(
    ("made", "expected", "count"),
    [
        (lambda a, b: cat((a, b), 0), np.concatenate((A, B), 0), 2),
        (lambda a, b: cat((a, b), 1), np.concatenate((A, B), 1), 2),
        (lambda a, b: cat((a[:7], b * 2, a), 0), np.concatenate((A[:7], B * 2, A), 0), 3),
        (lambda a, b: Tensor.stack((a, b), 1), np.stack((A, B), 1), 2),
        (lambda a, b: a.pad((0, 0, 0, 0, 2, 1)), np.pad(A, ((2, 1), (0, 0), (0, 0))), 1),
        (lambda a, b: a.pad((2, 1)), np.pad(A, ((0, 0), (0, 0), (2, 1))), 1),
        (lambda a, b: (a + b).roll(5, 0), np.roll(A + B, 5, 0), 2),
        (lambda a, b: cat((a, b, a, b, a), 0), np.concatenate((A, B, A, B, A), 0), 1),
    ],
    ids=["rows", "middle", "three", "stack", "border", "last axis", "turned", "too many"],
)
def test_each_part_is_a_kernel_without_conditions(made, expected, count: int) -> None:
    assert expected.nbytes >= WORTH and MOST_PARTS == 4
    a, b = Tensor(A), Tensor(B)
    found = made(a, b)
    asts = kernels(found)
    assert len(asts) == count
    if count > 1:
        assert not any(n.op is Ops.CMPLT for ast in asts for n in ast.toposort())
    np.testing.assert_array_equal(found.numpy(), expected)
    replay = jit(lambda a, b: made(a, b).realize())
    for _ in range(4):
        np.testing.assert_array_equal(replay(a, b).numpy(), expected)


def test_small_kernels_and_sums_stay_whole() -> None:
    small = Tensor.empty(9, 100)
    assert len(kernels(cat((small, small), 0))) == 1
    large = Tensor.empty(500, 300)
    assert len(kernels(cat((large, large), 0).sum(1))) == 1


@pytest.mark.parametrize("axis", [1, -1])
def test_parts_of_a_stack_that_are_made_of_the_same_are_computed_together(axis) -> None:
    def made(a, b):
        return Tensor.stack((a + b, a - b, a * b, b - a), axis)

    kernel, *others = torpor.lower(made(Tensor(A).realize(), Tensor(B).realize()))
    assert not others
    assert any(opt.op is OptOps.UPCAST and opt.arg == 0 for opt in kernel.opts)
    expected = np.stack((A + B, A - B, A * B, B - A), axis)
    np.testing.assert_array_equal(made(Tensor(A), Tensor(B)).numpy(), expected)


def test_complex_results_of_a_stack_lie_in_rows() -> None:
    def made(a, b):
        whole = [Tensor.stack((a + b, a - b), -1), Tensor.stack((a * b, b - a), -1)]
        return Tensor.stack([part.select(-1, n) for part in whole for n in (0, 1)], -1)

    expected = np.stack((A + B, A - B, A * B, B - A), -1)
    np.testing.assert_array_equal(made(Tensor(A), Tensor(B)).numpy(), expected)
