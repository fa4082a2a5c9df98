"""Scales of blocks are computed once for each block."""

import numpy as np

from torpor import Tensor
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.ir.records import OptOps
from torpor.kernel.choose.heuristics import choose
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import coefficients


def test_scales_of_blocks_are_computed_as_vectors_before_the_blocks():
    """Each of the two coefficients, once; the kernel gives what its plain form gives."""
    generator = np.random.default_rng(0)
    x = Tensor(generator.standard_normal((1, 512), np.float32)).realize()
    codes = Tensor(generator.integers(0, 16, (24, 16, 32), np.uint8)).realize()
    scale = Tensor(generator.random((24, 16, 1)).astype(np.float16)).realize().float()
    result = x @ (codes.float() * scale + scale * -8).reshape(24, 512).T
    (item,) = result.schedule()
    kernel = Kernel(item.ast, facts(machine("avx2")))
    assert [v.op for v in coefficients(kernel.ast)] == [Ops.MUL, Ops.CAST]
    opts = [opt.op for opt in choose(kernel)]
    assert opts.count(OptOps.STAGE) == 2
    want = (codes.numpy() - 8.0) * scale.numpy()
    want = x.numpy().astype(np.float64) @ want.reshape(24, 512).T
    np.testing.assert_allclose(result.numpy(), want, rtol=1e-5, atol=1e-4)


def test_few_blocks_have_their_scales_where_they_are():
    x, codes, scale = (
        Tensor.empty(1, 96),
        Tensor.empty(24, 3, 32, dtype="uint8"),
        Tensor.empty(24, 3),
    )
    result = x @ (codes.float() * (scale * 2).unsqueeze(-1)).reshape(24, 96).T
    (item,) = result.schedule()
    assert OptOps.STAGE not in [o.op for o in choose(Kernel(item.ast, facts(machine("avx2"))))]


def test_codes_that_lie_two_to_a_byte_are_computed_where_they_are_needed():
    """Not staged, each for two neighbours, though a scale in the same product is shared by 32."""
    generator = np.random.default_rng(1)
    x = Tensor(generator.standard_normal((1, 512), np.float32)).realize()
    held = generator.integers(0, 256, (24, 256), np.uint8)
    scale = generator.random((24, 16, 1), np.float32)
    low, high = (Tensor(held) & 15, Tensor(held) >> 4)
    codes = Tensor.stack([low, high], -1).reshape(24, 16, 32).float() - 8
    result = x @ (codes * Tensor(scale)).reshape(24, 512).T
    (item,) = result.schedule()
    assert OptOps.STAGE not in [o.op for o in choose(Kernel(item.ast, facts(machine("avx2"))))]
    numbers = np.stack([held & 15, held >> 4], -1).reshape(24, 16, 32) - 8.0
    want = x.numpy().astype(np.float64) @ (numbers * scale).reshape(24, 512).T
    np.testing.assert_allclose(result.numpy(), want, rtol=1e-5, atol=1e-4)
