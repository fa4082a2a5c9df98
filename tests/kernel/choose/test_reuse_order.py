"""The order of axes in products of few rows."""

import numpy as np
import pytest

from torpor import Tensor
from torpor.device.machine import facts, machine
from torpor.ir.records import Opt, OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose


def product(level: str, rows: int, lanes: int, depth: int = 512) -> Kernel:
    """Of [rows, depth] by the transpose of [lanes, depth], for a kind of processor."""
    (item,) = (Tensor.empty(rows, depth) @ Tensor.empty(lanes, depth).T).schedule()
    return Kernel(item.ast, facts(machine(level)))


@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_a_product_of_few_rows_reads_the_large_operand_once(level: str) -> None:
    opts = choose(product(level, 4, 4096))
    assert Opt(OptOps.SWAP, 0, 1) in opts, "rows of the large operand outside"
    assert OptOps.STAGE not in [opt.op for opt in opts], "nothing is read often enough to be packed"
    small = choose(product(level, 4, 64))
    assert OptOps.SWAP not in [opt.op for opt in small], "both operands stay in the cache"


@pytest.mark.parametrize("rows", [1, 4, 7, 8])
@pytest.mark.parametrize("lanes", [1021, 1024])
def test_products_of_few_rows(rows: int, lanes: int) -> None:
    generator = np.random.default_rng(rows)
    x, w = (generator.standard_normal((n, 320), np.float32) for n in (rows, lanes))
    expected = x.astype(np.float64) @ w.T
    got = (Tensor(x) @ Tensor(w).T).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
