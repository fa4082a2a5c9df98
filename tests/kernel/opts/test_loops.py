"""Opts on axes move the same elements to the same places: by counting through the loops."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.kernel.kernels import case, sample
from tests.rules.expressions import value
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.kernel import Kernel, Opt, OptOps

ROWS, COLUMNS = 12, 10


def transposed(target="cpu"):
    """A kernel that stores a matrix of 12 rows and 10 columns out of one of 10 and 12."""
    turned = build.contiguous(build.permute(sample(COLUMNS, ROWS), (1, 0)))
    return Kernel(case("transposed", turned).item("CPU").ast, get_target(target))


def moves(kernel):
    """How often each place is stored, and out of which place of the operand."""
    found = Counter()
    for store in kernel.ast.src:
        place, *valid = store.src[0].src[1:]
        (load,) = (n for n in store.src[1].toposort() if n.op is Ops.LOAD)
        loops = [n for n in store.toposort() if n.op is Ops.RANGE]
        for steps in product(*(range(n.src[0].arg) for n in loops)):
            at = dict(zip(loops, steps))
            if all(value(condition, at) for condition in valid):
                found[value(place, at), value(load.src[0].src[1], at)] += 1
    return found


EXPECTED = {
    (row * COLUMNS + column, column * ROWS + row)
    for row, column in product(range(ROWS), range(COLUMNS))
}


@pytest.mark.parametrize(
    "opts",
    [
        [],
        [Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UPCAST, 1, 5)],
        [Opt(OptOps.UPCAST, 1, 0)],
        [Opt(OptOps.TILE, 1, 5), Opt(OptOps.TILE, 1, 3)],
        [Opt(OptOps.SWAP, 0, 1), Opt(OptOps.UPCAST, 0, 2)],
        [Opt(OptOps.PARTITION, 0, 7), Opt(OptOps.UPCAST, 1, 5)],
        [Opt(OptOps.PARTITION, 1, 8), Opt(OptOps.PARTITION, 0, 5)],
        [Opt(OptOps.THREAD, 0, 3), Opt(OptOps.UPCAST, 1, 2)],
        [Opt(OptOps.THREAD, 0, 0), Opt(OptOps.THREAD, 1, 0)],
        [Opt(OptOps.PADTO, 0, 8), Opt(OptOps.UPCAST, 0, 8)],
        [Opt(OptOps.PADTO, 1, 16), Opt(OptOps.PADTO, 0, 5)],
    ],
    ids=str,
)
def test_each_element_is_moved_once(opts):
    assert moves(transposed().apply(opts)) == Counter(EXPECTED)


@pytest.mark.parametrize("amount", [4, 7, 9])
def test_tiles_that_overlap_move_each_element_once_or_twice(amount):
    found = moves(transposed().apply([Opt(OptOps.OVERLAP, 1, amount)]))
    assert set(found) == EXPECTED and set(found.values()) <= {1, 2}
    assert sum(found.values()) == ROWS * amount * -(-COLUMNS // amount)


def test_work_items_of_a_group_move_each_element_once():
    kernel = transposed("opencl").apply([Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.LOCAL, 1, 5)])
    assert moves(kernel) == Counter(EXPECTED)
