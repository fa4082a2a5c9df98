import pytest

import torpor
from tests.source import programs
from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.source.lanes import write_out
from torpor.source.linear import prepare
from torpor.source.placement import Placement


def nothing_is_kept(node: UOp) -> bool:
    return False


def test_without_vectors_only_scalars_compute():
    for case in programs.all_cases():
        made = write_out(prepare(case.linear), nothing_is_kept)
        used = Placement(made).used
        assert all(n.dtype.count == 1 for n in made if n in used), case.name


def test_operands_come_before_their_use():
    for case in programs.all_cases():
        seen: set[UOp] = set()
        for node in write_out(prepare(case.linear), nothing_is_kept):
            ordered = node.src if node.op not in (Ops.LOAD, Ops.BARRIER) else node.src[:1]
            assert node.op is Ops.BARRIER or seen.issuperset(ordered), case.name
            seen.add(node)


def test_reads_of_a_register_at_different_places_stay_apart():
    case = next(c for c in programs.all_cases() if c.name == "row_sums_4")
    made = write_out(prepare(case.linear), nothing_is_kept)
    reads = [n for n in made if n.op is Ops.LOAD and n.src[0].op is Ops.ACC]
    assert len(reads) == len(set(reads)) == 8


def test_a_check_becomes_a_statement_for_each_lane():
    made = write_out(prepare(programs.checked(4, -1).linear), nothing_is_kept)
    checks = [n for n in made if n.op is Ops.CHECK]
    assert len(checks) == 4
    assert all(n.dtype is dtypes.void and n.arg == 6 for n in checks)


@pytest.mark.parametrize("target", ["c", "cuda", "opencl"])
def test_branches_of_remainders_are_said_without_vectors_of_conditions(target):
    left, right = torpor.Tensor.empty(64, 64), torpor.Tensor.empty(64, 64)
    (program,) = torpor.lower((left % right).sin(), target=target)
    assert "if (" in program.source
