"""Timing the candidates for one kernel, in a process of its own.

A candidate may be slow beyond measure, or, where a compiler is at fault, crash: then this process
is ended, and the user's goes on. It has buffers of its own, so it never touches the user's data.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.errors import TorporError
from torpor.base.settings import Context, Value
from torpor.device import Buffer, Device
from torpor.device.base import Executable
from torpor.device.bulk import receive, send
from torpor.device.executor import Executor, Step
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, Program
from torpor.ir.uop import UOp
from torpor.pipeline.compare import allowed, distance, longest_sum, same
from torpor.pipeline.compile import program_for
from torpor.pipeline.launches import Values
from torpor.pipeline.samples import limits_of, numbers_for, poison_for

Clock = Callable[[], float]
Built = tuple[Program, bytes]

RUNS: Final = 20  # times that a candidate is measured at most,
SPENT: Final = 0.03  # and seconds after which it is measured no more; three times in any case
COLD: Final = 1.5  # times slower that a first run may be: neither code nor data is in a cache
LONG: Final = 5e-3  # seconds of a first run that say enough by themselves
SHORT: Final = 50e-6  # seconds that one measurement takes at least: short kernels run repeatedly
SEED: Final = 7  # of the numbers that the buffers are filled with


@dataclass
class Contest:
    """One kernel on one device, with buffers, and the outputs of the candidate that came first.

    splits:   whether candidates may add up in another order than the first one does, and so differ
              from it by what rounding does.
    launches: the values of its VARIABLEs in some launches: candidates are timed in the first one,
              checked in each, and compared with each other in all of them by turns.
    clock:    seconds, as by `time.perf_counter`.
    loaded:   of each candidate what runs it, launch by launch.
    expected: the right outputs of each launch.
    """

    ast: UOp
    device: str
    splits: bool
    launches: Sequence[Values] = ({},)
    clock: Clock = time.perf_counter
    loaded: dict[tuple[Opt, ...], list[Repeated]] = field(default_factory=dict)
    expected: dict[int, list[npt.NDArray[Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = list(self.ast.toposort())
        parameters = sorted((n for n in nodes if n.op is Ops.PARAM), key=attrgetter("arg.slot"))
        read = {n.src[0].src[0] for n in nodes if n.op is Ops.LOAD}
        written = {n.src[0].src[0] for n in nodes if n.op is Ops.STORE}
        self.length = longest_sum(nodes)
        self.buffers: list[Buffer] = []
        self.outputs: list[tuple[Buffer, npt.NDArray[Any]]] = []
        random, limits = np.random.default_rng(SEED), limits_of(nodes)
        for node in parameters:
            buffer = Buffer(self.device, node.arg.size, node.dtype).allocate()
            start = numbers_for(node, limits, random) if node in read else poison_for(node)
            buffer.copyin(start)
            self.buffers.append(buffer)
            if node in written:
                self.outputs.append((buffer, start))

    def load(self, opts: tuple[Opt, ...], built: Built | None = None) -> list[Repeated]:
        """What runs the kernel with these opts, launch by launch; compiled here if nobody has
        `built` it.
        """
        if opts not in self.loaded:
            program, compiled = built or build(self.ast, self.device, opts)
            made = Device[self.device].executable(program, compiled)
            values = [program.values_of(one.items()) for one in self.launches]
            self.loaded[opts] = [Repeated(made, self.buffers, one) for one in values]
        return self.loaded[opts]

    def once(self, opts: tuple[Opt, ...], times: int = 1, launch: int = 0) -> float:
        """Seconds that one run takes, on average over several in a row."""
        run = self.load(opts)[launch]
        run.prepare(times)
        started = self.clock()
        run(times)
        return (self.clock() - started) / times

    def anew(self, opts: tuple[Opt, ...], launch: int = 0) -> float:
        """Seconds of a run that begins with the outputs as they were at first."""
        for buffer, start in self.outputs:
            buffer.copyin(start)
        return self.once(opts, 1, launch)

    def measure(
        self, opts: tuple[Opt, ...], limit: float, built: Built | None = None
    ) -> float | str:
        """The least seconds that a run takes; why it is out, where its results are not those of
        the first candidate. One that takes more than `limit` is not measured exactly.
        """
        self.load(opts, built)
        cold = self.anew(opts)
        if cold > max(COLD * limit, LONG):
            return cold
        for launch in range(len(self.launches)):
            if launch:
                self.anew(opts, launch)
            fault = self.fault(launch)
            if fault:
                return fault
        best, spent = cold, 0.0
        for run in range(RUNS):
            times = often(best, SHORT)
            taken = self.once(opts, times)
            best, spent = min(best, taken), spent + taken * times
            if best > limit or (run >= 2 and spent > SPENT):
                break
        return best

    def fault(self, launch: int = 0) -> str:
        """What is wrong with the outputs as they are now, compared with the first candidate's."""
        found = [buffer.numpy().copy() for buffer, _ in self.outputs]
        for got, expected in zip(found, self.expected.setdefault(launch, found), strict=True):
            if same(got, expected):
                continue
            if not self.splits:
                return "its results are other bits"
            apart = distance(got, expected)
            if not apart <= allowed(expected, self.length):
                return f"its results are {apart:.2g} away (relative L2)"
        return ""

    def duel(
        self, first: tuple[Opt, ...], second: tuple[Opt, ...], rounds: int, seconds: float
    ) -> list[tuple[float, float]]:
        """Seconds of both, measured in turns: `rounds` times, fewer if `seconds` have passed."""
        each = min(self.once(first), self.once(second))
        each = min(each, self.once(first, often(each, SHORT)))  # a single run has a call's cost
        times = often(each, 4 * SHORT)
        started = self.clock()
        pairs = []
        for number in range(rounds):
            if number >= 3 and self.clock() - started > seconds:
                break
            launch = number // 2 % len(self.launches)
            if number % 2:
                later, sooner = self.once(second, times, launch), self.once(first, times, launch)
            else:
                sooner, later = self.once(first, times, launch), self.once(second, times, launch)
            pairs.append((sooner, later))
        return pairs


def build(ast: UOp, device_name: str, opts: tuple[Opt, ...]) -> Built:
    """The kernel's program with these opts, and what the device's compiler makes of it."""
    device = Device[device_name]
    program = replace(program_for(ast, device.target, opts), linear=())
    return program, device.compiler.compile(program)


def often(each: float, seconds: float) -> int:
    """How many runs of `each` seconds take `seconds`; one at least."""
    return max(1, int(seconds / max(each, 1e-9)))


class Repeated:
    """Runs an executable several times in a row, where it can without Python in between: what a
    call costs besides is the same for all candidates, and would hide what they differ by. `values`
    are its variables', in the program's order.
    """

    def __init__(
        self, executable: Executable, buffers: Sequence[Buffer], values: Sequence[int] = ()
    ):
        self.executable, self.buffers, self.values = executable, buffers, values
        entry = executable.native(values)
        self.step: Step | None = None
        if entry is not None and not entry.checked:
            words = (*(buffer.address for buffer in buffers), *values)
            total, trial = executable.sizes(values)
            self.step = Step(entry.address, words, total, trial, entry.checked)
        self.table: tuple[int, Executor | None] = 0, None

    def prepare(self, times: int) -> None:
        """Get ready for a call that runs it so often."""
        if self.step is not None and self.table[0] != times:
            self.table = times, Executor([self.step] * times, 0)

    def __call__(self, times: int) -> None:
        made = self.table[1]
        if made is not None:
            made.launch(())
            return
        for _ in range(times):
            self.executable(self.buffers, self.values)


# --- the process ----------------------------------------------------------------------------------
def answer(contests: dict[str, Contest], request: tuple[Any, ...]) -> Any:
    """What a request (its name, its arguments) asks for."""
    name, *arguments = request
    if name == "hello":
        return None
    if name == "open":
        contests.clear()
        contests["now"] = Contest(*arguments)
        return None
    if name == "build":
        return build(*arguments)
    return getattr(contests["now"], name)(*arguments)


def serve() -> None:
    """Answer requests (settings, name, arguments) from standard input until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a driver prints is no answer
    requests: queue.SimpleQueue[tuple[dict[str, Value], tuple[Any, ...]]] = queue.SimpleQueue()
    reader = threading.Thread(target=read_requests, args=(sys.stdin.buffer, requests), daemon=True)
    reader.start()
    contests: dict[str, Contest] = {}
    while True:
        settings, request = requests.get()
        try:
            with Context(**settings):
                reply: tuple[bool, Any] = True, answer(contests, request)
        except (TorporError, MemoryError, ValueError, ArithmeticError) as error:
            reply = False, f"{type(error).__name__}: {error}"
        send(answers, reply)


def read_requests(stream: IO[bytes], requests: queue.SimpleQueue[Any]) -> None:
    """Hand on every request. When there are no more, whoever asked is gone, perhaps killed: then
    this process ends at once, whatever candidate is running.
    """
    while True:
        try:
            requests.put(receive(stream))
        except (OSError, EOFError, pickle.UnpicklingError):
            os._exit(0)
