"""Collections of samples, and collections made of others."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from torpor.base.errors import ShapeError, ValueRangeError
from torpor.tensor import Generator, Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples by their number: a subclass has `__getitem__` and `__len__`. One that has
    `batch(numbers)` gives whole batches at once.

    >>> class Squares(torpor.nn.data.Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return float(index), float(index * index)
    >>> next(iter(torpor.nn.data.DataLoader(Squares(), batch_size=3)))[1].tolist()
    [0.0, 1.0, 4.0]
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} does not say what a sample is")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """Samples one after the other: a subclass has `__iter__`. In workers each has a copy, which
    `get_worker_info()` tells apart.

    >>> class Count(torpor.nn.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> [batch.tolist() for batch in torpor.nn.data.DataLoader(Count(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__} does not say what its samples are")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of tensors of equal length along axis 0: sample i is `(one[i], other[i], …)`."""

    def __init__(self, *tensors: Any):
        if not tensors or len({len(one) for one in tensors}) != 1:
            lengths = [len(one) for one in tensors]
            raise ShapeError(f"a TensorDataset needs tensors of one length, not {lengths}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(one[index] for one in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, numbers: Sequence[int]) -> tuple[Any, ...]:
        """The samples of these numbers, stacked."""
        return tuple(one[list(numbers)] for one in self.tensors)


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side: sample i is the tuple of theirs, or the dict where
    they have names.

    >>> pairs = torpor.nn.data.StackDataset(image=range(3), label="abc")
    >>> pairs[1], len(pairs)
    ({'image': 1, 'label': 'b'}, 3)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if bool(args) is bool(kwargs):
            raise ValueRangeError("a StackDataset needs datasets: all with names, or none")
        self.datasets: Any = args or kwargs
        lengths = [len(one) for one in args or kwargs.values()]
        if len(set(lengths)) != 1:
            raise ShapeError(f"a StackDataset needs datasets of one length, not {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: one[index] for name, one in self.datasets.items()}
        return tuple(one[index] for one in self.datasets)

    def __len__(self) -> int:
        return self._length


class Subset(Dataset[Sample]):
    """The samples of another dataset at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices
        if hasattr(dataset, "batch"):
            self.batch = lambda numbers: dataset.batch([indices[number] for number in numbers])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[one] for one in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)

    def __reduce__(self) -> tuple[Any, ...]:
        return Subset, (self.dataset, self.indices)


class ConcatDataset(Dataset[Sample]):
    """Datasets one behind the other."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueRangeError("a ConcatDataset needs a dataset")
        self.cumulative_sizes = list(itertools.accumulate(len(one) for one in self.datasets))

    def __getitem__(self, index: Any) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        place = index % len(self)
        number = bisect.bisect_right(self.cumulative_sizes, place)
        return self.datasets[number][place - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one behind the other."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Parts of a dataset in random order. `lengths` are numbers of samples that sum to all, or
    fractions that sum to 1; what fractions leave over goes to the first parts.
    """
    total, counts = len(dataset), [int(one) for one in lengths]
    if abs(sum(lengths) - 1) < 1e-9 and all(0 <= one <= 1 for one in lengths):
        counts = [int(total * one) for one in lengths]
        for place in range(total - sum(counts)):
            counts[place % len(counts)] += 1
    if sum(counts) != total:
        raise ValueRangeError(f"parts of {list(lengths)} samples are not the {total} there are")
    order = Tensor.randperm(total, generator=generator).tolist()
    ends = list(itertools.accumulate(counts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, counts, strict=True)]


__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]  # fmt: skip
