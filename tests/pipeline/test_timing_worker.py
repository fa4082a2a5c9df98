"""Timing and checking candidates on buffers of their own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.devices import needs
from torpor import Tensor, Variable, dtypes
from torpor.base.errors import OptError
from torpor.device.bulk import send
from torpor.kernel import Opt, OptOps
from torpor.pipeline import timing_worker
from torpor.pipeline.timing_worker import Lost, Refused, TimingWorker, Trial, agrees

UPCAST = (Opt(OptOps.UPCAST, 0, 4),)
UNROLL = (Opt(OptOps.UNROLL, 0, 8),)


def trial_of(result, **more):
    (item,) = result.schedule()
    return Trial(item.ast, "CPU", **more)


def rows():
    return Tensor.empty(8, 1000).sum(1)


class Recorder:
    """In the place of a loaded candidate: notes when it is run."""

    def __init__(self, order, opts):
        self.order, self.opts = order, opts

    def __call__(self, times):
        return lambda: self.order.append(self.opts)


def test_the_same_bits_are_fine_and_take_time():
    made = trial_of(rows())
    assert 0 < made.measure((), float("inf")) < 1
    assert 0 < made.measure(UPCAST, float("inf")) < 1


def test_another_order_of_additions_is_out():
    made = trial_of(rows())
    made.measure((), float("inf"))
    assert made.measure(UNROLL, float("inf")) == "its results are others"


def test_wrong_results_are_out():
    made = trial_of(rows())
    made.measure((), float("inf"))
    made.expected[0][0] = made.expected[0][0].copy()
    made.expected[0][0][3] += 0.01
    assert "its results are" in made.measure(UPCAST, float("inf"))


def test_outputs_that_are_not_written_are_seen():
    made = trial_of(Tensor.empty(8, 8) * 2)
    made.measure((), float("inf"))
    made.runs[UPCAST] = [Recorder([], UPCAST)]
    assert made.measure(UPCAST, float("inf")) == "its results are others"


def test_a_slow_candidate_runs_twice_and_no_more():
    made = trial_of(rows())
    calls = []
    made.measure((), float("inf"))
    assert made.measure(UPCAST, 0.0) < 1
    made.expected = {0: [start.copy() for _, start in made.outputs]}
    made.runs[UPCAST] = [Recorder(calls, UPCAST)]
    made.measure(UPCAST, 0.0)
    assert len(calls) == 2


def test_a_refused_list_names_its_opt():
    with pytest.raises(OptError, match="UPCAST of axis 0 by 7"):
        trial_of(rows()).measure((Opt(OptOps.UPCAST, 0, 7),), float("inf"))


def test_a_comparison_takes_turns_and_ends_in_time():
    made = trial_of(rows())
    order = []
    for opts in ((), UPCAST):
        made.runs[opts] = [Recorder(order, opts)]
    pairs = made.compare((), UPCAST, 10, seconds=1e9)
    assert len(pairs) == 10
    assert order[3:7] == [(), UPCAST, UPCAST, ()]
    assert len(made.compare((), UPCAST, 10, seconds=0.0)) == 3


def test_a_kernel_is_checked_in_each_launch_and_timed_in_the_first():
    n = Variable("n", 1, 8)
    (item,) = (Tensor.empty(8, 16).shrink(((0, n.bind(3)), None)) * 2).schedule()
    ((name, value),) = item.variables
    assert value == 3
    made = Trial(item.ast, "CPU", [{name: 8}, {name: 1}, {name: 4}])
    assert made.measure((), float("inf")) > 0
    written = [int((made.expected[launch][0] != made.outputs[0][1]).sum()) for launch in range(3)]
    assert written == [8 * 16, 16, 4 * 16]
    assert made.measure((Opt(OptOps.UPCAST, 1, 4),), float("inf")) > 0
    made.expected[2][0][0] += 1
    assert "others" in made.measure((Opt(OptOps.UPCAST, 1, 8),), float("inf"))


def test_a_comparison_is_made_in_each_launch():
    made = trial_of(rows(), launches=[{}, {}, {}])
    order = []
    for opts in ((), UPCAST):
        made.runs[opts] = [Recorder(order, (opts, n)) for n in range(3)]
    made.compare((), UPCAST, 12, seconds=1e9)
    launches = [n for _, n in order[3:]]
    assert launches == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("device", ["CPU", "OPENCL"])
def test_devices_run_it_as_often_as_asked(device):
    needs(device)
    (item,) = (Tensor.empty(1000, device=device) * 2).schedule()
    made = Trial(item.ast, device)
    assert 0 < made.measure((), float("inf")) < 1


def test_kernels_that_check_their_indices_run():
    made = trial_of(Tensor.empty(50, 3)[Tensor.empty(20, dtype=dtypes.int64)])
    assert made.measure((), float("inf")) > 0


def test_the_process_ends_when_nobody_asks_any_more():
    """Whoever asked may have been killed while a candidate runs that takes minutes."""
    asked = "import time; from torpor.pipeline import timing_worker; timing_worker.Trial = "
    sleeping = asked + "lambda *arguments: time.sleep(60); timing_worker.serve()"
    process = subprocess.Popen(
        [sys.executable, "-c", sleeping], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        send(process.stdin, ({}, ("open",)))
        process.stdin.close()
        assert process.wait(timeout=30) == 0


# --- the process ----------------------------------------------------------------------------------
SERVER = """
import os, sys, time
from torpor.device.bulk import receive, send
while True:
    settings, (name, *rest) = receive(sys.stdin.buffer)
    if name == "hang":
        time.sleep(60)
    if name == "crash":
        os._exit(3)
    send(sys.stdout.buffer, (name != "refuse", settings.get(name, name)))
"""


@pytest.fixture
def worker():
    made = TimingWorker({"THREADS": 5})
    yield made
    made.close()


def test_hangs_crashes_and_refusals(worker, monkeypatch):
    monkeypatch.setattr(timing_worker, "COMMAND", SERVER)
    assert worker.ask(20, "hello", 1) == "hello"
    assert worker.ask(20, "THREADS") == 5
    with pytest.raises(Refused, match="refuse"):
        worker.ask(20, "refuse")
    with pytest.raises(Lost, match="too long"):
        worker.ask(0.2, "hang")
    assert worker.ask(20, "again") == "again", "in a new process"
    with pytest.raises(Lost, match="ended its process"):
        worker.ask(20, "crash")


def test_no_process(worker, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(Lost, match="can be started"):
        worker.ask(1, "hello")


def test_the_true_one_times_kernels(worker):
    (item,) = (Tensor.empty(64) + 1).schedule()
    assert worker.ask(20, "open", item.ast, "CPU") is None
    assert 0 < worker.ask(20, "measure", (), float("inf")) < 1
    with pytest.raises(Refused, match="DeviceError"):
        worker.ask(20, "open", item.ast, "ABACUS")


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
