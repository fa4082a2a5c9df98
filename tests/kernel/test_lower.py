"""Whole lowerings: formats and odd sizes against NumPy, contracts on every target, threads."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.devices import needs
from tests.graph.evaluate import evaluate
from tests.kernel.kernels import INTEGERS, cases, filled, sample
from tests.schedule.graphs import compute
from torpor import Context, Tensor, dtypes, lower
from torpor.base.errors import DTypeError
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel import lower as lower_kernel

WITHOUT_FLOAT64 = ("metal", "wgsl")
TARGETS = ("cpu", "c", "cuda", "opencl", "metal", "python")
FORMATS = (
    *INTEGERS, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.bool,
)  # fmt: skip
KERNELS = cases(dtypes.float32)  # which every target has


def mixed(size, dtype):
    """Neighbours, mirrors, padding and a condition, all exact in every format."""
    x, y = sample(size, dtype=dtype), sample(size, dtype=dtype, step=3)
    low = build.elementwise(Ops.CMPLT, x, filled(x, 1))
    chosen = build.elementwise(Ops.WHERE, low, y, build.elementwise(Ops.ADD, x, y))
    return build.elementwise(Ops.MAX, build.pad(chosen, ((2, 1),)), build.pad(y, ((0, 3),)))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", FORMATS, ids=[d.name for d in FORMATS])
def test_elementwise_in_every_format_and_size(dtype, device):
    for size in (1, 3, 7, 17, 37, 1003):
        root = mixed(size, dtype)
        with Context(CHECK=1):
            (got,) = compute([root], device)
        np.testing.assert_array_equal(got, evaluate(root))


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("dtype", FORMATS, ids=[d.name for d in FORMATS])
def test_reductions_in_every_format(dtype, device):
    x = sample(3, 37, dtype=dtype)
    one_two = build.elementwise(Ops.MAX, build.shrink(x, ((0, 3), (0, 5))), filled(
        build.shrink(x, ((0, 3), (0, 5))), 1))  # fmt: skip
    for op, source in ((Ops.ADD, x), (Ops.MUL, one_two), (Ops.MAX, x), (Ops.MIN, x)):
        root = build.reduce(source, op, 1)
        (got,) = compute([root], device)
        np.testing.assert_array_equal(got, evaluate(root))


@pytest.mark.parametrize("target", TARGETS)
def test_contracts_hold_on_every_target(target):
    with Context(CHECK=1):
        for one in KERNELS:
            for opts in (None, []):
                lowered = lower_kernel(one.item("CPU").ast, get_target(target), opts)
                assert lowered.linear


@pytest.mark.parametrize("target", [*TARGETS[:-1], "wgsl"])
def test_checked_and_masked_kernels_have_text_on_every_target(target):
    x = Tensor.empty(6, 7, dtype=dtypes.int32)
    index = Tensor.empty(5, dtype=dtypes.int32)
    masked = (x != 0).where(x // x, 1).pad(((1, 1), (0, 2)))
    with Context(CHECK=1):
        for tensor in (x // (x - 1), masked, x[index], (x % 5).sum(1)):
            (program,) = lower(tensor.cast(dtypes.int32), target=target)[-1:]
            assert program.source


def test_small_formats_of_reductions_are_gone_where_they_are_missing():
    for dtype in (dtypes.float16, dtypes.bfloat16):
        (program,) = lower(Tensor.empty(37, dtype=dtype).amax(), target="opencl")
        assert all(node.dtype.scalar() is not dtype for node in program.linear)


@pytest.mark.parametrize("device", ["CPU", "PYTHON", "OPENCL"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_nan_comes_through(kind, device):
    needs(device)
    values = np.arange(37).astype(kind)
    values[19] = np.nan
    x = Tensor(values, device=device)
    assert np.isnan(x.amax().numpy())
    assert np.isnan(x.amin().numpy())
    others = np.arange(37) != 19
    for got in (x.relu(), x.maximum(5), x.minimum(5)):
        np.testing.assert_array_equal(np.isnan(got.numpy()), ~others)


SUMS = """
import numpy as np
from torpor import Tensor
x = np.random.default_rng(0).standard_normal((300, 1000)).astype(np.float32)
t = Tensor(x)
for y in (t.sum(), t.sum(0), t.sum(1), t.softmax(1), t @ Tensor(x.T.copy()), t.var()):
    print(y.numpy().tobytes().hex()[:4000])
"""


def test_threads_do_not_change_a_bit(tmp_path):
    texts = []
    for threads in ("1", "2", "4"):
        names = {"TORPOR_THREADS": threads, "TORPOR_CACHE_DIR": str(tmp_path)}
        run = subprocess.run(
            [sys.executable, "-c", SUMS], env={**os.environ, **names},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts.append(run.stdout)
    assert texts[0]
    assert len(set(texts)) == 1


OBJECTS = """
import numpy as np
from tests.graph.evaluate import evaluate, tensor
from tests.kernel.kernels import filled
from tests.schedule.graphs import compute
from torpor.graph import build
from torpor.ir.ops import Ops

x = tensor(np.arange(17) - 8)
none = build.elementwise(Ops.SUB, x, x)
wide = build.elementwise(Ops.MAX, none, filled(none, 0))
wide = build.expand(build.reshape(wide, (17, 1)), (17, 3))
y = tensor((np.arange(192, dtype=np.float32) % 7 - 3).reshape(12, 8, 2))
turned = build.flip(y, (2,))
negative = build.elementwise(Ops.MUL, turned, filled(turned, -1))
copies = build.expand(build.reshape(negative, (12, 8, 2, 1)), (12, 8, 2, 3))
first = [wide, build.elementwise(Ops.MIN, build.flip(none, (0,)), x)]
for roots in (first, [build.reduce(copies, Ops.ADD, 3)]):
    for got, root in zip(compute(roots), roots):
        np.testing.assert_array_equal(got, evaluate(root))
"""


def test_constants_are_read_from_the_kernels_own_object():
    """In a process of its own: it matters which objects were loaded before."""
    root = Path(__file__).parents[2]
    names = {"TORPOR_CACHE": "0", "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", OBJECTS], env={**os.environ, **names}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 8), (2, 5, 16), (4, 4, 2)])
def test_sums_of_which_a_condition_leaves_constants(shape):
    """A copy of which the condition leaves only a constant still sums it in all lanes."""
    values = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 3
    x = Tensor(values).clone()
    x[..., 1:, :].fill_(0.5)
    values[..., 1:, :] = 0.5
    with Context(CHECK=1):
        assert x.sum().item() == values.sum()
        np.testing.assert_array_equal(x.sum(-1).numpy(), values.sum(-1))
        assert x.prod().item() == values.prod()


def test_wide_vectors_go_before_narrow_ones_that_are_stored_in_a_row():
    """Of x.T @ y, both of which lie in rows, 16 columns make two vectors of 8; 6 would make 2."""
    product = Tensor.empty(40, 96).T @ Tensor.empty(40, 72)
    opts = [
        Opt(OptOps.SWAP, 0, 1),
        Opt(OptOps.TILE, 1, 32),
        Opt(OptOps.UPCAST, 2, 16),
        Opt(OptOps.STAGE, 0, 0),
        Opt(OptOps.UPCAST, 1, 6),
    ]
    (program,) = lower(product, target="cpu", opts=opts)
    widths = set(re.findall(r"alloca <(\d+) x float>", program.source))
    assert widths == {"8"}


@pytest.mark.parametrize("target", WITHOUT_FLOAT64)
def test_float64_is_refused_by_name_where_there_is_none(target):
    wide, whole = Tensor.empty(3, 5, dtype=dtypes.float64), Tensor.empty(3, 5, dtype=dtypes.int64)
    places = Tensor.empty(2, dtype=dtypes.int64)
    made = (wide + 1, wide.cumsum(0), wide.cast(dtypes.int32), wide.exp(), wide[places], wide < 1)
    for tensor in (*made, whole.cast(dtypes.float64) * 2, whole.double().sum()):
        with pytest.raises(DTypeError, match=f"{target} has no float64"):
            lower(tensor, target=target)
