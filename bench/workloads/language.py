"""The wider language: Fourier transforms, order, factorisations, sampling, counting, einsum, scans.

Complex numbers go in and out as pairs of real ones, which both libraries see without a copy. What
no other file times is beside PyTorch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.workload import Arrays, Workload, randoms

Inputs = Callable[[np.random.Generator], Arrays]
MILLION = 1 << 20


def language(
    name: str,
    inputs: Inputs,
    function: Any,
    reference: Any,
    tolerance: float = 1e-5,
    quick: bool = False,
) -> Workload:
    """A workload whose function both libraries understand; memory passes are those of inputs."""
    sizes = inputs(np.random.default_rng(0))
    return Workload(
        name,
        inputs,
        dict.fromkeys(("torpor", "torch"), function),
        reference,
        bytes=2.0 * sum(x.nbytes for x in sizes),
        against=("torch",),
        tolerance=tolerance,
        quick=quick,
    )


def gradient(function: Any) -> Any:
    """The gradient of the first input, of which the last one is the result's."""

    def of(library: Any, x: Any, *rest: Any) -> Any:
        *others, cotangent = rest
        if library.__name__ != "torch":
            return function(library, x, *others).gradient(x, gradient=cotangent)[0]
        x = x.detach().requires_grad_()
        return library.autograd.grad(function(library, x, *others), x, cotangent)[0]

    return of


def shape_name(shape: Sequence[int]) -> str:
    """As `64x1000`; a power of two from 2^16 on as such."""
    return "x".join(f"2^{n.bit_length() - 1}" if n >= 1 << 16 else str(n) for n in shape)


# --- Fourier transforms ---------------------------------------------------------------------------
def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


def pairs_of(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def transform(name: str) -> tuple[Any, Any]:
    """The transform of that name of `library.fft`, and NumPy's, on pairs where it is complex."""
    takes = name not in ("rfft", "rfft2")
    gives = name not in ("irfft", "irfft2")

    def function(library: Any, x: Any) -> Any:
        made = getattr(library.fft, name)(library.view_as_complex(x) if takes else x)
        return library.view_as_real(made) if gives else made

    def reference(x: np.ndarray) -> np.ndarray:
        made = getattr(np.fft, name)(complex_of(x) if takes else x)
        return pairs_of(made) if gives else made

    return function, reference


def fourier(name: str, *shape: int, quick: bool = False) -> Workload:
    function, reference = transform(name)
    given = shape if name in ("rfft", "rfft2") else (*shape, 2)
    title = f"fft/{name}-{shape_name(shape)}"
    return language(title, randoms(given), function, reference, quick=quick)


def fourier_gradient(*shape: int) -> Workload:
    """Of real rows, by the inverse of what is conjugate symmetric."""
    function, _ = transform("rfft")
    *lead, length = shape
    half = (*lead, length // 2 + 1, 2)

    def reference(x: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        padded = np.zeros(shape, complex)
        padded[..., : half[-2]] = complex_of(cotangent)
        return (np.fft.ifft(padded) * length).real

    inputs = randoms(shape, half)
    return language(f"fft/rfft-gradient-{shape_name(shape)}", inputs, gradient(function), reference)


FFT = (
    fourier("fft", 1, 256),
    fourier("fft", 1, 1024),
    fourier("fft", 1, 4096),
    fourier("fft", 1, 1 << 16),
    fourier("fft", 1, 1 << 20, quick=True),
    fourier("fft", 1024, 256, quick=True),
    fourier("fft", 256, 1024),
    fourier("fft", 64, 4096),
    fourier("fft", 256, 1000),
    fourier("fft", 64, 1009),
    fourier("ifft", 256, 1024),
    fourier("fft2", 16, 64, 64),
    fourier("fft2", 512, 512),
    fourier("rfft", 256, 1024),
    fourier("rfft", 1, 1 << 20),
    fourier("rfft2", 512, 512),
    fourier("irfft", 256, 513),
    fourier_gradient(256, 1024),
)


# --- order ----------------------------------------------------------------------------------------
def whole(*shape: int, below: int = 1 << 40) -> Inputs:
    return lambda generator: (generator.integers(0, below, shape),)


def sort(library: Any, x: Any) -> Any:
    return x.sort(dim=-1, stable=True)[0]


def argsort(library: Any, x: Any) -> Any:
    return x.argsort(dim=-1, stable=True)


def sorted_numpy(x: np.ndarray) -> np.ndarray:
    return np.sort(x, -1)


def argsort_numpy(x: np.ndarray) -> np.ndarray:
    return np.argsort(x, -1, kind="stable")


def topk(k: int) -> tuple[Any, Any]:
    return lambda library, x: x.topk(k)[0], lambda x: -np.sort(-x, -1)[..., :k]


def sort_gradient_numpy(x: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    made = np.empty_like(cotangent)
    np.put_along_axis(made, argsort_numpy(x), cotangent, -1)
    return made


SQUARE = (1024, 1024)
ORDER = (
    language("sort/sort-2^20", randoms((MILLION,)), sort, sorted_numpy, quick=True),
    language("sort/sort-int64-2^20", whole(MILLION), sort, sorted_numpy),
    language("sort/sort-int64-1024x1024", whole(*SQUARE), sort, sorted_numpy),
    language("sort/sort-16384x64", randoms((16384, 64)), sort, sorted_numpy),
    language("sort/sort-16x512", randoms((16, 512)), sort, sorted_numpy),
    language("sort/argsort-1024x1024", randoms(SQUARE), argsort, argsort_numpy),
    language("sort/argsort-2^20", randoms((MILLION,)), argsort, argsort_numpy),
    language("sort/gradient-1024x1024", randoms(SQUARE, SQUARE), gradient(sort),
             sort_gradient_numpy),
    language("sort/topk-100-1024x1024", randoms(SQUARE), *topk(100)),
    language("sort/topk-32-2^20", randoms((MILLION,)), *topk(32)),
    language("sort/topk-5-16384x64", randoms((16384, 64)), *topk(5)),
)  # fmt: skip


# --- factorisations of batches --------------------------------------------------------------------
def svd(library: Any, x: Any) -> Any:
    u, s, v = library.linalg.svd(x)
    return s, u.abs(), v.abs()


def svd_numpy(x: np.ndarray) -> Any:
    u, s, v = np.linalg.svd(x)
    return s, abs(u), abs(v)


def eigh(library: Any, x: Any) -> Any:
    values, vectors = library.linalg.eigh(x)
    return values, vectors.abs()


def eigh_numpy(x: np.ndarray) -> Any:
    values, vectors = np.linalg.eigh(x)
    return values, abs(vectors)


def symmetric(*shape: int) -> Inputs:
    def make(generator: np.random.Generator) -> Arrays:
        x = generator.standard_normal(shape, np.float32)
        return (x + x.swapaxes(-1, -2),)

    return make


def positive(*shape: int) -> Inputs:
    def make(generator: np.random.Generator) -> Arrays:
        x = generator.standard_normal(shape, np.float32)
        return (x @ x.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32),)

    return make


BATCH = (64, 32, 32)
FACTORS = (
    language("linalg/svd-64x32x32", randoms(BATCH), svd, svd_numpy, 1e-2, quick=True),
    language("linalg/svd-1024x4x4", randoms((1024, 4, 4)), svd, svd_numpy, 1e-2),
    language("linalg/eigh-64x32x32", symmetric(*BATCH), eigh, eigh_numpy, 1e-2),
    language("linalg/cholesky-64x32x32", positive(*BATCH),
             lambda library, x: library.linalg.cholesky(x), np.linalg.cholesky, 1e-3),
    language("linalg/solve-64x32x32", randoms(BATCH, BATCH),
             lambda library, x, y: library.linalg.solve(x, y), np.linalg.solve, 1e-2),
    language("linalg/inv-64x32x32", randoms(BATCH), lambda library, x: library.linalg.inv(x),
             np.linalg.inv, 1e-2),
)  # fmt: skip


# --- images: interpolate and grid_sample ----------------------------------------------------------
IMAGES = (8, 16, 64, 64)


def cubic(distance: np.ndarray, a: float = -0.75) -> np.ndarray:
    """Keys' kernel (1981), with the constant that libraries for images use."""
    d = abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def weights(mode: str, size: int, made: int) -> np.ndarray:
    """(made, size): how an axis of `size` becomes one of `made`."""
    table = np.zeros((made, size))
    for i in range(made):
        at = (i + 0.5) * size / made - 0.5
        if mode == "nearest":
            table[i, i * size // made] = 1
        elif mode == "area":
            first, last = i * size // made, -(-(i + 1) * size // made)
            table[i, first:last] = 1 / (last - first)
        elif mode == "bilinear":
            at = max(at, 0.0)
            low = min(int(at), size - 1)
            table[i, low] += 1 - (at - low)
            table[i, min(low + 1, size - 1)] += at - low
        else:
            for j in range(math.floor(at) - 1, math.floor(at) + 3):
                table[i, min(max(j, 0), size - 1)] += cubic(np.array(at - j))
    return table


def interpolate(mode: str, size: int) -> tuple[Any, Any]:
    def function(library: Any, x: Any) -> Any:
        return library.nn.functional.interpolate(x, size=(size, size), mode=mode)

    def reference(x: np.ndarray) -> np.ndarray:
        table = weights(mode, x.shape[-1], size)
        return table @ x @ table.T

    return function, reference


def interpolating(mode: str, size: int) -> Workload:
    title = f"images/{mode}-64-{size}"
    return language(title, randoms(IMAGES), *interpolate(mode, size), quick=size == 128)


def interpolating_gradient(mode: str, size: int) -> Workload:
    table = weights(mode, IMAGES[-1], size)
    inputs = randoms(IMAGES, (*IMAGES[:2], size, size))
    function = gradient(interpolate(mode, size)[0])
    title = f"images/{mode}-gradient-64-{size}"
    return language(title, inputs, function, lambda x, cotangent: table.T @ cotangent @ table)


def grid_inputs(generator: np.random.Generator) -> Arrays:
    images = generator.standard_normal(IMAGES, np.float32)
    return images, generator.uniform(-1.1, 1.1, (IMAGES[0], 64, 64, 2)).astype(np.float32)


def grid_gradient_inputs(generator: np.random.Generator) -> Arrays:
    return *grid_inputs(generator), generator.standard_normal(IMAGES, np.float32)


def grid_sample(mode: str) -> Any:
    def function(library: Any, x: Any, grid: Any) -> Any:
        return library.nn.functional.grid_sample(x, grid, mode=mode, align_corners=False)

    return function


def corners(x: np.ndarray, grid: np.ndarray, mode: str) -> Any:
    """(rows, columns, weight) of the pixels that each point is made of."""
    at = ((grid + 1) * IMAGES[-1] - 1) / 2
    column, row = at[..., 0], at[..., 1]
    if mode == "nearest":
        yield np.rint(row).astype(int), np.rint(column).astype(int), np.ones_like(row)
        return
    for top in (np.floor(row), np.floor(row) + 1):
        for left in (np.floor(column), np.floor(column) + 1):
            share = (1 - abs(row - top)) * (1 - abs(column - left))
            yield top.astype(int), left.astype(int), share


def inside(row: np.ndarray, column: np.ndarray) -> Any:
    size = IMAGES[-1]
    held = (row >= 0) & (row < size) & (column >= 0) & (column < size)
    return held, row.clip(0, size - 1), column.clip(0, size - 1)


def grid_sample_numpy(mode: str) -> Any:
    def reference(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
        made = np.zeros((*x.shape[:2], *grid.shape[1:3]))
        batch = np.arange(len(x))[:, None, None]
        for row, column, share in corners(x, grid, mode):
            held, row, column = inside(row, column)
            picked = np.moveaxis(x[batch, :, row, column], -1, 1)
            made += picked * (share * held)[:, None]
        return made

    return reference


def grid_gradient_numpy(x: np.ndarray, grid: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
    made = np.zeros((len(x), *x.shape[2:], x.shape[1]))
    batch = np.arange(len(x))[:, None, None]
    for row, column, share in corners(x, grid, "bilinear"):
        held, row, column = inside(row, column)
        given = np.moveaxis(cotangent * (share * held)[:, None], 1, -1)
        np.add.at(made, (batch, row, column), given)
    return np.moveaxis(made, -1, 1)


SAMPLING = (
    *(interpolating(mode, size) for mode in ("nearest", "bilinear", "bicubic", "area")
      for size in (128, 48)),
    interpolating_gradient("bilinear", 128),
    interpolating_gradient("bicubic", 48),
    language("images/grid_sample-bilinear", grid_inputs, grid_sample("bilinear"),
             grid_sample_numpy("bilinear"), quick=True),
    language("images/grid_sample-nearest", grid_inputs, grid_sample("nearest"),
             grid_sample_numpy("nearest"), 2e-2),
    language("images/grid_sample-gradient", grid_gradient_inputs,
             gradient(grid_sample("bilinear")), grid_gradient_numpy),
)  # fmt: skip


# --- counting -------------------------------------------------------------------------------------
def unique(library: Any, x: Any) -> Any:
    return library.unique(x)


def histc(library: Any, x: Any) -> Any:
    return library.histc(x, 100, -3, 3)


def histogram(library: Any, x: Any) -> Any:
    return library.histogram(x, 100, range=(-3.0, 3.0))[0]


def histogram_numpy(x: np.ndarray) -> np.ndarray:
    return np.histogram(x, 100, (-3, 3))[0].astype(np.float64)


def bincount(library: Any, x: Any) -> Any:
    return library.bincount(x)


def some_floats(generator: np.random.Generator) -> Arrays:
    return (generator.integers(0, 10_000, MILLION).astype(np.float32) / 16,)


def shuffled(size: int) -> Inputs:
    """Numbers around 0, all different, of which half are positive."""

    def make(generator: np.random.Generator) -> Arrays:
        return ((generator.permutation(size) - size // 2 + 0.5).astype(np.float32),)

    return make


COUNTING = (
    language("counting/unique-int-2^20", whole(MILLION, below=10_000), unique, np.unique),
    language("counting/unique-far-2^20", whole(MILLION), unique, np.unique),
    language("counting/unique-float-2^20", some_floats, unique, np.unique, quick=True),
    language("counting/unique-float-10000", shuffled(10_000), unique, np.unique),
    language("counting/histc-2^20", randoms((MILLION,)), histc, histogram_numpy, 1e-3),
    language("counting/histogram-2^20", randoms((MILLION,)), histogram, histogram_numpy, 1e-3,
             quick=True),
    language("counting/bincount-2^20", whole(MILLION, below=1000), bincount, np.bincount),
    language("counting/masked_select-2^20", shuffled(MILLION),
             lambda library, x: library.masked_select(x, x > 0), lambda x: x[x > 0]),
)  # fmt: skip


# --- einsum ---------------------------------------------------------------------------------------
def einsum(name: str, equation: str, *shapes: tuple[int, ...], quick: bool = False) -> Workload:
    def function(library: Any, *operands: Any) -> Any:
        return library.einsum(equation, *operands)

    def reference(*operands: np.ndarray) -> Any:
        return np.einsum(equation, *operands, optimize=True)

    title = f"einsum/{name}"
    return language(title, randoms(*shapes), function, reference, 1e-4, quick)


EINSUM = (
    einsum("chain-3", "ij,jk,kl->il", (256, 512), (512, 64), (64, 512), quick=True),
    einsum("chain-4", "ab,bc,cd,de->ae", (64, 512), (512, 128), (128, 256), (256, 32)),
    einsum("batched-chain-3", "bij,bjk,bkl->bil", (16, 64, 128), (16, 128, 64), (16, 64, 64)),
    einsum("bilinear", "bi,bj,ijk->bk", (64, 64), (64, 64), (64, 64, 32)),
    einsum("tensor-factors", "ijk,jr,kr->ir", (64, 96, 96), (96, 16), (96, 16)),
    einsum("linear-attention", "bhqd,bhkd,bhke->bhqe", (2, 8, 256, 64), (2, 8, 256, 64),
           (2, 8, 256, 64)),
    einsum("core-4", "ijk,ai,bj,ck->abc", (24, 24, 24), (48, 24), (48, 24), (48, 24)),
    einsum("transposed", "bhid,bjhd->bhij", (4, 8, 128, 64), (4, 128, 8, 64)),
)  # fmt: skip


# --- scans, searching, writing by index, distances ------------------------------------------------
def searched_inputs(generator: np.random.Generator) -> Arrays:
    edges = np.sort(generator.standard_normal(4096, np.float32))
    return edges, generator.standard_normal(MILLION, np.float32)


def index_add_inputs(generator: np.random.Generator) -> Arrays:
    values = generator.standard_normal((8192, 256), np.float32)
    return np.zeros((4096, 256), np.float32), generator.integers(0, 4096, 8192), values


def index_add_numpy(base: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    made = base.copy()
    np.add.at(made, index, values)
    return made


def reduced_numpy(base: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    made = base.copy()
    np.maximum.at(made, index, values)
    return made


def quantile(library: Any, x: Any) -> Any:
    return library.quantile(x, 0.9, -1)


def lesser_median(x: np.ndarray) -> np.ndarray:
    return np.sort(x, -1)[..., (x.shape[-1] - 1) // 2]


def distances(p: float) -> tuple[Any, Any]:
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        rows = [(abs(row - y) ** p).sum(-1) ** (1 / p) for row in x]
        return np.stack(rows)

    return lambda library, x, y: library.cdist(x, y, p), reference


POINTS = ((512, 64), (1024, 64))
SCANS = (
    language("scans/cumsum-columns", randoms(SQUARE), lambda library, x: x.cumsum(0),
             lambda x: np.cumsum(x, 0)),
    language("scans/cumsum-2^20", randoms((MILLION,)), lambda library, x: x.cumsum(0),
             np.cumsum, 1e-4),
    language("scans/cumprod", randoms(SQUARE), lambda library, x: x.cumprod(-1),
             lambda x: np.cumprod(x, -1)),
    language("scans/cummax", randoms(SQUARE), lambda library, x: tuple(x.cummax(-1)),
             lambda x: (m := np.maximum.accumulate(x, -1),
                        np.maximum.accumulate(np.where(x == m, np.arange(x.shape[-1]), 0), -1))),
    language("scans/logcumsumexp", randoms(SQUARE), lambda library, x: x.logcumsumexp(-1),
             lambda x: np.logaddexp.accumulate(x, -1)),
    language("scans/searchsorted", searched_inputs,
             lambda library, edges, x: library.searchsorted(edges, x), np.searchsorted, quick=True),
    language("scans/index_add", index_add_inputs,
             lambda library, base, index, x: base.index_add(0, index, x), index_add_numpy),
    language("scans/index_reduce", index_add_inputs,
             lambda library, base, index, x: base.index_reduce(0, index, x, "amax"),
             reduced_numpy),
    language("scans/quantile", randoms(SQUARE), quantile, lambda x: np.quantile(x, 0.9, -1)),
    language("scans/median", randoms(SQUARE), lambda library, x: x.median(-1)[0], lesser_median),
    language("scans/median-2^20", randoms((MILLION,)), lambda library, x: x.median(),
             lesser_median),
    language("scans/cdist-2", randoms(*POINTS), *distances(2.0), tolerance=1e-4),
    language("scans/cdist-1", randoms(*POINTS), *distances(1.0), tolerance=1e-4),
)  # fmt: skip

WORKLOADS = (*FFT, *ORDER, *FACTORS, *SAMPLING, *COUNTING, *EINSUM, *SCANS)
