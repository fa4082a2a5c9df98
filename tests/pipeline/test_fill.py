"""Large zeros are memory of the system: they are zeros, and each tensor's own."""

import numpy as np
import pytest

from torpor import Tensor, dtypes
from torpor.pipeline.fill import zeros

SIZE = 1 << 20


def freed(count: int) -> None:
    """Leave blocks behind that hold something else."""
    kept = [(Tensor.ones(SIZE) * n).realize() for n in range(1, count)]
    del kept


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int64, dtypes.bfloat16])
def test_they_are_zeros_whatever_memory_was_freed_before(dtype):
    freed(4)
    made = Tensor.zeros(SIZE // 4, 4, dtype=dtype).realize()
    assert made.shape == (SIZE // 4, 4)
    assert not made.cast("float32").numpy().any()


def test_each_has_memory_of_its_own():
    one, other = Tensor.zeros(SIZE), Tensor.zeros(SIZE)
    one.realize(other)
    view = one[1:3]
    view += 2
    assert (one.sum().item(), other.sum().item()) == (4, 0)


def test_other_roots_are_computed_beside_them():
    x = Tensor(np.arange(5))
    none, double, more = Tensor.zeros(SIZE), x * 2, Tensor.zeros(2, SIZE)
    none.realize(double, more)
    assert double.tolist() == [0, 2, 4, 6, 8]
    assert not none.numpy().any()
    assert not more.numpy().any()


def test_what_is_written_later_stays_written():
    made = Tensor.zeros(SIZE).realize()
    for _ in range(3):
        made += 1
        made.realize()
    np.testing.assert_array_equal(made.numpy(), np.full(SIZE, 3, np.float32))


def test_a_negative_zero_keeps_its_sign():
    made = Tensor.full((SIZE,), -0.0).realize().numpy()
    assert np.signbit(made).all()


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor.zeros(4),
        Tensor.ones(SIZE),
        Tensor.zeros(SIZE, device="PYTHON"),
        Tensor.zeros(SIZE) + 1,
    ],
)
def test_all_else_is_left_to_kernels(tensor):
    assert zeros(tensor._storage.base, tensor.device) is None
