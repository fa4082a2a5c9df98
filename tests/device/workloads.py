"""Small computations of every kind that kernels consist of, and what NumPy says that they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from torpor import Tensor, dtypes

Array = np.ndarray[Any, Any]
HALF_ULP: Final = 2.0**-24  # of a float32, relative: what one rounding may change
SPECIAL: Final = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 6e-8, 2.9e-8, 1e-40, 3e38]


@dataclass(frozen=True)
class Workload:
    """`compute` on tensors of `inputs` must give what `expect` gives on the arrays.

    expect: the value, and by how much each element may differ from it (0: not in one bit).
    """

    name: str
    inputs: tuple[Array, ...]
    compute: Callable[..., Tensor]
    expect: Callable[..., tuple[Array, Array | float]]

    def tensors(self) -> list[Tensor]:
        """The operands on the default device."""
        return [Tensor(array) for array in self.inputs]

    def verify(self, got: Array, slack: int = 1) -> None:
        """An `AssertionError` where `got` differs from what it must be by more than `slack` times
        what it may.
        """
        with np.errstate(all="ignore"):
            want, allowed = self.expect(*self.inputs)
        assert got.shape == want.shape, self.name
        if np.all(np.equal(allowed, 0)):
            assert got.dtype == want.dtype, self.name
            np.testing.assert_array_equal(plain(got), plain(want), self.name)
        else:
            wrong = ~(np.abs(got.astype(np.float64) - want) <= slack * allowed)
            assert not wrong.any(), f"{self.name}: {got[wrong][:4]}, not {want[wrong][:4]}"


def plain(array: Array) -> Array:
    """Formats that NumPy's comparison does not know, exactly, in one that it does."""
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def erf(x: Array) -> Array:
    return np.array([math.erf(number) for number in x.tolist()])


# --- what is expected, in float64, with the worst error of float32 --------------------------------
def product(a: Array, b: Array) -> tuple[Array, Array]:
    """a @ b; each of the K products and K sums may round."""
    exact, size = a.astype(np.float64), np.abs(a).astype(np.float64)
    return exact @ b, 2 * a.shape[1] * HALF_ULP * (size @ np.abs(b))


def total(x: Array, axis: int) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    return wide.sum(axis), x.shape[axis] * HALF_ULP * np.abs(wide).sum(axis)


def shares(x: Array) -> tuple[Array, Array]:
    """Softmax of rows: the difference to the maximum rounds, exp, the sum and the division too."""
    wide = x.astype(np.float64)
    away = wide.max(1, keepdims=True) - wide
    powers = np.exp(-away)
    want = powers / powers.sum(1, keepdims=True)
    return want, want * HALF_ULP * (2 * away.max() + x.shape[1] + 8)


def windows(x: Array, w: Array) -> tuple[Array, Array]:
    """Convolution with stride 1 and one zero of padding, (N, C, H, W) by (O, C, 3, 3)."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    want = np.einsum("nchwij,ocij->nohw", views, w)
    size = np.einsum("nchwij,ocij->nohw", np.abs(views), np.abs(w))
    return want, 2 * w[0].size * HALF_ULP * size


def function(
    exact: Callable[[Array], Array], ulp: int = 1
) -> Callable[[Array], tuple[Array, Array]]:
    """A function that is within so many units in the last place."""

    def expected(x: Array) -> tuple[Array, Array]:
        want = exact(x.astype(np.float64))
        return want, ulp * np.spacing(np.abs(want).astype(x.dtype)).astype(np.float64)

    return expected


def standard(x: Array) -> tuple[Array, Array]:
    """Rows less their mean, by their deviation: each of some sums over a row may round."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    size = (np.abs(wide).max(1, keepdims=True) + np.abs(centred)) / deviation
    return centred / deviation, (x.shape[1] + 16) * HALF_ULP * size


def added(x: Array, rows: Array, more: Array) -> tuple[Array, Array]:
    """Rows added to rows, in order."""
    want = x.astype(np.float64)
    np.add.at(want, rows, more)
    size = np.abs(x).astype(np.float64)
    np.add.at(size, rows, np.abs(more))
    return want, len(rows) * HALF_ULP * size


def largest(x: Array) -> Array:
    """Of every 2 by 2 elements."""
    return x[:, :, :8].reshape(*x.shape[:2], 4, 2, 4, 2).max((3, 5))


def wrapped(a: Array, b: Array) -> Array:
    return a * b - a


def exactly(compute: Callable[..., Array]) -> Callable[..., tuple[Array, float]]:
    """A result that must be right to the bit."""

    def expected(*arrays: Array) -> tuple[Array, float]:
        return compute(*arrays), 0.0

    return expected


def truncated(x: Array) -> Array:
    """Float to int32: saturating, and NaN is 0."""
    return np.clip(np.nan_to_num(x.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int32)


# --- the operands ---------------------------------------------------------------------------------
def workloads() -> Sequence[Workload]:
    """All of them; the operands are always the same."""
    random = np.random.default_rng(2024)

    def normal(*shape: int) -> Array:
        return random.normal(size=shape).astype(np.float32)

    wide = np.concatenate([normal(497) * 1000, np.array(SPECIAL, np.float32)])
    wide = np.concatenate([wide, (random.integers(0, 1 << 32, 515, np.uint32)).view(np.float32)])
    halves = random.integers(0, 1 << 16, (2, 1000), np.uint16).view(np.float16)
    brains = (normal(2, 1000) * 100).astype(ml_dtypes.bfloat16)
    divisors = random.integers(1, 40, 300) * random.choice([-1, 1], 300)
    whole = random.integers(-(2**31), 2**31, 300)
    edges = [(-(2**31), 7), (2**31 - 1, -3), (-1, 2), (0, -5)]
    dividends = np.concatenate([whole, [a for a, _ in edges]])
    divisors = np.concatenate([divisors, [b for _, b in edges]])
    small = (dividends.astype(np.int32), divisors.astype(np.int32))
    large = (dividends * 2**20, divisors * 1001)
    level = random.integers(0, 9, (13, 70)).astype(np.float32)
    small8 = random.integers(-128, 128, 517, np.int8)
    powers = random.uniform(-87, 88, 1003).astype(np.float32)
    doubles = powers.astype(np.float64) * 8
    rows = random.integers(0, 40, 25)
    return [
        Workload("matmul", (normal(70, 50), normal(50, 33)), Tensor.matmul, product),
        Workload("matmul_tiled", (normal(96, 300), normal(300, 128)), Tensor.matmul, product),
        Workload("matvec", (normal(130, 77), normal(77, 1)), Tensor.matmul, product),
        Workload("softmax", (normal(9, 200) * 5,), lambda x: x.softmax(1), shares),
        Workload("sum", (normal(7, 1000),), lambda x: x.sum(1), lambda x: total(x, 1)),
        Workload("sum_columns", (normal(300, 37),), lambda x: x.sum(0), lambda x: total(x, 0)),
        Workload("conv", (normal(2, 5, 11, 9), normal(6, 5, 3, 3)), convolved, windows),
        Workload("exp", (powers,), Tensor.exp, function(np.exp)),
        Workload("log", (np.abs(normal(1003)) + 1e-3,), Tensor.log, function(np.log)),
        Workload("sin", (normal(1003) * 1e4,), Tensor.sin, function(np.sin)),
        Workload("divide_int32", small, lambda a, b: a // b, exactly(np.floor_divide)),
        Workload("remainder_int32", small, lambda a, b: a % b, exactly(np.mod)),
        Workload("divide_int64", large, lambda a, b: a // b, exactly(np.floor_divide)),
        Workload("remainder_int64", large, lambda a, b: a % b, exactly(np.mod)),
        Workload("to_half", (wide,), to(dtypes.float16), exactly(as_numpy(np.float16))),
        Workload("to_brain", (wide,), to(dtypes.bfloat16), exactly(as_numpy(ml_dtypes.bfloat16))),
        Workload("from_half", (halves[0],), to(dtypes.float32), exactly(as_numpy(np.float32))),
        Workload("from_brain", (brains[0],), to(dtypes.float32), exactly(as_numpy(np.float32))),
        Workload("half", tuple(halves), lambda a, b: a * b + a, exactly(lambda a, b: a * b + a)),
        Workload("brain", tuple(brains), lambda a, b: a * b + a, exactly(lambda a, b: a * b + a)),
        Workload("to_int32", (wide,), to(dtypes.int32), exactly(truncated)),
        Workload("argmax", (level,), lambda x: x.argmax(1), exactly(lambda x: x.argmax(1))),
        Workload("transpose", (normal(65, 43),), transposed, exactly(np.transpose)),
        Workload("cumsum", (rows,), lambda x: x.cumsum(0), exactly(np.cumsum)),
        Workload("sort", (level,), lambda x: x.sort(1).values, exactly(lambda x: np.sort(x, 1))),
        Workload("scatter", (normal(40, 6), rows, normal(25, 6)), scattered, added),
        Workload("largest", (normal(2, 3, 9, 8),), pooled, exactly(largest)),
        Workload("normalise", (normal(11, 65) * 3 + 1,), normalised, standard),
        Workload("erf", (normal(1003) * 2,), Tensor.erf, function(erf, ulp=2)),
        Workload("tanh", (normal(1003) * 2,), Tensor.tanh, function(np.tanh)),
        Workload("exp_double", (doubles,), Tensor.exp, function(np.exp, ulp=2)),
        Workload("int8", (small8, small8[::-1].copy()), lambda a, b: a * b - a, exactly(wrapped)),
        Workload("any", (level > 7,), lambda x: x.any(1), exactly(lambda x: x.any(1))),
        Workload("gather", (level.repeat(4, 0), rows), lambda x, i: x[i], exactly(picked)),
    ]  # fmt: skip


def convolved(x: Tensor, w: Tensor) -> Tensor:
    return x.conv2d(w, padding=1)


def scattered(x: Tensor, rows: Tensor, more: Tensor) -> Tensor:
    return x.index_add(0, rows, more)


def pooled(x: Tensor) -> Tensor:
    return x[:, :, :8].max_pool2d(2)


def normalised(x: Tensor) -> Tensor:
    mean = x.mean(1, keepdim=True)
    return (x - mean) / (((x - mean) ** 2).mean(1, keepdim=True) + 1e-5).sqrt()


def transposed(x: Tensor) -> Tensor:
    return x.T.contiguous()


def picked(x: Array, i: Array) -> Array:
    return x[i]


def to(dtype: Any) -> Callable[[Tensor], Tensor]:
    """A conversion of tensors."""
    return lambda x: x.cast(dtype)


def as_numpy(dtype: Any) -> Callable[[Array], Array]:
    """A conversion of arrays."""
    return lambda x: x.astype(dtype)
