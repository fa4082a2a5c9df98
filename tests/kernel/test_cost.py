"""What is predicted of a nest: which of two costs more, and by about how much."""

from dataclasses import replace

import pytest

from torpor import Tensor
from torpor.base.target import get_target
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.cost import Loop, Nest, arithmetic, cycles, nests_of, seconds, stream, waiting

CPU = get_target("cpu")


def product(rows, columns, inner, tile=(6, 16), step=None, transposed=False):
    """Register tiles of a product of row-major matrices, `step` elements from row to row."""
    high, wide = tile
    loops = (
        Loop("row", rows // high, high),
        Loop("column", columns // wide, wide),
        Loop("sum", inner, summed=True),
        Loop("row", high, written=True),
        Loop("column", wide, written=True),
    )
    left = stream({"row": inner, "sum": 1}, 4, loops)
    right = stream({"sum": step or columns, "column": 1}, 4, loops)
    places = {"row": 1, "column": rows} if transposed else {"row": columns, "column": 1}
    result = stream(places, 4, loops, is_store=True)
    return Nest(loops, (left, right, result), lane=4)


def sweep(count, bytes_apart):
    """Read anew, a hundred times, elements that lie so far apart."""
    loops = (Loop("again", 100), Loop("element", count))
    return Nest(loops, (stream({"element": bytes_apart // 4}, 4, loops),))


def test_a_tile_of_many_sums_reaches_what_the_ports_do():
    best = 96 * 96 * 96 / 8 / CPU.multiply_adds
    assert best <= cycles(product(96, 96, 96), CPU) <= 1.5 * best


def test_few_sums_wait_for_each_other():
    assert arithmetic(product(96, 96, 96, (1, 8)), CPU) > 3 * arithmetic(product(96, 96, 96), CPU)


def test_more_sums_than_registers_cost_more():
    assert arithmetic(product(96, 96, 96, (12, 32)), CPU) > arithmetic(product(96, 96, 96), CPU)


def test_factors_that_fill_no_vector_as_they_are_read_cost_more():
    tile = product(96, 96, 96, (8, 8))
    assert arithmetic(tile, replace(CPU, broadcasts=False)) > arithmetic(tile, CPU)


def test_results_that_lie_apart_are_moved_and_stored_one_by_one():
    apart, near = (arithmetic(product(96, 96, 96, transposed=t), CPU) for t in (True, False))
    assert 96 * 96 * 0.8 < apart - near < 96 * 96 * 3


def test_what_a_cache_holds_is_fetched_once():
    fits, not_so = CPU.first_bytes // 64, 4 * CPU.first_bytes // 64
    assert cycles(sweep(not_so, 64), CPU) > 4.5 * cycles(sweep(fits, 64), CPU)


def test_lines_a_power_of_two_apart_share_few_sets():
    assert cycles(sweep(64, 4096), CPU) > 1.2 * cycles(sweep(64, 4096 + 64), CPU)


def test_wider_vectors_are_quicker():
    wide = replace(CPU, vector_bytes=64, registers=32)
    loops = (Loop("n", 64), Loop("n", 16, 1, True))
    adding = Nest(loops, (stream({"n": 1}, 4, loops),), lane=1, operations=4)
    assert arithmetic(adding, wide) < arithmetic(adding, CPU)


def test_shares_that_leave_threads_waiting_cost_more():
    assert waiting(1) > waiting(5) > waiting(40) >= 1
    nest = product(384, 384, 384)
    assert seconds([nest], CPU, 1) > seconds([nest], CPU, 64)


@pytest.mark.parametrize("count", [1 << 10, 1 << 12])
def test_a_kernel_as_it_is(count):
    """Opts that write out vectors are seen, where caches hold all of it."""
    item = (Tensor.empty(count) + Tensor.empty(count)).schedule()[-1]
    plain = Kernel(item.ast, CPU)
    vectors = plain.copy().apply([Opt(OptOps.UPCAST, 0, 16)])
    of = [sum(cycles(nest, CPU) for nest in nests_of(k.ast, CPU)) for k in (plain, vectors)]
    assert 2 * of[1] < of[0]
