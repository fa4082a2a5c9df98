"""What choices of opts have in common, against brute force; what is refused changes nothing."""

from hypothesis import given
from hypothesis import strategies as st

from torpor import Tensor
from torpor.base.target import get_target
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel import Kernel
from torpor.kernel.access import accesses
from torpor.kernel.choose.vectors import Facts, attempt, copies_of, pad_lane, vector_amount
from torpor.kernel.ranges import find_loops, size_of

LANES = 8


def kernel_of(tensor: Tensor) -> Kernel:
    (item,) = tensor.schedule()
    return Kernel(item.ast, get_target("cpu"))


def facts_of(tensor: Tensor) -> Facts:
    kernel = kernel_of(tensor)
    return Facts(kernel, accesses(find_loops(kernel.ast)), LANES)


@given(size=st.integers(1, 60), most=st.integers(-3, 70))
def test_copies_divide_the_axis(size: int, most: int) -> None:
    found = copies_of(UOp.range(size, 0, AxisType.GLOBAL), most)
    fitting = [n for n in range(1, size + 1) if size % n == 0 and n <= max(most, 1)]
    assert found == max(fitting)


@given(size=st.integers(1, 200), most=st.integers(1, 4))
def test_vectors_divide_the_axis(size: int, most: int) -> None:
    one = UOp.range(size, 0, AxisType.GLOBAL)
    whole = [n * LANES for n in range(1, most + 1) if size % (n * LANES) == 0]
    parts = [n for n in (1, 2, 4, 8) if size % n == 0]
    assert vector_amount(facts_of(Tensor.empty(4) + 1), one, most) == max(whole or parts)


def test_an_axis_is_padded_where_shorter_vectors_would_waste_more() -> None:
    facts = facts_of(Tensor.empty(7, 2, 37).permute(1, 0, 2) + 1)
    lane = next(r for r in facts.kernel.axes if size_of(r) == 37)
    assert size_of(pad_lane(facts, lane)) == 40, "one vector at a time of 1 lane, else"
    facts = facts_of(Tensor.empty(7, 2, 36).permute(1, 0, 2) + 1)
    lane = next(r for r in facts.kernel.axes if size_of(r) == 36)
    assert size_of(pad_lane(facts, lane)) == 40, "nine vectors of 4 lanes, else"
    facts = facts_of(Tensor.empty(7, 2, 12).permute(1, 0, 2) + 1)
    lane = next(r for r in facts.kernel.axes if size_of(r) == 12)
    assert size_of(pad_lane(facts, lane)) == 16


def test_what_is_refused_changes_nothing() -> None:
    kernel = kernel_of(Tensor.empty(6, 10).sum(1))
    before = kernel.ast
    assert not attempt(kernel, Opt(OptOps.UPCAST, 0, 4)), "6 is no multiple of 4"
    assert kernel.ast is before
    assert not kernel.opts
    assert attempt(kernel, Opt(OptOps.UPCAST, 0, 3))


def test_a_kernel_becomes_what_was_tried_and_shares_nothing_with_it() -> None:
    kernel = kernel_of(Tensor.empty(6, 10).sum(1))
    trial = kernel.copy()
    trial.apply_opt(Opt(OptOps.UPCAST, 0, 3))
    kernel.become(trial)
    trial.apply_opt(Opt(OptOps.UNROLL, 0, 5))
    assert kernel.opts == [Opt(OptOps.UPCAST, 0, 3)]
    assert [size_of(r) for r in kernel.axes] == [2, 10, 3], "copies are innermost"
