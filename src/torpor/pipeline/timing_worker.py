"""The timing worker: a process that compiles, times and checks the candidates for one kernel.

A candidate may be slow beyond measure, or, where a compiler is at fault, crash: then this process
is ended, and the user's goes on. It has buffers of its own, so it never touches the user's data.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import IO, Any, Final

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
Ready = Callable[[int], Callable[[], object]]  # what runs something so many times in a row

COMMAND: Final = "from torpor.pipeline.timing_worker import serve; serve()"
POLL: Final = 0.1  # seconds between looks for Ctrl-C, which some systems do not wake a wait for
RUNS: Final = 20  # times that a candidate is measured at most,
SPENT: Final = 0.03  # and seconds after which it is measured no more; three times in any case
COLD: Final = 1.5  # times slower that a first run may be: neither code nor data is in a cache
LONG: Final = 5e-3  # seconds of a first run that say enough by themselves
SHORT: Final = 50e-6  # seconds that one measurement takes at least: short kernels run repeatedly
WHOLE: Final = 100  # integers that are compared with nothing are less than this
POISON: Final = 0xA5  # what lies in outputs before a run that is checked


class Lost(TorporError):
    """The worker crashed, could not be started, or had to be ended since it took too long."""


class Refused(TorporError, ValueError):
    """What the worker was asked for cannot be done; the message says why."""


class TimingWorker:
    """The process as its owner sees it: started when first asked, and again after it was lost."""

    def __init__(self, settings: Mapping[str, Value]):
        self.settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask(self, patience: float, *request: Any) -> Any:
        """The answer to a request (a name, arguments), or as `Refused` why there is none; `Lost`
        if there is none within `patience` seconds.
        """
        try:
            process = self._started()
            assert process.stdin is not None
            send(process.stdin, (self.settings, request))
        except OSError as error:
            self.close()
            raise Lost(f"no process to time candidates can be started: {error}") from None
        fine, value = self._next(time.monotonic() + patience)
        if not fine:
            raise Refused(value)
        return value

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:
                pass

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process, self._answers = start(COMMAND), queue.SimpleQueue()
            arguments = (self._process.stdout, self._answers.put, partial(self._answers.put, None))
            threading.Thread(target=hand_on, args=arguments, daemon=True).start()
        return self._process

    def _next(self, until: float) -> Any:
        while (left := until - time.monotonic()) > 0:
            try:
                reply = self._answers.get(timeout=min(POLL, left))
            except queue.Empty:
                continue
            if reply is None:
                self.close()
                raise Lost("it ended its process")
            return reply
        self.close()
        raise Lost("it took too long")


def hand_on(stream: IO[bytes], put: Callable[[Any], object], end: Callable[[], object]) -> None:
    """Give every value of a stream to `put`; call `end` when there are no more."""
    while True:
        try:
            value = receive(stream)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            end()
            return
        put(value)


def serve() -> None:
    """Answer requests (settings, name, arguments) from standard input. When there are no more,
    whoever asked is gone, perhaps killed: then this process ends at once, whatever is running.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a driver prints is no answer
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ending = (sys.stdin.buffer, requests.put, partial(os._exit, 0))
    threading.Thread(target=hand_on, args=ending, daemon=True).start()
    trial: Trial | None = None
    while True:
        settings, (name, *arguments) = requests.get()
        try:
            with Context(**settings):
                reply: tuple[bool, Any] = True, None
                if name == "open":
                    trial = Trial(*arguments)
                else:
                    reply = True, getattr(trial, name)(*arguments)
        except (TorporError, MemoryError, ValueError, ArithmeticError) as error:
            reply = False, f"{type(error).__name__}: {error}"
        send(answers, reply)


# --- one kernel -----------------------------------------------------------------------------------
class Trial:
    """One kernel on one device, with buffers, and the outputs of the candidate that came first.

    launches: the values of its VARIABLEs in some launches: candidates are timed in the first one,
              checked in each, and compared with each other in all of them by turns.
    """

    def __init__(self, ast: UOp, device: str, launches: Sequence[Values] = ({},)):
        self.ast, self.device, self.launches = ast, device, launches
        self.runs: dict[Opts, list[Ready]] = {}  # of each candidate, by launch
        self.expected: dict[int, list[Array]] = {}  # by launch
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

    def load(self, opts: Opts) -> list[Ready]:
        """What gets the kernel with these opts ready, by launch."""
        if opts not in self.runs:
            device = Device[self.device]
            program = replace(program_for(self.ast, device.target, opts), linear=())
            made = device.executable(program, device.compiler.compile(program))
            values = [program.values_of(one.items()) for one in self.launches]
            self.runs[opts] = [partial(ready, made, self.buffers, one) for one in values]
        return self.runs[opts]

    def once(self, opts: Opts, times: int = 1, launch: int = 0) -> float:
        """Seconds that one run takes, on average over several in a row."""
        run = self.load(opts)[launch](times)
        started = time.perf_counter()
        run()
        return (time.perf_counter() - started) / times

    def measure(self, opts: Opts, limit: float) -> float | str:
        """The least seconds that a run takes; why it is out, where its results are not those of
        the first candidate. One that takes more than `limit` is not measured exactly.
        """
        self.load(opts)
        cold = float("inf")
        for launch in reversed(range(len(self.launches))):
            for buffer, held in self.outputs:
                buffer.copyin(held)
            cold = self.once(opts, 1, launch)
            got = [buffer.numpy().copy() for buffer, _ in self.outputs]
            expected = self.expected.setdefault(launch, got)
            if not all(map(agrees, got, expected)):
                return "its results are others"
        if cold > max(COLD * limit, LONG):
            return cold
        best, spent = cold, 0.0
        for run in range(RUNS):
            times = often(best, SHORT)
            taken = self.once(opts, times)
            best, spent = min(best, taken), spent + taken * times
            if best > limit or (run >= 2 and spent > SPENT):
                break
        return best

    def compare(
        self, first: Opts, second: Opts, rounds: int, seconds: float
    ) -> list[tuple[float, float]]:
        """Seconds of both, measured in turns: `rounds` times, fewer if `seconds` have passed."""
        each = min(self.once(first), self.once(second))
        each = min(each, self.once(first, often(each, SHORT)))  # a single run has a call's cost
        times = often(each, 4 * SHORT)
        until = time.monotonic() + seconds
        pairs: list[tuple[float, float]] = []
        while len(pairs) < rounds and (len(pairs) < 3 or time.monotonic() < until):
            launch, turn = len(pairs) // 2 % len(self.launches), len(pairs) % 2
            order = (second, first) if turn else (first, second)
            one, other = (self.once(opts, times, launch) for opts in order)
            pairs.append((other, one) if turn else (one, other))
        return pairs


def often(each: float, seconds: float) -> int:
    """How many runs of `each` seconds take `seconds`; one at least."""
    return max(1, int(seconds / max(each, 1e-9)))


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
