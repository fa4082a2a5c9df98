"""Products that are summed: blocks, register tiles and packed tiles keep the result."""

import numpy as np
import pytest

import torpor
from tests.devices import needs
from tests.kernel.kernels import cases, check_kernel
from tests.kernel.products import FORMS, agree, operands, opts_of
from torpor import Tensor
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.device import Device
from torpor.kernel import Kernel, Opt, OptOps

NAMED = {one.name: one for one in cases()}
SIZES = [
    (16, 16, 16),
    (17, 33, 16),
    (64, 64, 64),
    (61, 40, 37),
    (127, 127, 127),
    (130, 3, 200),
    (64, 300, 8),
    (35, 70, 18),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("form", FORMS)
def test_products_of_any_size(size, form):
    (x, y), (a, b) = operands(*size, form)
    agree((x @ y).numpy(), a @ b)


def test_batches_with_a_prologue_and_an_epilogue():
    random = np.random.default_rng(2)
    a = random.standard_normal((3, 20, 24), np.float32)
    b = random.standard_normal((3, 24, 48), np.float32)
    bias = random.standard_normal(48, np.float32)
    result = (Tensor(a) @ (Tensor(b) * 2) + Tensor(bias)).relu()
    assert len(result.schedule()) == 1
    assert OptOps.STAGE in opts_of(result)
    wide = a.astype(np.float64) @ (b * 2).astype(np.float64)
    agree(result.numpy(), np.maximum(wide + bias, 0))


@pytest.mark.parametrize("batches", [3, 12])
def test_threads_share_the_longer_of_batches_and_blocks(batches):
    (x, _), (a, _) = operands(batches * 128, 64, 128, "plain")
    x, a = x.reshape(batches, 128, 64).realize(), a.reshape(batches, 128, 64)
    keys = Tensor(np.ascontiguousarray(a[:, ::-1], np.float32))
    product = x @ keys.transpose(1, 2)
    (program,) = torpor.lower(product, target="cpu")
    assert int(program.thread_range) >= batches
    agree(product.numpy(), a @ a[:, ::-1].transpose(0, 2, 1))


@pytest.mark.parametrize("rows", [16, 24, 31, 33, 40, 56])
def test_weights_transposed_that_many_images_share(rows):
    """Rows whose steps along the sum are pages apart are packed in blocks; what fills no block is
    apart.
    """
    random = np.random.default_rng(5)
    wide = random.standard_normal((20, 1024), np.float32)
    a, b = wide[:, :rows], random.standard_normal((3, 20, 130), np.float32)
    result = Tensor(wide).realize()[:, :rows].T @ Tensor(b)
    agree(result.numpy(), a.astype(np.float64).T @ b.astype(np.float64))


@pytest.mark.parametrize("sizes", [(2048, 96, 64), (1300, 40, 33), (1024, 100, 100)])
def test_rows_that_few_vectors_share(sizes):
    rows, inner, columns = sizes
    tensors, arrays = operands(rows, inner, columns, "left transposed")
    agree((tensors[0] @ tensors[1]).numpy(), arrays[0] @ arrays[1])


@pytest.mark.parametrize("rows", [300, 1023, 1024])
def test_rows_side_by_side(rows):
    tensors, arrays = operands(rows, 40, 33, "left transposed")
    product = tensors[0] @ tensors[1]
    agree(product.numpy(), arrays[0] @ arrays[1])


def test_what_is_computed_from_weights_is_packed_not_computed_again():
    """int8 weights with a scale for each column become floats once a block, not once a row."""
    random = np.random.default_rng(3)
    a = random.standard_normal((16, 64), np.float32)
    weights = random.integers(-127, 128, (64, 64), np.int8)
    scale = random.random(64, np.float32)
    result = Tensor(a) @ (Tensor(weights).cast("float32") * Tensor(scale))
    (program,) = torpor.lower(result, target="c")
    assert OptOps.STAGE in [opt.op for opt in program.opts]
    inner = program.source.rpartition("for (")[2]
    assert "data1" in inner
    assert "data2" not in inner
    agree(result.numpy(), a.astype(np.float64) @ (weights * scale).astype(np.float64))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int64"])
def test_other_formats(dtype):
    random = np.random.default_rng(4)
    a, b = random.integers(-4, 5, (33, 20)), random.integers(-4, 5, (20, 40))
    result = Tensor(a).cast(dtype) @ Tensor(b).cast(dtype)
    assert (result.cast("int64").numpy() == a @ b).all()


CONVOLUTIONS = [
    (1, 3, 15, 20, 7, 2, 3, 1),
    (2, 16, 14, 18, 3, 1, 1, 1),
    (1, 16, 14, 16, 3, 2, 1, 1),
    (1, 32, 7, 24, 3, 1, 1, 1),
    (1, 20, 14, 33, 1, 1, 0, 1),
    (2, 12, 9, 32, 3, 1, 0, 2),
]


@pytest.mark.parametrize("sizes", CONVOLUTIONS, ids=lambda s: "-".join(map(str, s)))
def test_convolutions(sizes):
    images, channels, side, results, kernel, stride, padding, groups = sizes
    random = np.random.default_rng(6)
    x = random.standard_normal((images, channels, side, side), np.float32)
    w = random.standard_normal((results, channels // groups, kernel, kernel), np.float32)
    result = Tensor(x).conv2d(Tensor(w), stride=stride, padding=padding, groups=groups)
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    windows = windows.reshape(images, groups, channels // groups, *windows.shape[2:])
    weights = w.astype(np.float64).reshape(groups, results // groups, *w.shape[1:])
    expected = np.einsum("bgchwij,gocij->bgohw", windows, weights)
    agree(result.numpy(), expected.reshape(result.shape))


def test_threads_share_images():
    random = np.random.default_rng(8)
    x = random.standard_normal((5, 48, 28, 28), np.float32)
    w = random.standard_normal((33, 48, 1, 1), np.float32)
    result = Tensor(x).conv2d(Tensor(w))
    (program,) = torpor.lower(result, target="cpu")
    assert int(program.thread_range) % 5 == 0
    assert int(program.thread_range) >= 5
    wide = np.einsum("oc,bcyx->boyx", w[:, :, 0, 0].astype(np.float64), x.astype(np.float64))
    agree(result.numpy(), wide)


def test_an_axis_that_fills_most_of_a_vector_is_padded():
    x, w = Tensor.empty(2, 24, 7, 7), Tensor.empty(24, 1, 3, 3)
    result = x.conv2d(w, padding=1, groups=24)
    opts = torpor.lower(result, target="cpu")[0].opts
    assert OptOps.PADTO in [opt.op for opt in opts]
    random = np.random.default_rng(7)
    a, b = (random.integers(-9, 9, s).astype(np.float32) for s in ((2, 24, 7, 7), (24, 1, 3, 3)))
    result = Tensor(a).conv2d(Tensor(b), padding=1, groups=24).numpy()
    wide = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    assert (result == np.einsum("nchwij,cij->nchw", windows, b[:, 0])).all()


TILED = [
    [Opt(OptOps.TILE, 0, 4)],
    [Opt(OptOps.TILE, 1, 4), Opt(OptOps.STAGE, 0, 1)],
    [Opt(OptOps.TILE, 1, 8), Opt(OptOps.UPCAST, 2, 4), Opt(OptOps.STAGE, 0, 1)],
    [Opt(OptOps.PARTITION, 0, 5), Opt(OptOps.UPCAST, 0, 5)],
    [Opt(OptOps.PARTITION, 2, 3)],
    [Opt(OptOps.TILE, 2, 3)],
    [Opt(OptOps.TILE, 2, 2), Opt(OptOps.UPCAST, 4, 4), Opt(OptOps.UPCAST, 1, 4)],
    [Opt(OptOps.TILE, 2, 3), Opt(OptOps.STAGE, 2, 1)],
    [Opt(OptOps.STAGE, 0, 0), Opt(OptOps.STAGE, 0, 0)],
    [Opt(OptOps.STAGE, 0, 1), Opt(OptOps.PARTITION, 0, 7), Opt(OptOps.UPCAST, 0, 7)],
    [Opt(OptOps.PADTO, 1, 16), Opt(OptOps.UPCAST, 1, 8), Opt(OptOps.STAGE, 0, 1)],
]


@pytest.mark.parametrize("device", ["PYTHON", "CPU", "OPENCL"])
@pytest.mark.parametrize("opts", TILED, ids=lambda opts: " ".join(o.op.name for o in opts))
def test_tiles_parts_and_packed_tiles_keep_the_result(device, opts):
    needs(device)
    kernel = Kernel(NAMED["matmul"].item("CPU").ast, Device[device].target)
    kept = []
    for opt in opts:
        try:
            kernel.apply_opt(opt)
        except OptError:
            continue
        kept.append(opt)
    assert kept or device != "CPU"
    check_kernel(NAMED["matmul"], device, kept)


@pytest.mark.parametrize(
    ("opts", "why"),
    [
        ([Opt(OptOps.TILE, 0, 5)], "TILE of axis 0 by 5.*does not divide"),
        ([Opt(OptOps.TILE, 2, 5)], "TILE of axis 2 by 5.*does not divide"),
        ([Opt(OptOps.TILE, 2, 2), Opt(OptOps.UPCAST, 2, 0)], "UPCAST.*the same packed memory"),
        ([Opt(OptOps.STAGE, 0, 1), Opt(OptOps.UPCAST, 0, 2)], None),
        ([Opt(OptOps.STAGE, 0, 0), Opt(OptOps.UPCAST, 0, 2)], "UPCAST.*the same packed memory"),
        ([Opt(OptOps.PARTITION, 0, 0)], "PARTITION.*a part of it"),
        ([Opt(OptOps.PARTITION, 0, 4000)], "PARTITION.*a part of it"),
        ([Opt(OptOps.STAGE, 0, 2)], "STAGE.*reductions read 2 values"),
        ([Opt(OptOps.STAGE, 2, 0)], "STAGE.*reduce axis"),
    ],
)
def test_refusals(opts, why):
    kernel = Kernel(NAMED["matmul"].item("CPU").ast, get_target("cpu"))
    if why is None:
        kernel.apply(opts)
        return
    with pytest.raises(OptError, match=why):
        kernel.apply(opts)


def test_a_tile_that_is_too_large_is_refused():
    x, y = Tensor.empty(512, 512), Tensor.empty(512, 512)
    ast = (x @ y).schedule()[-1].ast
    with pytest.raises(OptError, match=r"STAGE.*1048576 bytes would be staged"):
        Kernel(ast, get_target("cpu")).apply_opt(Opt(OptOps.STAGE, 0, 1))
