"""Running: errors that programs raise, memory of intermediates, threads, symbolic sizes."""

import threading

import numpy as np
import pytest

from tests.devices import needs
from torpor import Tensor, Variable, lower
from torpor.base.errors import DivisionByZeroError, OutOfBoundsError, ShapeError
from torpor.base.settings import Context

DEVICES = ("CPU", "PYTHON", "OPENCL")


@pytest.fixture(params=DEVICES)
def device(request):
    return needs(request.param)


def divisors(size=37, zero=20):
    values = np.full(size, 3, np.int32)
    values[zero] = 0
    return values


def test_division_by_zero_names_shapes_and_line(device):
    x = Tensor(np.arange(37, dtype=np.int32), device=device)
    z = Tensor(divisors(), device=device)
    for make, sign in ((lambda: x // z, "//"), (lambda: x % z, "%")):
        made = make()
        for _ in range(2):
            with pytest.raises(DivisionByZeroError) as caught:
                made.numpy()
            text = str(caught.value)
            assert f"integer {sign} by zero" in text
            assert "(37,)" in text
            assert "test_run.py" in text
        assert made.schedule()
    np.testing.assert_array_equal((x // (z + 1)).numpy(), np.arange(37) // (divisors() + 1))


def test_a_division_that_nobody_asks_for_does_not_raise(device):
    x = np.arange(37, dtype=np.int32)
    a, z = Tensor(x, device=device), Tensor(divisors(), device=device)
    safe = np.where(divisors() != 0, x // np.maximum(divisors(), 1), -1)
    np.testing.assert_array_equal((z != 0).where(a // z, -1).numpy(), safe)
    np.testing.assert_array_equal((a // z)[:20].numpy(), x[:20] // 3)
    np.testing.assert_array_equal((a // z)[21:].numpy(), x[21:] // 3)
    ones = Tensor(np.arange(1, 6, dtype=np.int32), device=device)
    padded = (ones // ones).pad(((2, 3),))
    np.testing.assert_array_equal(padded.numpy(), np.pad(np.ones(5), (2, 3)))
    with pytest.raises(DivisionByZeroError):
        (Tensor(np.ones(10, np.int32), device=device) // ones.pad(((2, 3),))).numpy()


def test_an_index_out_of_bounds_raises(device):
    x = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device=device)
    for bad in ([0, 4], [0, -5]):
        with pytest.raises(OutOfBoundsError, match=r"out of bounds[\s\S]*test_run.py"):
            x[Tensor(np.array(bad), device=device)].numpy()
    good = x[Tensor(np.array([0, -4, 3, -1]), device=device)]
    np.testing.assert_array_equal(good.numpy(), np.arange(12).reshape(4, 3)[[0, -4, 3, -1]])
    with pytest.raises(OutOfBoundsError):
        x.gather(1, Tensor(np.array([[0], [1], [3], [0]]), device=device)).numpy()


def test_a_guarded_index_does_not_raise(device):
    x = Tensor(np.array([0.0, 3.0, 6.0, 9.0], np.float32), device=device)
    i = Tensor(np.array([0, 9, 2]), device=device)
    np.testing.assert_array_equal((i < 4).where(x[i], -1.0).numpy(), [0, -1, 6])


def test_results_of_a_failed_run_are_not_seen():
    x, z = Tensor(np.arange(4, dtype=np.int32)), Tensor(np.array([1, 0, 2, 3], np.int32))
    first, second = x + 1, x // z
    with pytest.raises(DivisionByZeroError):
        Tensor.realize(first, second)
    assert second.schedule()
    np.testing.assert_array_equal(first.numpy(), [1, 2, 3, 4])


# --- sizes that come with the call ----------------------------------------------------------------
def test_one_kernel_serves_every_size():
    source = np.arange(40, dtype=np.float32).reshape(10, 4)
    n = Variable("n", 1, 10)
    keys = set()
    for size in (1, 3, 7, 10):
        x = Tensor(source)[: n.bind(size)]
        for made, expected in (
            ((x * 2).sum(), (source[:size] * 2).sum()),
            (x.sum(0), source[:size].sum(0)),
            ((x + 1).amax(), source[:size].max() + 1),
        ):
            keys.add(made.schedule()[-1].ast.key)
            np.testing.assert_array_equal(made.numpy(), expected)
    assert len(keys) == 3


def test_rows_of_a_symbolic_number_may_be_cut_among_threads():
    source = np.arange(64 * 4096, dtype=np.float32).reshape(64, 4096)
    x = Tensor(source)[: Variable("n", 1, 64).bind(37)] + 1
    assert lower(x)[0].thread_range.render() == "v0"
    for _ in range(2):
        np.testing.assert_array_equal(x.numpy(), source[:37] + 1)


# --- several threads ------------------------------------------------------------------------------
def test_threads_realise_at_once():
    failures = []

    def work(seed):
        try:
            x = np.random.default_rng(seed).integers(0, 9, (7 + seed, 33)).astype(np.float32)
            for _ in range(3):
                np.testing.assert_array_equal(((Tensor(x) + seed).sum(1) * 2).numpy(),
                                              (x + seed).sum(1) * 2)  # fmt: skip
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("beam", [0, 1])
def test_a_variable_without_a_value_is_named(beam):
    length = Variable("length", 1, 4)
    x = Tensor.arange(4).contiguous().realize()
    with Context(BEAM=beam):
        with pytest.raises(ShapeError, match=r"'length' has no value.*length\.bind\("):
            x[:length].sum().item()
        with pytest.raises(ShapeError, match=r"'length' has no value"):
            (Tensor(length) + 1).item()
        assert x[: length.bind(3)].sum().item() == 3
    with pytest.raises(ShapeError, match="length has no value"):
        Tensor.ones(length).numpy()
