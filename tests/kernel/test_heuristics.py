"""What the heuristics choose for rows."""

import numpy as np
import pytest

from torpor import Tensor, cat, lower
from torpor.device import Device
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel import Kernel
from torpor.kernel.heuristics import choose


def two_outputs(x: Tensor) -> tuple[Tensor, ...]:
    grown = (x - x.amax(1, keepdim=True)).exp()
    return grown, grown.sum(1)


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.var(1),), lambda x: (x.logsumexp(1),), two_outputs],
    ids=["variance", "logsumexp", "values and their sum"],
)
def test_each_pass_over_a_row_has_vectors(function) -> None:
    first, *more = function(Tensor.empty(64, 1024))
    (item,) = first.schedule(*more)
    kernel = Kernel(item.ast, Device["CPU"].target)
    vectors = [opt for opt in choose(kernel) if opt.op is OptOps.UNROLL]
    assert len(vectors) == 2
    assert all(opt.arg % Device["CPU"].target.lanes(4) == 0 for opt in vectors)


def kernel_of(x: Tensor) -> Kernel:
    (item,) = x.schedule()
    return Kernel(item.ast, Device["CPU"].target)


@pytest.mark.parametrize("width", [7, 100, 384])
def test_looked_up_rows_are_copied_by_a_loop_of_their_own(width: int) -> None:
    rows = Tensor.empty(50, width)[Tensor([3, 1, 4]).realize()]
    assert [opt.op for opt in choose(kernel_of(rows))] == [OptOps.THREAD]
    assert OptOps.UPCAST in [opt.op for opt in choose(kernel_of(Tensor.empty(50, 384) + 1))]


def test_looked_up_rows_that_are_computed_with_have_vectors() -> None:
    rows = Tensor.empty(50, 384)[Tensor([3, 1, 4]).realize()] * 2
    assert OptOps.UPCAST in [opt.op for opt in choose(kernel_of(rows))]


@pytest.mark.parametrize(("rows", "together"), [(64, 4), (6, 3), (67, None)])
def test_sums_of_rows_read_several_rows_at_once(rows: int, together: int | None) -> None:
    chosen = choose(kernel_of(Tensor.empty(rows, 4096).sum(1)))
    assert [opt.arg for opt in chosen if opt.op is OptOps.UPCAST] == (
        [together] if together else []
    )
    lanes = Device["CPU"].target.lanes(4)
    assert Opt(OptOps.UNROLL, 0, lanes if together else 4 * lanes) in chosen


@pytest.mark.parametrize("widths", [(64, 64), (100, 37, 300), (20, 999)], ids=str)
def test_concatenations_have_a_loop_for_each_part(widths: tuple[int, ...]) -> None:
    arrays = [np.random.default_rng(n).random((9, n), np.float32) for n in widths]
    joined = cat([Tensor(array).realize() for array in arrays], 1)
    chosen = [opt.op for opt in choose(kernel_of(joined))]
    assert chosen.count(OptOps.PARTITION) == len(widths) - 1
    (program,) = lower(joined)
    assert not any(n.op is Ops.WHERE for n in program.linear)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(arrays, 1))


def product(rows: int, lanes: int, depth: int = 512) -> Kernel:
    """Of [rows, depth] by the transpose of [lanes, depth]."""
    return kernel_of(Tensor.empty(rows, depth) @ Tensor.empty(lanes, depth).T)


def test_a_product_of_few_rows_reads_the_large_operand_once() -> None:
    kernel = product(4, 4096)
    opts = choose(kernel)
    assert Opt(OptOps.SWAP, 0, 1) in opts, "rows of the large operand outside"
    assert OptOps.STAGE not in [opt.op for opt in opts], "nothing is read often enough to be packed"
    small = choose(product(4, 64))
    assert OptOps.SWAP not in [opt.op for opt in small], "both operands stay in the cache"


def test_rows_whose_number_no_tile_divides_are_summed_by_several_vectors() -> None:
    lanes = Device["CPU"].target.lanes(4)
    found = [opt for opt in choose(product(1, 4099)) if opt.op is OptOps.UNROLL]
    assert found == [Opt(OptOps.UNROLL, 0, 4 * lanes)]
    found = [opt for opt in choose(product(1, 4096)) if opt.op is OptOps.UNROLL]
    assert found == [Opt(OptOps.UNROLL, 0, lanes)]


@pytest.mark.parametrize("rows", [1, 4, 7, 8])
@pytest.mark.parametrize("lanes", [1021, 1024])
def test_products_of_few_rows(rows: int, lanes: int) -> None:
    generator = np.random.default_rng(rows)
    x, w = (generator.standard_normal((n, 320), np.float32) for n in (rows, lanes))
    expected = x.astype(np.float64) @ w.T
    got = (Tensor(x) @ Tensor(w).T).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
