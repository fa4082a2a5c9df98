"""Matrix products: square, odd, transposed, batched, thin; and in other formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bench.workload import Workload, count, randoms

AGAINST = ("torch", "torch out=", "jax", "numpy")


def product(library: Any, a: Any, b: Any) -> Any:
    return a @ b


def product_into(library: Any, a: Any, b: Any, out: Any) -> Any:
    return library.matmul(a, b, out=out)


def left_transposed(library: Any, a: Any, b: Any) -> Any:
    return a.mT @ b


def left_transposed_into(library: Any, a: Any, b: Any, out: Any) -> Any:
    return library.matmul(a.swapaxes(-1, -2), b, out=out)


def right_transposed(library: Any, a: Any, b: Any) -> Any:
    return a @ b.mT


def right_transposed_into(library: Any, a: Any, b: Any, out: Any) -> Any:
    return library.matmul(a, b.swapaxes(-1, -2), out=out)


def left_swapped(library: Any, a: Any, b: Any) -> Any:
    return a.transpose(-2, -1) @ b


def right_swapped(library: Any, a: Any, b: Any) -> Any:
    return a @ b.transpose(-2, -1)


def onnx_product(helper: Any) -> Any:
    return [helper.make_node("MatMul", ["x0", "x1"], ["y0"])]


def functions(plain: Any, into: Any, swapped: Any, onnx: Any = None) -> dict[str, Any]:
    """The same product for every library."""
    shared = dict.fromkeys(("torpor", "torch", "jax"), plain)
    return shared | {"tinygrad": swapped, "torch out=": into, "numpy": into, "onnx": onnx}


PLAIN = functions(product, product_into, product, onnx_product)
LEFT = functions(left_transposed, left_transposed_into, left_swapped)
RIGHT = functions(right_transposed, right_transposed_into, right_swapped)


def float32(
    name: str, a: tuple[int, ...], b: tuple[int, ...], table: Any = PLAIN, quick: bool = False
) -> Workload:
    """A product of shapes a and b after the table's transposition."""
    plain = table["torpor"]
    left = a[:-2] + a[-2:][::-1] if plain is left_transposed else a
    right = b[:-2] + b[-2:][::-1] if plain is right_transposed else b
    result = (*a[:-1], b[-1])
    return Workload(
        f"matmul/{name}",
        randoms(left, right),
        table,
        lambda x, y: plain(np, x, y),
        flops=2.0 * count(result) * a[-1],
        bytes=4.0 * count(a, b, result),
        against=AGAINST,
        mix="read",
        quick=quick,
    )


def square(size: int, quick: bool = False) -> Workload:
    return float32(f"{size}", (size, size), (size, size), quick=quick)


FLOAT32 = (
    *(square(size, size in (128, 512, 1024)) for size in (128, 256, 512, 1024, 2048)),
    *(square(size, size == 1000) for size in (127, 1000, 1023)),
    float32("1024-nt", (1024, 1024), (1024, 1024), RIGHT, quick=True),
    float32("1024-tn", (1024, 1024), (1024, 1024), LEFT),
    float32("batched-16x256", (16, 256, 256), (16, 256, 256)),
    float32("batched-96x128x64x128", (96, 128, 64), (96, 64, 128)),
    float32("128x768x768", (128, 768), (768, 768), quick=True),
    float32("1x4096x4096", (1, 4096), (4096, 4096), quick=True),
    float32("1x4096x4096-nt", (1, 4096), (4096, 4096), RIGHT),
    float32("8x4096x4096", (8, 4096), (4096, 4096), quick=True),
    float32("8x4096x4096-nt", (8, 4096), (4096, 4096), RIGHT),
)


def low(size: int, dtype: Any, name: str, tolerance: float) -> Workload:
    """A square product in a 16-bit format, with the result in the same."""
    table = {"torpor": product, "torch": product, "torch out=": product_into, "jax": product}
    return Workload(
        f"matmul-low/{name}-{size}",
        randoms((size, size), (size, size), dtype=dtype),
        table,
        lambda x, y: x @ y,
        flops=2.0 * size**3,
        bytes=6.0 * size**2,
        against=("torch", "torch out="),
        tolerance=tolerance,
        quick=size == 512,
    )


def int8_inputs(size: int) -> Any:
    def make(generator: np.random.Generator) -> Any:
        return tuple(generator.integers(-127, 128, (size, size)).astype(np.int8) for _ in "ab")

    return make


def torch_int8(torch: Any, a: Any, b: Any) -> Any:
    return torch._int_mm(a, b)


def jax_int8(jax: Any, a: Any, b: Any) -> Any:
    return jax.numpy.matmul(a, b, preferred_element_type=jax.numpy.int32)


def torpor_int8(torpor: Any, a: Any, b: Any) -> Any:
    return a.int() @ b.int()


def int8(size: int) -> Workload:
    """8-bit integers, summed exactly in 32 bits."""
    return Workload(
        f"matmul-low/int8-{size}",
        int8_inputs(size),
        {"torpor": torpor_int8, "torch": torch_int8, "jax": jax_int8},
        lambda x, y: (x.astype(np.float64) @ y.astype(np.float64)).astype(np.int64),
        flops=2.0 * size**3,
        bytes=6.0 * size**2,
        against=("torch",),
        tolerance=0.0,
        quick=size == 512,
    )


WORKLOADS = (
    *FLOAT32,
    *(low(size, ml_dtypes.bfloat16, "bf16", 5e-3) for size in (512, 1024)),
    *(low(size, np.float16, "f16", 1e-3) for size in (512, 1024)),
    *(int8(size) for size in (512, 1024)),
)
