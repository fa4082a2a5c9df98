"""What memory limits: chains, broadcasts, softmax, norms, sums, transposes, concatenation."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.workload import Workload, count, randoms

# A matrix of float32 of each size.
SIZES = {"4KB": (16, 64), "1MB": (256, 1024), "64MB": (4096, 4096)}


def memory(
    name: str,
    size: str,
    shapes: tuple[tuple[int, ...], ...],
    result: tuple[int, ...],
    functions: dict[str, Any],
    reference: Any,
    operations: float,
    mix: str = "copy",
) -> Workload:
    """A workload whose bytes are those of its inputs and of its result."""
    return Workload(
        f"memory/{name}-{size}",
        randoms(*shapes),
        functions,
        reference,
        flops=operations * count(*shapes[:1]),
        bytes=4.0 * count(*shapes, result),
        mix=mix,
        quick=size == "64MB" or (size == "4KB" and name in ("chain", "softmax")),
    )


# --- an elementwise chain -------------------------------------------------------------------------
def chain(library: Any, x: Any) -> Any:
    return (x * 2 + 1).relu().exp()


def chain_torch_into(torch: Any, x: Any, out: Any) -> Any:
    out = torch.mul(x, 2, out=out)
    return out.add_(1).relu_().exp_()


def chain_jax(jax: Any, x: Any) -> Any:
    return jax.numpy.exp(jax.nn.relu(x * 2 + 1))


def chain_numpy(numpy: Any, x: Any, out: Any = None) -> Any:
    out = numpy.multiply(x, 2, out=out)
    numpy.add(out, 1, out=out)
    numpy.maximum(out, 0, out=out)
    return numpy.exp(out, out=out)


def chain_onnx(helper: Any) -> Any:
    node = helper.make_node
    return [
        node("Constant", [], ["two"], value_float=2.0),
        node("Constant", [], ["one"], value_float=1.0),
        node("Mul", ["x0", "two"], ["double"]),
        node("Add", ["double", "one"], ["more"]),
        node("Relu", ["more"], ["positive"]),
        node("Exp", ["positive"], ["y0"]),
    ]


CHAIN = {
    "torpor": chain, "torch": chain, "tinygrad": chain, "jax": chain_jax,
    "torch out=": chain_torch_into, "numpy": chain_numpy, "onnx": chain_onnx,
}  # fmt: skip


# --- y = a*x + b with rows and columns broadcast --------------------------------------------------
def broadcast(library: Any, x: Any, row: Any, column: Any) -> Any:
    return x * row + column


def broadcast_into(library: Any, x: Any, row: Any, column: Any, out: Any) -> Any:
    out = library.multiply(x, row, out=out)
    return library.add(out, column, out=out)


def broadcast_onnx(helper: Any) -> Any:
    node = helper.make_node
    return [node("Mul", ["x0", "x1"], ["scaled"]), node("Add", ["scaled", "x2"], ["y0"])]


BROADCAST = dict.fromkeys(("torpor", "torch", "jax", "tinygrad"), broadcast) | {
    "torch out=": broadcast_into, "numpy": broadcast_into, "onnx": broadcast_onnx,
}  # fmt: skip


# --- rows: softmax and norms ----------------------------------------------------------------------
def softmax(torch: Any, x: Any) -> Any:
    return x.softmax(-1)


def softmax_torch_into(torch: Any, x: Any, out: Any) -> Any:
    return torch.softmax(x, -1, out=out)


def softmax_jax(jax: Any, x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def softmax_numpy(numpy: Any, x: Any, out: Any = None) -> Any:
    out = numpy.subtract(x, x.max(-1, keepdims=True), out=out)
    numpy.exp(out, out=out)
    return numpy.divide(out, out.sum(-1, keepdims=True), out=out)


def softmax_onnx(helper: Any) -> Any:
    return [helper.make_node("Softmax", ["x0"], ["y0"], axis=-1)]


SOFTMAX = {
    "torpor": softmax, "torch": softmax, "tinygrad": softmax, "jax": softmax_jax,
    "torch out=": softmax_torch_into, "numpy": softmax_numpy, "onnx": softmax_onnx,
}  # fmt: skip


def layer_norm(library: Any, x: Any, weight: Any, bias: Any) -> Any:
    if library.__name__ == "torch":
        return library.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)
    return x.layer_norm(x.shape[-1:], weight, bias)


def layer_norm_array(library: Any, x: Any, weight: Any, bias: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / (variance + 1e-5) ** 0.5 * weight + bias


def layer_norm_tinygrad(tinygrad: Any, x: Any, weight: Any, bias: Any) -> Any:
    return x.layernorm(eps=1e-5) * weight + bias


def layer_norm_onnx(helper: Any) -> Any:
    return [helper.make_node("LayerNormalization", ["x0", "x1", "x2"], ["y0"], epsilon=1e-5)]


LAYER_NORM = {
    "torpor": layer_norm, "torch": layer_norm, "jax": layer_norm_array,
    "tinygrad": layer_norm_tinygrad, "onnx": layer_norm_onnx,
}  # fmt: skip


def rms_norm(library: Any, x: Any, weight: Any) -> Any:
    if library.__name__ == "torch":
        return library.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-5)
    return x.rms_norm(x.shape[-1:], weight, 1e-5)


def rms_norm_array(library: Any, x: Any, weight: Any) -> Any:
    return x / ((x**2).mean(-1, keepdims=True) + 1e-5) ** 0.5 * weight


RMS_NORM = {"torpor": rms_norm, "torch": rms_norm, "jax": rms_norm_array}


# --- cross-entropy of rows of logits --------------------------------------------------------------
def labelled(rows: int, columns: int) -> Any:
    def make(generator: np.random.Generator) -> Any:
        logits = generator.standard_normal((rows, columns), np.float32)
        return logits, generator.integers(0, columns, rows)

    return make


def cross_entropy(torpor: Any, logits: Any, labels: Any) -> Any:
    return logits.cross_entropy(labels)


def cross_entropy_torch(torch: Any, logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, labels)


def cross_entropy_jax(jax: Any, logits: Any, labels: Any) -> Any:
    chances = jax.nn.log_softmax(logits)
    return -jax.numpy.take_along_axis(chances, labels[:, None], 1).mean()


def cross_entropy_numpy(logits: Any, labels: Any) -> Any:
    most = logits.max(1)
    total = np.log(np.exp(logits - most[:, None]).sum(1)) + most
    return (total - logits[np.arange(len(logits)), labels]).mean()


def cross_entropy_of(size: str) -> Workload:
    return Workload(
        f"memory/cross_entropy-{size}",
        labelled(*SIZES[size]),
        {"torpor": cross_entropy, "torch": cross_entropy_torch, "jax": cross_entropy_jax},
        cross_entropy_numpy,
        flops=14.0 * count(SIZES[size]),
        bytes=4.0 * count(SIZES[size]),
        mix="read",
        quick=size == "64MB",
    )


# --- sums -----------------------------------------------------------------------------------------
def sum_all(library: Any, x: Any) -> Any:
    return x.sum()


def sum_rows(library: Any, x: Any) -> Any:
    return x.sum(-1)


def sum_columns(library: Any, x: Any) -> Any:
    return x.sum(0)


def sum_numpy(axis: int | None) -> Any:
    def into(numpy: Any, x: Any, out: Any = None) -> Any:
        return numpy.asarray(numpy.sum(x, axis=axis, out=out))

    return into


def sum_onnx(axis: int | None) -> Any:
    def nodes(helper: Any) -> Any:
        if axis is None:
            return [helper.make_node("ReduceSum", ["x0"], ["y0"], keepdims=0)]
        axes = helper.make_node("Constant", [], ["axes"], value_ints=[axis])
        return [axes, helper.make_node("ReduceSum", ["x0", "axes"], ["y0"], keepdims=0)]

    return nodes


def sums(function: Any, axis: int | None) -> dict[str, Any]:
    shared = dict.fromkeys(("torpor", "torch", "jax", "tinygrad"), function)
    return shared | {"numpy": sum_numpy(axis), "onnx": sum_onnx(axis)}


# --- moves ----------------------------------------------------------------------------------------
def transpose(library: Any, x: Any) -> Any:
    return x.T.contiguous()


def transpose_jax(jax: Any, x: Any) -> Any:
    return x.T


def transpose_torch_into(torch: Any, x: Any, out: Any) -> Any:
    return torch.empty_like(x.T).contiguous() if out is None else out.copy_(x.T)


def transpose_numpy(numpy: Any, x: Any, out: Any = None) -> Any:
    if out is None:
        return numpy.ascontiguousarray(x.T)
    numpy.copyto(out, x.T)
    return out


def transpose_onnx(helper: Any) -> Any:
    return [helper.make_node("Transpose", ["x0"], ["y0"])]


TRANSPOSE = {
    "torpor": transpose, "torch": transpose, "tinygrad": transpose, "jax": transpose_jax,
    "torch out=": transpose_torch_into, "numpy": transpose_numpy, "onnx": transpose_onnx,
}  # fmt: skip


def concatenate(library: Any, x: Any, y: Any) -> Any:
    return library.cat((x, y), 1)


def concatenate_into(library: Any, x: Any, y: Any, out: Any) -> Any:
    return library.cat((x, y), 1, out=out)


def concatenate_numpy(numpy: Any, x: Any, y: Any, out: Any = None) -> Any:
    return numpy.concatenate((x, y), 1, out=out)


def concatenate_jax(jax: Any, x: Any, y: Any) -> Any:
    return jax.numpy.concatenate((x, y), 1)


def concatenate_tinygrad(tinygrad: Any, x: Any, y: Any) -> Any:
    return x.cat(y, dim=1).contiguous()


def concatenate_onnx(helper: Any) -> Any:
    return [helper.make_node("Concat", ["x0", "x1"], ["y0"], axis=1)]


CONCATENATE = {
    "torpor": concatenate, "torch": concatenate, "torch out=": concatenate_into,
    "numpy": concatenate_numpy, "jax": concatenate_jax, "tinygrad": concatenate_tinygrad,
    "onnx": concatenate_onnx,
}  # fmt: skip


def of_size(size: str) -> list[Workload]:
    """All of them at one size."""
    rows, columns = x = SIZES[size]
    row, column = (columns,), (rows, 1)
    half = (rows, columns // 2)
    exact = {name: lambda *a, f=f: f(np, *a) for name, f in REFERENCES.items()}
    made = (
        ("chain", (x,), x, CHAIN, 12.0, "copy"),
        ("broadcast", (x, row, column), x, BROADCAST, 2.0, "copy"),
        ("softmax", (x,), x, SOFTMAX, 14.0, "copy"),
        ("layer_norm", (x, row, row), x, LAYER_NORM, 8.0, "copy"),
        ("rms_norm", (x, row), x, RMS_NORM, 4.0, "copy"),
        ("sum", (x,), (), sums(sum_all, None), 1.0, "read"),
        ("sum-rows", (x,), (rows,), sums(sum_rows, -1), 1.0, "read"),
        ("sum-columns", (x,), (columns,), sums(sum_columns, 0), 1.0, "read"),
        ("transpose", (x,), (columns, rows), TRANSPOSE, 0.0, "copy"),
        ("concatenate", (half, half), x, CONCATENATE, 0.0, "copy"),
    )
    return [
        memory(name, size, shapes, result, functions, exact[name], operations, mix)
        for name, shapes, result, functions, operations, mix in made
    ]


REFERENCES = {
    "chain": chain_numpy,
    "broadcast": broadcast,
    "softmax": softmax_numpy,
    "layer_norm": layer_norm_array,
    "rms_norm": rms_norm_array,
    "sum": sum_all,
    "sum-rows": sum_rows,
    "sum-columns": sum_columns,
    "transpose": transpose_numpy,
    "concatenate": concatenate_numpy,
}

WORKLOADS = tuple(
    workload for size in SIZES for workload in (*of_size(size), cross_entropy_of(size))
)
