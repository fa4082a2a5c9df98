"""Many tasks at once, kernels to compile: a second process works at them beside this one.

Python runs one thread at a time, and llvmlite holds one lock around LLVM, so threads gain nothing;
a process does. It is started when the fourth task is waiting, or by who knows that tasks will come,
says when it is ready, speaks over its standard streams, and ends when there has been nothing to do
for a while. Where it cannot be started, or dies, this process does everything itself.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

# Waiting tasks from which a process of its own pays for its start: that takes 0.4 s, a kernel
# mostly 0.07 to 0.15 (the column `cold` of bench/results/full.md).
BULK_FROM: Final = 4
IDLE_SECONDS: Final = 10.0  # a program that compiles soon compiles again
POLL_SECONDS: Final = 0.1  # between looks for Ctrl-C while the other process works
_LENGTH: Final = struct.Struct("<Q")


@dataclass(eq=False)
class Task:
    """Something to do: what the other process is sent, what is made of its answer, what came of it,
    and whether it was tried there; None as a result means that it is to be done here.
    """

    request: Any
    taken: Callable[[Any], Any]
    result: Any = None
    tried: threading.Event = field(default_factory=threading.Event)


def send(stream: IO[bytes], value: Any) -> None:
    """Write one value, with its length in front."""
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; `EOFError` when there is no more."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return pickle.loads(stream.read(_LENGTH.unpack(head)[0]))


def start(command: str) -> subprocess.Popen[bytes]:
    """Another Python that runs `command`, with pipes to it; an `OSError` where there is none: this
    one is part of another program.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        raise FileNotFoundError("there is no Python to start a process with")
    return subprocess.Popen(
        [sys.executable, "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


def serve(work: Callable[[Any], Any]) -> None:
    """The other process: does what it reads from standard input until that ends."""
    send(sys.stdout.buffer, None)  # ready
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            made = work(request)
        except Exception:  # the parent does it again and raises in its own terms
            made = None
        send(sys.stdout.buffer, made)


class _Helper(threading.Thread):
    """Feeds the other process from the front of a queue; and from the next, if one comes soon."""

    def __init__(self, command: str):
        super().__init__(name="torpor-bulk", daemon=True)
        self.command = command
        self.waiting: deque[Task] = deque()
        self.apart: deque[Task] = deque()  # what nobody waits for, which comes first
        self.more = threading.Event()
        self.lock = threading.Lock()
        self.ready = self.ended = False

    def take(self, waiting: deque[Task]) -> bool:
        """Work at a queue, too; says whether it still does."""
        with self.lock:
            if self.ended:
                return False
            self.waiting = waiting
            self.more.set()
            return True

    def add(self, task: Task) -> None:
        """Do something that nobody waits for, too."""
        self.apart.append(task)
        self.more.set()

    def run(self) -> None:
        try:
            process = start(self.command)
        except OSError:
            self.ended = True
            return
        with process:
            try:
                assert process.stdout is not None
                receive(process.stdout)  # till it is ready, tasks are better done here
                self.ready = True
                while self.goes_on():
                    self.feed(process)
            except (OSError, EOFError, pickle.PickleError):
                process.kill()
            finally:
                self.ended = True

    def goes_on(self) -> bool:
        """Whether there is something to do, or comes soon."""
        found = self.more.wait(IDLE_SECONDS)
        with self.lock:
            self.ended = not (found or self.more.is_set())
            self.more.clear()
            return not self.ended

    def feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        while queue := self.apart or self.waiting:
            try:
                task = queue.popleft()
            except IndexError:
                return
            try:
                send(process.stdin, task.request)
                answer = receive(process.stdout)
                task.result = None if answer is None else task.taken(answer)
            finally:
                task.tried.set()


_helpers: Final[dict[str, _Helper]] = {}  # by command, the last that was started
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.clear)  # their threads are the parent's


def wake(command: str) -> None:
    """Start another Python that runs `command`, if none does: there will be tasks for it."""
    helper = _helpers.get(command)
    if (helper is None or helper.ended) and (os.cpu_count() or 1) > 1:
        helper = _helpers[command] = _Helper(command)
        helper.start()


def begin(command: str, request: Any) -> None:
    """Have another Python that runs `command` do something that is found elsewhere when it is done,
    if one runs: nobody waits for it, and it may be left undone.
    """
    helper = _helpers.get(command)
    if helper is not None and not helper.ended:
        helper.add(Task(request, lambda answer: answer))


def _set_to_work(command: str, waiting: deque[Task], starts: bool) -> None:
    if starts and len(waiting) >= BULK_FROM:
        wake(command)
    if command in _helpers:
        _helpers[command].take(waiting)


def make_all(
    requests: Sequence[Any],
    here: Callable[[int], Any],
    command: str,
    taken: Callable[[Any], Any] = lambda answer: answer,
    starts: bool = True,
) -> list[Any]:
    """What is made of each request, in order: by `here`, which is given its number, or in another
    Python that runs `command`, which calls `serve`; `taken` makes it of each answer of that, as it
    comes, even if something else has failed here by then. Those that come first are begun first.
    `starts`: whether to start it where it does not run.
    """
    tasks = [Task(request, taken) for request in requests]
    numbers = {task: number for number, task in enumerate(tasks)}
    waiting = deque(tasks)
    _set_to_work(command, waiting, starts)
    try:
        while waiting:
            try:
                task = waiting.popleft()
            except IndexError:
                break
            task.result = here(numbers[task])
            task.tried.set()
    finally:
        waiting.clear()
    for task in tasks:
        while not task.tried.wait(POLL_SECONDS):  # some systems do not wake it for Ctrl-C
            pass
    return [
        task.result if task.result is not None else here(number)
        for number, task in enumerate(tasks)
    ]
