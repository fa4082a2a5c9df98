"""What the heuristics choose where loops are inside of each other."""

import numpy as np
import pytest

import torpor
from torpor import Tensor, Variable, cat, lower
from torpor.device import Device
from torpor.device.machine import facts, machine
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose

UPCAST = OptOps.UPCAST


def kernel_of(x: Tensor) -> Kernel:
    (item,) = x.schedule()
    return Kernel(item.ast, Device["CPU"].target)


@pytest.mark.parametrize(("picked", "width"), [(8, 384), (7, 99)])
def test_looked_up_rows_are_copied_by_vectors(picked: int, width: int) -> None:
    table = Tensor(np.random.default_rng(0).random((50, width), np.float32))
    places = [n * 13 % 50 - 25 for n in range(picked)]
    rows = table[Tensor(places).realize()]
    chosen = choose(kernel_of(rows))
    assert chosen[0].op is OptOps.THREAD
    assert OptOps.UPCAST in [opt.op for opt in chosen]
    np.testing.assert_array_equal(rows.numpy(), table.numpy()[places])


def test_places_of_elements_that_are_looked_up_are_read_by_vectors() -> None:
    x, index = Tensor.empty(16, 64), Tensor.empty(16, 64, dtype="int64")
    for found in (x.gather(1, index), x.gather(0, index), x.reshape(-1)[index]):
        assert OptOps.UPCAST in [opt.op for opt in choose(kernel_of(found))]


@pytest.mark.parametrize(("rows", "together"), [(64, 4), (6, 3), (67, None)])
def test_columns_that_are_looked_up_are_copied_for_a_few_rows_at_once(
    rows: int, together: int | None
) -> None:
    x = Tensor(np.random.default_rng(0).random((rows, 50), np.float32))
    places = [n * 13 % 50 - 25 for n in range(21)]
    columns = x[:, Tensor(places).realize()]
    copies = [opt.arg for opt in choose(kernel_of(columns)) if opt.op is OptOps.UPCAST]
    assert together is None or copies == [together]
    np.testing.assert_array_equal(columns.numpy(), x.numpy()[:, places])
    with pytest.raises(IndexError):
        x[:, Tensor([3, 50]).realize()].numpy()


@pytest.mark.parametrize("widths", [(64, 64), (100, 37, 300), (20, 999)], ids=str)
def test_concatenations_have_a_loop_for_each_part(widths: tuple[int, ...]) -> None:
    arrays = [np.random.default_rng(n).random((9, n), np.float32) for n in widths]
    joined = cat([Tensor(array).realize() for array in arrays], 1)
    chosen = [opt.op for opt in choose(kernel_of(joined))]
    assert chosen.count(OptOps.PARTITION) >= len(widths) - 1
    (program,) = lower(joined)
    assert not any(n.op is Ops.WHERE for n in program.linear)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(arrays, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [67, 999, 1003])
def test_rows_of_odd_lengths_have_whole_vectors_and_a_rest(dtype: type, width: int) -> None:
    rows = np.random.default_rng(0).integers(0, 100, (7, width)).astype(dtype)
    x = Tensor(rows).realize()
    for found, expected in (
        (x + x[:1], rows + rows[:1]),
        (x[:, 1:] - x[:, :-1], rows[:, 1:] - rows[:, :-1]),
        (x.roll(3, 1), np.roll(rows, 3, 1)),
        (x.pad((1, 2)), np.pad(rows, ((0, 0), (1, 2)))),
    ):
        np.testing.assert_array_equal(found.numpy(), expected)
    lanes = Device["CPU"].target.lanes(rows.itemsize)
    cut = OptOps.PARTITION in [opt.op for opt in choose(kernel_of(x + x[:1]))]
    masked = rows.itemsize in (
        4,
        8,
    )  # a short row is one vector more, of which a mask leaves out some
    few = 8 * (width % lanes) <= width and width >= 2 * lanes
    assert cut == (width >= 8 * lanes or (few and not masked))
    (program,) = lower(x.roll(3, 1))
    assert width < 16 * lanes or not any(n.op is Ops.WHERE for n in program.linear)


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize("shape", [(8, 1000), (1, 4096)], ids=str)
def test_stages_of_a_transform_have_vectors_and_all_points_together(level, shape) -> None:
    (*stages, _) = torpor.fft.fft(Tensor.empty(*shape)).real.schedule()
    for item in stages:
        found = [o.arg for o in choose(Kernel(item.ast, facts(machine(level)))) if o.op is UPCAST]
        assert found.count(0) == 2  # parts of pairs, and points
        assert max(found) >= 8


@pytest.mark.parametrize(
    ("level", "radix", "most"), [("avx512", 4, 2), ("avx512", 8, 1), ("avx2", 4, 1)]
)
def test_vectors_of_all_parts_of_a_stack_fit_the_registers(level, radix, most) -> None:
    x = Tensor.empty(16, radix, 64)
    parts = [x[:, n] + x[:, n - 1] for n in range(radix)]
    whole = Tensor.stack([Tensor.stack(parts, dim=1), Tensor.stack(parts[::-1], dim=1)], dim=-1)
    (item,) = whole.contiguous().schedule()
    target = facts(machine(level))
    vectors = [o.arg for o in choose(Kernel(item.ast, target)) if o.op is OptOps.UPCAST and o.arg]
    assert vectors == [most * target.lanes(4)]


def rows_by_row(rows: int, level: str, depth: int = 512) -> Kernel:
    """Of [1, depth] by the transpose of [rows, depth]."""
    (item,) = (Tensor.empty(1, depth) @ Tensor.empty(rows, depth).T).schedule()
    return Kernel(item.ast, facts(machine(level)))


def test_rows_whose_number_no_tile_divides_are_summed_by_several_vectors() -> None:
    for level in ("sse", "avx2", "avx512"):
        lanes = facts(machine(level)).lanes(4)
        for rows, vectors in ((4099, 4), (4096, 1)):
            found = [o for o in choose(rows_by_row(rows, level)) if o.op is OptOps.UNROLL]
            assert found[0] == Opt(OptOps.UNROLL, 0, vectors * lanes)


# --- axes of symbolic length ----------------------------------------------------------------------
def symbolic(rows, *, at=18):
    """Rows of a matrix, and their number, of which only the most is known."""
    count = Variable("rows", 1, rows).bind(at)
    whole = np.random.default_rng(rows).standard_normal((rows, 48)).astype(np.float32)
    return whole[:at], Tensor(whole).realize()[:count]


WEIGHTS = np.random.default_rng(1).standard_normal((48, 48)).astype(np.float32)
ALONG_ROWS = {
    "columns": lambda x, w: x @ w,
    "sums along both": lambda x, w: x @ w.T,
    "of itself": lambda x, w: x @ x.T,
    "downwards": lambda x, w: w @ x.T,
}


@pytest.mark.parametrize("name", ALONG_ROWS)
@pytest.mark.parametrize("target", ["avx2", "avx512"])
def test_rows_of_symbolic_number_share_what_they_read(name, target):
    _, x = symbolic(64)
    (item,) = ALONG_ROWS[name](x, Tensor(WEIGHTS).realize()).schedule()
    chosen = choose(Kernel(item.ast, facts(machine(target))))
    assert any(opt.op is OptOps.OVERLAP and (opt.arg or 0) > 1 for opt in chosen)


@pytest.mark.parametrize("name", ALONG_ROWS)
def test_each_row_of_a_symbolic_number_is_right(name):
    function, w = ALONG_ROWS[name], Tensor(WEIGHTS).realize()
    for at in (1, 2, 3, 4, 5, 8, 9, 31, 63, 64):
        rows, x = symbolic(64, at=at)
        wanted = function(rows.astype(np.float64), WEIGHTS.astype(np.float64))
        np.testing.assert_allclose(function(x, w).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_what_is_computed_twice_is_not_stored_over_what_it_is_computed_from():
    _, x = symbolic(64)
    _, y = symbolic(64)
    (program,) = lower(x @ Tensor(WEIGHTS).realize() + y, target="cpu")
    assert program.shared == ()


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize("columns", [125, 301])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_sums_along_odd_rows_that_no_mask_covers_have_vectors(
    dtype: str, columns: int, level: str
) -> None:
    """Of formats without masked reads: what is left of a row is summed after its whole vectors."""
    target = facts(machine(level))
    row = Tensor.empty(64, columns, dtype=dtype).cast("float32")
    for found in (row.sum(1), row.amax(1), row.exp().sum(1)):
        (item,) = found.schedule()
        opts = choose(Kernel(item.ast, target))
        assert OptOps.PARTITION in [opt.op for opt in opts]
        assert max(opt.arg for opt in opts if opt.op is OptOps.UNROLL) >= target.lanes(4)


@pytest.mark.parametrize("columns", [45, 125, 301])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_sums_along_odd_rows_that_no_mask_covers(dtype: str, columns: int) -> None:
    made = (np.random.default_rng(1).standard_normal((7, 2 * columns)) * 8).astype(dtype)
    for rows, x in ((made, Tensor(made)), (made[:, ::2], Tensor(made)[:, ::2])):
        exact, wide = rows.astype(np.float64), x.cast("float32")
        np.testing.assert_allclose(wide.sum(1).numpy(), exact.sum(1), rtol=1e-5, atol=1e-3)
        np.testing.assert_array_equal(wide.amax(1).numpy(), exact.max(1).astype(np.float32))
        np.testing.assert_array_equal(wide.flip(1).amin(1).numpy(), exact.min(1).astype("f"))


@pytest.mark.parametrize("level", ["sse", "avx2", "avx512"])
def test_long_odd_rows_are_summed_by_several_vectors(level: str) -> None:
    """Whole vectors of a padded row of a prime number of them would wait for each other."""
    target = facts(machine(level))
    lanes, x = target.lanes(4), Tensor.empty(64, 17 * target.lanes(4) - 3)
    for found in (x.sum(1), x.amax(1), (x * x).sum(1)):
        opts = choose(Kernel(found.schedule()[-1].ast, target))
        assert Opt(OptOps.PARTITION, 1, 16 * lanes) in opts
        assert max(opt.arg for opt in opts if opt.op is OptOps.UNROLL) == 4 * lanes


@pytest.mark.parametrize("columns", [137, 257, 265, 777, 2049])
def test_sums_along_long_odd_rows(columns: int) -> None:
    made = np.random.default_rng(2).standard_normal((5, columns)).astype(np.float32)
    x, exact = Tensor(made).realize(), made.astype(np.float64)
    np.testing.assert_allclose(x.sum(1).numpy(), exact.sum(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose((x * x).sum(1).numpy(), (exact**2).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(x.amax(1).numpy(), made.max(1))
    np.testing.assert_array_equal((-x).amin(1).numpy(), (-made).min(1))


@pytest.mark.parametrize("length", [999, 4097])
def test_what_lies_between_is_written_out_only_for_vectors(length: int) -> None:
    """Neighbours of an odd number of pairs are no lanes of vectors."""
    made = np.random.default_rng(3).standard_normal((2, length)).astype(np.float32)
    for count, written in ((length, False), (length - length % 16, True)):
        left, right = (Tensor(row[:count]).realize() for row in made)
        pairs = torpor.stack([left + right, left * right], 1)
        opts = choose(kernel_of(pairs))
        assert (Opt(UPCAST, 1, 0) in opts) is written
        a, b = made[:, :count]
        np.testing.assert_array_equal(pairs.numpy(), np.stack([a + b, a * b], 1))
