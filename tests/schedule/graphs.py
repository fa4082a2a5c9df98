"""Graphs over NumPy arrays, put on a device and computed there; random ones for fuzzing."""

from __future__ import annotations

import math
from random import Random

import numpy as np

from tests.graph.evaluate import tensor
from torpor import pipeline
from torpor.base.dtypes import dtypes
from torpor.device import Buffer
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17)
MOST = 4000  # elements of a value in a random graph


def buffer_of(array, device, dtype=None):
    """The BUFFER node of a device buffer that holds the array, flat."""
    flat = np.ascontiguousarray(array).reshape(-1)
    buffer = Buffer(device, flat.size, dtype or dtypes.from_numpy(flat.dtype)).allocate()
    buffer.copyin(memoryview(flat.view(np.uint8)))
    return UOp(Ops.BUFFER, buffer.dtype, (), buffer)


def on_device(node, device):
    """The graph with the arrays of `tests.graph.evaluate` in buffers of the device."""
    arrays = [n for n in node.toposort() if n.op is Ops.BUFFER]
    return node.substitute({n: buffer_of(n.arg.values, device, n.dtype) for n in arrays})


def roots_on(nodes, device):
    """The same nodes as the roots that the pipeline takes."""
    return [(node, device) for node in on_device(UOp.sink(*nodes), device).src]


def read(node):
    """The value of a node over a BUFFER."""
    shape = shape_of(node)
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    flat = np.empty(node.arg.size, node.dtype.numpy)
    node.arg.copyout(memoryview(flat.view(np.uint8)))
    return flat.reshape(shape)


def compute(nodes, device="CPU"):
    """The values of graph nodes, computed by the compiler."""
    return [read(node) for node in pipeline.realize(roots_on(nodes, device))]


def kernels(*nodes, device="CPU"):
    """The schedule of graph nodes."""
    return pipeline.schedule(roots_on(nodes, device))


def values(random, dtype, shape):
    """Small numbers that every format holds exactly, so that sums have no rounding."""
    count = math.prod(shape)
    if dtype is dtypes.bool:
        found = [random.random() < 0.5 for _ in range(count)]
    elif dtype.is_float:
        found = [random.randint(-8, 8) / 4 for _ in range(count)]
    else:
        found = [random.randint(0 if dtype.kind == "uint" else -4, 4) for _ in range(count)]
    return np.array(found, dtype=dtype.numpy).reshape(shape)


def fill(node, value):
    """A constant tensor of the node's shape and dtype."""
    return build.constant(value, node.dtype, shape_of(node))


def random_unary(random, node, _):
    op, value = random.choice([(Ops.MUL, 3), (Ops.MAX, 0), (Ops.ADD, 1), (Ops.MIN, 2)])
    return build.elementwise(op, node, fill(node, value))


def random_binary(random, node, nodes):
    op = random.choice([Ops.ADD, Ops.MUL, Ops.SUB, Ops.MIN, Ops.MAX])
    alike = [other for other in nodes if shape_of(other) == shape_of(node)]
    return build.elementwise(op, node, random.choice(alike))


def random_turned(random, node, _):
    """x with its own transpose or mirror image."""
    shape = shape_of(node)
    if len(shape) == 2 and shape[0] == shape[1]:
        other = build.permute(node, (1, 0))
    else:
        other = build.flip(node, (0,))
    return build.elementwise(random.choice([Ops.ADD, Ops.SUB]), node, other)


def random_reduce(random, node, _):
    shape = shape_of(node)
    axes = random.sample(range(len(shape)), random.randint(1, len(shape)))
    op = random.choice([Ops.ADD, Ops.ADD, Ops.MAX, Ops.MIN])
    made = build.reduce(node, op, axes, keepdims=True)
    if random.random() < 0.6:
        return build.elementwise(Ops.SUB, node, build.expand(made, shape))
    return made


def random_permute(random, node, _):
    order = list(range(len(shape_of(node))))
    random.shuffle(order)
    return build.permute(node, tuple(order))


def random_reshape(random, node, _):
    size = math.prod(shape_of(node))
    cuts = [d for d in range(1, 9) if size % d == 0]
    cut = random.choice(cuts)
    return build.reshape(node, random.choice([(size,), (cut, size // cut), (size // cut, cut)]))


def random_expand(random, node, _):
    shape = shape_of(node)
    if random.random() < 0.5:
        return build.expand(build.reshape(node, (*shape, 1)), (*shape, 3))
    return build.expand(build.reshape(node, (1, *shape)), (4, *shape))


def random_pad(random, node, _):
    pairs = tuple((random.randint(0, 3), random.randint(0, 3)) for _ in shape_of(node))
    return build.pad(node, pairs)


def random_shrink(random, node, _):
    boxes = []
    for size in shape_of(node):
        start = random.randint(0, size - 1)
        boxes.append((start, random.randint(start + 1, size)))
    return build.shrink(node, tuple(boxes))


def random_where(random, node, _):
    below = build.elementwise(Ops.CMPLT, node, fill(node, 1))
    return build.elementwise(Ops.WHERE, below, node, fill(node, 2))


def stored(random, node, _):
    return build.contiguous(node)


STEPS = (
    random_unary, random_binary, random_binary, random_turned, random_reduce, random_reduce,
    random_permute, random_reshape, random_expand, random_pad, random_shrink, random_where, stored,
)  # fmt: skip


def random_graph(random: Random, dtype, steps):
    """One or two roots of a graph of about `steps` operations."""
    shape = [random.choice(SIZES) for _ in range(random.randint(1, 3))]
    nodes = [tensor(values(random, dtype, shape))]
    for _ in range(steps):
        made = random.choice(STEPS)(random, random.choice(nodes[-3:]), nodes)
        if math.prod(shape_of(made)) <= MOST:
            nodes.append(made)
    return [nodes[-1], random.choice(nodes)] if random.random() < 0.4 else [nodes[-1]]
