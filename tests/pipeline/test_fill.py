"""Tensors of one number need no kernel, large zeros no memory: each is a tensor's own."""

import warnings

import numpy as np
import pytest

from torpor import Context, RecompileWarning, Tensor, dtypes, jit, profile
from torpor.pipeline.fill import filled

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
        Tensor.ones(SIZE),
        Tensor.zeros(SIZE, device="PYTHON"),
        Tensor.zeros(SIZE) + 1,
    ],
)
def test_all_else_is_left_to_kernels(tensor):
    assert filled(tensor._storage.base, tensor.device) is None


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "bfloat16", "float8_e5m2", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3)])
def test_few_of_one_number_are_that_number(shape, dtype):
    made = Tensor.full(shape, 1, dtype=dtype)
    assert filled(made._storage.base, made.device) is not None
    np.testing.assert_array_equal(made.cast("float32").numpy(), np.ones(shape))


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), -0.0, 1e-40, 0.1])
def test_a_number_keeps_its_bits(number):
    bits = Tensor(number).realize().numpy().view(np.int32)
    assert bits == np.float32(number).view(np.int32)


def test_numbers_handed_to_a_jitted_function_compile_nothing():
    double = jit(lambda x: x * 2)
    assert double(Tensor(0.25)).item() == 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompileWarning)
        given = [0.37 + number for number in range(30)]
        made = [double(Tensor(number, dtype="float64")).item() for number in given]
    assert made == [2 * number for number in given]


@pytest.mark.parametrize("looking", [lambda: Context(DEBUG=2), profile])
def test_they_need_no_kernel_either_where_somebody_looks(looking, capsys):
    with warnings.catch_warnings(), looking():
        warnings.simplefilter("error", RecompileWarning)
        made = [Tensor.full((3,), number / 8).realize() for number in range(8)]
    assert capsys.readouterr().out == ""
    assert [one[0].item() for one in made] == [number / 8 for number in range(8)]
