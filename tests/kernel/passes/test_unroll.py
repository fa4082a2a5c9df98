"""Sums written out: products with padding are no terms of them, but where floats are strict."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from torpor import Context, Tensor
from torpor.base.dtypes import dtypes
from torpor.device.machine import machine
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.unroll import CHAIN, combine, in_chains


def depthwise(side, bias=None, **settings):
    """A small depthwise convolution; the weights of its first channel are infinite."""
    image = np.arange(2.0 * 16 * side * side, dtype=np.float32).reshape(2, 16, side, side) + 1
    weight = np.ones((16, 1, 3, 3), np.float32)
    weight[0] = np.inf
    with Context(**settings):
        return Tensor(image).conv2d(Tensor(weight), bias, padding=1, groups=16).numpy()


@pytest.mark.parametrize("side", [2, 3, 7])
def test_infinity_times_padding_is_nan_where_floats_are_strict(side):
    loose, strict = depthwise(side), depthwise(side, STRICT_FLOAT=1)
    assert np.isnan(strict[:, 0, 0]).all()
    np.testing.assert_array_equal(loose[:, 1:], strict[:, 1:])


@pytest.mark.skipif(not machine("avx2").runs_here, reason="the opts are those for AVX2")
def test_rows_of_padding_are_no_terms():
    # With a bias, so that no graph like it had other sizes: kernels for any size do not write out.
    inner = depthwise(7, Tensor.zeros(16), TARGET="avx2")[:, 0, :, 1:-1]
    assert np.isinf(inner).all()


def depth(node, op):
    """How many operations of a kind follow each other below a node."""
    return (node.op is op) + max((depth(s, op) for s in node.src), default=0)


@pytest.mark.parametrize("count", [2, 8, 9, 25])
def test_products_are_added_in_chains_and_other_values_in_pairs(count):
    numbers = [UOp.range(9, place).cast(dtypes.float32) for place in range(2 * count)]
    products = [a * b for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
    chains = in_chains(Ops.ADD, products)
    made = combine(Ops.ADD, chains)
    assert len(chains) == -(-count // CHAIN)
    assert set(products) <= set(made.toposort())
    longest = -(-count // len(chains))
    assert depth(made, Ops.ADD) == longest - 1 + (len(chains) - 1).bit_length()
    assert in_chains(Ops.ADD, numbers) is numbers
    assert in_chains(Ops.MAX, products) is products


def test_a_position_that_a_sum_along_written_out_axes_gives_is_written_out_with_it():
    """The places of a pool's greatest elements are products of sizes, along axes written out."""
    shape, counts = (7, 5, 4), (3, 5, 2)
    x = np.random.default_rng(0).permutation(140).astype(np.float32).reshape(shape)
    bounds = [
        [(k * n // count, -(-(k + 1) * n // count)) for k in range(count)]
        for n, count in zip(shape, counts, strict=True)
    ]
    expected = [
        x[tuple(slice(*one) for one in window)].max() for window in itertools.product(*bounds)
    ]
    with Context(CHECK=1, CACHE=0):
        made = Tensor(x[None, None]).adaptive_max_pool3d(counts).numpy()
    np.testing.assert_array_equal(made.ravel(), expected)
