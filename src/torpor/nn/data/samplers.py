"""Orders in which samples are taken: iterables of their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.tensor import Generator, Tensor


class Sampler:
    """Base: a subclass has `__iter__`, and `__len__` where it is known."""

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
        if isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueRangeError(f"batch_size is at least 1, not {batch_size}")
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
