"""Graphs over several devices, resolved: values as on one device, and work where the parts are."""

import numpy as np
import pytest

from tests.graph.evaluate import Array, evaluate
from torpor.base.dtypes import dtypes
from torpor.graph import build
from torpor.graph.multi import axis_after_reshape, resolve
from torpor.ir.infer import device_of, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

FOUR = ("CPU", "CPU:1", "CPU:2", "CPU:3")
TWO = FOUR[:2]
ARRAY = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def memory(values, device):
    values = np.asarray(values)
    dtype = dtypes.from_numpy(values.dtype)
    node = UOp(Ops.BUFFER, dtype, (), Array(values, device))
    return build.reshape(node, values.shape)


def sharded(values, axis, devices=TWO):
    count = len(devices)
    pieces = [values] * count if axis is None else np.split(values, count, axis)
    parts = tuple(memory(p, d) for p, d in zip(pieces, devices, strict=True))
    return UOp(Ops.MULTI, parts[0].dtype, parts, (axis, devices))


def resolved_root(node):
    (root,) = resolve(UOp.sink(node)).src
    return root


def values_of(root):
    """What a resolved root holds, having checked that every part is on its own device."""
    if root.op is not Ops.MULTI:
        return evaluate(root)
    axis, devices = root.arg
    for part, device in zip(root.src, devices, strict=True):
        assert device_of(part) in (device, None)
        assert all(below.op is not Ops.MULTI for below in part.toposort())
    parts = [evaluate(part) for part in root.src]
    if axis is not None:
        return np.concatenate(parts, axis)
    for part in parts[1:]:
        np.testing.assert_array_equal(part, parts[0])
    return parts[0]


def copies(root):
    return [below for below in root.toposort() if below.op is Ops.COPY]


APART = [  # operation, axis that the operand is cut along, and then the result
    (lambda x: x + x, 0, 0),
    (lambda x: x.cast(dtypes.float64), 1, 1),
    (build.contiguous, 0, 0),
    (build.detach, 1, 1),
    (build.leaf, 0, 0),
    (lambda x: build.reduce(x, Ops.ADD, 1), 0, 0),
    (lambda x: build.reduce(x, Ops.MAX, 0, True), 1, 1),
    (lambda x: build.permute(x, (1, 0)), 0, 1),
    (lambda x: build.permute(build.reshape(x, (4, 2, 4)), (1, 2, 0)), 0, 2),
    (lambda x: build.reshape(x, (2, 2, 8)), 0, 0),
    (lambda x: build.reshape(x, (4, 2, 4)), 1, 1),
    (lambda x: build.reshape(x, (32,)), 0, 0),
    (lambda x: build.reshape(x, (1, 4, 8)), 0, 1),
    (lambda x: build.expand(build.reshape(x, (4, 1, 8)), (4, 3, 8)), 1, 2),
    (lambda x: build.expand(build.reshape(x, (4, 1, 8)), (4, 3, 8)), 0, 0),
    (lambda x: build.pad(x, ((0, 0), (1, 2))), 0, 0),
    (lambda x: build.shrink(x, ((0, 4), (1, 6))), 0, 0),
    (lambda x: build.shrink(x, ((1, 3), (0, 8))), 1, 1),
    (lambda x: build.flip(x, (1,)), 0, 0),
]


@pytest.mark.parametrize(("function", "axis", "then"), APART)
def test_done_part_by_part_nothing_is_copied(function, axis, then):
    root = resolved_root(function(sharded(ARRAY, axis)))
    assert root.arg == (then, TWO) and not copies(root)
    np.testing.assert_array_equal(values_of(root), evaluate(function(memory(ARRAY, "CPU"))))


GATHERED = [
    (lambda x: build.reshape(x, (8, 4)), 1),
    (lambda x: build.pad(x, ((1, 2), (0, 0))), 0),
    (lambda x: build.shrink(x, ((1, 4), (0, 8))), 0),
    (lambda x: build.flip(x, (0,)), 0),
]


@pytest.mark.parametrize(("function", "axis"), GATHERED)
def test_what_moves_the_cut_axis_gathers_first(function, axis):
    root = resolved_root(function(sharded(ARRAY, axis)))
    assert root.arg == (None, TWO) and copies(root)
    np.testing.assert_array_equal(values_of(root), evaluate(function(memory(ARRAY, "CPU"))))


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN])
@pytest.mark.parametrize("devices", [TWO, FOUR])
def test_a_reduction_over_the_cut_axis_combines_its_parts(op, devices):
    function = {Ops.ADD: np.sum, Ops.MUL: np.prod, Ops.MAX: np.max, Ops.MIN: np.min}[op]
    root = resolved_root(build.reduce(sharded(ARRAY, 0, devices), op, 0))
    assert root.arg == (None, devices)
    # Only reduced parts travel: each device asks for those of all others.
    moved = copies(root)
    assert len(moved) == len(devices) * (len(devices) - 1)
    assert {shape_of(copy) for copy in moved} == {(1, 8)}
    np.testing.assert_allclose(values_of(root), function(ARRAY, axis=0), 1e-6)


@pytest.mark.parametrize("left", [0, 1, None])
@pytest.mark.parametrize("right", [0, 1, None])
def test_operands_are_cut_alike(left, right):
    root = resolved_root(sharded(ARRAY, left) * sharded(ARRAY + 1, right))
    first = next((axis for axis in (left, right) if axis is not None), None)
    assert root.arg == (first, TWO)
    assert bool(copies(root)) == (None not in (left, right) and left != right)
    np.testing.assert_array_equal(values_of(root), ARRAY * (ARRAY + 1))


def test_a_constant_and_a_scalar_are_used_by_every_part():
    constant = build.constant(2.0, dtypes.float32, (4, 8))
    root = resolved_root(sharded(ARRAY, 1) * constant)
    assert root.arg == (1, TWO) and not copies(root)
    np.testing.assert_array_equal(values_of(root), ARRAY * 2)
    scalar = build.broadcast_to(build.copy_to(memory(np.float32(3), "CPU"), TWO), (4, 8))
    np.testing.assert_array_equal(values_of(resolved_root(sharded(ARRAY, 0) * scalar)), ARRAY * 3)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("device", ["CPU", "CPU:1", "CPU:7"])
def test_a_copy_to_one_device_is_the_whole_value_there(axis, device):
    root = resolved_root(build.copy_to(sharded(ARRAY, axis), device))
    assert device_of(root) == device and root.op is not Ops.MULTI
    np.testing.assert_array_equal(evaluate(root), ARRAY)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("devices", [TWO, TWO[::-1], ("CPU:5", "CPU:6"), FOUR])
def test_a_copy_to_other_devices_lives_on_those(axis, devices):
    root = resolved_root(build.copy_to(sharded(ARRAY, axis), devices))
    assert root.arg == (axis if devices == TWO else None, devices)
    np.testing.assert_array_equal(values_of(root), ARRAY)


def test_gathering_keeps_every_bit():
    values = np.array([-0.0, 0.0, np.nan, -np.inf], np.float32)
    values.view(np.uint32)[2] |= 1  # a NaN with a payload
    root = resolved_root(build.copy_to(sharded(values, 0), "CPU"))
    np.testing.assert_array_equal(evaluate(root).view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64])
def test_gathering_any_format(dtype):
    values = np.array([0, 1, 0, 1, 1, 0, 1, 0]).astype(dtype)
    found = evaluate(resolved_root(build.copy_to(sharded(values, 0, FOUR), "CPU")))
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("table", [0, None])
@pytest.mark.parametrize("axis", [0, None])
def test_every_device_picks_for_its_part_of_the_index(table, axis):
    values, index = np.arange(6.0), np.array([5, 0, 2, 2])
    root = resolved_root(build.gather(sharded(values, table), sharded(index, axis)))
    assert root.arg == (axis, TWO)
    np.testing.assert_array_equal(values_of(root), values[index])


def test_a_graph_of_one_device_stays_itself():
    sink = UOp.sink(memory(ARRAY, "CPU") + memory(ARRAY, "CPU"))
    assert resolve(sink) is sink


def test_the_axis_after_a_reshape_agrees_with_cutting_first():
    shapes = [(4, 8), (32,), (2, 2, 8), (8, 4), (2, 16), (1, 4, 1, 8), (4, 2, 4), (16, 2)]
    for old in shapes:
        values = np.arange(32).reshape(old)
        for new in shapes:
            for axis in (a for a, size in enumerate(old) if size % 2 == 0):
                place = axis_after_reshape(old, new, axis, 2)
                if place is None:
                    continue
                part = tuple(s // 2 if a == place else s for a, s in enumerate(new))
                pieces = [p.reshape(part) for p in np.split(values, 2, axis)]
                np.testing.assert_array_equal(np.concatenate(pieces, place), values.reshape(new))


def visits(monkeypatch, count):
    """How many nodes are walked over to resolve a chain of `count` reductions."""
    walked, plain = [0], UOp.toposort

    def counting(self, gate=None):
        found = plain(self, gate)
        walked[0] += len(found)
        return found

    node = sharded(ARRAY, 0)
    for _ in range(count):
        node = node * build.expand(build.reduce(node, Ops.ADD, 0, True), (4, 8))
    with monkeypatch.context() as patch:
        patch.setattr(UOp, "toposort", counting)
        resolve(UOp.sink(node))
    return walked[0]


def test_the_work_grows_as_the_graph(monkeypatch):
    assert visits(monkeypatch, 80) < 2.5 * visits(monkeypatch, 40)
