"""Compiling many kernels at once: a second process compiles while this one writes the next text.

llvmlite holds one lock around LLVM, so threads gain nothing; a process does. It is started when the
fourth kernel is waiting, speaks over its standard streams, and ends with the last kernel. Where
it cannot be started, or dies, this process compiles everything itself.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any, Final

# Waiting kernels from which a process of its own pays for its start: that takes 0.4 s, a kernel
# mostly 0.07 to 0.15 (the column `cold` of bench/results/full.md).
BULK_FROM: Final = 4
POLL_SECONDS: Final = 0.005  # little beside what a kernel takes
_LENGTH: Final = struct.Struct("<Q")
_COMMAND: Final = "from torpor.device.bulk import serve; serve()"


@dataclass
class Task:
    """One kernel: the arguments of `llvm.compile_text`, and its object once that is there."""

    arguments: tuple[Any, ...]
    result: bytes | None = None


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


def serve() -> None:
    """The other process: compiles what it reads from standard input until that ends."""
    from torpor.device.llvm import compile_text

    while True:
        try:
            arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            made: bytes | None = compile_text(*arguments)
        except Exception:  # the parent compiles it again and raises in its own terms
            made = None
        send(sys.stdout.buffer, made)


class _Helper(threading.Thread):
    """Feeds the other process from the front of the queue."""

    def __init__(self, waiting: deque[Task]):
        super().__init__(name="torpor-bulk", daemon=True)
        self.waiting = waiting
        self.closed = False
        self.more = threading.Event()

    def run(self) -> None:
        try:
            process = start(_COMMAND)
        except OSError:
            return
        with process:
            assert process.stdin is not None and process.stdout is not None
            try:
                self.feed(process.stdin, process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                process.kill()

    def feed(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        while True:
            try:
                task = self.waiting.popleft()
            except IndexError:
                if self.closed:
                    break
                self.more.wait(POLL_SECONDS)
                continue
            send(requests, task.arguments)
            task.result = receive(answers)
        requests.close()


def compile_all(
    requests: Iterable[tuple[Any, ...]], compile_here: Callable[..., bytes]
) -> list[bytes]:
    """The objects of `requests` (arguments of `compile_here`), in order. Iterating `requests` may
    take time: compiling goes on meanwhile.
    """
    waiting: deque[Task] = deque()
    tasks: list[Task] = []
    helper: _Helper | None = None
    for arguments in requests:
        task = Task(arguments)
        tasks.append(task)
        waiting.append(task)
        if helper is None and len(waiting) >= BULK_FROM and (os.cpu_count() or 1) > 1:
            helper = _Helper(waiting)
            helper.start()
    while waiting:
        try:
            task = waiting.pop()
        except IndexError:
            break
        task.result = compile_here(*task.arguments)
    if helper is not None:
        helper.closed = True
        helper.more.set()
        helper.join()
    return [
        task.result if task.result is not None else compile_here(*task.arguments) for task in tasks
    ]
