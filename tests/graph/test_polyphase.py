"""Windows that are added up where they overlap, by polyphase."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torpor
from tests.graph.evaluate import evaluate, tensor
from torpor import Context, Tensor
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.kernel.ranges import iterations


def weight_gradient(x, seed, kernel, stride, padding, groups):
    """The gradient by the weights of a transposed convolution in one dimension, in float64."""
    images, channels, length = x.shape
    inputs, results = channels // groups, seed.shape[1] // groups
    made = np.zeros((channels, results, kernel))
    wide = np.pad(seed.astype(np.float64), ((0, 0), (0, 0), (padding, padding + stride)))
    for place in range(kernel):
        part = wide[:, :, place : place + stride * length : stride][:, :, :length]
        for group in range(groups):
            one = slice(group * inputs, (group + 1) * inputs)
            other = slice(group * results, (group + 1) * results)
            made[one, :, place] = np.einsum("nil,nol->io", x[:, one], part[:, other])
    return made


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "length", "groups"),
    [(16, 8, 4, 40, 1), (3, 2, 1, 14, 2), (5, 3, 0, 9, 1), (2, 4, 0, 6, 1), (4, 2, 3, 5, 1)],
)
def test_gradients_by_weights_of_transposed_convolutions(kernel, stride, padding, length, groups):
    random = np.random.default_rng(3)
    a = random.standard_normal((2, 4, length), np.float32)
    x, w = Tensor(a), Tensor.empty(4, 6 // groups, kernel).requires_grad_()
    y = x.conv_transpose1d(w, stride=stride, padding=padding, groups=groups)
    seed = random.standard_normal(tuple(y.shape), np.float32)
    (found,) = y.gradient(w, gradient=Tensor(seed))
    (item,) = found.schedule()
    assert not any(n.op is Ops.MOD for n in item.ast.toposort())
    assert iterations(tuple(item.ast.ranges())) <= 2 * a.size * (6 // groups) * kernel
    expected = weight_gradient(a, seed, kernel, stride, padding, groups)
    assert np.abs(found.numpy() - expected).max() <= 1e-5 * np.abs(expected).max()


def test_both_axes_of_an_image_take_their_turn():
    x, w = Tensor.empty(2, 4, 9, 8), Tensor.empty(4, 4, 4, 3).requires_grad_()
    y = x.conv_transpose2d(w, stride=(2, 3), padding=1)
    (found,) = y.gradient(w, gradient=Tensor.empty(*y.shape))
    (program,) = torpor.lower(found)
    assert program.ops <= 2 * 2 * 2 * (4 * 4) * (4 * 3) * (9 * 8)


def test_a_gradient_by_weights_meets_an_infinity_where_it_is_alone():
    x, w = Tensor([[[1.0, 2.0, 3.0]]]), Tensor.zeros(1, 1, 2).requires_grad_()
    seed = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    seed[0, 0, 3] = np.inf
    with Context(STRICT_FLOAT=1):
        (found,) = x.conv_transpose1d(w, stride=2).gradient(w, gradient=Tensor(seed))
        np.testing.assert_array_equal(found.numpy()[0, 0], np.array([16, np.inf]))


FITTING = [
    (kernel, padding, length)
    for kernel, padding, length in itertools.product([2, 3, 4, 5], [0, 1], [4, 5, 7])
    if kernel <= length + 2 * padding
]


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize(("kernel", "padding", "length"), FITTING)
def test_gradients_by_images(stride, kernel, padding, length):
    """Also where as many rounds meet something as the axis had, so that it seems the same axis."""
    random = np.random.default_rng(4)
    shape, weights = (1, 2, length, length + 1), random.standard_normal((3, 2, kernel, kernel))
    x = Tensor.empty(*shape, dtype="float64").requires_grad_()
    y = x.conv2d(Tensor(weights), stride=stride, padding=padding)
    seed = random.standard_normal(tuple(y.shape))
    (found,) = y.gradient(x, gradient=Tensor(seed))
    wide = np.zeros((1, 2, length + 2 * padding, length + 1 + 2 * padding))
    for row, column in np.ndindex(*seed.shape[2:]):
        top, left = row * stride, column * stride
        part = np.tensordot(seed[0, :, row, column], weights, 1)
        wide[0, :, top : top + kernel, left : left + kernel] += part
    end = padding + length
    expected = wide[:, :, padding:end, padding : end + 1]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("length", [1, 6, 9])
def test_rounds_that_only_some_lengths_have_are_kept(length):
    line, weight = np.arange(1, 13, dtype=np.float32), np.array([1, 2, 3], np.float32)
    part = Tensor(line.reshape(1, 1, 12))[:, :, : torpor.Variable("n", 1, 9).bind(length)]
    found = part.conv_transpose1d(Tensor(weight.reshape(1, 1, 3)), stride=2).numpy()[0, 0]
    expected = np.zeros(2 * length + 1, np.float32)
    for place in range(length):
        expected[2 * place : 2 * place + 3] += line[place] * weight
    np.testing.assert_array_equal(found, expected)


@given(st.tuples(*(st.integers(1, 4) for _ in range(4))), st.integers(0, 5), st.integers(-2, 5))
def test_windows_added_up_are_what_a_loop_adds_up(sizes, before, more):
    """sum(o, k, g[o, k] where o*stride + k*dilation - before = i), to the bit on integers."""
    rows, size, stride, dilation = sizes
    length = max((rows - 1) * stride + (size - 1) * dilation + 1 - before + more, 1)
    g = np.arange(1, 2 * rows * size + 1).reshape(2, rows, size)
    expected = np.zeros((2, length), np.int64)
    for o, k in np.ndindex(rows, size):
        place = o * stride + k * dilation - before
        if 0 <= place < length:
            expected[:, place] += g[:, o, k]
    made = build.overlap_add(tensor(g), 1, stride, dilation, length, before)
    np.testing.assert_array_equal(evaluate(made), expected)
