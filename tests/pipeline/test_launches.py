"""Which launches stand for the others."""

from __future__ import annotations

import pytest

from torpor.pipeline.launches import typical


def blocks(heads, rows):
    return [{"v0": head, "v1": row} for head in range(heads) for row in range(rows)]


def test_without_variables_there_is_one():
    assert typical([]) == ({},)
    assert typical([{}, {}, {}]) == ({},)


@pytest.mark.parametrize(("heads", "rows"), [(1, 9), (12, 8), (3, 32), (5, 1)])
def test_the_middle_comes_first_then_both_ends(heads, rows):
    """Of the middle head neither the first block of rows, which does least, nor the last one."""
    middle, first, last = typical(blocks(heads, rows))
    assert abs(2 * middle["v0"] - (heads - 1)) <= 1
    assert abs(2 * middle["v1"] - (rows - 1)) <= 1
    assert first == {"v0": 0, "v1": 0}
    assert last == {"v0": heads - 1, "v1": rows - 1}


def test_every_one_is_a_launch_that_there_is():
    """Tiles from a start on, so many of them: values of different launches do not fit together."""
    launches = [{"start": n % 3, "count": 9 - n} for n in range(9)]
    assert all(one in launches for one in typical(launches))


def test_none_comes_twice():
    assert typical([{"v0": 4}] * 5) == ({"v0": 4},)
    assert typical([{"v0": 1}, {"v0": 2}] * 3) == ({"v0": 1}, {"v0": 2})
