"""What the heuristics choose for several passes over a row."""

import numpy as np
import pytest

import torpor
from torpor import Tensor
from torpor.device.machine import facts, machine
from torpor.ir.records import OptOps
from torpor.kernel import Kernel
from torpor.kernel.choose.heuristics import choose


def two_outputs(x: Tensor) -> tuple[Tensor, ...]:
    grown = (x - x.amax(1, keepdim=True)).exp()
    return grown, grown.sum(1)


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.var(1),), lambda x: (x.logsumexp(1),), two_outputs],
    ids=["variance", "logsumexp", "values and their sum"],
)
def test_each_pass_over_a_row_has_vectors(function) -> None:
    first, *more = function(Tensor.empty(64, 1024))
    (item,) = first.schedule(*more)
    for level in ("sse", "avx2", "avx512"):
        target = facts(machine(level))
        vectors = [o for o in choose(Kernel(item.ast, target)) if o.op is OptOps.UNROLL]
        assert len(vectors) == 2
        assert all(opt.arg % target.lanes(4) == 0 for opt in vectors)


@pytest.mark.parametrize("level", ["sse", "avx2", "avx512"])
def test_rows_that_no_widest_vectors_divide_have_narrower_ones(level: str) -> None:
    """Every second number of a row comes from elsewhere, so that masks cannot cover its rest."""
    apart = Tensor.empty(64, 20).reshape(64, 20, 1).pad((0, 1)).reshape(64, 40)
    row = Tensor.empty(64, 40) + apart
    (item,) = (row / row.square().sum(1, keepdim=True)).schedule()
    opts = choose(Kernel(item.ast, facts(machine(level))))
    assert {o.op for o in opts if o.arg in (4, 8, 20, 40)} >= {OptOps.UNROLL, OptOps.UPCAST}


@pytest.mark.parametrize("level", ["avx2", "avx512"])
@pytest.mark.parametrize("columns", [45, 50, 301])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_odd_rows_that_no_mask_covers_have_vectors_in_their_whole_part(
    dtype: str, columns: int, level: str
) -> None:
    """Of formats without masked reads: what is left of a row is apart."""
    target = facts(machine(level))
    row = Tensor.empty(64, columns, dtype=dtype).cast("float32")
    (item,) = row.var(1).schedule()
    opts = choose(Kernel(item.ast, target))
    assert OptOps.PARTITION in [opt.op for opt in opts]
    assert max(opt.arg for opt in opts if opt.op is OptOps.UNROLL) >= target.lanes(4)


@pytest.mark.parametrize("columns", [30, 44, 45, 50, 77, 301])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_values_of_odd_rows_that_no_mask_covers(dtype: str, columns: int) -> None:
    made = (np.random.default_rng(1).standard_normal((7, 2 * columns)) * 8).astype(dtype)
    for rows, x in ((made, Tensor(made)), (made[:, ::2], Tensor(made)[:, ::2])):
        exact = rows.astype(np.float64)
        exact = exact - exact.max(1, keepdims=True)
        soft = np.exp(exact) / np.exp(exact).sum(1, keepdims=True)
        wide = x.cast("float32")
        np.testing.assert_allclose(wide.softmax(1).numpy(), soft, rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(wide.var(1).numpy(), exact.var(1, ddof=1), rtol=1e-5)
        np.testing.assert_array_equal(wide.argmax(1).numpy(), rows.argmax(1))
        np.testing.assert_array_equal(wide.flip(1).argmin(1).numpy(), rows[:, ::-1].argmin(1))


@pytest.mark.parametrize("columns", [33, 65, 257])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_of_rows_of_which_one_element_is_left(dtype: str, columns: int) -> None:
    made = np.random.default_rng(1).standard_normal((7, columns)).astype("float32")
    x = Tensor(made).cast(dtype).realize()
    exact = x.cast("float64").numpy()
    step = float(torpor.finfo(x.dtype).eps)
    np.testing.assert_allclose(x.var(1).cast("float64").numpy(), exact.var(1, ddof=1), rtol=step)
    scaled = exact / np.sqrt((exact * exact).mean(1, keepdims=True))
    found = torpor.nn.functional.rms_norm(x, (columns,)).cast("float64").numpy()
    np.testing.assert_allclose(found, scaled, rtol=2 * step)


@pytest.mark.parametrize("level", ["sse", "avx2", "avx512"])
@pytest.mark.parametrize("shape", [(40, 64), (33, 63), (3, 20, 17), (300, 10), (300, 6)], ids=str)
def test_passes_down_columns_have_vectors_of_columns(shape: tuple[int, ...], level: str) -> None:
    x = Tensor.empty(*shape)
    for found in (x.softmax(-2), x.var(-2), x.argmax(-2)):
        (item,) = found.schedule()
        opts = choose(Kernel(item.ast, facts(machine(level))))
        assert OptOps.UPCAST in [opt.op for opt in opts]
        assert OptOps.UNROLL not in [opt.op for opt in opts]


@pytest.mark.parametrize("shape", [(40, 64), (33, 63), (3, 20, 17), (300, 10), (300, 6)], ids=str)
def test_values_of_passes_down_columns(shape: tuple[int, ...]) -> None:
    made = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    made[..., 5, 3] = np.nan
    x = Tensor(made)
    away = made - made.max(-2, keepdims=True)
    soft = np.exp(away) / np.exp(away).sum(-2, keepdims=True)
    for found, expected in (
        (x.softmax(-2), soft),
        (x.var(-2), made.var(-2, ddof=1)),
        (x.argmax(-2), made.argmax(-2)),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [83, 769, 1777, 5001])
def test_long_odd_rows_ask_only_at_their_end_where_they_end(columns: int) -> None:
    made = np.random.default_rng(0).standard_normal((5, columns)).astype(np.float32)
    made[3, -1] = np.inf
    x = Tensor(made)
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(made.astype(np.float64) - made.max(1, keepdims=True))
        expected = exponentials / exponentials.sum(1, keepdims=True)
    for found, wanted in ((x.softmax(1), expected), (x[:3].var(1), made[:3].var(1, ddof=1))):
        (item,) = found.schedule()
        opts = choose(Kernel(item.ast, facts(machine("avx2"))))
        ends = {opt.arg for opt in opts if opt.op is OptOps.PARTITION}
        assert ends and all(columns - end < columns // 2 for end in ends)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
