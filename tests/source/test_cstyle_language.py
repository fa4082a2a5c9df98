"""Constants and calls, read back."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError, DTypeError
from torpor.base.target import get_target
from torpor.ir import Ops, UOp
from torpor.source import RENDERERS
from torpor.source.cstyle_language import Language, call

TARGETS = ("c", "cuda", "opencl", "metal", "wgsl")
MANY = settings(max_examples=60, deadline=None)


def language(target: str) -> Language:
    """The language of a target, about to write a program."""
    made = RENDERERS[target](get_target(target))
    made.helpers, made.features, made.formats = {}, set(), set()
    return made


@pytest.mark.parametrize("target", TARGETS)
@given(number=st.integers(dtypes.int32.min, dtypes.int32.max) | st.just(dtypes.int32.min))
@MANY
def test_an_integer_is_itself_and_no_constant_is_too_large(target, number):
    text = language(target).number(dtypes.int32, number)
    assert eval(text) == number
    magnitudes = [int(part) for part in text.replace("(", " ").replace(")", " ")
                  .replace("-", " ").split()]  # fmt: skip
    assert max(magnitudes) <= dtypes.int32.max


@pytest.mark.parametrize("target", TARGETS)
@given(number=st.floats(width=32, allow_nan=False, allow_infinity=False))
@MANY
def test_a_float_is_itself_to_the_bit(target, number):
    text = language(target).number(dtypes.float32, number)
    read = np.float32(text.strip("()").removesuffix("f"))
    assert read.tobytes() == np.float32(number).tobytes()


def test_a_call_has_no_parentheses_to_spare():
    assert call("f", ("(a+b)", "(a)*(b)", "c")) == "f(a+b, (a)*(b), c)"


@pytest.mark.parametrize("target", TARGETS)
def test_a_helper_is_defined_once_for_all_its_calls(target):
    made = language(target)
    calls = [made.extremum(Ops.MAX, dtypes.float32, ("a", other)) for other in ("b", "c", "b")]
    (name,) = made.helpers
    assert calls == [f"{name}(a, b)", f"{name}(a, c)", f"{name}(a, b)"]


def test_what_a_language_lacks_is_said_in_the_users_terms():
    with pytest.raises(DTypeError, match="metal has no float64: cast to float32 first"):
        language("metal").type(dtypes.float64)
    with pytest.raises(ContractError, match="c has no gidx0"):
        language("c").special(UOp(Ops.SPECIAL, dtypes.int32, (), "gidx0"))
