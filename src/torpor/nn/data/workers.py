"""Processes that make batches while the program computes."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import random
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.errors import TorporError
from torpor.nn.data.datasets import IterableDataset
from torpor.tensor import Tensor, manual_seed
from torpor.tensor.tree import map_tree


class WorkerError(TorporError, RuntimeError):
    """A worker raised, or ended."""


class WorkerInfo(NamedTuple):
    """What a worker knows of itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class Task(NamedTuple):
    """What workers are given when they start."""

    dataset: Any
    collate: Callable[[Any], Any]
    init: Callable[[int], None] | None
    workers: int
    seed: int


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker: its number and that of all, its seed, its dataset; else None."""
    return _info


def fetched(dataset: Any, numbers: Any, collate: Callable[[Any], Any]) -> Any:
    """The batch of samples with these numbers (for a single number, that sample)."""
    if not isinstance(numbers, list):
        return collate(dataset[numbers])
    if hasattr(dataset, "batch") and getattr(collate, "is_default", False):
        return dataset.batch(numbers)
    return collate([dataset[number] for number in numbers])


def without_tensors(value: Any) -> Any:
    """The value with arrays for tensors, as it goes from process to process."""
    return map_tree(lambda one: one.numpy() if isinstance(one, Tensor) else one, value)


def serve(pipe: Connection, task: Task, number: int) -> None:
    """The life of a worker: batches for the requests that come, until None comes."""
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends this
    seed = task.seed + number
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    manual_seed(seed)
    _info = WorkerInfo(number, task.workers, seed, task.dataset)
    batches: Iterator[Any] | None = None
    try:
        if task.init is not None:
            task.init(number)
        if isinstance(task.dataset, IterableDataset):
            batches = iter(task.dataset)
        while (request := pipe.recv()) is not None:
            pipe.send((True, without_tensors(_made(task, batches, request))))
    except (EOFError, BrokenPipeError):
        return  # the program is gone
    except BaseException:
        pipe.send((False, traceback.format_exc()))


def _made(task: Task, samples: Iterator[Any] | None, request: Any) -> Any:
    if samples is None:
        return (fetched(task.dataset, request, task.collate),)
    size, drop_last = request
    taken = list(itertools.islice(samples, size or 1))
    if not taken or (drop_last and len(taken) < (size or 1)):
        return ()
    return (task.collate(taken if size else taken[0]),)


_ELSEWHERE: Final = (
    "workers are processes of their own, to which the dataset, collate_fn and worker_init_fn are "
    "sent by pickle: define them at the top of a module that can be imported (not inside of a "
    "function, in a notebook, or as a lambda), or use num_workers=0"
)


def _is_interactive() -> bool:
    """Whether no other process can import what the program defines: it is in no file."""
    return not hasattr(sys.modules["__main__"], "__file__")


class Workers:
    """Processes that are started when the first batch is asked for."""

    def __init__(self, task: Task, timeout: float):
        context = multiprocessing.get_context("spawn")
        parts: Any = type(task.dataset), task.collate, task.init
        for part in parts:
            if _is_interactive() and getattr(part, "__module__", None) == "__main__":
                raise WorkerError(f"{_ELSEWHERE}: {part.__qualname__} is defined here")
        self.timeout = timeout or None
        self.pipes, self.processes = list[Connection](), list[Any]()
        for number in range(task.workers):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there, task, number), daemon=True)
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise WorkerError(f"{_ELSEWHERE}: {error}") from error
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def batches(self, requests: Iterator[Any], ahead: int) -> Iterator[Any]:
        """The batches of requests in their order, `ahead` of which are being made at a time."""
        turns, waiting = itertools.cycle(range(len(self.pipes))), deque[int]()
        ended = set[int]()
        for request in requests:
            place = next(turns)
            self.pipes[place].send(request)
            waiting.append(place)
            if len(waiting) >= ahead:
                yield from self._next(waiting, ended)
            if len(ended) == len(self.pipes):
                break
        while waiting:
            yield from self._next(waiting, ended)

    def _next(self, waiting: deque[int], ended: set[int]) -> Iterator[Any]:
        place = waiting.popleft()
        found = self._received(place)
        if not found:
            ended.add(place)
        yield from found

    def _received(self, place: int) -> Any:
        pipe, process = self.pipes[place], self.processes[place]
        try:
            if self.timeout is not None and not pipe.poll(self.timeout):
                raise WorkerError(f"worker {place} has not answered in {self.timeout} s")
            is_made, found = pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join(1)
            what = f"worker {place} ended with status {process.exitcode}"
            guarded = "a program that starts workers is guarded by if __name__ == '__main__'"
            advice = _ELSEWHERE if _is_interactive() else guarded
            raise WorkerError(f"{what}; {advice}") from None
        if not is_made:
            raise WorkerError(f"worker {place} raised:\n{found}")
        return found

    def close(self) -> None:
        """End the processes."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.terminate()
            process.join()
