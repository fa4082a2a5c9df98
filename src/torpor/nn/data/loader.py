"""Batches of a dataset, one after the other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any, Final

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.nn.data.datasets import IterableDataset
from torpor.nn.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from torpor.nn.data.workers import Task, Workers, fetched
from torpor.tensor import Generator, Tensor
from torpor.tensor.random import take_draws
from torpor.tensor.spelling import within
from torpor.tensor.tree import map_tree

REFRESHED: Final = 0.1  # seconds between two pictures of a progress bar, a choice


def _collated(batch: list[Any]) -> Any:
    """As `default_collate`, but that arrays and numbers make arrays, which processes hand on."""
    first = batch[0]
    if isinstance(first, Tensor):
        return Tensor.stack(batch)
    if isinstance(first, np.ndarray | np.generic):
        return np.stack(batch)
    if isinstance(first, bool | int | float | complex):
        return np.asarray(batch, np.float64 if isinstance(first, float) else None)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, dict):
        return {key: _collated([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(sample) for sample in batch}) != 1:
            raise ValueRangeError("samples of one batch have different numbers of parts")
        parts = [_collated(list(part)) for part in zip(*batch, strict=True)]
        is_named = hasattr(first, "_fields")
        return type(first)(*parts) if is_named else type(first)(parts)
    raise ValueRangeError(
        f"samples are tensors, arrays, numbers, texts, and tuples, lists or dicts of them, not "
        f"{type(first).__name__}; give a collate_fn"
    )


def default_collate(batch: list[Any]) -> Any:
    """A list of samples as one batch: tensors, arrays and numbers are stacked along a new axis 0,
    samples that are tuples, lists or dicts are collated part by part, texts stay a list.

    >>> torpor.nn.data.default_collate([(1, 2.0), (3, 4.0)])[0].tolist()
    [1, 3]
    """
    return default_convert(_collated(batch))


_collated.is_default = True  # type: ignore[attr-defined]


def default_convert(sample: Any) -> Any:
    """A sample with tensors for arrays, which is what a loader without batches gives."""

    def each(one: Any) -> Any:
        return Tensor(one) if isinstance(one, np.ndarray) and one.dtype.kind in "biufc" else one

    return map_tree(each, sample)


def _same(sample: Any) -> Any:
    return sample


def _shown(batches: Iterator[Any], total: int | None) -> Iterator[Any]:
    """The batches beside a progress bar, which has no thread: a jitted step writes over values only
    where no other one can look at them.
    """
    from rich.progress import Progress  # slow to import, and rarely needed

    with Progress(auto_refresh=False) as bar:
        task, told = bar.add_task("batches", total=total), 0.0
        for batch in batches:
            yield batch
            bar.advance(task)
            if (now := time.monotonic()) - told > REFRESHED:
                bar.refresh()
                told = now


class DataLoader:
    """Iterates over batches of `batch_size` samples of a dataset, each epoch anew.

    `shuffle` takes them in random order (of `generator`); `sampler` or `batch_sampler` say another;
    `drop_last` leaves out a shorter last batch; `collate_fn` makes a batch of a list of samples, by
    default `default_collate`, whose arrays become tensors. With `num_workers` that many processes
    make batches, each `prefetch_factor` ahead; dataset and functions must be picklable then, and
    `worker_init_fn(number)` is called in each. `persistent_workers` live on between epochs. An
    error in a worker is raised here with its traceback, and so is an answer that takes longer than
    `timeout` seconds. With `progress` a bar is drawn where the terminal can show it. Workers are
    spawned, and batches always come in order: `multiprocessing_context`, `pin_memory_device` and
    `in_order` say nothing here.
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # DataLoader[Tensor], as with PyTorch

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        progress: bool = False,
    ):
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.num_workers, self.timeout, self.generator = num_workers, timeout, generator
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.pin_memory, self.progress = pin_memory, progress
        self.prefetch_factor = prefetch_factor or 2
        self._kept: Workers | None = None
        self._check(shuffle, sampler, batch_sampler)
        self.sampler = sampler
        if self.sampler is None and not isinstance(dataset, IterableDataset):
            by_number = SequentialSampler(dataset)
            self.sampler = RandomSampler(dataset, generator=generator) if shuffle else by_number
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None and self.sampler is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        batched = batch_size is not None or batch_sampler is not None
        collate = None if collate_fn is default_collate and batched else collate_fn
        self.collate_fn = collate or (_collated if batched else _same)

    def _check(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
        if self.num_workers < 0 or self.timeout < 0:
            raise ValueRangeError("num_workers and timeout are at least 0")
        if self.batch_size is not None:
            within("batch_size", self.batch_size, 1)
        if isinstance(self.dataset, IterableDataset):
            if shuffle or sampler is not None or batch_sampler is not None:
                raise ValueRangeError("an iterable dataset says itself which samples come when")
        elif sampler is not None and shuffle:
            raise ValueRangeError("a sampler says the order: shuffle cannot")
        if batch_sampler is not None and (
            self.batch_size != 1 or shuffle or sampler is not None or self.drop_last
        ):
            raise ValueRangeError(
                "a batch_sampler takes the place of batch_size, shuffle, sampler and drop_last"
            )

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        if isinstance(self.dataset, IterableDataset):
            count, size = len(self.dataset), self.batch_size or 1  # type: ignore[arg-type]
            return int(count // size if self.drop_last else -(-count // size))
        return len(self._numbers())  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        state = take_draws(self.generator, 1)  # without workers too: the order is the same
        made = map(default_convert, self._spread(state) if self.num_workers else self._here())
        if not self.progress:
            return made
        sized = not isinstance(self.dataset, IterableDataset) or hasattr(self.dataset, "__len__")
        return _shown(made, len(self) if sized else None)

    def _numbers(self) -> Iterable[Any]:
        chosen = self.sampler if self.batch_sampler is None else self.batch_sampler
        assert chosen is not None
        return chosen

    def _here(self) -> Iterator[Any]:
        if not isinstance(self.dataset, IterableDataset):
            return (fetched(self.dataset, one, self.collate_fn) for one in self._numbers())
        if self.batch_size is None:
            return map(self.collate_fn, self.dataset)
        return self._taken(iter(self.dataset), self.batch_size)

    def _taken(self, samples: Iterator[Any], size: int) -> Iterator[Any]:
        while batch := list(itertools.islice(samples, size)):
            if len(batch) == size or not self.drop_last:
                yield self.collate_fn(batch)

    def _spread(self, state: Any) -> Iterator[Any]:
        workers = self._kept
        self._kept = None
        if workers is None:
            seed = (state.seed * 1_000_003 + state.draw) & ((1 << 62) - 1)
            task = Task(self.dataset, self.collate_fn, self.worker_init_fn, self.num_workers, seed)
            workers = Workers(task, self.timeout)
        requests: Iterator[Any] = iter(())
        if isinstance(self.dataset, IterableDataset):
            requests = itertools.repeat((self.batch_size, self.drop_last))
        else:
            requests = iter(self._numbers())
        try:
            yield from workers.batches(requests, self.prefetch_factor * self.num_workers)
            if self.persistent_workers and not isinstance(self.dataset, IterableDataset):
                self._kept = workers
        finally:
            if self._kept is not workers:
                workers.close()
