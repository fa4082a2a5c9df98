"""Chains of the sizes that people have: lengths of any kind take memory linear in them."""

from __future__ import annotations

import pytest

from tests.schedule.test_tile_and_fuse import bytes_between
from torpor.base.settings import Context
from torpor.schedule import tile_groups


@pytest.mark.parametrize(
    ("count", "most", "part"),
    [(8192, 512, 512), (10000, 512, 500), (8191, 512, 512), (10007, 512, 501), (61, 512, 61),
     (7, 4, 4), (12, 8, 6), (5, 1, 1)],
)  # fmt: skip
def test_parts_divide_or_nearly_so(count: int, most: int, part: int) -> None:
    assert tile_groups.even_part(count, most) == part


@pytest.mark.parametrize(
    ("queries", "keys", "heads", "causal", "gradients", "most"),
    [
        (8191, 8192, 1, False, False, 4e6),  # scores would be 268 MB
        (10007, 10007, 1, False, True, 4e6),
        (8191, 8191, 1, True, True, 20e6),
        (4093, 4093, 2, False, False, 10e6),
        (2039, 2039, 3, True, True, 5e6),
        (61, 200003, 1, False, False, 4e6),
        (40, 196608, 1, False, False, 4e6),
        (5003, 8209, 1, False, True, 4e6),
    ],
)
def test_memory_between_kernels_at_any_length(
    queries: int, keys: int, heads: int, causal: bool, gradients: bool, most: float
) -> None:
    """With 32 MB of last cache: what stays in a larger one need not be cut."""
    with Context(TARGET="avx2,l1=32K,l2=512K,l3=32M"):
        found = bytes_between(queries, keys, heads=heads, causal=causal, gradients=gradients)
    assert found < most
