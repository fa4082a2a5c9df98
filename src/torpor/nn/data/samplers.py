"""Orders in which samples are taken: iterables of their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from types import GenericAlias
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.tensor import Generator, Tensor
from torpor.tensor.spelling import within


class Sampler:
    """Base: a subclass has `__iter__`, and `__len__` where it is known.

    >>> class Backwards(torpor.nn.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> [one.item() for one in torpor.nn.data.DataLoader(range(3), sampler=Backwards())]
    [2, 1, 0]
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # Sampler[int], as with PyTorch

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say which samples")


class SequentialSampler(Sampler):
    """0, 1, 2, …"""

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All samples in random order, or with `replacement` any of them `num_samples` times."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ):
        if num_samples is not None and num_samples <= 0:
            raise ValueRangeError(f"num_samples is at least 1, not {num_samples}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._count = num_samples

    def __iter__(self) -> Iterator[int]:
        total, left = len(self.data_source), len(self)
        while left > 0:
            if self.replacement:
                order = Tensor.randint(0, total, (left,), generator=self.generator).tolist()
            else:
                order = Tensor.randperm(total, generator=self.generator).tolist()[:left]
            yield from order
            left -= len(order)

    def __len__(self) -> int:
        return len(self.data_source) if self._count is None else self._count


class DistributedSampler(Sampler):
    """The samples of process `rank` of `num_replicas`, each as many: the numbers `rank`, `rank +
    num_replicas`, … What is left over is dropped with `drop_last`, else the first come again. With
    `shuffle` the order is that of `seed` and of the epoch, which `set_epoch` says.

    >>> list(torpor.nn.data.DistributedSampler(range(5), 2, 1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ):  # fmt: skip
        if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
            raise ValueRangeError(f"rank {rank} of {num_replicas} processes: say which, from 0")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """Have the next order be that of this epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        total, wanted = len(self.dataset), len(self) * self.num_replicas
        order = list(range(total))
        if self.shuffle:
            order = Tensor.randperm(total, generator=Generator(self.seed + self.epoch)).tolist()
        whole = order * -(-wanted // max(total, 1))
        return iter(whole[self.rank : wanted : self.num_replicas])

    def __len__(self) -> int:
        total, count = len(self.dataset), self.num_replicas
        return total // count if self.drop_last else -(-total // count)


class SubsetRandomSampler(Sampler):
    """The given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None):
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = Tensor.randperm(len(self.indices), generator=self.generator).tolist()
        return (self.indices[place] for place in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` numbers drawn with the probabilities `weights`, which need not sum to 1."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ):
        if num_samples <= 0:
            raise ValueRangeError(f"num_samples is at least 1, not {num_samples}")
        self.weights = Tensor(list(weights), dtype="float64")
        least, total = self.weights.min().item(), self.weights.sum().item()
        if not (least >= 0 and 0 < total < math.inf):
            raise ValueRangeError("weights are finite, none is negative, and not all are 0")
        there = int((self.weights > 0).sum().item())
        if not replacement and num_samples > there:
            raise ValueRangeError(f"{num_samples} of {there} samples without replacement")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = self.weights.multinomial(
            self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` numbers of another sampler; `drop_last` leaves out a shorter last."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False):
        within("batch_size", batch_size, 1)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch = list[int]()
        for number in self.sampler:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


__all__ = [
    "BatchSampler", "DistributedSampler", "RandomSampler", "Sampler", "SequentialSampler",
    "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip
