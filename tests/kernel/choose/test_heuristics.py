"""Kernels that would be written out too often are shortened, whatever their values take."""

import numpy as np

from bench.compile import kernels
from torpor import Tensor
from torpor.device.machine import facts, machine
from torpor.kernel.lower import lower


def test_functions_of_many_instructions_are_not_written_out_without_end() -> None:
    """A gradient of half-precision numbers through cosines, which no vector reads in a row: it took
    54 seconds to compile when each cosine counted as one value.
    """
    (*_, (_, ast)) = kernels(5676)
    assert len(lower(ast, facts(machine("avx512"))).linear) < 20_000


def test_shortened_kernels_compute_the_same() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((7, 16, 9, 14))
    y, z = generator.standard_normal((3, 7, 16, 1, 1)), generator.standard_normal((3, 1, 1, 9, 1))
    expected = (np.cos(x * z) * y + np.sin(x + z) * y).sum(0)
    a, b, c = (Tensor(n) for n in (x, y, z))
    np.testing.assert_allclose(((a * c).cos() * b + (a + c).sin() * b).sum(0).numpy(), expected)
