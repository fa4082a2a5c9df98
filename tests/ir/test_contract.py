"""Contracts: what a stage allows, and the error for what it does not."""

import pytest

from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.ir import Contract, Ops, UPat, Variable

a = Variable("a", 0, 9)


def always(node):
    return True


def is_positive(node):
    return node.arg > 0


STAGE = Contract(
    "sums",
    [
        (UPat((Ops.VARIABLE, Ops.ADD), dtypes.index), always),
        (UPat(Ops.CONST, dtypes.index), is_positive),
    ],
)


def test_what_is_legal_passes():
    STAGE.check(a + a + 3)
    assert STAGE.allows(a)


@pytest.mark.parametrize("root", [a * 2 + 1, a + -1, (a < 3) ^ True])
def test_what_is_not_is_shown(root):
    with pytest.raises(ContractError, match="not allowed at stage sums: Ops") as caught:
        STAGE.check(root)
    assert "%0 = Ops.VARIABLE" in str(caught.value) or "Ops.CONST" in str(caught.value)


def test_an_excerpt_is_short():
    root = a
    for number in range(100):
        root = root + (number + 1)
    with pytest.raises(ContractError) as caught:
        STAGE.check(root * 2)
    assert len(str(caught.value).splitlines()) <= 13
