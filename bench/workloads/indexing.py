"""What moves elements by index or by order: gather, scatter, embedding, cumsum, sort, top k."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.workload import Arrays, Workload, count

ROWS, WIDTH = 32_000, 384  # of a table
PICKED = 4_096
MATRIX = (1024, 1024)
TOP = 32


def table_and_indices(generator: np.random.Generator) -> Arrays:
    table = generator.standard_normal((ROWS, WIDTH), np.float32)
    return table, generator.integers(0, ROWS, PICKED)


def gather_inputs(generator: np.random.Generator) -> Arrays:
    values = generator.standard_normal(MATRIX, np.float32)
    return values, generator.integers(0, MATRIX[1], MATRIX)


def scatter_inputs(generator: np.random.Generator) -> Arrays:
    values, indices = gather_inputs(generator)
    return np.zeros(MATRIX, np.float32), indices, values


def gradient_inputs(generator: np.random.Generator) -> Arrays:
    table, indices = table_and_indices(generator)
    return table, indices, generator.standard_normal((PICKED, WIDTH), np.float32)


def matrix(generator: np.random.Generator) -> Arrays:
    return (generator.standard_normal(MATRIX, np.float32),)


def many_alike(generator: np.random.Generator) -> Arrays:
    return (generator.integers(0, 10_000, 1 << 20),)


# --- gather and embedding -------------------------------------------------------------------------
def gather(library: Any, x: Any, indices: Any) -> Any:
    return x.gather(1, indices)


def gather_jax(jax: Any, x: Any, indices: Any) -> Any:
    return jax.numpy.take_along_axis(x, indices, 1)


def gather_into(torch: Any, x: Any, indices: Any, out: Any) -> Any:
    return torch.gather(x, 1, indices, out=out)


def embedding(library: Any, table: Any, indices: Any) -> Any:
    return table[indices]


def embedding_torch(torch: Any, table: Any, indices: Any) -> Any:
    return torch.nn.functional.embedding(indices, table)


def embedding_into(torch: Any, table: Any, indices: Any, out: Any) -> Any:
    return torch.index_select(table, 0, indices, out=out)


# --- scatter-add and the gradient of an embedding -------------------------------------------------
def scatter_add(library: Any, base: Any, indices: Any, values: Any) -> Any:
    return base.scatter_add(1, indices, values)


def scatter_add_jax(jax: Any, base: Any, indices: Any, values: Any) -> Any:
    rows = jax.numpy.arange(len(base))[:, None]
    return base.at[rows, indices].add(values)


def scatter_add_numpy(base: Any, indices: Any, values: Any) -> Any:
    base = base.copy()
    np.add.at(base, (np.arange(len(base))[:, None], indices), values)
    return base


def embedding_gradient(library: Any, table: Any, indices: Any, cotangent: Any) -> Any:
    return table[indices].gradient(table, gradient=cotangent)[0]


def embedding_gradient_torch(torch: Any, table: Any, indices: Any, cotangent: Any) -> Any:
    return torch.ops.aten.embedding_dense_backward(cotangent, indices, len(table), -1, False)


def embedding_gradient_jax(jax: Any, table: Any, indices: Any, cotangent: Any) -> Any:
    return jax.numpy.zeros_like(table).at[indices].add(cotangent)


def embedding_gradient_numpy(table: Any, indices: Any, cotangent: Any) -> Any:
    made = np.zeros_like(table)
    np.add.at(made, indices, cotangent)
    return made


# --- order ----------------------------------------------------------------------------------------
def cumsum(library: Any, x: Any) -> Any:
    return x.cumsum(-1)


def sort(library: Any, x: Any) -> Any:
    return x.sort(-1)[0]


def sort_jax(jax: Any, x: Any) -> Any:
    return jax.numpy.sort(x, -1)


def topk(library: Any, x: Any) -> Any:
    return x.topk(TOP)[0]


def topk_jax(jax: Any, x: Any) -> Any:
    return jax.lax.top_k(x, TOP)[0]


def topk_numpy(x: Any) -> Any:
    return -np.sort(-x, -1)[:, :TOP]


def unique(library: Any, x: Any) -> Any:
    return x.unique()


def indexing(
    name: str,
    inputs: Any,
    functions: dict[str, Any],
    reference: Any,
    moved: float,
    quick: bool = True,
) -> Workload:
    """A workload that has no arithmetic to speak of; `moved` in bytes."""
    return Workload(
        f"indexing/{name}", inputs, functions, reference, bytes=moved, quick=quick, tolerance=1e-6
    )


# --- the same as nodes of ONNX --------------------------------------------------------------------
def gather_onnx(helper: Any) -> Any:
    return [helper.make_node("GatherElements", ["x0", "x1"], ["y0"], axis=1)]


def embedding_onnx(helper: Any) -> Any:
    return [helper.make_node("Gather", ["x0", "x1"], ["y0"])]


def scatter_add_onnx(helper: Any) -> Any:
    inputs = ["x0", "x1", "x2"]
    return [helper.make_node("ScatterElements", inputs, ["y0"], axis=1, reduction="add")]


def cumsum_onnx(helper: Any) -> Any:
    axis = helper.make_node("Constant", [], ["axis"], value_int=-1)
    return [axis, helper.make_node("CumSum", ["x0", "axis"], ["y0"])]


def topk_onnx(helper: Any) -> Any:
    amount = helper.make_node("Constant", [], ["amount"], value_ints=[TOP])
    return [amount, helper.make_node("TopK", ["x0", "amount"], ["y0", "places"])]


def unique_onnx(helper: Any) -> Any:
    return [helper.make_node("Unique", ["x0"], ["y0"])]


CELLS = count(MATRIX)
ROW_BYTES = 4.0 * WIDTH
WORKLOADS = (
    indexing(
        "gather",
        gather_inputs,
        {
            "torpor": gather,
            "torch": gather,
            "torch out=": gather_into,
            "jax": gather_jax,
            "onnx": gather_onnx,
        },
        lambda x, indices: np.take_along_axis(x, indices, 1),
        16.0 * CELLS,
    ),
    indexing(
        "embedding",
        table_and_indices,
        {
            "torpor": embedding,
            "torch": embedding_torch,
            "torch out=": embedding_into,
            "jax": embedding,
            "onnx": embedding_onnx,
        },
        lambda table, indices: table[indices],
        2 * PICKED * ROW_BYTES,
    ),
    indexing(
        "embedding-gradient",
        gradient_inputs,
        {
            "torpor": embedding_gradient,
            "torch": embedding_gradient_torch,
            "jax": embedding_gradient_jax,
        },
        embedding_gradient_numpy,
        (ROWS + 2 * PICKED) * ROW_BYTES,
    ),
    indexing(
        "scatter-add",
        scatter_inputs,
        {
            "torpor": scatter_add,
            "torch": scatter_add,
            "jax": scatter_add_jax,
            "onnx": scatter_add_onnx,
        },
        scatter_add_numpy,
        20.0 * CELLS,
    ),
    indexing(
        "cumsum",
        matrix,
        {"torpor": cumsum, "torch": cumsum, "jax": cumsum, "onnx": cumsum_onnx},
        lambda x: np.cumsum(x, -1),
        8.0 * CELLS,
    ),
    indexing(
        "sort",
        matrix,
        {"torpor": sort, "torch": sort, "jax": sort_jax},
        lambda x: np.sort(x, -1),
        8.0 * CELLS,
    ),
    indexing(
        "topk",
        matrix,
        {"torpor": topk, "torch": topk, "jax": topk_jax, "onnx": topk_onnx},
        topk_numpy,
        4.0 * CELLS,
    ),
    indexing(
        "unique",
        many_alike,
        {"torpor": unique, "torch": unique, "onnx": unique_onnx},
        np.unique,
        8.0 * (1 << 20),
    ),
)
