"""Timing the candidates for one kernel, in a process of its own.

A candidate may be slow beyond measure, or, where a compiler is at fault, crash: then this process
is ended, and the user's goes on. It has buffers of its own, so it never touches the user's data.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import TorporError
from torpor.base.settings import Context, Value
from torpor.device import Buffer, Device
from torpor.device.base import Executable
from torpor.device.buffer import addresses
from torpor.device.bulk import receive, send
from torpor.device.executor import Executor, Step
from torpor.ir.ops import Ops
from torpor.ir.records import Opt
from torpor.ir.uop import UOp
from torpor.pipeline.compile import program_for

Clock = Callable[[], float]

RUNS: Final = 20  # times that a candidate is measured at most,
SPENT: Final = 0.03  # and seconds after which it is measured no more; three times in any case
SHORT: Final = 50e-6  # seconds that one measurement takes at least: short kernels run repeatedly
SEED: Final = 7  # of the numbers that the buffers are filled with
POISON: Final = 0xA5  # what lies in outputs before a run that is checked
ROUNDS_PER_EPSILON: Final = 8.0  # rounding errors that a result may differ by, besides its sum's


@dataclass
class Trial:
    """One kernel on one device, with buffers, and the outputs of the candidate that came first.

    splits:  whether candidates may add up in another order than the first one does, and so differ
             from it by what rounding does.
    clock:   seconds, as by `time.perf_counter`.
    """

    ast: UOp
    device: str
    splits: bool
    clock: Clock = time.perf_counter
    loaded: dict[tuple[Opt, ...], Repeated] = field(default_factory=dict)
    expected: list[npt.NDArray[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = list(self.ast.toposort())
        parameters = sorted((n for n in nodes if n.op is Ops.PARAM), key=slot_of)
        read = {n.src[0].src[0] for n in nodes if n.op is Ops.LOAD}
        written = {n.src[0].src[0] for n in nodes if n.op is Ops.STORE}
        self.length = longest_sum(nodes)
        self.buffers: list[Buffer] = []
        self.outputs: list[tuple[Buffer, npt.NDArray[Any]]] = []
        random = np.random.default_rng(SEED)
        for node in parameters:
            buffer = Buffer(self.device, node.arg.size, node.dtype).allocate()
            start = numbers_for(node, random) if node in read else poison_for(node)
            buffer.copyin(start)
            self.buffers.append(buffer)
            if node in written:
                self.outputs.append((buffer, start))

    def load(self, opts: tuple[Opt, ...]) -> Repeated:
        """What runs the kernel with these opts, compiled and loaded."""
        if opts not in self.loaded:
            device = Device[self.device]
            program = program_for(self.ast, device.target, opts)
            compiled = device.compiler.compile(program)
            self.loaded[opts] = Repeated(device.executable(program, compiled), self.buffers)
        return self.loaded[opts]

    def once(self, opts: tuple[Opt, ...], times: int = 1) -> float:
        """Seconds that one run takes, on average over several in a row."""
        run = self.load(opts)
        run.prepare(times)
        started = self.clock()
        run(times)
        return (self.clock() - started) / times

    def measure(self, opts: tuple[Opt, ...], limit: float) -> float | str:
        """The least seconds that a run takes; why it is out, where its results are not those of
        the first candidate. One that takes more than `limit` is not measured exactly.
        """
        self.load(opts)
        for buffer, start in self.outputs:
            buffer.copyin(start)
        cold = self.once(opts)
        fault = self.fault()
        if fault:
            return fault
        best = min(cold, self.once(opts))
        spent = cold + best
        for run in range(RUNS):
            if best > limit or (run >= 3 and spent > SPENT):
                break
            times = max(1, int(SHORT / max(best, 1e-9)))
            taken = self.once(opts, times)
            best, spent = min(best, taken), spent + taken * times
        return best

    def fault(self) -> str:
        """What is wrong with the outputs as they are now, compared with the first candidate's."""
        found = [buffer.numpy().copy() for buffer, _ in self.outputs]
        if not self.expected:
            self.expected = found
            return ""
        for got, expected in zip(found, self.expected, strict=True):
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
        times = max(1, int(4 * SHORT / max(each, 1e-9)))
        started = self.clock()
        pairs = []
        for number in range(rounds):
            if number >= 3 and self.clock() - started > seconds:
                break
            if number % 2:
                later, sooner = self.once(second, times), self.once(first, times)
            else:
                sooner, later = self.once(first, times), self.once(second, times)
            pairs.append((sooner, later))
        return pairs


class Repeated:
    """Runs an executable several times in a row, where it can without Python in between: what a
    call costs besides is the same for all candidates, and would hide what they differ by.
    """

    def __init__(self, executable: Executable, buffers: Sequence[Buffer]):
        self.executable, self.buffers = executable, buffers
        entry = executable.native(())
        self.step: Step | None = None
        if entry is not None and not entry.checked:
            places = tuple(addresses(buffers))
            self.step = Step(entry.address, places, entry.total, entry.big, entry.checked)
        self.table: tuple[int, Executor | None] = 0, None

    def prepare(self, times: int) -> None:
        """Get ready for a call that runs it so often."""
        if self.step is not None and self.table[0] != times:
            self.table = times, Executor([self.step] * times, 0)

    def __call__(self, times: int) -> None:
        made = self.table[1]
        if made is not None:
            made.run(())
            return
        for _ in range(times):
            self.executable(self.buffers)


# --- what the buffers hold ------------------------------------------------------------------------
def slot_of(node: UOp) -> int:
    slot: int = node.arg.slot
    return slot


def numbers_for(node: UOp, random: np.random.Generator) -> npt.NDArray[Any]:
    """What a buffer that the kernel reads holds: small numbers of either sign, and whole ones that
    are likely to be indices.
    """
    kind: DType = node.dtype
    size: int = node.arg.size
    if kind is dtypes.bool:
        return random.integers(0, 2, size).astype(kind.numpy)
    if kind.kind in ("int", "uint"):
        return random.integers(0, 100, size).astype(kind.numpy)
    return random.standard_normal(size, np.float32).astype(kind.numpy)


def poison_for(node: UOp) -> npt.NDArray[Any]:
    """What a buffer that the kernel only writes holds: nothing that a kernel would write."""
    size: int = node.arg.size * node.dtype.itemsize
    return np.full(size, POISON, np.uint8).view(node.dtype.numpy)


# --- comparing ------------------------------------------------------------------------------------
def longest_sum(nodes: Sequence[UOp]) -> int:
    """How many values the longest of the kernel's reductions combines."""
    lengths = [1]
    for node in nodes:
        if node.op is Ops.REDUCE:
            ranges = [s for s in node.src if s.op is Ops.RANGE]
            lengths.append(int(np.prod([max(int(r.src[0].vmax), 1) for r in ranges])))
    return max(lengths)


def same(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    """Whether both hold the same bits; one NaN is as good as another."""
    if got.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind in "biu":
        return False
    return bool(np.all((got == expected) | ((got != got) & (expected != expected))))


def distance(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """Relative L2 of what is finite; infinite where something else is not the same."""
    wide, right = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(right)
    if not same(wide[~finite], right[~finite]) or not np.isfinite(wide[finite]).all():
        return float("inf")
    off = float(np.linalg.norm(wide[finite] - right[finite]))
    return off / (float(np.linalg.norm(right[finite])) or 1.0)


def allowed(expected: npt.NDArray[Any], length: int) -> float:
    """How far apart sums of `length` numbers in two orders may be: rounding errors of a sum of
    random signs grow as its square root does, and so does the sum.
    """
    if expected.dtype.kind in "biu":
        return 0.0
    epsilon = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 2.0**-7
    return float(epsilon * (ROUNDS_PER_EPSILON + length**0.5))


# --- the process ----------------------------------------------------------------------------------
def answer(trials: dict[str, Trial], request: tuple[Any, ...]) -> Any:
    """What a request (its name, its arguments) asks for."""
    name, *arguments = request
    if name == "open":
        trials.clear()
        trials["now"] = Trial(*arguments)
        return None
    return getattr(trials["now"], name)(*arguments)


def serve() -> None:
    """Answer requests (settings, name, arguments) from standard input until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a driver prints is no answer
    trials: dict[str, Trial] = {}
    while True:
        try:
            request: tuple[dict[str, Value], tuple[Any, ...]] = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            with Context(**request[0]):
                reply: tuple[bool, Any] = True, answer(trials, request[1])
        except (TorporError, MemoryError, ValueError, ArithmeticError) as error:
            reply = False, f"{type(error).__name__}: {error}"
        send(answers, reply)
