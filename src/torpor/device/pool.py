"""The one pool of worker threads of this process. Fork-join: one program at a time.

Workers are Python threads that run a native loop (`worker.py`) without the interpreter's lock. A
program that finds the pool taken runs on its own thread alone. After a fork the child starts
afresh; at exit the workers are told to leave before the memory that holds their code goes away.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from torpor.base import settings
from torpor.base.locks import taken
from torpor.device import llvm, resident, worker
from torpor.device.machine import Machine, cores, machine
from torpor.device.share import SURE, Trial, pool_text

# Looks of an idle worker before it sleeps, about 100 microseconds: what that costs and saves is in
# bench/results/jit.md, "Waking threads".
WORKER_SPINS: Final = 3000
EXIT_SECONDS: Final = 1.0  # a choice: how long the end of the process waits for its threads
STACK_BYTES: Final = 4 << 20  # kernels keep packed tiles there, up to 1 MiB
# System call numbers, from Linux's asm/unistd.h of each architecture.
_FUTEX_NUMBERS: Final = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98}

# What native callers may read while they hold Python's lock, to do what `lend` and `take_back` do
# as long as nothing has to be started or moved: threads that the last call might use (0: none, so
# call `lend`), what it gave, the core that workers keep off and what tells the caller's (0:
# nothing), and the methods of the lock.
LENT: Final = ("threads", "state", "run", "helpers", "core", "core_of", "acquire", "release")

_WORDS: Final = ctypes.c_int64
_ADDRESS: Final = ctypes.c_void_p
_SHARE: Final = ctypes.CFUNCTYPE(
    None, _ADDRESS, _ADDRESS, ctypes.c_char_p, _WORDS, _WORDS, _WORDS, _ADDRESS
)
_LOOP: Final = ctypes.CFUNCTYPE(_WORDS, _ADDRESS, _WORDS)
_PLAIN: Final = ctypes.CFUNCTYPE(None, _ADDRESS)
_CORE: Final = ctypes.PYFUNCTYPE(ctypes.c_int)
_ENTRY: Final = ctypes.CFUNCTYPE(None, _ADDRESS, _WORDS, _WORDS)


@lru_cache(maxsize=1)
def _cores() -> int:
    """How many cores there were when a program first ran: until then a process may limit itself.
    Asking the system anew takes as long as a small kernel.
    """
    return cores()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cores.cache_clear)


def thread_count() -> int:
    """How many threads a program may use: the setting THREADS, or one a core."""
    return settings.number("THREADS") or _cores()


def _address_of(library: Any, name: str) -> int:
    function = getattr(library, name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _system_functions() -> tuple[int, int, int]:
    """Addresses of `syscall` and of what gives the core away, and futex's number; 0: none."""
    if sys.platform == "win32":
        return 0, _address_of(ctypes.CDLL("kernel32"), "SwitchToThread"), 0
    library = ctypes.CDLL(None)
    number = _FUTEX_NUMBERS.get(platform.machine().lower(), 0)
    has_futex = sys.platform == "linux" and number and sys.maxsize > 1 << 32
    syscall = _address_of(library, "syscall") if has_futex else 0
    return syscall, _address_of(library, "sched_yield"), number


@lru_cache(maxsize=1)
def _clock() -> tuple[int, int]:
    """The address of the function that tells the time, and the word that goes with it (see
    `worker`).
    """
    if sys.platform == "win32":
        kernel, frequency = ctypes.CDLL("kernel32"), ctypes.c_int64()
        kernel.QueryPerformanceFrequency(ctypes.byref(frequency))
        return _address_of(kernel, "QueryPerformanceCounter"), 10**9 // frequency.value
    return _address_of(ctypes.CDLL(None), "clock_gettime"), time.CLOCK_MONOTONIC


@lru_cache(maxsize=1)
def _core_function() -> int:
    """The address of what tells the number of the core that the calling thread is on, where the
    system has it and threads can be kept off it; else 0.
    """
    return _address_of(ctypes.CDLL(None), "sched_getcpu") if sys.platform == "linux" else 0


def _core_reader() -> Callable[[], int] | None:
    """The same as a function of Python, where the system has it."""
    return _CORE(_core_function()) if _core_function() else None


def keep_off(core: int, threads: Sequence[threading.Thread]) -> None:
    """Have started threads on any other core that the calling thread may use, if there is one."""
    if not hasattr(os, "sched_getaffinity") or not hasattr(os, "sched_setaffinity"):
        return
    if others := os.sched_getaffinity(0) - {core}:
        for thread in threads:
            assert thread.native_id is not None, "the thread has been started"
            with suppress(OSError):  # the system does not let it be moved
                os.sched_setaffinity(thread.native_id, others)


@lru_cache(maxsize=1)
def _native() -> dict[str, int]:
    """The addresses of the pool's native functions, compiled when first asked for."""
    host: Machine = machine("")
    architecture = "arm" if host.is_arm else "x86" if host.triple.startswith("x86") else ""
    names = ("run", "worker", "wake")
    symbols = [*[f"torpor_pool_{name}" for name in names], "torpor_share"]
    text = pool_text(architecture, sys.platform == "win32")
    places = resident.addresses(text, "the pool", symbols)
    return dict(zip((*names, "share"), places, strict=True))


class Pool:
    """Worker threads, started when first needed. `futex=False`: they sleep the portable way."""

    def __init__(self, futex: bool = True):
        self._futex = futex
        self.lent = np.zeros(len(LENT), np.int64)
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._condition = threading.Condition()
        self._waiting = 0  # workers that sleep the portable way
        self._workers: list[threading.Thread] = []
        self._state: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self._place = 0
        self._ended = False
        self._avoided = -1  # the core that workers keep off, the owner's; -1: none yet
        self._seen = -1  # the core on which the owner was last
        self._methods = self._lock.acquire, self._lock.release
        self._shares: dict[int, tuple[float, float]] = {}  # by thread
        self.lent[:] = 0

    @property
    def workers(self) -> int:
        """How many worker threads have been started."""
        return len(self._workers)

    def run(self, entry: int, table: bytes, total: int, trial: Trial = SURE) -> None:
        """Call native `entry(table, begin, end)` for chunks that cover [0, total), by the way that
        the trial says; wait for all. Where VIZ records, `shares` has who did when what.
        """
        self._shares.clear()
        if settings.number("VIZ"):
            watched = _ENTRY(partial(self._note_share, _ENTRY(entry)))
            entry = ctypes.cast(watched, _ADDRESS).value or 0
        lent = self.lend()
        if lent is None:
            llvm.Entry(entry)(table, 0, total)
            return
        try:
            state, _, threads, helpers = lent
            self._share(state, entry, table, total, threads, helpers, trial.address)
        finally:
            self.take_back()

    def _note_share(self, entry: Callable[..., object], *chunk: int) -> None:
        start = time.perf_counter()
        entry(*chunk)
        first, _ = self._shares.get(threading.get_ident(), (start, start))
        self._shares[threading.get_ident()] = first, time.perf_counter()

    def shares(self) -> list[tuple[float, float]]:
        """When each thread that had a part in the program that has just run began and ended, the
        owner's first; empty where it ran on one thread, and where nothing was recorded.
        """
        own, shares = threading.get_ident(), self._shares
        self._shares = {}
        return [when for _, when in sorted(shares.items(), key=lambda one: one[0] != own)]

    def lend(self) -> tuple[int, int, int, int] | None:
        """The pool for native code, which runs any number of programs on it until `take_back`.

        Gives the addresses of its state and of `torpor_pool_run`, the number of threads that a
        program may use, and of helpers among them; None where there is one thread or the pool is
        taken.
        """
        threads = thread_count()
        if threads <= 1 or not taken(self._lock):
            return None
        try:
            helpers = self._start(threads - 1)
            if self._waiting:  # asleep the portable way, from which native code wakes nobody
                self._wake_sleepers()
            lent = self._place, _native()["run"], threads, helpers
            if self._sleeps_in_kernel and helpers == threads - 1:
                self._tell(*lent)
            return lent
        except BaseException:
            self._lock.release()
            raise

    def _tell(self, state: int, run: int, threads: int, helpers: int) -> None:
        """Have native callers know what `lend` has just given."""
        core_of = 0 if self._core is None else _core_function()
        methods = [*map(id, self._methods)]
        self.lent[:] = threads, state, run, helpers, self._avoided, core_of, *methods

    def get_ready(self) -> None:
        """Have the threads started."""
        if self.lend() is not None:
            self.take_back()

    def take_back(self) -> None:
        """End what `lend` began."""
        self._lock.release()

    def stop(self) -> None:
        """Tell the workers to leave; wait at most `EXIT_SECONDS` for each. None starts after."""
        self._ended = True
        self.lent[:] = 0
        if self._state is None:
            return
        self._state[self._offset + worker.STOP] = 1
        self._state[self._offset + worker.GENERATION] += 1
        self._wake(self._place)
        with self._condition:
            self._condition.notify_all()
        for thread in self._workers:
            thread.join(EXIT_SECONDS)
        self._workers = []

    def _wake_sleepers(self) -> None:
        if self._state is not None:
            self._state[self._offset + worker.GENERATION] += 1
        with self._condition:
            self._condition.notify_all()

    def _prepare(self) -> None:
        native = _native()
        self._state = np.zeros(worker.WORDS + 8, np.int64)
        self._offset = -self._state.ctypes.data // 8 % 8  # words up to the next 64-byte line
        self._place = self._state.ctypes.data + self._offset * 8
        syscall, give_way, number = _system_functions()
        self._sleeps_in_kernel = bool(syscall) and self._futex
        state = self._state[self._offset :]
        state[worker.SYSCALL] = syscall if self._sleeps_in_kernel else 0
        state[worker.YIELD], state[worker.FUTEX] = give_way, number
        state[worker.SPINS] = WORKER_SPINS if _cores() > 1 else 0
        state[worker.CLOCK], state[worker.CLOCK_WORD] = _clock()
        state[worker.SHARE] = native["share"]
        self._share, self._wake = _SHARE(native["share"]), _PLAIN(native["wake"])
        self._loop = _LOOP(native["worker"])
        self._core = _core_reader()

    def _start(self, wanted: int) -> int:
        """Have `wanted` workers if the system gives them; how many of them there are."""
        if self._state is None:
            self._prepare()
        while len(self._workers) < wanted and not self._ended:
            index = len(self._workers)
            self._avoided = -1
            thread = threading.Thread(
                target=self._serve, args=(index,), name=f"torpor-{index}", daemon=True
            )
            usual = threading.stack_size(STACK_BYTES)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                break
            finally:
                threading.stack_size(usual)
            self._workers.append(thread)
        self._keep_off_this_core()
        return min(wanted, len(self._workers))

    def _keep_off_this_core(self) -> None:
        """Have no worker on the core of the calling thread.

        Linux tends to wake a thread on the core of who wakes it. There a worker waits until the
        owner has done all the work, and since it sleeps again at once, no balancing moves it.
        Moving workers takes longer than a short job, so an owner that goes to another core has to
        be seen there twice.
        """
        if self._core is None or (core := self._core()) == self._avoided:
            return
        seen, self._seen = self._seen, core
        if core == seen or self._avoided < 0:
            self._avoided = core
            keep_off(core, self._workers)

    def _serve(self, index: int) -> None:
        """What a worker thread runs. The native loop returns at the end, or in order to sleep."""
        state, offset, condition = self._state, self._offset, self._condition
        if state is None:
            return
        while True:
            seen = self._loop(self._place, index)
            if state[offset + worker.STOP]:
                return
            with condition:
                self._waiting += 1
                while state[offset + worker.GENERATION] == seen:
                    condition.wait()
                self._waiting -= 1


pool: Final = Pool()
atexit.register(pool.stop)
