"""Checks go ahead of large kernels: the same results and errors, and results in one place."""

import numpy as np
import pytest

from torpor import Tensor, jit
from torpor.base.errors import OutOfBoundsError
from torpor.device import Device
from torpor.ir.ops import Ops
from torpor.kernel.split import ahead
from torpor.kernel.split.ahead import checked_ahead

HOST = Device["CPU"].target
TABLE = np.random.default_rng(0).random((50, 32), np.float32)
PLACES = np.array([3, -1, 49, 0, -50, 7])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 1)


def lookup(places: np.ndarray = PLACES) -> Tensor:
    return Tensor(TABLE).realize()[Tensor(places).realize()]


def checks(ast) -> int:
    return sum(node.op is Ops.CHECK for node in ast.toposort())


def test_rows_are_looked_up_by_indices_that_were_checked() -> None:
    first, second = lookup().schedule()
    assert (checks(first.ast), checks(second.ast)) == (1, 0)
    assert first.checks and not second.checks
    assert first.buffers[0].arg.size == len(PLACES)
    np.testing.assert_array_equal(lookup().numpy(), TABLE[PLACES])


@pytest.mark.parametrize("wrong", [50, -51, 2**62, -(2**63)])
@pytest.mark.parametrize("least", [1, 1 << 60])
def test_an_index_outside_raises_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch, least: int, wrong: int
) -> None:
    monkeypatch.setattr(ahead, "LARGE", least)
    rows = lookup(np.array([1, wrong, 2]))
    with pytest.raises(OutOfBoundsError, match="an index is out of bounds for axis 0 of length 50"):
        rows.realize()


def test_rows_that_are_added_up_are_found_likewise() -> None:
    base, values = Tensor(TABLE).realize(), np.ones((len(PLACES), 32), np.float32)
    places = PLACES % len(TABLE)
    made = base.index_add(0, Tensor(places).realize(), Tensor(values).realize())
    expected = TABLE.copy()
    np.add.at(expected, places, values)
    assert [checks(item.ast) for item in made.schedule()] == [1, 0]
    np.testing.assert_allclose(made.numpy(), expected)


def test_kernels_that_use_an_index_once_stay_whole() -> None:
    x, index = Tensor.empty(40, 64), Tensor.empty(40, 64, dtype="int64")
    for made in (x.gather(1, index), x.scatter_add(1, index, x), x[:4, :4] // x[4:8, :4].int()):
        for item in made.schedule():
            assert checked_ahead(item.ast, HOST) is None


def test_small_results_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 1 << 20)
    assert len(lookup().schedule()) == 1


def test_a_replaced_result_stays_where_it_is_until_a_check_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torpor.capture.successor.LEAST", 1)
    monkeypatch.setattr("torpor.capture.successor.LEAST_EACH", 1)
    monkeypatch.setattr("torpor.capture.successor.others_run", bool)  # no thread: False
    table, result = Tensor(TABLE).realize(), Tensor.empty(len(PLACES), 32).realize()

    @jit
    def step(result: Tensor, places: Tensor) -> None:
        result.assign(table[places])

    good, bad = Tensor(PLACES).realize(), Tensor(np.array([0, 1, 2, 3, 4, 50])).realize()
    seen = []
    for _ in range(8):
        step(result, good)
        seen.append(result._storage.base.src[0].arg.address)
    assert len(set(seen[-4:])) == 1
    with pytest.raises(OutOfBoundsError):
        step(result, bad)
    np.testing.assert_array_equal(result.numpy(), TABLE[PLACES])
