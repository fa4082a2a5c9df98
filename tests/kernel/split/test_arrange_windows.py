"""Operands that are read by windows are copied with their borders, and products read the copy."""

import itertools

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.target import get_target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import window_of
from torpor.kernel.split import arrange, phases
from torpor.kernel.split.arrange import copied_windows, in_order

RANDOM = np.random.default_rng(3)
CPU = get_target("cpu")


@pytest.fixture
def eager(monkeypatch):
    """Copies of windows however small the product."""
    monkeypatch.setattr(arrange, "PRODUCTS_WORTH", 0)
    monkeypatch.setattr(arrange, "time_with", lambda *_: 0.0)


def agree(result, expected):
    error = np.linalg.norm(result.astype(np.float64) - expected)
    assert error <= 2e-6 * np.linalg.norm(expected)


def places(layer, size):
    """For each place of the window: its index, and the slices of the padded image that it meets."""
    kernel, stride, dilation = layer
    for place in itertools.product(*(range(k) for k in kernel)):
        starts = [p * dilation for p in place]
        yield place, tuple(slice(s, s + stride * (n - 1) + 1, stride) for s, n in zip(starts, size))


def flat(values):
    """All positions of an image as one axis."""
    return values.reshape(*values.shape[:2], -1)


CASES = [  # image, weights, stride, padding, dilation
    ((2, 8, 7, 7), (16, 8, 3, 3), 1, 1, 1),
    ((3, 9, 14, 10), (11, 9, 3, 2), 2, 1, 1),
    ((2, 10, 13, 12), (16, 10, 5, 3), 2, 0, 1),
    ((2, 8, 12, 12), (8, 8, 3, 3), 1, 2, 2),
    ((2, 8, 15, 15), (8, 8, 3, 3), 2, 2, 2),
    ((2, 8, 15, 15), (8, 8, 3, 3), 2, 3, 3),
    ((4, 12, 50), (10, 12, 5), 1, 2, 1),
    ((2, 6, 6, 7, 8), (12, 6, 3, 3, 3), 1, 1, 1),
    ((1, 8, 9, 9), (16, 8, 3, 3), 1, 1, 1),
    ((2, 8, 9, 9), (16, 8, 2, 2), 3, 0, 1),
    ((4, 8, 18, 18), (40, 8, 3, 3), 1, 1, 1),
]


@pytest.mark.parametrize(("image", "weights", "stride", "padding", "dilation"), CASES)
def test_convolutions_and_gradients(eager, image, weights, stride, padding, dilation):
    a, b = (RANDOM.standard_normal(s, np.float32) for s in (image, weights))
    x, w = Tensor(a), Tensor(b)
    convolve = (x.conv1d, x.conv2d, x.conv3d)[len(image) - 3]
    y = convolve(w, stride=stride, padding=padding, dilation=dilation)
    seed = RANDOM.standard_normal(tuple(y.shape), np.float32)
    of_x, of_w = y.gradient(x, w, gradient=Tensor(seed))
    side = [(0, 0), (0, 0)] + [(padding, padding)] * (len(image) - 2)
    wide = np.pad(a.astype(np.float64), side)
    expected, by_x, by_w = np.zeros(y.shape), np.zeros_like(wide), np.zeros(weights)
    for place, slices in places((weights[2:], stride, dilation), y.shape[2:]):
        here = (slice(None), slice(None), *slices)
        part = b[(slice(None), slice(None), *place)].astype(np.float64)
        expected += np.einsum("nc...,oc->no...", wide[here], part)
        by_x[here] += np.einsum("no...,oc->nc...", seed.astype(np.float64), part)
        by_w[(slice(None), slice(None), *place)] = np.einsum(
            "ncp,nop->oc", flat(wide[here]), flat(seed)
        )
    agree(y.numpy(), expected)
    agree(of_x.numpy(), by_x[tuple(slice(p, n - q) for (p, q), n in zip(side, wide.shape))])
    agree(of_w.numpy(), by_w)


def test_rows_with_holes_keep_them(eager):
    """Every seventh column of the image is a zero, which no bound of the row says."""
    x = RANDOM.standard_normal((2, 8, 7, 14), np.float32)
    w = RANDOM.standard_normal((16, 8, 3, 3), np.float32)
    parts = Tensor(x).reshape(2, 8, 7, 2, 7)[..., :6].pad((0, 1))
    result = parts.reshape(2, 8, 7, 14).conv2d(Tensor(w), padding=1)
    assert len(result.schedule()) == 2
    wide = np.pad(
        np.where(np.arange(14) % 7 < 6, x, 0).astype(np.float64), [(0, 0)] * 2 + [(1, 1)] * 2
    )
    expected = sum(
        np.einsum("ncyx,oc->noyx", wide[:, :, j : j + 7, i : i + 14], w[:, :, j, i])
        for j, i in itertools.product(range(3), range(3))
    )
    agree(result.numpy(), expected)


def kernel_of(image, weights, **options):
    (*_, item) = Tensor.empty(*image).conv2d(Tensor.empty(*weights), **options).schedule()
    return Kernel(item.ast, CPU)


def test_the_copy_has_borders_and_channels_last():
    kernel = kernel_of((2, 8, 7, 7), (16, 8, 3, 3), padding=1)
    found, other = copied_windows(kernel)
    assert [int(r.src[0].arg) for r in found.axes] == [2, 9, 9, 8]
    assert [int(r.src[0].arg) for r in found.order] == [3, 3, 8]
    assert [int(r.src[0].arg) for r in other.axes] == [8, 9, 9, 2]
    made = arrange.on_copy(kernel, found)
    assert made.memory.arg.size == 2 * 9 * 9 * 8
    loads = [n for n in made.rest.ast.toposort() if n.op is Ops.INDEX]
    assert all(len(n.src) == 2 for n in loads)  # no condition is left


def test_phases_read_copies(eager, monkeypatch):
    """Each phase looks at one border of the image."""
    monkeypatch.setattr(phases, "PRODUCTS_WORTH", 0)
    x = RANDOM.standard_normal((2, 8, 9, 11), np.float32)
    w = RANDOM.standard_normal((8, 6, 4, 4), np.float32)
    result = Tensor(x).conv_transpose2d(Tensor(w), stride=2, padding=1)
    assert len({item.buffers[0] for item in result.schedule()}) > 2
    wide = np.zeros((2, 6, 20, 24))
    for j, i in itertools.product(range(4), range(4)):
        part = np.einsum("ncyx,co->noyx", x.astype(np.float64), w[:, :, j, i])
        wide[:, :, j : j + 18 : 2, i : i + 22 : 2] += part
    agree(result.numpy(), wide[:, :, 1:-1, 1:-1])


@pytest.mark.parametrize(("size", "dilation", "row"), [(15, 1, 31), (15, 2, 17)])
def test_rows_hold_what_windows_with_steps_read(size, dilation, row):
    side = 2 * (size - 1) + 2 * dilation + 1
    kernel = kernel_of((2, 8, side, side), (16, 8, 3, 3), stride=2, dilation=dilation)
    found, _ = copied_windows(kernel)
    assert int(found.axes[1].src[0].arg) == row


def test_what_is_no_window_is_not_copied():
    for image, weights, options in (
        ((2, 8, 7, 7), (16, 8, 1, 1), {}),
        ((2, 8, 8, 8), (16, 8, 2, 2), {"stride": 2}),
        ((2, 8, 9, 9), (16, 8, 2, 2), {"stride": 3}),
        ((2, 16, 7, 7), (16, 1, 3, 3), {"padding": 1, "groups": 16}),
    ):
        assert copied_windows(kernel_of(image, weights, **options)) == []


@pytest.mark.parametrize(
    ("step", "reach"), [(1, 1), (2, 1), (1, 2), (1, -1), (2, -1), (2, 2), (2, 3)]
)
def test_a_window_reads_what_its_row_holds(step, reach):
    one = UOp.range(11, 0, AxisType.GLOBAL)
    summed = UOp.range(3, 1, AxisType.REDUCE)
    memory = parameter(100)
    at = one * step + summed * reach + 30
    inside = (one * step + summed * reach + 30 < 40) & (one * step + summed * reach + 30 > 31)
    load = UOp(Ops.LOAD, memory.dtype, (UOp(Ops.INDEX, memory.dtype, (memory, at, inside)),))
    found = window_of(load, one, summed, 2)
    if found is None:
        assert (step, reach) == (2, 3)
        return
    _, place, valid = found.value.src[0].src
    reached = set()
    for a, b in itertools.product(range(11), range(3)):
        where = number(found.place, {one: a, summed: b})
        reached.add(where)
        assert number(place, {found.row: where}) == number(at, {one: a, summed: b})
        assert number(valid, {found.row: where}) == number(inside, {one: a, summed: b})
    assert reached == set(range(int(found.row.src[0].arg)))


def parameter(size):
    return UOp(Ops.PARAM, dtypes.float32, (), ParamArg(0, size))


def number(expression, values):
    changes = {one: UOp.index_const(value) for one, value in values.items()}
    return expression.substitute(changes).simplify().arg


def test_the_axes_of_a_sum_in_another_order():
    kernel = kernel_of((2, 8, 7, 7), (16, 8, 3, 3), padding=1)
    first, second, third = kernel.reduce_axes
    other = Kernel(in_order(kernel.ast, (second, third, first)), CPU)
    assert [int(r.src[0].arg) for r in other.reduce_axes] == [3, 3, 8]
