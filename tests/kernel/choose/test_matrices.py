"""Which products are those of whole matrices: what the cost model says."""

import pytest

import torpor
from tests import matrices
from torpor import Tensor
from torpor.base.dtypes import dtypes
from torpor.base.settings import Context
from torpor.device.machine import facts, machine
from torpor.ir.records import OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.estimate import copies
from torpor.kernel.opts.kernel import Kernel


def opts_of(result, target=matrices.AMX):
    return choose(Kernel(matrices.last_item(result).ast, target))


def multiplies(result, target=matrices.AMX):
    return any(opt.op is OptOps.MMA for opt in opts_of(result, target))


def pair(rows, summed, columns, dtype=dtypes.bfloat16):
    return Tensor.empty(rows, summed, dtype=dtype), Tensor.empty(summed, columns, dtype=dtype)


@pytest.mark.parametrize("size", [128, 512, 600])
def test_large_products_of_bfloat16(size):
    a, b = pair(size, size, size)
    assert multiplies(a @ b)
    assert not multiplies(a @ b, facts(machine("avx512,+avx512bf16")))


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_large_products_of_bytes(left, right):
    """Signed ones too, without an offset and sums that make up for it: one kernel."""
    a = Tensor.empty(256, 256, dtype=getattr(dtypes, left))
    b = Tensor.empty(256, 256, dtype=getattr(dtypes, right))
    result = a.int() @ b.int()
    assert multiplies(result)
    with Context(TARGET="amx"):
        assert len(result.schedule()) == 1


@pytest.mark.parametrize(
    ("rows", "summed", "columns"), [(1, 4096, 4096), (8, 8, 8), (512, 4, 512), (2, 512, 512)]
)
def test_what_few_share_is_left_to_vectors(rows, summed, columns):
    a, b = pair(rows, summed, columns)
    assert not multiplies(a @ b)


def test_other_formats_and_other_sums_are_left_alone():
    a, b = pair(256, 256, 256)
    assert not multiplies(a.float() @ b.float() * 0.5 + (a.float() * 2) @ b.float())
    assert not multiplies(Tensor.empty(256, 256) @ Tensor.empty(256, 256))


def test_exact_floats_take_no_such_licence():
    a, b = pair(256, 256, 256)
    with Context(STRICT_FLOAT=1):
        assert not multiplies(a @ b)


def test_products_of_bytes_are_exact_and_need_no_licence():
    a, b = pair(256, 256, 256, dtypes.int8)
    with Context(STRICT_FLOAT=1):
        assert multiplies(a.int() @ b.int())


@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions(kernel):
    x, w = Tensor.empty(4, 64, 28, 28), Tensor.empty(64, 64, kernel, kernel)
    brain = x.cast(dtypes.bfloat16).realize(), w.cast(dtypes.bfloat16).realize()
    assert multiplies(brain[0].conv2d(brain[1], padding=kernel // 2))


@pytest.mark.parametrize("form", matrices.FORMS)
@pytest.mark.parametrize("size", [127, 999])
def test_kernels_stay_short(size, form):
    """Also where words are put together byte by byte."""
    a, b = (Tensor.empty(size, size, dtype=dtypes.int8) for _ in range(2))
    left, right = (x.T if letter == "t" else x for x, letter in zip((a, b), form, strict=True))
    result = left.int() @ right.int()
    made = Kernel(matrices.last_item(result).ast, matrices.AMX)
    made.apply(choose(made))
    assert copies(made.ast, matrices.AMX) < 16 * 2048


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [512, 1024])
def test_both_products_of_attention(length, causal):
    """Also where tiles above the diagonal are left out, so that sums have lengths of their own."""
    q, k, v = (Tensor.empty(12, length, 64, dtype=dtypes.bfloat16) for _ in range(3))
    with Context(TARGET="amx"):
        items = q.scaled_dot_product_attention(k, v, is_causal=causal).schedule()
    kernels = {item.ast: choose(Kernel(item.ast, matrices.AMX)) for item in items}
    products = [any(opt.op is OptOps.MMA for opt in opts) for opts in kernels.values()]
    assert sum(products) == 2


@pytest.mark.parametrize("causal", [False, True])
def test_all_products_of_the_gradients_of_attention(causal):
    """Of each head: the scores, and those for values, weights, queries and keys."""
    q, k, v, g = (
        Tensor.empty(12, 1024, 64, dtype=dtypes.bfloat16).requires_grad_() for _ in range(4)
    )
    with Context(TARGET="amx"):
        made = q.scaled_dot_product_attention(k, v, is_causal=causal)
        first, *more = torpor.autograd.grad((made * g).sum(), [q, k, v])
        items = first.schedule(*more)
    asts = {item.ast for item in items}
    kernels = {ast: choose(Kernel(ast, matrices.AMX)) for ast in asts}
    products = {ast for ast, opts in kernels.items() if OptOps.MMA in [opt.op for opt in opts]}
    assert sum(item.ast in products for item in items) >= 5 * 12
