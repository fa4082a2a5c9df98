"""Small graphs are known by their names."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.base.errors import DivisionByZeroError
from torpor.pipeline.report import measuring


def test_small_graphs_that_recur_are_told_apart() -> None:
    draw = np.random.default_rng(0)
    a, b, c = (draw.integers(1, 9, (3, 4)).astype(np.float32) for _ in range(3))
    functions = [
        lambda x, y, z: x + y,
        lambda x, y, z: y + x,
        lambda x, y, z: x + x,
        lambda x, y, z: x + x.reshape(4, 3).reshape(3, 4),
        lambda x, y, z: x - y,
        lambda x, y, z: x * 2,
        lambda x, y, z: x * 3,
        lambda x, y, z: (x + y) * (x + y),
        lambda x, y, z: (x + y) * (x + z),
        lambda x, y, z: (x + y) * (z + y),
        lambda x, y, z: (x + y).sum(),
        lambda x, y, z: (x + y).sum(0),
        lambda x, y, z: (x + y).sum(1),
        lambda x, y, z: (x - y).clip(0, 5),
        lambda x, y, z: (x - y).clip(0, 6),
        lambda x, y, z: (x - y).clip(0, 5) + z,
    ]
    x, y, z = (Tensor(array).realize() for array in (a, b, c))
    held = []
    for _ in range(4):
        for f in functions:
            held.append((f(x, y, z).realize(), f(a, b, c)))
            held.append((f(z, x, y).realize(), f(c, a, b)))
            held.append((f(x, x, z).realize(), f(a, a, c)))
    for found, expected in held:
        np.testing.assert_array_equal(found.numpy(), expected)


def test_small_graphs_of_other_formats_and_shapes_are_other_graphs() -> None:
    for _ in range(3):
        for kind in (np.float32, np.float64, np.int64):
            for shape in ((6,), (2, 3), (3, 2), (6, 1)):
                array = np.arange(6, dtype=kind).reshape(shape)
                found = (Tensor(array).realize() + Tensor(array).realize()).realize()
                np.testing.assert_array_equal(found.numpy(), array * 2, strict=True)


def test_a_small_graph_raises_what_any_graph_does_and_computes_the_next_time() -> None:
    x, one, zero = (Tensor(np.full(3, n)).realize() for n in (7, 1, 0))
    for _ in range(3):
        assert (x // one).realize().tolist() == [7, 7, 7]
        with pytest.raises(DivisionByZeroError, match="test_again"):
            (x // zero).realize()


def test_what_a_small_graph_runs_is_seen() -> None:
    x, y = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()
    for _ in range(4):
        (x + y).realize()
    with measuring() as seen:
        (x + y).realize()
    assert len(seen.runs) == 1
