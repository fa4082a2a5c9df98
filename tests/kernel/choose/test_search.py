"""The beam, with times that a formula gives."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from operator import itemgetter

from tests.kernel.kernels import add, matmul, sample
from tests.schedule.graphs import kernels
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.choose.candidates import after
from torpor.kernel.choose.search import BATCH, SLOW, Search
from torpor.kernel.ranges import kind_of, size_of

TARGET = get_target("cpu")


@cache
def kernel():
    (item,) = kernels(matmul(sample(32, 8), sample(8, 64)), device="CPU")
    return Kernel(item.ast, TARGET)


@cache
def applied(opts):
    return after(kernel(), opts)


def written(opts):
    """Sizes of the written-out axes that the list makes."""
    return sorted(size_of(r) for r in applied(opts).axes if kind_of(r) is AxisType.UPCAST)


def taken(opts, limit=0.0):
    """Fastest with one axis written out 16 times and another 4 times."""
    return 1.0 + sum(abs(a - b) for a, b in zip((4, 16), [1, 1, *written(opts)][-2:], strict=True))


class Steps:
    """A clock that is over after so many candidates."""

    def __init__(self, most):
        self.most, self.timed, self.limits = most, [], []

    def timer(self, opts, limit):
        self.timed.append(opts)
        self.limits.append(limit)
        return taken(opts)

    def over(self):
        return len(self.timed) >= self.most


def searched(steps, width=2, starts=((),), **state):
    search = Search(kernel(), steps.timer, steps.over, width, note=str, **state)
    search.run(starts)
    return search


def test_the_fastest_list_is_found_from_nothing():
    search = searched(Steps(400))
    assert search.best[0][0] == 1.0
    assert written(search.best[0][1])[-2:] == [4, 16]


def test_the_same_search_twice_is_the_same():
    first, second = Steps(60), Steps(60)
    searched(first)
    searched(second)
    assert first.timed == second.timed


def test_no_kernel_is_timed_twice():
    steps = Steps(80)
    search = searched(steps)
    asts = [applied(opts).ast for opts in steps.timed]
    assert len(set(asts)) == len(asts) == len(search.tried)


def test_time_is_kept_and_the_first_list_is_always_timed():
    steps = Steps(0)
    searched(steps, starts=((), (Opt(OptOps.UPCAST, 0, 4),)))
    assert steps.timed == [()]
    steps = Steps(17)
    searched(steps)
    assert len(steps.timed) == 17


def test_a_list_that_is_far_from_the_best_is_not_worth_more_than_twice_its_time():
    steps = Steps(50)
    searched(steps)
    best = [min(map(taken, steps.timed[:n]), default=float("inf")) for n in range(50)]
    assert steps.limits == [SLOW * seconds for seconds in best]
    assert len(set(best)) > 3


def test_a_search_goes_on_where_it_stood():
    first = Steps(60)
    half = searched(first)
    second = Steps(60)
    rest = searched(second, starts=(), best=half.best, tried=set(half.tried))
    assert not set(first.timed) & set(second.timed)
    assert rest.best[0][0] <= half.best[0][0]


def test_lists_that_do_not_work_are_left_out():
    def timer(opts, limit):
        return "it crashed" if opts else 1.0

    notes = []
    search = Search(kernel(), timer, lambda: len(search.tried) > 30, 3, notes.append)
    search.run([()])
    assert search.best == [(1.0, ())]
    assert any("it crashed" in note for note in notes)


def test_a_small_kernel_has_an_end():
    (item,) = kernels(add(sample(3), sample(3)), device="CPU")
    search = Search(Kernel(item.ast, TARGET), lambda opts, limit: 1.0, lambda: False, 4, str)
    search.run([()])
    assert search.done


def test_endless_code_is_not_even_compiled():
    notes = []
    search = Search(kernel(), taken, lambda: False, 1, notes.append)
    long = (Opt(OptOps.UPCAST, 0, 32), Opt(OptOps.UPCAST, 0, 64), Opt(OptOps.UNROLL, 0, 8))
    assert search.attempt([()]) == 1
    assert search.attempt([long]) == 0
    assert "2048 vectors long" in notes[-1]


def test_refusals_say_why():
    notes = []
    search = Search(kernel(), taken, lambda: False, 1, notes.append)
    assert search.attempt([(Opt(OptOps.UPCAST, 0, 7),)]) == 0
    assert "UPCAST of axis 0 by 7" in notes[0]
    assert "7 does not divide 32" in notes[0]


def test_lists_are_prepared_some_at_a_time_before_the_first_of_them_is_timed():
    events = []

    def timer(opts, limit):
        events.append(("timed", opts))
        return taken(opts)

    def prepare(opts):
        events.append(("prepared", opts))

    search = Search(kernel(), timer, lambda: len(search.tried) > 40, 2, str, prepare)
    search.run([()])
    blocks = [(kind, [opts for _, opts in each]) for kind, each in groupby(events, itemgetter(0))]
    assert [kind for kind, _ in blocks[:4]] == ["prepared", "timed", "prepared", "timed"]
    for (_, before), (_, after_them) in zip(blocks[::2], blocks[1::2], strict=False):
        assert before[: len(after_them)] == after_them
        assert len(before) <= BATCH
    assert max(len(lists) for _, lists in blocks) == BATCH


def test_two_lists_of_a_batch_that_make_the_same_kernel_are_one():
    steps = Steps(400)
    search = Search(kernel(), steps.timer, steps.over, 2, str)
    both = (Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UPCAST, 1, 4))
    assert search.attempt([both[:1], both[:1], (Opt(OptOps.UPCAST, 0, 4),)]) == 1
    assert len(steps.timed) == 1
