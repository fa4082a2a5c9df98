"""Sums of two products that are one instruction: which words they are of."""

from itertools import pairwise

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.source.llvm_pairs import HALF, words_of

WORDS = dtypes.int32.vec(8)
SHIFT = UOp.const(dtypes.int32, HALF).broadcast(8)


def loaded(number: int) -> UOp:
    """Eight words of a parameter."""
    memory = UOp(Ops.PARAM, dtypes.int32, (), ParamArg(number, 8))
    return UOp(Ops.LOAD, WORDS, (UOp(Ops.INDEX, dtypes.int32, (memory, UOp.index_const(0))),))


def low(x: UOp) -> UOp:
    return (x << SHIFT) >> SHIFT


def high(x: UOp) -> UOp:
    return x >> SHIFT


def test_words_are_in_the_order_of_the_factors():
    """Of many, since a set of two is in the right order by chance."""
    words = [loaded(number) for number in range(20)]
    for x, y in pairwise(words):
        assert words_of(low(x) * low(y) + high(x) * high(y)) == (x, y)


def test_a_word_by_itself_and_other_sums():
    x, y = loaded(0), loaded(1)
    assert words_of(low(x) * low(x) + high(x) * high(x)) == (x, x)
    assert words_of(low(x) * low(y) + low(x) * high(y)) is None
    assert words_of(low(x) * low(y) + high(x) * high(x)) is None
