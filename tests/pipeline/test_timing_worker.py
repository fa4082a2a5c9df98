"""Timing and checking candidates on buffers of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from tests.devices import needs
from torpor import Tensor, Variable, dtypes
from torpor.base.errors import OptError
from torpor.device.bulk import send
from torpor.kernel import Opt, OptOps
from torpor.pipeline import timing_worker
from torpor.pipeline.timing_worker import FEW, ROUNDS, TimingWorker, Trial, agrees

UPCAST = (Opt(OptOps.UPCAST, 0, 4),)
UNROLL = (Opt(OptOps.UNROLL, 0, 8),)


def trial_of(result, **more):
    (item,) = result.schedule()
    return Trial(item.ast, "CPU", **more)


def rows():
    return Tensor.empty(8, 1000).sum(1)


class Recorder:
    """In the place of a loaded candidate: notes when it is run, however often in a row, and takes
    so many seconds each time.
    """

    def __init__(self, order, opts, seconds=0.0):
        self.order, self.opts, self.seconds = order, opts, seconds

    def __call__(self, times):
        return partial(self.run, times)

    def run(self, times):
        self.order.append(self.opts)
        time.sleep(self.seconds * times)


def recorded(made, *seconds):
    """Have candidates take so many seconds; the list of what runs."""
    order = []
    runs = {
        opts: [Recorder(order, opts, each)] * len(made.launches)
        for opts, each in zip(((), UPCAST), seconds, strict=True)
    }
    made.load = runs.__getitem__
    return order


def test_the_same_bits_are_fine_and_take_time():
    pairs = trial_of(rows()).compare((), UPCAST)
    assert all(0 < one < 1 and 0 < other < 1 for one, other in pairs)


def test_another_order_of_additions_is_out():
    assert trial_of(rows()).compare((), UNROLL) == "its results are others"


def test_outputs_that_are_not_written_are_seen():
    made = trial_of(Tensor.empty(8, 8) * 2)
    made.compare((), ())
    recorded(made, 0.0, 0.0)
    assert made.compare((), UPCAST) == "its results are others"


def test_a_comparison_takes_turns():
    made = trial_of(rows())
    order = recorded(made, 2e-3, 1e-3)
    assert len(made.compare((), UPCAST)) == ROUNDS
    assert order[-4:] == [(), UPCAST, UPCAST, ()]


def test_a_slow_candidate_runs_little_and_one_that_is_no_quicker_not_long():
    made = trial_of(rows())
    recorded(made, 1e-3, 9e-3)
    assert len(made.compare((), UPCAST)) == 1
    recorded(made, 1e-3, 1.3e-3)
    assert len(made.compare((), UPCAST)) == FEW


def test_a_comparison_ends_in_time():
    made = trial_of(rows())
    recorded(made, 0.06, 0.04)
    assert FEW <= len(made.compare((), UPCAST)) < 8


def test_a_refused_list_names_its_opt():
    with pytest.raises(OptError, match="UPCAST of axis 0 by 7"):
        trial_of(rows()).compare((), (Opt(OptOps.UPCAST, 0, 7),))


def test_a_kernel_is_checked_in_each_launch():
    n = Variable("n", 1, 8)
    (item,) = (Tensor.empty(8, 16).shrink(((0, n.bind(3)), None)) * 2).schedule()
    ((name, value),) = item.variables
    assert value == 3
    made = Trial(item.ast, "CPU", [{name: 8}, {name: 1}, {name: 4}])
    expected = [made.expected((), launch) for launch in range(3)]
    written = [int((one[0] != made.outputs[0][1]).sum()) for one in expected]
    assert written == [8 * 16, 16, 4 * 16]
    assert isinstance(made.compare((), (Opt(OptOps.UPCAST, 1, 4),)), list)
    expected[2][0][0] += 1
    assert made.compare((), (Opt(OptOps.UPCAST, 1, 8),)) == "its results are others"


def test_times_are_sums_over_launches_that_differ():
    """The second list is quicker in the small launch alone; the large one runs once in a turn."""
    made = trial_of(rows(), launches=[{}, {}])
    order = []
    seconds = {(): (4e-5, 4e-3), UPCAST: (2e-5, 6e-3)}
    made.load = {
        opts: [Recorder(order, n, each) for n, each in enumerate(both)]
        for opts, both in seconds.items()
    }.__getitem__
    pairs = made.compare((), UPCAST)
    assert sum(theirs < mine for theirs, mine in pairs) > len(pairs) / 2
    turns = order[-2 * len(pairs) :]
    assert turns == [0, 1] * len(pairs)


@pytest.mark.parametrize("device", ["CPU", "OPENCL"])
def test_devices_run_it_as_often_as_asked(device):
    needs(device)
    (item,) = (Tensor.empty(1000, device=device) * 2).schedule()
    assert min(map(min, Trial(item.ast, device).compare((), ()))) > 0


def test_kernels_that_check_their_indices_run():
    made = trial_of(Tensor.empty(50, 3)[Tensor.empty(20, dtype=dtypes.int64)])
    assert made.compare((), ())


# --- the process ----------------------------------------------------------------------------------
@pytest.fixture
def worker():
    made = TimingWorker({"THREADS": 1})
    yield made
    made.close()


def asked(worker, patience=20, device="CPU", opts=UPCAST):
    (item,) = (Tensor.empty(64) + 1).schedule()
    return worker.ask(patience, item.ast, device, [{}], (), opts)


def test_the_process_times_kernels_and_says_what_is_refused(worker):
    assert min(map(min, asked(worker))) > 0
    process = worker._process
    assert "OptError" in asked(worker, opts=(Opt(OptOps.UPCAST, 0, 7),))
    assert "DeviceError" in asked(worker, device="ABACUS")
    assert min(map(min, asked(worker))) > 0
    assert worker._process is process


BROKEN = """
import os, time
from torpor.pipeline import timing_worker
timing_worker.Trial.compare = lambda *arguments: BREAK
timing_worker.serve()
"""


def test_another_process_is_started_where_one_died_between_requests(worker):
    asked(worker)
    worker._process.kill()
    worker._process.wait()
    assert min(map(min, asked(worker))) > 0


def test_a_request_to_a_process_that_is_just_gone_is_told(worker, monkeypatch):
    asked(worker)
    process = worker._process
    process.kill()
    process.stdout.read()
    monkeypatch.setattr(process, "poll", lambda: None)
    assert "crashed" in asked(worker)
    assert min(map(min, asked(worker))) > 0


def test_a_process_that_does_not_get_as_far_as_its_watchdog_is_ended(worker, monkeypatch):
    monkeypatch.setattr(timing_worker, "COMMAND", "import time; time.sleep(60)")
    started = time.monotonic()
    assert "took too long" in asked(worker, patience=1)
    assert "took too long" in worker.ask(1, bytes(1 << 22)), "it is not read either"
    assert time.monotonic() - started < 30


LAUNCHES = """
from torpor.pipeline import timing_worker
timing_worker.Trial.compare = lambda self, *opts: repr(self.launches)
timing_worker.serve()
"""


def test_the_same_kernel_is_compared_in_the_launches_that_are_asked_for(worker, monkeypatch):
    monkeypatch.setattr(timing_worker, "COMMAND", LAUNCHES)
    (item,) = (Tensor.empty(64) + 1).schedule()
    for launches in ([{}], [{"n": 3}, {"n": 5}], [{"n": 3}]):
        assert worker.ask(20, item.ast, "CPU", launches, (), ()) == repr(launches)


@pytest.mark.parametrize("way", ["time.sleep(60)", "os.abort()"])
def test_what_hangs_or_crashes_is_ended_and_the_next_goes_on(worker, monkeypatch, way):
    with monkeypatch.context() as patched:
        patched.setattr(timing_worker, "COMMAND", BROKEN.replace("BREAK", way))
        assert "crashed or took too long" in asked(worker, patience=1)
    assert min(map(min, asked(worker))) > 0


def test_the_process_ends_when_nobody_waits_any_more():
    """Whoever asked may have been killed while a candidate runs that takes minutes."""
    (item,) = (Tensor.empty(64) + 1).schedule()
    code = BROKEN.replace("BREAK", "time.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        send(process.stdin, ({}, 0.5, (item.ast, "CPU", [{}], (), ())))
        process.stdin.close()
        assert process.wait(timeout=30) != 0


def test_no_process(worker, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "no/such/python" in asked(worker)


def test_closing_twice_is_fine(worker):
    worker.close()
    worker.close()


# --- what goes in, and what is right --------------------------------------------------------------
def held(result):
    """What the first buffer that the kernel reads holds, and all of them."""
    made = trial_of(result)
    return made.buffers[1].numpy(), [buffer.numpy() for buffer in made.buffers]


def test_indices_span_the_axis_that_they_select_from():
    table, index = Tensor.empty(5000, 3), Tensor.empty(2000, dtype=dtypes.int64)
    (picked,) = [a for a in held(table[index])[1] if a.dtype == np.int64]
    assert 4900 < picked.max() < 5000
    assert 0 <= picked.min() < 100


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint64, dtypes.bfloat16, dtypes.float64])
def test_numbers_are_small_and_floats_have_either_sign(dtype):
    wide = held(Tensor.empty(3000, dtype=dtype) + 1)[0].astype(np.float64)
    if dtype.kind == "float":
        assert abs(wide.mean()) < 0.1
        assert 0.9 < wide.std() < 1.1
    else:
        assert (wide.min(), wide.max()) == (0, 99)


def test_bools_are_both_and_outputs_begin_as_nothing_that_is_computed():
    wide, (output, _) = held(~Tensor.empty(100, dtype=dtypes.bool))
    assert set(wide.tolist()) == {True, False}
    assert set(output.view(np.uint8).tolist()) == {0xA5}


def test_nan_is_nan_and_minus_zero_is_zero():
    one = np.array([np.nan, 0.0, np.inf, 1.0])
    assert agrees(one, np.array([np.nan, -0.0, np.inf, 1.0]))
    assert not agrees(one, np.array([np.nan, 0.0, -np.inf, 1.0]))
    assert not agrees(one, np.array([1.0, 0.0, np.inf, 1.0]))
    assert not agrees(np.array([np.nan]), np.array([1.0]))
    assert not agrees(np.array([1]), np.array([2]))
