"""STAGE of rows that windows slide over: copied once, they hold all that the windows read."""

from itertools import pairwise, product

import pytest

from tests.kernel.kernels import case, check_kernel, multiply, sample
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import AxisType, Ops
from torpor.kernel import Opt, OptOps
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import rows_of
from torpor.kernel.opts.stage import direct_loads
from torpor.kernel.ranges import kind_of, size_of


def planes(size, window, step=1, spread=1, padding=0, flipped=False):
    """x[planes, height, width] with w[planes, height, width], each plane with its own window."""
    x, w = sample(3, *size), sample(3, *window, step=3)
    if flipped:
        w = build.flip(w, (1, 2))
    x = build.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    for axis, places in enumerate(window, 1):
        x = build.window(x, axis, places, step, spread)
    _, rows, columns, *_ = shape_of(x)
    w = build.expand(build.reshape(w, (3, 1, 1, *window)), (3, rows, columns, *window))
    return case("planes", build.reduce(multiply(x, w), Ops.ADD, (3, 4)))


def kernel_of(one):
    return Kernel(one.item("CPU").ast, get_target("cpu"))


def rows_in(one):
    """The rows of the image, in the loop over planes."""
    kernel = kernel_of(one)
    found = (rows_of(kernel.ast, n, kernel.axes[0], 90, 8) for n in direct_loads(kernel.ast))
    return next(rows for rows in found if rows is not None)


CASES = {
    "padded": planes((7, 9), (3, 3), padding=1),
    "not padded": planes((7, 9), (3, 2)),
    "every second": planes((9, 14), (3, 5), step=2, padding=2),
    "every third": planes((9, 20), (3, 4), step=3, padding=1),
    "spread": planes((9, 10), (3, 3), spread=2, padding=2),
    "spread by two, every second": planes((12, 13), (3, 3), 2, 2, 2),
    "backwards": planes((7, 9), (3, 3), padding=1, flipped=True),
    "wide": planes((4, 70), (3, 5), padding=2),
}


@pytest.mark.parametrize("one", CASES.values(), ids=CASES)
def test_results_are_the_same(one):
    number = next(n for n in range(2) if fits(kernel_of(one), Opt(OptOps.STAGE, 0, ~n)))
    window = Opt(OptOps.STAGE, 0, ~number)
    check_kernel(one, "CPU", [window])
    check_kernel(one, "PYTHON", [window])
    check_kernel(one, "CPU", [window, Opt(OptOps.UPCAST, 1, 0), Opt(OptOps.UNROLL, 1, 0)])
    check_kernel(one, "CPU", [window, Opt(OptOps.PADTO, 2, 8), Opt(OptOps.UPCAST, 2, 8)])


def fits(kernel, opt):
    """Whether the opt fits."""
    try:
        kernel.apply_opt(opt)
    except OptError:
        return False
    return True


def test_each_element_is_copied_once_with_its_border():
    rows = rows_in(CASES["padded"])
    assert [size_of(r) for r in rows.axes] == [9, 16]  # 7 + 2 rows of 9 + 2 places, in vectors
    assert all(kind_of(r) is AxisType.LOOP for r in rows.axes)
    assert rows.size >= 9 * 16


def test_places_that_are_a_step_apart_lie_side_by_side():
    rows = rows_in(CASES["every second"])
    assert [size_of(r) for r in rows.axes] == [13, 2, 16]
    *_, phase, place = rows.places
    kernel = kernel_of(CASES["every second"])
    lane = next(r for r in place.toposort() if r in kernel.axes[:3])
    at = [place.substitute({lane: lane.index_const(n)}).simplify() for n in range(4)]
    assert lane not in phase.toposort()
    assert all((b - a).simplify().arg == 1 for a, b in pairwise(at))


def test_what_no_window_slides_over_is_refused():
    kernel = kernel_of(CASES["padded"])
    weights = next(n for n in range(2) if not fits(
        kernel_of(CASES["padded"]), Opt(OptOps.STAGE, 0, ~n)))  # fmt: skip
    with pytest.raises(OptError, match=r"STAGE.*no windows slide"):
        kernel.apply_opt(Opt(OptOps.STAGE, 0, ~weights))
    with pytest.raises(OptError, match=r"STAGE.*there are 2 loads"):
        kernel.apply_opt(Opt(OptOps.STAGE, 0, -3))
    with pytest.raises(OptError, match=r"STAGE.*reduce axis"):
        kernel.apply_opt(Opt(OptOps.STAGE, 3, -1))


def test_rows_of_a_copy_that_no_outer_loop_changes_stay_in_it():
    """Of the two parts of the copy only the first asks which plane of the volume it reads."""
    x, w = sample(3, 2, 3, 8), sample(3, 2, 3, 8, step=3)
    x = build.pad(x, ((0, 0), (2, 2), (2, 2), (1, 1)))
    for axis, spread in ((1, 2), (2, 2), (3, 1)):
        x = build.window(x, axis, 3, 1, spread)
    w = build.expand(build.reshape(w, (3, 2, 3, 8, 1, 1, 1)), shape_of(x))
    one = case("volume", build.reduce(multiply(x, w), Ops.ADD, (1, 2, 3)))
    number = next(n for n in range(2) if fits(kernel_of(one), Opt(OptOps.STAGE, 1, ~n)))
    kernel = kernel_of(one).apply([Opt(OptOps.STAGE, 1, ~number)])
    loops = [n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.LOOP]
    for opts in product(loops, range(1, 7)):
        if fits(kernel.copy(), Opt(OptOps.PARTITION, *opts)):
            check_kernel(one, "CPU", [*kernel.opts, Opt(OptOps.PARTITION, *opts)])
