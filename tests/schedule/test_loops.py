"""Where the carries of loops lie, against loops of NumPy."""

import numpy as np
import pytest

import torpor
from torpor import Tensor

ROWS = np.array([[1.0, 2.0], [3.0, 5.0], [8.0, 13.0]])


def step(carry, _):
    h, v = carry
    h = h + v
    return (h, h.sum()), h.sum()


def by_numpy(h, v, count):
    found = []
    for _ in range(count):
        h = h + v
        v = h.sum()
        found.append(v)
    return found


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_carry_may_begin_as_a_row_of_other_memory(count):
    table = Tensor(ROWS).realize()
    _, ys = torpor.scan(step, (table[2], table[1].sum()), length=count)
    assert ys.tolist() == by_numpy(ROWS[2], 8.0, count)
    assert table.tolist() == ROWS.tolist()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_loop_goes_on_where_another_one_ended(count):
    def grow(h, x):
        h = h * 2 + x
        return h, h

    h, kept = torpor.scan(grow, Tensor(ROWS[0]), Tensor(ROWS).realize())
    _, ys = torpor.scan(step, (h, kept.sum(1)[-1]), length=count)
    end = ((ROWS[0] * 2 + ROWS[0]) * 2 + ROWS[1]) * 2 + ROWS[2]
    assert ys.tolist() == by_numpy(end, end.sum(), count)
