import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from torpor.base.dtypes import dtypes
from torpor.ir import Ops, UOp
from torpor.source.llvm_text import constant_text, mangled, memory_type, number_text, type_of


@given(st.floats(width=32, allow_nan=False))
@settings(max_examples=100, deadline=None)
def test_a_single_is_written_as_the_bits_of_its_double(value):
    bits = int(number_text(dtypes.float32, value), 16)
    assert struct.pack("<d", value) == struct.pack("<Q", bits)


@given(st.floats(width=16, allow_nan=False))
@settings(max_examples=100, deadline=None)
def test_a_half_is_written_as_its_bits(value):
    text = number_text(dtypes.float16, value)
    assert text.startswith("0xH")
    assert struct.pack("<e", value) == struct.pack("<H", int(text[3:], 16))


@pytest.mark.parametrize(
    ("dtype", "register", "memory", "name"),
    [
        (dtypes.bool, "i1", "i8", "i1"),
        (dtypes.bool.vec(4), "<4 x i1>", "<4 x i8>", "v4i1"),
        (dtypes.uint32, "i32", "i32", "i32"),
        (dtypes.float32.vec(8), "<8 x float>", "<8 x float>", "v8f32"),
        (dtypes.bfloat16, "bfloat", "bfloat", "bf16"),
    ],
)
def test_types(dtype, register, memory, name):
    assert (type_of(dtype), memory_type(dtype), mangled(dtype)) == (register, memory, name)


def test_constant_vectors():
    vector = dtypes.int32.vec(3)
    parts = tuple(UOp.const(dtypes.int32, n) for n in (4, -1, 0))
    assert constant_text(UOp(Ops.LANES, vector)) == "<i32 0, i32 1, i32 2>"
    assert constant_text(UOp(Ops.VECTORIZE, vector, parts)) == "<i32 4, i32 -1, i32 0>"
    assert constant_text(parts[0].broadcast(3)) == "splat (i32 4)"
    assert constant_text(UOp.variable("n", 0, 3)) is None
