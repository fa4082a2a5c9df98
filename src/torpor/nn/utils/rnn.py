"""Sequences of several lengths: padded to one length, or packed step after step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.tensor import Tensor


class PackedSequence(NamedTuple):
    """The steps of several sequences, the longest first, without padding: data[step of a sequence,
    ...] has all first steps, all second ones, ...; batch_sizes says how many of each.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *arguments: Any, **options: Any) -> PackedSequence:
        """The data in another format or on another device."""
        return self._replace(data=self.data.to(*arguments, **options))

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return str(self.data.device).startswith("CUDA")


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes this one."""
    return None if permutation is None else permutation.argsort()


def _whole(given: Any) -> NDArray[np.int64]:
    return np.asarray(given.numpy() if isinstance(given, Tensor) else given, np.int64)


def _places(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """table[step, sequence] of where a step is in the data, behind all where it is not."""
    inside = np.arange(sizes[0]) < sizes[:, None]
    table = np.full(inside.shape, sizes.sum())
    table[inside] = np.arange(sizes.sum())
    return table


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Sequences of `lengths`, whole numbers, from input[length, batch, ...], with `batch_first`
    input[batch, length, ...]. They are sorted, the longest first, unless `enforce_sorted` says that
    they are.
    """
    steps = input.transpose(0, 1) if batch_first else input
    sizes = _whole(lengths)
    order = np.arange(len(sizes)) if enforce_sorted else np.argsort(-sizes, kind="stable")
    if len(sizes) != steps.shape[1] or not (sizes > 0).all() or sizes.max() > steps.shape[0]:
        what = f"{steps.shape[1]} lengths from 1 to {steps.shape[0]}, not {sizes.tolist()}"
        raise ValueRangeError(f"packing takes {what}")
    if (np.diff(sizes[order]) > 0).any():
        raise ValueRangeError("lengths have to fall; enforce_sorted=False sorts them")
    counts = (np.arange(sizes.max())[:, None] < sizes).sum(1)
    rows = [step * len(sizes) + order[:count] for step, count in enumerate(counts)]
    data = steps.reshape(-1, *steps.shape[2:])[Tensor(np.concatenate(rows), device=input.device)]
    if enforce_sorted:
        return PackedSequence(data, Tensor(counts))
    return PackedSequence(data, Tensor(counts), Tensor(order), Tensor(np.argsort(order)))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(x[length, batch, ...], lengths) of packed sequences in the order that they had."""
    if not isinstance(sequence, PackedSequence):
        what = f"pad_packed_sequence takes a PackedSequence, not {type(sequence).__name__}"
        raise DTypeError(what)
    table = _places(_whole(sequence.batch_sizes))
    if sequence.unsorted_indices is not None:
        table = table[:, _whole(sequence.unsorted_indices)]
    lengths = (table < sequence.data.shape[0]).sum(0)
    if total_length is not None:
        if total_length < len(table):
            raise ValueRangeError(f"{len(table)} steps do not fit into {total_length}")
        rest = ((0, total_length - len(table)), (0, 0))
        table = np.pad(table, rest, constant_values=sequence.data.shape[0])
    data = sequence.data
    more = data.cat(data.full_like(padding_value)[:1], dim=0)
    made = more[Tensor(table, device=data.device)]
    return (made.transpose(0, 1) if batch_first else made), Tensor(lengths)


def pad_sequence(
    sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:  # fmt: skip
    """x[length, batch, ...] of tensors[length, ...], padded to the longest. A `ShapeError` for
    none, and for those that differ in more than their lengths.
    """
    sequences = [*sequences]
    if not sequences:
        raise ShapeError("pad_sequence got no sequences")
    if len({tuple(one.shape[1:]) for one in sequences}) > 1 or not sequences[0].ndim:
        shapes = ", ".join(str(tuple(one.shape)) for one in sequences)
        raise ShapeError(f"pad_sequence takes tensors that differ in length only, not {shapes}")
    longest, parts = max(one.shape[0] for one in sequences), []
    for one in sequences:  # laid end to end, which the host does for what it has
        rest = longest - one.shape[0]
        filled = [one.new_full((rest, *one.shape[1:]), padding_value)] if rest else []
        parts += [one, *filled] if padding_side == "right" else [*filled, one]
    rows: Any = Tensor.cat(*parts).reshape(len(sequences), longest, *sequences[0].shape[1:])
    return rows if batch_first else rows.transpose(0, 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The tensors of which `pad_sequence` gives this."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[number, :length] for number, length in enumerate(_whole(lengths).tolist())]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors[length, ...], packed."""
    lengths = [one.shape[0] for one in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The tensors of which `pack_sequence` gives this."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


def repacked(padded: Any, like: PackedSequence) -> PackedSequence:
    """x[length, batch, ...] packed as another is."""
    table = _places(_whole(like.batch_sizes))
    step, place = np.nonzero(table < like.data.shape[0])
    column = place if like.sorted_indices is None else _whole(like.sorted_indices)[place]
    flat = Tensor(step * table.shape[1] + column, device=padded.device)
    return like._replace(data=padded.reshape(-1, *padded.shape[2:])[flat])


__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip
