"""What is in the key of a graph, and what is not."""

import numpy as np

import torpor
from tests.kernel.kernels import add, filled, sample
from tests.schedule.graphs import roots_on
from torpor import Context, Tensor, Variable, dtypes
from torpor.graph import build
from torpor.graph.known import note
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline import canonical as module
from torpor.pipeline.canonical import canonical


def form(*nodes):
    return canonical(roots_on(nodes, "CPU"))


def test_memory_is_listed_and_not_in_the_key():
    first, second = form(add(sample(3), sample(3, step=2))), form(add(sample(3), sample(3, step=2)))
    assert first.key == second.key
    assert [buffer.size for buffer in first.buffers] == [3, 3]
    assert not set(first.buffers) & set(second.buffers)


def test_wiring_sizes_formats_and_constants_are_in_the_key():
    x, y, z = sample(3), sample(3, step=2), sample(4)
    keys = [
        form(add(x, y)).key, form(add(x, x)).key, form(add(z, z)).key,
        form(build.cast(x, dtypes.int32)).key, form(add(x, filled(x, 1))).key,
        form(add(x, filled(x, 2))).key, form(x, y).key, form(x).key,
        form(build.reduce(x, Ops.ADD, 0)).key, form(build.reduce(x, Ops.MAX, 0)).key,
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_every_setting_is_in_the_key():
    x = add(sample(3), sample(3))
    with Context(STRICT_FLOAT=1):
        strict = form(x)
    assert form(x).key != strict.key


def test_the_device_is_in_the_key():
    node = build.constant(1.0, dtypes.float32, (3,))
    assert canonical([(node, "CPU")]).key != canonical([(node, "CPU:1")]).key


def test_an_identity_of_its_own_counts_by_its_place():
    x = sample(3)
    one, other = (UOp(Ops.LEAF, x.dtype, (x,), n) for n in (41, 42))
    assert form(one).key == form(other).key
    assert form(add(one, other)).key != form(add(one, one)).key


def test_values_and_names_of_variables_are_not_in_the_key():
    def cut(name, value):
        return form(build.shrink(sample(8), ((0, Variable(name, 1, 8).bind(value)),)))

    assert cut("n", 3).key == cut("m", 7).key
    assert [node.src[1].arg for node in cut("n", 3).bound] == [3]
    limits = form(build.shrink(sample(8), ((0, Variable("n", 2, 8).bind(3)),)))
    assert limits.key != cut("n", 3).key


def test_sizes_of_two_variables_are_told_apart():
    n, m = Variable("n", 1, 4).bind(2), Variable("m", 1, 4).bind(3)
    x = sample(4)
    both = [build.shrink(x, ((0, a),)) for a in (n, m)]
    assert form(*both).key != form(both[0], build.shrink(x, ((0, n),))).key


def test_a_graph_that_is_too_large_has_none(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 20)
    x = sample(4)
    y = x
    for _ in range(30):
        y = add(y, x)
    assert form(y) is None
    np.testing.assert_array_equal(form(x).buffers[0].size, 4)


def test_what_has_been_computed_stands_for_itself_in_the_form():
    """As if the graph were written anew with the memory in its place."""
    x, memory = (node for node, _ in roots_on((sample(5), sample(5, step=2)), "CPU"))
    made = add(x, x)
    graph = add(build.reduce(add(made, x), Ops.MAX, 0), made)
    note(made, memory, 3)
    found = canonical([(graph, "CPU"), (made, "CPU")], known=True)
    wanted = canonical([(graph.substitute({made: memory}), "CPU"), (memory, "CPU")])
    assert found.key == wanted.key and found.buffers == wanted.buffers
    assert [*found.ages.values()] == [3] and made not in found.order
    assert canonical([(graph, "CPU"), (made, "CPU")]).key != wanted.key


def test_loops_that_are_made_of_constants_alone():
    ys = torpor.scan(lambda c, x: (c, (x + 1, Tensor.ones(2))), None, Tensor.zeros(3))[1]
    assert [y.tolist() for y in ys] == [[1.0] * 3, [[1.0, 1.0]] * 3]
