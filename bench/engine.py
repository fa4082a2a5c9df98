"""Times the contenders of one workload in turns, so that a noisy minute hits all of them alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import numpy as np

from bench.libraries import OURS, Contender, as_tuple
from bench.workload import Arrays, Workload

MOST_CALLS: Final = 2000  # in one sample
CAPTURING: Final = 3  # least calls before the first sample: libraries compile and capture in them
WARMING: Final = 5000  # most of them
# Samples that they last: fresh memory for results costs its faults, and who tries how many threads
# are best has decided by then (torpor in its first 60 to 400 runs).
WARM_SAMPLES: Final = 5
QUIET_SHARE: Final = 0.2  # of a core that this process may use and still count as idle
# Seconds between two looks: Linux adds up what a thread used that has a core for itself only at its
# clock's ticks, every 4 ms (10 ms where HZ is 100).
QUIET_SLICE: Final = 0.012
PIECE: Final = 1 << 14  # elements that are compared at a time: 128 KiB as float64
NOISY: Final = 0.08  # of the median between the quartiles: more rounds are needed
QUIET_LIMIT: Final = 0.25  # seconds; OpenBLAS's threads were seen to spin for 30 to 115 ms


@dataclass(frozen=True)
class Effort:
    """How long to measure: `rounds`, each with a sample of every contender that lasts at least
    `sample` seconds; no new round after `budget` seconds of one workload, but two at least.
    Where samples then lie far apart (`is_noisy`) there are as many rounds again and again, `most`
    in all, and none that begins after `extra` seconds more.
    What takes `slow` seconds twice after its first call has the lesser one as its only sample.
    """

    rounds: int = 9
    sample: float = 0.01
    budget: float = 10.0
    slow: float = 4.0
    most: int = 45
    extra: float = 1.5


@dataclass
class Result:
    """What became of one contender. Times are seconds a call; `cold` is the first call with all
    that has to be compiled. `status`: ok, missing (the library lacks the operation), skipped,
    failed, or wrong (the answer is; then the times count for nothing).
    """

    contender: str
    status: str = "ok"
    detail: str = ""
    cold: float = 0.0
    samples: list[float] = field(default_factory=list)
    error: float | None = None

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Distance of the quartiles as a share of the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median


def wait_until_quiet() -> None:
    """Sleep until this process's threads are idle: pools spin for a while after their work."""
    ends = time.perf_counter() + QUIET_LIMIT
    while time.perf_counter() < ends:
        before, started = time.process_time(), time.perf_counter()
        time.sleep(QUIET_SLICE)
        if time.process_time() - before < QUIET_SHARE * (time.perf_counter() - started):
            return


def relative_error(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest relative L2 distance of an output from what was expected; infinite for a wrong
    shape or a NaN.
    """
    if len(outputs) != len(expected):
        return float("inf")
    worst = 0.0
    for output, wanted in zip(outputs, expected, strict=True):
        if output.shape != wanted.shape:
            return float("inf")
        distance = distance_of(output.reshape(-1), wanted.reshape(-1))
        worst = max(worst, distance if np.isfinite(distance) else float("inf"))
    return worst


def distance_of(output: np.ndarray, wanted: np.ndarray) -> float:
    """The relative L2 distance of vectors, by pieces that stay in a cache: fresh memory for the
    float64 of 64 MB takes longer than most contenders.
    """
    apart = size = 0.0
    for start in range(0, len(wanted), PIECE):
        exact = wanted[start : start + PIECE].astype(np.float64)
        size += float(exact @ exact)
        exact -= output[start : start + PIECE].astype(np.float64)
        apart += float(exact @ exact)
    return math.sqrt(apart) / (math.sqrt(size) or 1.0)


class Lane:
    """One contender at one workload: its inputs, its function, its result so far."""

    def __init__(self, contender: Contender, workload: Workload):
        self.contender, self.workload = contender, workload
        self.result = Result(contender.name)
        self.sets: list[Sequence[Any]] = []
        self.call: Callable[..., Any] = contender.prepare
        self.calls = 1

    def start(self, sets: Sequence[Arrays], expected: Any, clock: Callable[[], float]) -> bool:
        """Prepare, call for the first time and check; whether there is anything to time."""
        result, contender = self.result, self.contender
        if self.workload.functions.get(contender.key) is None:
            return self.end("missing", self.workload.notes.get(contender.key, "not written"))
        if reason := contender.available():
            return self.end("skipped", reason)
        try:
            self.sets = [contender.arrays(one) for one in sets]
            started = clock()
            self.call = contender.prepare(self.workload, self.sets[0])
            output = self.call(*self.sets[0])
            result.cold = clock() - started
            if expected is not None:
                found = [contender.read(x) for x in as_tuple(output)]
                result.error = relative_error(found, expected)
                if not result.error <= self.workload.tolerance:
                    return self.end("wrong", f"relative error {result.error:.1e}")
            elif not math.isfinite(contender.element(output)):
                return self.end("wrong", "the result is not finite")
        except (AttributeError, NotImplementedError) as error:
            return self.end("missing", describe(error))
        except Exception as error:  # whatever a library raises is its result
            return self.end("failed", describe(error))
        return True

    def end(self, status: str, detail: str) -> bool:
        """Note why nothing is timed."""
        self.result.status, self.result.detail = status, detail
        self.call, self.sets = self.contender.prepare, []
        return False

    def warm(self, effort: Effort, clock: Callable[[], float]) -> None:
        """Choose how many calls a sample has, so that it lasts as long as it should."""
        taken: list[float] = []
        while len(taken) < CAPTURING or (
            len(taken) < WARMING and len(taken) * min(taken) < WARM_SAMPLES * effort.sample
        ):
            inputs = self.sets[len(taken) % len(self.sets)]
            started = clock()
            output = self.call(*inputs)
            taken.append(max(clock() - started, 1e-7))
            if len(taken) == 1:
                self.contender.element(output)  # as after each sample
            output = None
            if len(taken) == 2 and min(taken) >= effort.slow:
                self.result.samples = [min(taken)]
                return
        self.calls = max(1, min(MOST_CALLS, round(effort.sample / min(taken))))

    def sample(self, number: int, clock: Callable[[], float]) -> None:
        """Time one sample with the inputs whose turn it is."""
        inputs = self.sets[number % len(self.sets)]
        call = self.call
        call(*inputs)  # wakes threads, fills caches
        output = None
        started = clock()
        for _ in range(self.calls):
            output = None  # a result that is still there would be found again and not computed
            output = call(*inputs)
        self.result.samples.append((clock() - started) / self.calls)
        self.contender.element(output)


def describe(error: Exception) -> str:
    """The kind of error and its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def expected_of(workload: Workload, arrays: Arrays) -> tuple[np.ndarray, ...] | None:
    """The answer in float64."""
    if workload.reference is None:
        return None
    exact = [x if x.dtype.kind in "iub" else x.astype(np.float64) for x in arrays]
    found = workload.reference(*exact)
    return None if found is None else tuple(np.asarray(x, order="C") for x in as_tuple(found))


def race(
    workload: Workload,
    contenders: Sequence[Contender],
    effort: Effort,
    clock: Callable[[], float] = time.perf_counter,
    settle: Callable[[], None] = wait_until_quiet,
) -> list[Result]:
    """Time the contenders at the workload: in every round each gives one sample."""
    generator = np.random.default_rng(0)
    sets = [workload.inputs(generator) for _ in range(2)]
    expected = expected_of(workload, sets[0])
    lanes = [Lane(contender, workload) for contender in contenders]
    running = [lane for lane in lanes if lane.start(sets, expected, clock)]
    running = [lane for lane in running if attempt(lane, lane.warm, effort, clock)]
    running = [lane for lane in running if not lane.result.samples]  # slow ones are done
    measure(workload, running, effort, clock, settle)
    return [lane.result for lane in lanes]


def measure(
    workload: Workload,
    running: list[Lane],
    effort: Effort,
    clock: Callable[[], float],
    settle: Callable[[], None],
) -> None:
    """Take rounds of samples; a lane that fails leaves `running`."""
    started = clock()
    taken = 0
    while taken < effort.rounds and (taken < 2 or clock() - started <= effort.budget):
        one_round(running, taken, clock, settle)
        taken += 1
    first, ends = taken, clock() + effort.extra
    while taken < effort.most and clock() < ends:
        if taken % first == 0 and not is_noisy(workload, running):
            return
        one_round(running, taken, clock, settle)
        taken += 1


def one_round(
    running: list[Lane], number: int, clock: Callable[[], float], settle: Callable[[], None]
) -> None:
    """One sample of every lane; the first one, and the inputs, are others than last time."""
    for lane in turns(running, number):
        settle()
        if not attempt(lane, lane.sample, number, clock):
            running.remove(lane)


def is_noisy(workload: Workload, lanes: Sequence[Lane]) -> bool:
    """Whether the samples of torpor, or of the fastest peer that counts, lie further apart than
    `NOISY`. Which of the two is faster plays no part.
    """
    results = [lane.result for lane in lanes]
    judged = [x for x in results if x.contender == OURS]
    peers = [x for x in results if x.contender in workload.against]
    judged += sorted(peers, key=attrgetter("median"))[:1]
    return any(result.spread > NOISY for result in judged)


def turns(lanes: Sequence[Lane], number: int) -> Iterator[Lane]:
    """The lanes, beginning with another one each round."""
    if lanes:
        first = number % len(lanes)
        yield from [*lanes[first:], *lanes[:first]]


def attempt(lane: Lane, step: Callable[..., None], *arguments: Any) -> bool:
    """Do a step; whether it went well. What fails is no reason to lose the others."""
    try:
        step(*arguments)
    except Exception as error:
        return lane.end("failed", describe(error))
    return True
