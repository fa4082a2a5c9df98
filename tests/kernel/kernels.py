"""Single kernels of many kinds, with inputs and NumPy's result, and a way to run them by hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.graph.evaluate import evaluate, tensor
from tests.schedule.graphs import kernels, on_device, read
from torpor.base.dtypes import dtypes
from torpor.device import Device
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.records import ScheduleItem
from torpor.ir.uop import UOp
from torpor.pipeline import program_for

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTEGERS = (
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A graph that is one kernel, and the values of its roots."""

    name: str
    roots: tuple[UOp, ...]
    expected: tuple[np.ndarray, ...]

    def item(self, device: str) -> ScheduleItem:
        (item,) = kernels(*self.roots, device=device)
        return item


def case(name, *roots):
    return Case(name, roots, tuple(evaluate(root) for root in roots))


def sample(*shape, dtype=dtypes.float64, step=5):
    """Small whole numbers, whose sums and products every order of operations gives exactly."""
    size = int(np.prod(shape))
    if dtype is dtypes.bool:
        return tensor((np.arange(size) * step % 7 < 3).reshape(shape))
    low = 0 if dtype.kind == "uint" else -3
    numbers = (np.arange(size) * step % 7 + low).astype(dtype.numpy)
    return tensor(numbers.reshape(shape), dtype)


def filled(node, value):
    return build.constant(value, node.dtype, shape_of(node))


def add(a, b):
    return build.elementwise(Ops.ADD, a, b)


def multiply(a, b):
    return build.elementwise(Ops.MUL, a, b)


def matmul(a, b):
    (m, k), (_, n) = shape_of(a), shape_of(b)
    left = build.expand(build.reshape(a, (m, 1, k)), (m, n, k))
    right = build.expand(build.reshape(build.permute(b, (1, 0)), (1, n, k)), (m, n, k))
    return build.reduce(multiply(left, right), Ops.ADD, 2)


def convolve(x, w, padding=1):
    """x[channels, height, width] with w[outputs, channels, height, width]."""
    outputs, channels, high, wide = shape_of(w)
    if padding:
        x = build.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    _, height, width = shape_of(x)
    rows, columns = height - high + 1, width - wide + 1
    windows = build.window(build.window(x, 1, high), 2, wide)
    assert shape_of(windows) == (channels, rows, columns, high, wide)
    windows = build.reshape(windows, (1, channels, rows, columns, high, wide))
    windows = build.expand(windows, (outputs, channels, rows, columns, high, wide))
    weights = build.reshape(w, (outputs, channels, 1, 1, high, wide))
    weights = build.expand(weights, shape_of(windows))
    return build.reduce(multiply(windows, weights), Ops.ADD, (1, 4, 5))


def over_images(x, y):
    """x[images, a, pixels] with y[images, b, pixels], summed over images and pixels."""
    (images, a, pixels), (_, b, _) = shape_of(x), shape_of(y)
    left = build.expand(build.reshape(x, (images, a, 1, pixels)), (images, a, b, pixels))
    right = build.expand(build.reshape(y, (images, 1, b, pixels)), (images, a, b, pixels))
    return build.reduce(multiply(left, right), Ops.ADD, (0, 3))


def centred(x):
    """x less its row's mean-like sum, over the row's maximum: two reductions and a pass."""
    shape = shape_of(x)
    total = build.expand(build.reduce(x, Ops.ADD, 1, keepdims=True), shape)
    top = build.expand(build.reduce(x, Ops.MAX, 1, keepdims=True), shape)
    return build.elementwise(Ops.MAX, add(x, total), top)


def cases(dtype=dtypes.float64):
    some = partial(sample, dtype=dtype)
    x, y = some(8, 12), some(8, 12, step=3)
    square = some(12, 12)
    return [
        case("elementwise", add(multiply(x, y), filled(x, 2))),
        case("transposed", add(square, build.permute(square, (1, 0)))),
        case("flipped", add(x, build.flip(x, (0, 1)))),
        case("padded", build.pad(add(x, y), ((1, 2), (3, 1)))),
        case("shrunk", build.shrink(multiply(x, y), ((1, 6), (2, 11)))),
        case("row sum", build.reduce(multiply(x, y), Ops.ADD, 1)),
        case("column max", build.reduce(x, Ops.MAX, 0)),
        case("whole sum", build.reduce(x, Ops.ADD, None)),
        case("matmul", matmul(some(8, 6), some(6, 12))),
        case("convolution", convolve(some(2, 6, 8), some(4, 2, 3, 3))),
        case("over images", over_images(some(6, 3, 12), some(6, 4, 12, step=3))),
        case("two passes", centred(x)),
        case("two outputs", add(x, y), multiply(add(x, y), x)),
        case("sum of padded", build.reduce(build.pad(x, ((0, 0), (2, 2))), Ops.MIN, 1)),
    ]


def run_kernel(item, device, opts=None):
    """Run one kernel with opts given by hand; the values of its outputs, flat, and its program."""
    opened = Device[device]
    program = program_for(item.ast, opened.target, opts)
    executable = opened.executable(program, opened.compiler.compile(program))
    buffers = [node.arg for node in item.buffers]
    for number in item.outputs:
        if not buffers[number].is_allocated():
            buffers[number].allocate()
    known = dict(item.variables)
    error = executable(buffers, [known[name] for name, _ in program.variables])
    return [read(item.buffers[n]) for n in item.outputs], program, error


def check_kernel(one, device, opts=None):
    """Run a case's kernel and compare every output with NumPy's; gives the program."""
    outputs, program, error = run_kernel(one.item(device), device, opts)
    assert error == 0
    assert len(outputs) == len(one.expected)
    rest = list(outputs)
    for expected in one.expected:
        place = next(
            (i for i, got in enumerate(rest) if np.array_equal(got, expected.reshape(-1))), None
        )
        assert place is not None, (one.name, opts, rest, expected)
        rest.pop(place)
    return program


__all__ = ["Case", "cases", "check_kernel", "on_device", "run_kernel"]
