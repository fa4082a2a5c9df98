"""Short forms of words in IR mean what LLVM compiles them to."""

from __future__ import annotations

import ctypes

import numpy as np

from torpor.device import llvm
from torpor.device.machine import machine
from torpor.device.words import written_out

TEXT = """
define void @torpor_test_words(ptr %memory, i64 %place) {
  %after = add i64 %place, 1
  %first = i64 %memory[0]
  %chosen = i64 %memory[%place]
  %tail = at %memory[%after]
  %link = ptr %memory[1]
  %linked = i64 %link[2]
  %sum = add i64 %chosen, %linked
  %memory[0] = i64 %sum
  %tail[1] = i64 %first
  %tail[0] = ptr %tail
  ret void
}
"""


def test_words_are_read_and_written_at_their_places() -> None:
    compiled = llvm.compile_text(written_out(TEXT), "a test", machine(""))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    function = kind(llvm.load(compiled, "torpor_test_words"))
    memory, other = np.arange(100, 108), np.array([7, 8, 9])
    memory[1] = other.ctypes.data
    function(memory.ctypes.data, 4)
    tail = memory.ctypes.data + 5 * memory.itemsize
    assert memory.tolist() == [104 + 9, other.ctypes.data, 102, 103, 104, tail, 100, 107]


def test_other_lines_stay() -> None:
    plain = "  %x = load i64, ptr %p\nwide: [2 x i64]\n  switch i64 %x, label %y [\n  ]"
    assert written_out(plain) == plain


BRANCH = """
define i64 @torpor_test_branch(i64 %x, i64 %y) {
start:
  if slt i64 %x, %y then %less else %ask
ask:
  if eq i64 %x, %y then %same else %more
less:
  ret i64 -1
same:
  ret i64 0
more:
  ret i64 1
}
"""


def test_branches_go_where_a_comparison_says() -> None:
    compiled = llvm.compile_text(written_out(BRANCH), "a test", machine(""))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    function = kind(llvm.load(compiled, "torpor_test_branch"))
    assert [function(x, 5) for x in (-6, 5, 7)] == [-1, 0, 1]
