"""Neighbouring lists of opts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.kernels import cases, matmul, sample
from tests.schedule.graphs import kernels
from torpor import Tensor
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.candidates import candidates, neighbours, predicted
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.ranges import iterations, size_of

CPU = {
    OptOps.UPCAST, OptOps.OVERLAP, OptOps.UNROLL, OptOps.TILE, OptOps.STAGE, OptOps.SWAP,
    OptOps.PARTITION, OptOps.PADTO, OptOps.THREAD,
}  # fmt: skip
GROUPS = CPU - {OptOps.THREAD} | {OptOps.LOCAL, OptOps.GROUP, OptOps.GROUPTOP}


def product(target):
    (item,) = kernels(matmul(sample(36, 48), sample(48, 64)), device="CPU")
    return Kernel(item.ast, get_target(target))


def lists(kernel, opts=()):
    """The lists of opts of a list's neighbours."""
    return [tuple(one.opts) for one in neighbours(kernel, opts)]


@pytest.mark.parametrize(("target", "kinds"), [("cpu", CPU), ("opencl", GROUPS)])
def test_every_kind_of_opt_is_offered_and_fits_somewhere(target, kinds):
    assert {opts[0].op for opts in lists(product(target))} == kinds | {OptOps.STREAM}


def test_copies_are_of_axes_of_results_and_sums_are_unrolled():
    kernel = product("cpu")
    offered = [opts[0] for opts in lists(kernel)]
    (summed,) = (kernel.axes.index(r) for r in kernel.reduce_axes)
    assert {opt.axis for opt in offered if opt.op is OptOps.UPCAST} == {0, 1, 2} - {summed}
    assert {opt.axis for opt in offered if opt.op is OptOps.UNROLL} == {0}


def test_what_is_predicted_tells_good_choices_from_none():
    kernel = product("cpu")
    assert predicted(kernel.copy().apply(choose(kernel))) < predicted(kernel) / 4


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_neighbours_of_the_heuristics_choice_are_other_lists(case):
    kernel = Kernel(case.item("CPU").ast, get_target("cpu"))
    start = tuple(choose(kernel))
    found = lists(kernel, start)
    assert found
    assert start not in found


def test_one_opt_may_be_left_out():
    kernel = product("cpu")
    start = (Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.UNROLL, 0, 4))
    found = set(lists(kernel, start))
    assert all(start[:n] + start[n + 1 :] in found for n in range(len(start)))


WHOLE: Final = st.none() | st.integers(-3, 70)


@given(st.lists(st.builds(Opt, st.sampled_from(OptOps), WHOLE, WHOLE), min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_whatever_stands_in_a_file_fits_or_is_refused(opts):
    """What fits sums the same number of terms for the same number of results."""
    kernel = product("cpu")
    try:
        kernel.apply(opts)
    except OptError:
        return
    assert all((size_of(r) or 1) > 0 for r in kernel.axes)
    assert iterations(kernel.axes) >= 36 * 48 * 64


def offered(result, op, **facts):
    """Whether an opt of a kind is among those that a kernel might begin with."""
    (item,) = result.schedule()
    kernel = Kernel(item.ast, replace(get_target("cpu"), **facts))
    return any(opts[0].op is op for opts in lists(kernel))


def convolution(size):
    x, w = Tensor.empty(2, 4, size, size), Tensor.empty(4, 1, 3, 3)
    return x.conv2d(w, padding=1, groups=4)


def test_windows_are_tried_in_each_loop_where_something_slides():
    (item,) = convolution(20).schedule()
    kernel = Kernel(item.ast, get_target("cpu"))
    tried = [opts[0] for opts in lists(kernel) if opts[0].op is OptOps.STAGE]
    assert any(opt.arg < 0 for opt in tried)
    start = (Opt(OptOps.STAGE, 0, -1),)
    assert 1 in {opts[0].axis for opts in lists(kernel, start) if len(opts) == 1 and opts != start}


def test_tiles_may_overlap_or_not():
    """Of 36 rows: what divides them is written out by UPCAST, what does not by OVERLAP."""
    kernel = product("cpu")
    for start in (Opt(OptOps.UPCAST, 0, 6), Opt(OptOps.OVERLAP, 0, 7)):
        made = {o[0] for o in lists(kernel, (start,)) if len(o) == 1 and o[0].axis == 0}
        amounts = {
            op: {o.arg for o in made if o.op is op} for op in (OptOps.UPCAST, OptOps.OVERLAP)
        }
        assert amounts[OptOps.UPCAST] >= {3, 4, 12} - {start.arg}
        assert amounts[OptOps.OVERLAP] >= {5, 8}
        assert all(36 % n == 0 for n in amounts[OptOps.UPCAST])


def test_two_terms_at_a_time_are_tried_where_there_is_an_instruction():
    a, b = (Tensor(np.ones((16, 16), np.int8)) for _ in range(2))
    short = frozenset({("int16", "int16")})
    assert offered(a.int() @ b.int(), OptOps.DOT, dots=short)
    assert not offered(a.int() @ b.int(), OptOps.DOT, dots=frozenset())
    assert not offered(a.float() @ b.float() * 0.1, OptOps.DOT, dots=short)


# --- which come first -----------------------------------------------------------------------------
def ranked(times, most=400):
    """The lists that are given to somebody who times them by a formula, and the kernel."""
    kernel = product("cpu")
    first = tuple(choose(kernel))
    taken, given = {first: times(first)}, []
    for opts in candidates(kernel, taken, 2, lambda: len(given) >= most):
        given.append(opts)
        taken[opts] = times(opts)
    return given, kernel


def test_other_plans_and_no_opts_come_first():
    given, kernel = ranked(lambda opts: 1.0, most=3)
    start = choose(kernel)
    assert () in given
    assert [opts for opts in given[:2] if len(opts) > 2 and opts != tuple(start)], "a plan's"


def test_neighbours_of_what_is_quick_are_tried_and_each_kernel_once():
    """The quickest has three opts more than the empty list, of which each alone helps."""

    def times(opts):
        return 2.0 - 0.5 * sum(opt.arg == 4 for opt in opts[:3])

    given, kernel = ranked(times)
    assert min(map(times, given)) == 0.5
    made = [kernel.copy().apply(opts).ast for opts in given]
    assert len(set(made)) == len(made)
