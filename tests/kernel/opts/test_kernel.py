"""Opts keep the result; those that do not fit are refused with their name and the reason."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.devices import needs
from tests.kernel.kernels import add, case, cases, check_kernel, multiply, run_kernel, sample
from tests.rules.expressions import value
from torpor import Context, Tensor
from torpor.base.errors import OptError
from torpor.base.target import get_target
from torpor.device import Device
from torpor.graph import build
from torpor.ir.ops import AxisType, Ops
from torpor.kernel import Kernel, Opt, OptOps
from torpor.kernel.ranges import kind_of, size_of

CASES = cases()
NAMED = {one.name: one for one in CASES}
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
OPTS = st.builds(
    Opt, st.sampled_from(OptOps), st.integers(0, 5), st.sampled_from([0, 0, 2, 3, 4, 6, 8])
)


def kernel_of(name, target="python"):
    return Kernel(NAMED[name].item("CPU").ast, get_target(target))


def fitting(one, target, wanted):
    """Those of the opts that fit, one after the other; the others say why they do not."""
    kernel, fit = Kernel(one.item("CPU").ast, target), []
    for opt in wanted:
        try:
            kernel.apply_opt(opt)
        except OptError as error:
            text = str(error)
            assert opt.op.name in text
            assert str(opt.arg) in text
            assert text.rpartition(": ")[2]
            continue
        fit.append(opt)
    return fit


@pytest.mark.parametrize("one", CASES, ids=[one.name for one in CASES])
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_no_opts_and_chosen_opts(one, device):
    with Context(CHECK=1):
        check_kernel(one, device, [])
        check_kernel(one, device)


GIVEN = [
    ("elementwise", [Opt(OptOps.UPCAST, 0, 4)]),
    ("elementwise", [Opt(OptOps.UPCAST, 0, 0)]),
    ("elementwise", [Opt(OptOps.LOCAL, 0, 8), Opt(OptOps.UPCAST, 0, 3)]),
    ("elementwise", [Opt(OptOps.PADTO, 0, 32), Opt(OptOps.UPCAST, 0, 8)]),
    ("elementwise", [Opt(OptOps.OVERLAP, 0, 40)]),
    ("convolution", [Opt(OptOps.OVERLAP, 1, 4), Opt(OptOps.OVERLAP, 2, 5)]),
    ("convolution", [Opt(OptOps.STAGE, 0, -1), Opt(OptOps.UPCAST, 2, 8)]),
    ("transposed", [Opt(OptOps.SWAP, 0, 1), Opt(OptOps.UPCAST, 0, 4)]),
    ("transposed", [Opt(OptOps.NOLOCALS), Opt(OptOps.UPCAST, 1, 4)]),
    ("padded", [Opt(OptOps.UPCAST, 1, 16), Opt(OptOps.LOCAL, 0, 11)]),
    ("row sum", [Opt(OptOps.UNROLL, 0, 4)]),
    ("row sum", [Opt(OptOps.UNROLL, 0, 0)]),
    ("row sum", [Opt(OptOps.GROUP, 0, 4)]),
    ("row sum", [Opt(OptOps.GROUPTOP, 0, 4), Opt(OptOps.LOCAL, 0, 2)]),
    ("row sum", [Opt(OptOps.GROUP, 0, 3), Opt(OptOps.UNROLL, 1, 2)]),
    ("row sum", [Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.GROUPTOP, 0, 6)]),
    ("row sum", [Opt(OptOps.PADTO, 1, 8), Opt(OptOps.UNROLL, 0, 8)]),
    ("column max", [Opt(OptOps.PADTO, 1, 16), Opt(OptOps.UPCAST, 0, 4)]),
    ("whole sum", [Opt(OptOps.GROUPTOP, 0, 16), Opt(OptOps.UNROLL, 0, 2)]),
    ("whole sum", [Opt(OptOps.GROUP, 0, 8), Opt(OptOps.GROUP, 1, 3)]),
    ("matmul", [Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UNROLL, 0, 2)]),
    ("matmul", [Opt(OptOps.LOCAL, 0, 2), Opt(OptOps.LOCAL, 1, 4), Opt(OptOps.GROUP, 0, 3)]),
    ("matmul", [Opt(OptOps.GROUPTOP, 0, 3), Opt(OptOps.UPCAST, 0, 4), Opt(OptOps.UPCAST, 1, 4)]),
    ("matmul", [Opt(OptOps.PADTO, 0, 3), Opt(OptOps.PADTO, 2, 4), Opt(OptOps.UNROLL, 0, 4)]),
    ("convolution", [Opt(OptOps.UPCAST, 2, 8), Opt(OptOps.UNROLL, 2, 0)]),
    ("convolution", [Opt(OptOps.UPCAST, 0, 0), Opt(OptOps.GROUP, 1, 3)]),
    ("convolution", [Opt(OptOps.PADTO, 1, 8), Opt(OptOps.GROUPTOP, 1, 0), Opt(OptOps.LOCAL, 1, 2)]),
    ("two passes", [Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UNROLL, 0, 4), Opt(OptOps.UNROLL, 0, 3)]),
    ("two passes", [Opt(OptOps.LOCAL, 0, 4)]),
    ("two outputs", [Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.UPCAST, 0, 2)]),
]


@pytest.mark.parametrize(("name", "opts"), GIVEN)
def test_opts_given_by_hand(name, opts):
    with Context(CHECK=1):
        program = check_kernel(NAMED[name], "PYTHON", opts)
    assert program.opts == tuple(opts)


ON_PROCESSOR = [
    ("transposed", [Opt(OptOps.THREAD, 0, 0), Opt(OptOps.UPCAST, 1, 4)]),
    ("matmul", [Opt(OptOps.THREAD, 0, 4), Opt(OptOps.UPCAST, 2, 4)]),
    ("matmul", [Opt(OptOps.UNROLL, 0, 3), Opt(OptOps.UPCAST, 0, 8), Opt(OptOps.THREAD, 0, 0)]),
    ("convolution", [Opt(OptOps.THREAD, 1, 0), Opt(OptOps.UPCAST, 2, 8)]),
    ("row sum", [Opt(OptOps.PADTO, 1, 8), Opt(OptOps.UNROLL, 0, 8)]),
    ("two passes", [Opt(OptOps.UPCAST, 1, 4), Opt(OptOps.UNROLL, 0, 4)]),
]


@pytest.mark.parametrize(("name", "opts"), ON_PROCESSOR)
def test_opts_given_by_hand_on_the_processor(name, opts):
    check_kernel(NAMED[name], "CPU", opts)


@pytest.mark.parametrize("name", ["row sum", "matmul", "whole sum"])
def test_groups_and_local_memory_on_opencl(name):
    needs("OPENCL")
    reduce = Opt(OptOps.GROUPTOP, 0, 3)
    first = [] if name == "whole sum" else [Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.UPCAST, 0, 2)]
    program = check_kernel(NAMED[name], "OPENCL", [*first, reduce])
    assert "barrier" in program.source
    assert "__local" in program.source


@settings(QUICK, max_examples=200)
@given(st.sampled_from(CASES), st.lists(OPTS, min_size=1, max_size=6))
def test_any_opts_keep_the_result_on_the_interpreter(one, wanted):
    target = Device["PYTHON"].target
    with Context(CHECK=1):
        check_kernel(one, "PYTHON", fitting(one, target, wanted))


@settings(QUICK, max_examples=60)
@given(st.sampled_from(CASES), st.lists(OPTS, min_size=1, max_size=5))
def test_any_opts_keep_the_result_on_the_processor(one, wanted):
    target = Device["CPU"].target
    with Context(CHECK=1):
        check_kernel(one, "CPU", fitting(one, target, wanted))


# --- refusals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "target", "opts", "why"),
    [
        ("row sum", "python", [Opt(OptOps.UNROLL, 0, 5)], "UNROLL of axis 0 by 5.*does not divide"),
        ("row sum", "python", [Opt(OptOps.UPCAST, 1, 4)], "UPCAST.*reduce axis"),
        ("row sum", "python", [Opt(OptOps.UPCAST, 7, 4)], "UPCAST.*no axis 7"),
        ("row sum", "python", [Opt(OptOps.UNROLL, 1, 4)], "UNROLL.*no axis 1"),
        ("elementwise", "python", [Opt(OptOps.UNROLL, 0, 4)], "UNROLL.*no axis 0"),
        ("row sum", "cpu", [Opt(OptOps.LOCAL, 0, 4)], "LOCAL.*cpu has no groups"),
        ("row sum", "cpu", [Opt(OptOps.GROUP, 0, 4)], "GROUP.*cpu has no groups"),
        ("row sum", "python", [Opt(OptOps.THREAD, 0, 0)], "THREAD.*python has no threads"),
        ("row sum", "cpu", [Opt(OptOps.THREAD, 1, 0)], "THREAD.*reduce axis"),
        ("row sum", "cpu", [Opt(OptOps.THREAD, 0), Opt(OptOps.THREAD, 0)], "THREAD.*thread axis"),
        ("row sum", "python", [Opt(OptOps.SWAP, 0, 1)], "SWAP.*only output axes"),
        ("row sum", "python", [Opt(OptOps.PADTO, 0, 0)], "PADTO.*amount"),
        ("row sum", "python", [Opt(OptOps.NOLOCALS), Opt(OptOps.LOCAL, 0, 2)], "LOCAL.*NOLOCALS"),
        ("row sum", "python", [Opt(OptOps.LOCAL, 0, 2), Opt(OptOps.NOLOCALS)], "NOLOCALS.*local"),
        ("two passes", "python", [Opt(OptOps.GROUP, 0, 4)], "GROUP.*loops around"),
    ],
)
def test_refusals_say_why(name, target, opts, why):
    with pytest.raises(OptError, match=why):
        kernel_of(name, target).apply(opts)


def test_a_group_is_no_larger_than_the_target_allows():
    one = case("long", build.reduce(sample(2, 4096), Ops.ADD, 1))
    kernel = Kernel(one.item("CPU").ast, get_target("opencl"))
    with pytest.raises(OptError, match="at most 256 work items"):
        kernel.apply_opt(Opt(OptOps.GROUP, 0, 1024))


def test_local_memory_has_a_limit():
    one = case("wide", build.reduce(sample(64, 256), Ops.ADD, 1))
    opts = [Opt(OptOps.UPCAST, 0, 64), Opt(OptOps.GROUP, 0, 256)]
    with pytest.raises(OptError, match=r"GROUP.*131072 bytes of local memory"):
        check_kernel(one, "PYTHON", opts)


def test_a_refused_opt_changes_nothing():
    kernel = kernel_of("matmul")
    before = kernel.ast
    with pytest.raises(OptError):
        kernel.apply_opt(Opt(OptOps.UPCAST, 0, 5))
    assert kernel.ast is before
    assert kernel.opts == []


def test_loops_beside_each_other_never_lie_around_the_same_one():
    kernel = kernel_of("matmul", "cpu").apply([Opt(OptOps.PARTITION, 1, 5)])
    before = kernel.ast
    with pytest.raises(OptError, match=r"SWAP.*beside each other"):
        kernel.apply_opt(Opt(OptOps.SWAP, 0, 2))
    assert kernel.ast is before


@pytest.mark.parametrize("name", ["row sum", "matmul"])
def test_sums_that_grow_by_blocks_have_no_blocks_beyond_the_last(name):
    """There a sum of products would get zeros, but a product or maximum anything."""
    kernel = kernel_of(name, "cpu")
    summed = len(kernel.axes) - 1
    kernel.apply_opt(Opt(OptOps.TILE, summed, 2))
    outer = next(n for n, r in enumerate(kernel.axes) if kind_of(r) is AxisType.LOOP)
    with pytest.raises(OptError, match=r"PADTO.*grow beyond the last"):
        kernel.apply_opt(Opt(OptOps.PADTO, outer, 32))


def test_a_padded_product_by_blocks_is_refused_and_not_zero():
    x = np.arange(1, 46, dtype=np.float32).reshape(5, 9) % 4 + 1
    (item,) = Tensor(x).prod(1).schedule()
    opts = [Opt(OptOps.TILE, 1, 3), Opt(OptOps.PADTO, 1, 4)]
    with pytest.raises(OptError, match=r"PADTO"):
        run_kernel(item, "CPU", opts)
    (found,), _, _ = run_kernel(item, "CPU", opts[:1])
    np.testing.assert_array_equal(found, x.prod(1))


def test_sums_that_grow_in_memory_are_in_no_overlapping_tiles():
    with pytest.raises(OptError, match=r"OVERLAP.*grow twice"):
        kernel_of("matmul", "cpu").apply([Opt(OptOps.TILE, 2, 3), Opt(OptOps.OVERLAP, 3, 5)])


# --- axes and names -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "opts", "expected"),
    [
        ("elementwise", [], "E_96"),
        ("elementwise", [Opt(OptOps.UPCAST, 0, 8)], "E_12_8"),
        ("row sum", [], "r_8_12"),
        ("matmul", [], "r_8_12_6"),
        ("whole sum", [Opt(OptOps.UNROLL, 0, 4)], "r_24_4"),
        ("transposed", [], "E_12_12"),
    ],
)
def test_names_tell_the_axes(name, opts, expected):
    assert kernel_of(name).apply(opts).name == expected


def test_a_copy_is_independent():
    kernel = kernel_of("matmul")
    other = kernel.copy()
    other.apply_opt(Opt(OptOps.UPCAST, 0, 4))
    assert kernel.opts == []
    assert kernel.name == "r_8_12_6"


# --- what a kernel knows of its axes, and what it asks of opts ----------------------------------
OPT = Opt(OptOps.UPCAST, 0, 4)


def kernel_from(root, **changes):
    return Kernel(case("a test", root).item("CPU").ast, replace(get_target("cpu"), **changes))


@given(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_split_axis_counts_through_the_same_places(amount, top):
    kernel = kernel_from(multiply(sample(24), sample(24, step=3)))
    (axis,) = kernel.axes
    kernel.split(axis, amount, AxisType.UPCAST, top)
    (store,), axes = kernel.ast.src, kernel.axes
    fresh = axes[-1]
    assert size_of(fresh) == amount and kind_of(fresh) is AxisType.UPCAST
    outer = [axis for axis in axes if axis is not fresh]
    places = [
        value(store.src[0].src[1], {**dict.fromkeys(outer, step), fresh: inner})
        for step in range(24 // amount)
        for inner in range(amount)
    ]
    slow, fast = (24 // amount, 1) if top else (1, amount)
    assert places == [
        step * fast + inner * slow for step in range(24 // amount) for inner in range(amount)
    ]


def test_axes_lie_outermost_first_and_reductions_are_told_apart():
    kernel = kernel_from(build.reduce(multiply(sample(6, 8), sample(6, 8, step=3)), Ops.ADD, 1))
    assert [*map(size_of, kernel.axes)] == [6, 8] and [*map(size_of, kernel.reduce_axes)] == [8]
    assert kernel.has_reduce and kernel.name == "r_6_8"
    kernel.split(kernel.axes[0], 3, AxisType.UPCAST)
    numbers = [r.arg[0] for r in kernel.axes]
    assert len(set(numbers)) == 3 and kernel.fresh == max(numbers) + 1


@pytest.mark.parametrize(("amount", "expected"), [(4, 4), (0, 24), (24, 24)])
def test_an_amount_divides_its_axis(amount, expected):
    kernel = kernel_from(add(sample(24), sample(24)))
    assert kernel.amount(replace(OPT, arg=amount), kernel.axes[0]) == expected


def test_what_does_not_fit_is_refused_with_the_axes_of_the_kernel():
    kernel = kernel_from(add(sample(24), sample(24)))
    (axis,) = kernel.axes
    with pytest.raises(
        OptError, match=r"UPCAST of axis 0 by 5.*E_24 .*global 24.*5 does not divide"
    ):
        kernel.amount(replace(OPT, arg=5), axis)
    with pytest.raises(OptError, match="no axis 3 among 1"):
        kernel.axis(replace(OPT, axis=3), kernel.axes)
    with pytest.raises(OptError, match="it is a global axis"):
        kernel.expect(OPT, axis, (AxisType.LOOP, AxisType.LOCAL))


def test_packed_memory_has_as_much_room_as_the_target_says():
    kernel = kernel_from(add(sample(24), sample(24)), stage_bytes=1000)
    kernel.check_memory(OPT, 1000)
    with pytest.raises(OptError, match="1001 bytes would be staged, and there are 1000"):
        kernel.check_memory(OPT, 1001)
