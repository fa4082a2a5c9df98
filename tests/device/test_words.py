"""Native code means what Python makes of the same text, where both have a meaning."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

from torpor.device import llvm
from torpor.device.machine import machine
from torpor.device.words import Text

NUMBERS = {"SEVEN": 7, "LEAST": -3}
TEXT = """
def torpor_test_arithmetic(x, y):
    one, other = x * y - SEVEN, -x + (y & 12 | 3)
    one += other << 2
    return one if x < y else one + (x == y) + LEAST


def torpor_test_order(x, y):
    if x <= y and (x != 1 or y >= 3) and not x > y - 1:
        return 1
    elif x == 2 or y < 0:
        return 2
    else:
        return min(x, y) * 10 + max(x, y)


def torpor_test_positive(x, y):
    x, y = x * x + 1, y * y + 1
    return x * 100 // y + x % y * 1000 + (x << 5 >> 2)


def torpor_test_loops(x, y):
    found = 0
    for n in range(x, y):
        if n == 2:
            continue
        for m in range(0, y * 3, 2):
            if m > 5:
                break
            found += n * m + square(n)
    while True:
        found += 1
        if found % 7 == 0:
            return found
        if found > 1000:
            break


def square(x):
    return x * x


def torpor_test_cases(x, y):
    found = 5
    try:
        match (x * x + y * y) % 4:
            case 2:
                pass
            case 0:
                found = 1
            case 1:
                assert x < y
                raise other
        found += 10
    except other:
        found += 20
    except missed:
        found += 30
    return found
"""
NAMES = ["arithmetic", "order", "positive", "loops", "cases"]


class Other(Exception):
    pass


def load(text: Text, name: str, kind: object) -> ctypes._CFuncPtr:
    compiled = llvm.compile_text(text.written_out(), "a test", machine(""), quick=True)
    return kind(llvm.load(compiled, f"torpor_test_{name}"))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_python_makes_of_it(name: str) -> None:
    native = load(Text(TEXT, NUMBERS), name, ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3))
    scope = {**NUMBERS, "missed": AssertionError, "other": Other}
    exec(TEXT, scope)
    for x, y in product(range(-3, 6), repeat=2):
        assert native(x, y) == int(scope[f"torpor_test_{name}"](x, y) or 0)


MEMORY = """
kept = words(ROOM)


def torpor_test_memory(memory, place):
    first, link = memory[0], memory[1]
    tail = at(memory, place + 1)
    tail[0], tail[1] = tail, first
    kept[1], apart = link[2], room(2)
    apart[1] = kept[1] + memory[place]
    memory[0] = apart[1]
    memory[2], memory[3] = byte(link), half(link + 8)
    ask = memory[7]
    memory[4] = low(ask(memory[2]))
    atomic_add(at(link, 1), 5)
    atomic_least(at(link, 2), atomic_load(at(link, 1)))
    atomic_store(link, 1 - kept[1])
    memory[6] = torpor_test_given(memmove != 0)
"""


def test_memory_is_read_and_written_at_its_places() -> None:
    given = "define i64 @torpor_test_given(i64 %x) {\n  %y = mul i64 %x, 44\n  ret i64 %y\n}"
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    function = load(Text(MEMORY, {"ROOM": 2}, given), "memory", kind)
    memory, other = np.arange(100, 108), np.array([0x1FF, -1, 9000])
    negative = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(lambda x: -x)
    memory[1], memory[7] = other.ctypes.data, ctypes.cast(negative, ctypes.c_void_p).value
    function(memory.ctypes.data, 4)
    tail = memory.ctypes.data + 5 * memory.itemsize
    assert memory[:4].tolist() == [104 + 9000, other.ctypes.data, 0xFF, 0xFFFFFFFF]
    assert memory[4:7].tolist() == [-0xFF, tail, 44]
    assert other.tolist() == [1 - 9000, 4, 4]


TEXTS = [
    "yield x", "del x", "return x or y", "import os", "return [x]", "return 0 < x < y", "x.y = 1",
    "while x: x -= 1\n    else: y = 2", "for x in y: pass", "try: x = y\n    finally: y = 1",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_what_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError, match=r"no (word|meaning|place)"):
        Text(f"def torpor_test(x, y):\n    {text}").written_out()
