"""The order of axes in products of few rows."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.device import Device
from torpor.ir.records import Opt, OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose


def kernel_of(x: Tensor) -> Kernel:
    (item,) = x.schedule()
    return Kernel(item.ast, Device["CPU"].target)


def product(rows: int, lanes: int, depth: int = 512) -> Kernel:
    """Of [rows, depth] by the transpose of [lanes, depth]."""
    return kernel_of(Tensor.empty(rows, depth) @ Tensor.empty(lanes, depth).T)


def test_a_product_of_few_rows_reads_the_large_operand_once() -> None:
    for rows in (3, 4, 8):
        kernel = product(rows, 4096)
        opts = choose(kernel)
        outer = Opt(OptOps.SWAP, 0, 1) in opts  # rows of the large operand outside
        together = Opt(OptOps.UPCAST, 0, rows) in opts
        assert outer or together, rows
        assert OptOps.STAGE not in [opt.op for opt in opts], "nothing is read often enough for it"


@pytest.mark.parametrize("rows", [1, 4, 7, 8])
@pytest.mark.parametrize("lanes", [1021, 1024])
def test_products_of_few_rows(rows: int, lanes: int) -> None:
    generator = np.random.default_rng(rows)
    x, w = (generator.standard_normal((n, 320), np.float32) for n in (rows, lanes))
    expected = x.astype(np.float64) @ w.T
    got = (Tensor(x) @ Tensor(w).T).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
