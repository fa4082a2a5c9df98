"""Compiling the candidates of a search side by side, in processes of their own (see `contest.py`).

Nobody measures while they compile: who asks for one candidate gets it when all that were handed in
are there. A compiler that takes too long, or crashes, costs its candidate and its process only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from torpor.base.settings import Value
from torpor.device.machine import cores
from torpor.ir.uop import UOp
from torpor.pipeline.found import Opts
from torpor.pipeline.judge import POLL, Judge, Lost, Refused

MOST: Final = 8  # processes: each takes memory, and no more candidates than that wait for them

Built = Any  # a program and its object, as `contest.build` gives them


class Builders:
    """Processes that compile: one for each core, and none where there is a single core."""

    def __init__(self, settings: Mapping[str, Value]):
        count = min(cores(), MOST)
        self.processes = [Judge(settings) for _ in range(count if count > 1 else 0)]
        self._changed = threading.Condition()
        self._waiting: deque[tuple[UOp, str, Opts, float, float]] = deque()
        self._done: dict[Opts, Built | str] = {}
        self._open = 0  # candidates that were handed in and are not there yet
        self._ends = False
        self._threads = [
            threading.Thread(target=self._work, args=(p,), name="torpor-builder", daemon=True)
            for p in self.processes
        ]
        for thread in self._threads:
            thread.start()

    def start(self, patience: float) -> None:
        """Have all processes there, so that none starts while somebody measures."""
        for process in self.processes:
            process.tell("hello")
        for process in self.processes:
            process.hear(patience)

    def submit(self, ast: UOp, device: str, opts: Opts, patience: float, seconds: float) -> None:
        """Hand in a candidate that may take `patience` seconds, and that nobody wants any more
        when `seconds` have passed.
        """
        if self.processes:
            until = time.monotonic() + seconds
            with self._changed:
                self._waiting.append((ast, device, opts, patience, until))
                self._open += 1
                self._changed.notify_all()

    def take(self, opts: Opts) -> Built | str | None:
        """A candidate, when no other is being compiled; a text says why there is none. None if it
        was not handed in.
        """
        with self._changed:
            while self._open:
                self._changed.wait(POLL)  # some systems do not wake it for Ctrl-C
            return self._done.pop(opts, None)

    def drop(self) -> None:
        """Forget what is waiting and what nobody took; what is being compiled is waited for."""
        with self._changed:
            self._open -= len(self._waiting)
            self._waiting.clear()
            while self._open:
                self._changed.wait(POLL)
            self._done.clear()

    def close(self) -> None:
        """End the processes, whatever they do."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        for process in self.processes:
            process.close()
        for thread in self._threads:
            thread.join()

    def _work(self, process: Judge) -> None:
        """Hand on to a process what is waiting, one after the other."""
        while True:
            with self._changed:
                while not self._waiting and not self._ends:
                    self._changed.wait()
                if self._ends:
                    process.close()
                    return
                ast, device, opts, patience, until = self._waiting.popleft()
            made = built(process, (ast, device, opts), patience, until)
            with self._changed:
                self._done[opts] = made
                self._open -= 1
                self._changed.notify_all()


def built(
    process: Judge, wanted: tuple[UOp, str, Opts], patience: float, until: float
) -> Built | str:
    """What a process makes of a candidate; or why it is out. Nobody waits past `until`."""
    try:
        process.ask(left(until), "hello")  # it may have to start again, not the candidate's fault
        return process.ask(min(patience, left(until)), "build", *wanted)
    except (Lost, Refused) as fault:
        return str(fault)


def left(until: float) -> float:
    """Seconds until then."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise Lost("there was no time left to compile it")
    return seconds
