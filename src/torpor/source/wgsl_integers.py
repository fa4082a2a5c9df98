"""Integers of 64 bits in WGSL, which has none: a `vec2<u32>` of the low and the high word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

PAIR: Final = "vec2<u32>"
# f32_of_u64: below 2**48 it is one sum of two numbers that f32 holds exactly; of larger numbers the
# last 16 bits only matter by whether any is set.
# divide_u64, b not 0: each round takes off an estimate of the quotient of what is left, too small
# by at most one part in 2**18 and by less than 2, never too large: it is made smaller by one part
# in 2**19, more than what three roundings and an inexact division may add.
_TEXT: Final = """
fn add_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}

fn subtract_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn multiply_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let c = a.x & 0xffffu;
  let d = a.x >> 16u;
  let e = b.x & 0xffffu;
  let f = b.x >> 16u;
  let cross = d * e + (c * e >> 16u);
  let middle = c * f + (cross & 0xffffu);
  let high = d * f + (cross >> 16u) + (middle >> 16u);
  return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}

fn shift_left_64(a: vec2<u32>, count: u32) -> vec2<u32> {
  let rest = count & 31u;
  let low = a.x << rest;
  let high = (a.y << rest) | ((a.x >> 1u) >> (31u - rest));
  return select(vec2<u32>(low, high), vec2<u32>(0u, low), count >= 32u);
}

fn shift_right_u64(a: vec2<u32>, count: u32) -> vec2<u32> {
  let rest = count & 31u;
  let high = a.y >> rest;
  let low = (a.x >> rest) | ((a.y << 1u) << (31u - rest));
  return select(vec2<u32>(low, high), vec2<u32>(high, 0u), count >= 32u);
}

fn shift_right_i64(a: vec2<u32>, count: u32) -> vec2<u32> {
  let sign = vec2<u32>(u32(i32(a.y) >> 31u));
  return shift_right_u64(a ^ sign, count) ^ sign;
}

fn less_u64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn less_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return i32(a.y) < i32(b.y) || (a.y == b.y && a.x < b.x);
}

fn maximum_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, less_u64(a, b));
}

fn maximum_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, less_i64(a, b));
}

fn minimum_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, less_u64(a, b));
}

fn minimum_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, less_i64(a, b));
}

fn magnitude_i64(a: vec2<u32>) -> vec2<u32> {
  return select(a, subtract_64(vec2<u32>(), a), i32(a.y) < 0);
}

fn divide_u64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  let divisor = f32_of_u64(b);
  var quotient = vec2<u32>();
  var rest = a;
  for (var n = 0; n < 6 && !less_u64(rest, b); n++) {
    let part = u64_of_f32(max(f32_of_u64(rest) / divisor * (1f - 0x1p-19f), 1f));
    quotient = add_64(quotient, part);
    rest = subtract_64(rest, multiply_64(part, b));
  }
  return vec4<u32>(quotient, rest);
}

fn i64_of_i32(x: i32) -> vec2<u32> {
  return vec2<u32>(u32(x), u32(x >> 31u));
}

fn f32_of_u64(a: vec2<u32>) -> f32 {
  let sticky = u32((a.x & 0xffffu) != 0u);
  let large = a.y > 0xffffu;
  let short = select(a, shift_right_u64(a, 16u) | vec2<u32>(sticky, 0u), large);
  let high = f32((short.y << 8u) | (short.x >> 24u)) * 0x1p24f;
  return (high + f32(short.x & 0xffffffu)) * select(1f, 0x1p16f, large);
}

fn f32_of_i64(a: vec2<u32>) -> f32 {
  return f32_of_u64(magnitude_i64(a)) * select(1f, -1f, i32(a.y) < 0);
}

fn u64_of_f32(x: f32) -> vec2<u32> {
  let high = trunc(x * 0x1p-32f);
  return vec2<u32>(u32(x - high * 0x1p32f), u32(high));
}

fn i64_of_f32(x: f32) -> vec2<u32> {
  let size = u64_of_f32(abs(x));
  return select(size, subtract_64(vec2<u32>(), size), x < 0f);
}
"""
FUNCTIONS: Final = {
    text.split("(")[0].removeprefix("fn "): text for text in _TEXT.strip().split("\n\n")
}
_WORD: Final = re.compile(r"\w+")
_NAMES: Final = {
    Ops.ADD: "add_64", Ops.SUB: "subtract_64", Ops.MUL: "multiply_64", Ops.SHL: "shift_left_64",
    Ops.SHR: "shift_right_{}", Ops.CMPLT: "less_{}", Ops.MAX: "maximum_{}",
    Ops.MIN: "minimum_{}", Ops.IDIV: "divide_u64", Ops.MOD: "divide_u64",
}  # fmt: skip


def is_wide(dtype: DType) -> bool:
    """Whether it is an integer of two words (or a vector of them)."""
    return dtype.is_int and dtype.bits == 64


def needs(name: str) -> Iterator[str]:
    """The function and those that it calls, last what calls nothing."""
    yield name
    for word in _WORD.findall(FUNCTIONS[name].partition("{")[2]):
        if word in FUNCTIONS:
            yield from needs(word)


def kind(dtype: DType) -> str:
    """The name that functions have for a format of 64 bits."""
    return "i64" if dtype.kind == "int" else "u64"


def function(node: UOp) -> str:
    """The function that computes a node of 64-bit integers."""
    return _NAMES[node.op].format(kind(node.src[0].dtype))
