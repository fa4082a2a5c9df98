"""The timing worker: a process that compiles, checks and times the candidates for one kernel.

A candidate may be slow beyond measure, or, where a compiler is at fault, crash: then this process
ends, and the user's goes on. It has buffers of its own, so it never touches the user's data.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import starmap
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import dtypes
from torpor.base.errors import TorporError
from torpor.base.settings import Context, Value
from torpor.device import Buffer, Device
from torpor.device.base import Executable
from torpor.device.bulk import receive, send, start
from torpor.device.executor import Executor, Step
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.compile import program_for
from torpor.pipeline.tuning_database import Opts

Array = npt.NDArray[Any]
Values = Mapping[str, int]  # of a launch's VARIABLEs, by name
Pairs = list[tuple[float, float]]  # seconds of the first candidate and of another, in turns
Ready = Callable[[int], Callable[[], object]]  # what runs something so many times in a row

COMMAND: Final = "from torpor.pipeline.timing_worker import serve; serve()"
ROUNDS: Final = 40  # turns of a comparison, at most,
FEW: Final = 5  # and where the other one does not seem quicker
SPENT: Final = 0.5  # seconds after which a comparison ends,
SLOW: Final = 2.0  # or in the first turns, where the other one takes so many times as long
SHORT: Final = 200e-6  # seconds that a launch takes in a turn: short kernels run repeatedly
WHOLE: Final = 100  # integers that are compared with nothing are less than this
POISON: Final = 0xA5  # what lies in outputs before a run that is checked


class TimingWorker:
    """The process as its owner sees it: started when first asked, and again after it ended."""

    def __init__(self, settings: Mapping[str, Value]):
        self.settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, patience: float, *request: Any) -> Any:
        """What `compared` answers to a request, or why it does not, if it takes more than
        `patience` seconds for instance.
        """
        try:
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._process = start(COMMAND)
            process = self._process
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(patience, process.kill)  # it may not get to its watchdog
            timer.start()
            try:
                send(process.stdin, (self.settings, patience, request))
                return receive(process.stdout)
            finally:
                timer.cancel()
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self.close()
            return f"it crashed or took too long {error}".rstrip()

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # part of a request may be left in its pipe
                pass


def serve() -> None:
    """Answer requests (settings, patience, what to compare) from standard input until that ends. A
    watchdog ends this process when an answer takes too long, whether or not somebody still waits.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a driver prints is no answer
    trials: dict[Any, Trial] = {}  # the last one
    while True:
        try:
            settings, patience, (ast, device, launches, *both) = receive(sys.stdin.buffer)
        except EOFError:
            return
        faulthandler.dump_traceback_later(patience, exit=True)
        try:
            with Context(**settings):
                if (key := (ast, device, repr(launches))) not in trials:
                    trials = {key: Trial(ast, device, launches)}
                reply: Pairs | str = trials[key].compare(*both)
        except (TorporError, MemoryError, ValueError, ArithmeticError) as error:
            reply = f"{type(error).__name__}: {error}"
        faulthandler.cancel_dump_traceback_later()
        send(answers, reply)


# --- one kernel -----------------------------------------------------------------------------------
class Trial:
    """One kernel on one device, with buffers.

    launches: the values of its VARIABLEs in some launches, which may do much more in one than in
              another: candidates are checked in each, and their times are sums over all.
    """

    def __init__(self, ast: UOp, device: str, launches: Sequence[Values] = ({},)):
        self.ast, self.device, self.launches = ast, device, launches
        self.load = cache(self._load)
        self.expected = cache(self.results)
        nodes = list(ast.toposort())
        parameters = sorted((n for n in nodes if n.op is Ops.PARAM), key=attrgetter("arg.slot"))
        read = {n.src[0].src[0] for n in nodes if n.op is Ops.LOAD}
        written = {n.src[0].src[0] for n in nodes if n.op is Ops.STORE}
        random, limits = np.random.default_rng(7), limits_of(nodes)
        self.buffers: list[Buffer] = []
        self.outputs: list[tuple[Buffer, Array]] = []
        for node in parameters:
            buffer = Buffer(device, node.arg.size, node.dtype).allocate()
            held = numbers_for(node, limits, random) if node in read else poison_for(node)
            buffer.copyin(held)
            self.buffers.append(buffer)
            if node in written:
                self.outputs.append((buffer, held))

    def compare(self, first: Opts, second: Opts) -> Pairs | str:
        """Seconds of both, measured in turns, in fewer of them the slower the second one is; why
        that one is out, where its results are others in a bit.
        """
        for launch in range(len(self.launches)):
            if not all(map(agrees, self.results(second, launch), self.expected(first, launch))):
                return "its results are others"
        times = [self.often(first, second, launch) for launch in range(len(self.launches))]
        ready = [
            [(make(often), often) for make, often in zip(self.load(opts), times, strict=True)]
            for opts in (first, second)
        ]
        started, pairs = time.monotonic(), Pairs()
        while goes_on(pairs, time.monotonic() - started):
            turn = len(pairs) % 2
            one, other = (sum(starmap(seconds_of, runs)) for runs in ready[:: -1 if turn else 1])
            pairs.append((other, one) if turn else (one, other))
        return pairs

    def often(self, first: Opts, second: Opts, launch: int) -> int:
        """How many times in a row each turn runs both in a launch."""
        once = min(self.once(opts, 1, launch) for opts in (first, second, first))
        return often(min(once, self.once(first, often(once), launch)))  # one run has a call's cost

    def once(self, opts: Opts, times: int = 1, launch: int = 0) -> float:
        """Seconds that one run takes, on average over several in a row."""
        return seconds_of(self.load(opts)[launch](times), times)

    def results(self, opts: Opts, launch: int) -> list[Array]:
        """What the kernel with these opts writes in a launch."""
        for buffer, held in self.outputs:
            buffer.copyin(held)
        self.once(opts, 1, launch)
        return [buffer.numpy().copy() for buffer, _ in self.outputs]

    def _load(self, opts: Opts) -> list[Ready]:
        """What gets the kernel with these opts ready, by launch."""
        device = Device[self.device]
        program = replace(program_for(self.ast, device.target, opts), linear=())
        made = device.executable(program, device.compiler.compile(program))
        values = [program.values_of(one.items()) for one in self.launches]
        return [partial(ready, made, self.buffers, one) for one in values]


def seconds_of(run: Callable[[], object], times: int) -> float:
    """Seconds of one of several runs in a row, on average."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) / times


def often(each: float) -> int:
    """How many runs of `each` seconds one turn takes; one at least."""
    return max(1, int(SHORT / max(each, 1e-9)))


def goes_on(pairs: Pairs, seconds: float) -> bool:
    """Whether a comparison that took so long goes on: while the second one may still win."""
    if not pairs or statistics.median(mine / theirs for theirs, mine in pairs) > SLOW:
        return not pairs
    if len(pairs) < FEW:
        return True
    likely = statistics.median(theirs / mine for theirs, mine in pairs) > 1
    return likely and len(pairs) < ROUNDS and seconds < SPENT


def ready(
    executable: Executable, buffers: Sequence[Buffer], values: Sequence[int], times: int
) -> Callable[[], object]:
    """What runs an executable several times in a row, where it can without Python in between: what
    a call costs besides is the same for all candidates, and would hide what they differ by.
    """
    entry = executable.native(values)
    if entry is None or entry.checked:
        return lambda: [executable(buffers, values) for _ in range(times)]
    words = (*(buffer.address for buffer in buffers), *values)
    step = Step(entry.address, words, *executable.sizes(values), entry.checked)
    return partial(Executor([step] * times, 0).launch, ())


# --- what goes in, and what is right --------------------------------------------------------------
def limits_of(nodes: Sequence[UOp]) -> dict[UOp, int]:
    """The largest number above 1 that the kernel compares the integers of a parameter with."""
    found: dict[UOp, int] = {}
    for node in nodes:
        if node.op is Ops.CMPLT and node.src[1].op is Ops.CONST and node.src[1].arg > 1:
            for load in node.src[0].toposort():
                if load.op is Ops.LOAD and load.dtype.kind in ("int", "uint"):
                    memory = load.src[0].src[0]
                    found[memory] = max(found.get(memory, 0), int(node.src[1].arg))
    return found


def numbers_for(node: UOp, limits: Mapping[UOp, int], random: np.random.Generator) -> Array:
    """What a buffer that the kernel reads holds: small numbers of either sign; integers less than
    what the kernel compares them with, since they may be indices.
    """
    kind, size = node.dtype, int(node.arg.size)
    if kind is dtypes.bool:
        return random.integers(0, 2, size).astype(kind.numpy)
    if kind.kind in ("int", "uint"):
        most = min(limits.get(node, WHOLE), int(np.iinfo(kind.numpy).max))
        return random.integers(0, most, size).astype(kind.numpy)
    return random.standard_normal(size, np.float32).astype(kind.numpy)


def poison_for(node: UOp) -> Array:
    """What a buffer that the kernel only writes holds: nothing that a kernel would write."""
    size: int = node.arg.size * node.dtype.itemsize
    return np.full(size, POISON, np.uint8).view(node.dtype.numpy)


def agrees(got: Array, expected: Array) -> bool:
    """Whether both hold the same numbers, one NaN being as good as another."""
    if got.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind in "biu":
        return False
    return np.array_equal(got.astype(np.float64), expected.astype(np.float64), equal_nan=True)
