"""Timing and checking candidates on buffers of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torpor import Tensor, Variable, dtypes
from torpor.base.errors import OptError
from torpor.device.bulk import send
from torpor.kernel import Opt, OptOps
from torpor.pipeline.contest import Contest, answer

UPCAST = (Opt(OptOps.UPCAST, 0, 4),)
UNROLL = (Opt(OptOps.UNROLL, 0, 8),)


def contest_of(result, splits=False, **more):
    (item,) = result.schedule()
    return Contest(item.ast, "CPU", splits, **more)


def rows(dtype=dtypes.float32):
    return Tensor.empty(8, 1000, dtype=dtype).sum(1)


class Recorder:
    """In the place of a loaded candidate: notes when it is run."""

    def __init__(self, order, opts):
        self.order, self.opts = order, opts

    def prepare(self, times):
        pass

    def __call__(self, times):
        self.order.append(self.opts)


def test_the_same_bits_are_fine_and_take_time():
    made = contest_of(rows())
    assert 0 < made.measure((), float("inf")) < 1
    assert 0 < made.measure(UPCAST, float("inf")) < 1


def test_another_order_of_additions_is_out_unless_it_is_allowed():
    made = contest_of(rows())
    made.measure((), float("inf"))
    assert made.measure(UNROLL, float("inf")) == "its results are other bits"
    made = contest_of(rows(), splits=True)
    made.measure((), float("inf"))
    assert 0 < made.measure(UNROLL, float("inf")) < 1


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64, dtypes.int32])
def test_sums_of_other_formats_are_compared_too(dtype):
    made = contest_of(rows(dtype), splits=True)
    made.measure((), float("inf"))
    assert 0 < made.measure(UNROLL, float("inf")) < 1


@pytest.mark.parametrize("splits", [False, True])
def test_wrong_results_are_out(splits):
    made = contest_of(rows(), splits=splits)
    made.measure((), float("inf"))
    made.expected[0][0] = made.expected[0][0].copy()
    made.expected[0][0][3] += 0.01
    assert "its results are" in made.measure(UPCAST, float("inf"))


def test_outputs_that_are_not_written_are_seen():
    made = contest_of(Tensor.empty(8, 8) * 2)
    made.measure((), float("inf"))
    made.loaded[UPCAST] = [Recorder([], UPCAST)]
    assert made.measure(UPCAST, float("inf")) == "its results are other bits"


def test_a_slow_candidate_runs_twice_and_no_more():
    made = contest_of(rows())
    calls = []
    made.measure((), float("inf"))
    assert made.measure(UPCAST, 0.0) < 1
    made.expected = {0: [start.copy() for _, start in made.outputs]}
    made.loaded[UPCAST] = [Recorder(calls, UPCAST)]
    made.measure(UPCAST, 0.0)
    assert len(calls) == 2


def test_a_refused_list_names_its_opt():
    with pytest.raises(OptError, match="UPCAST of axis 0 by 7"):
        contest_of(rows()).measure((Opt(OptOps.UPCAST, 0, 7),), float("inf"))


class Ticks:
    """A clock that moves by one second each time it is read."""

    now = 0

    def __call__(self):
        self.now += 1
        return self.now


def test_a_comparison_takes_turns_and_ends_in_time():
    made = contest_of(rows(), clock=Ticks())
    order = []
    for opts in ((), UPCAST):
        made.loaded[opts] = [Recorder(order, opts)]
    pairs = made.duel((), UPCAST, 10, seconds=1e9)
    assert len(pairs) == 10
    assert order[3:7] == [(), UPCAST, UPCAST, ()]
    assert len(made.duel((), UPCAST, 10, seconds=0.5)) == 3


def test_a_kernel_is_checked_in_each_launch_and_timed_in_the_first():
    n = Variable("n", 1, 8)
    (item,) = (Tensor.empty(8, 16).shrink(((0, n.bind(3)), None)) * 2).schedule()
    ((name, value),) = item.variables
    assert value == 3
    made = Contest(item.ast, "CPU", False, [{name: 8}, {name: 1}, {name: 4}])
    assert made.measure((), float("inf")) > 0
    written = [int((made.expected[launch][0] != made.outputs[0][1]).sum()) for launch in range(3)]
    assert written == [8 * 16, 16, 4 * 16]
    assert made.measure((Opt(OptOps.UPCAST, 1, 4),), float("inf")) > 0
    made.expected[2][0][0] += 1
    assert "bits" in made.measure((Opt(OptOps.UPCAST, 1, 8),), float("inf"))


def test_a_comparison_is_made_in_each_launch():
    made = contest_of(rows(), launches=[{}, {}, {}], clock=Ticks())
    order = []
    for opts in ((), UPCAST):
        made.loaded[opts] = [Recorder(order, (opts, n)) for n in range(3)]
    made.duel((), UPCAST, 12, seconds=1e9)
    launches = [n for _, n in order[3:]]
    assert launches == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4 + [2] * 4


def test_requests_by_name():
    contests = {}
    (item,) = rows().schedule()
    assert answer(contests, ("open", item.ast, "CPU", False)) is None
    assert answer(contests, ("measure", (), float("inf"))) > 0
    assert len(answer(contests, ("duel", (), (), 4, 1.0))) == 4


@pytest.mark.parametrize("device", ["CPU", "OPENCL"])
def test_devices_run_it_as_often_as_asked(device):
    if device == "OPENCL":
        pytest.importorskip("pyopencl")
    (item,) = (Tensor.empty(1000, device=device) * 2).schedule()
    made = Contest(item.ast, device, False)
    assert 0 < made.measure((), float("inf")) < 1
    assert (made.load(())[0].table[1] is not None) is (device == "CPU")


def test_kernels_that_check_their_indices_run():
    made = contest_of(Tensor.empty(50, 3)[Tensor.empty(20, dtype=dtypes.int64)])
    assert made.measure((), float("inf")) > 0


def test_the_process_ends_when_nobody_asks_any_more():
    """Whoever asked may have been killed while a candidate runs that takes minutes."""
    asked = "import sys, time; from torpor.pipeline import contest; contest.answer = "
    sleeping = asked + "lambda contests, request: time.sleep(60); contest.serve()"
    process = subprocess.Popen(
        [sys.executable, "-c", sleeping], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        send(process.stdin, ({}, ("measure",)))
        process.stdin.close()
        assert process.wait(timeout=30) == 0
