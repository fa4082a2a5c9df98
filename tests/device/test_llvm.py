"""Compiling and loading LLVM text."""

import ctypes
import re

import pytest

from tests.device import programs
from torpor import Tensor, dtypes
from torpor.base.errors import CompileError, DeviceError
from torpor.base.settings import Context
from torpor.device import Device, llvm
from torpor.device.machine import machine
from torpor.ir import Program
from torpor.pipeline.compile import program_for

CLEAR = """
define void @torpor_test_clear(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %n, i1 false)
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

COUNT = """
@count = internal global i64 0
define i64 @torpor_test_tell() {
  %n = load i64, ptr @count
  ret i64 %n
}
define i64 @torpor_test_add() {
  %n = call i64 @torpor_test_tell()
  %more = add i64 %n, 1
  store i64 %more, ptr @count
  ret i64 %more
}
"""


def test_equal_text_gives_equal_bytes():
    compiler = Device["CPU"].compiler
    assert compiler.compile(programs.scale(4)) == compiler.compile(programs.scale(4))


def test_the_entry_is_named_after_everything_it_depends_on():
    names = {llvm.entry_name(p) for p in (programs.scale(4), programs.scale(5), programs.fail())}
    assert len(names) == 3


def test_refused_text_shows_the_line():
    program = Program("bad", "define void @bad() {\n  %x = add i32 1, oops\n  ret void\n}\n", "cpu")
    with pytest.raises(CompileError, match=r"LLVM refused bad(.|\n)*2   %x = add i32 1, oops"):
        Device["CPU"].compiler.compile(program)


def test_damaged_objects_are_refused():
    program, device = programs.scale(123456), Device["CPU"]
    good = device.compiler.compile(program)
    for bad in (b"no object at all", b"", good[:-1], good[:100] + b"x" + good[101:]):
        with pytest.raises(DeviceError, match="damaged"):
            device.executable(program, bad)
    device.executable(program, good)


def test_c_functions_that_llvm_calls_are_found():
    compiled = llvm.compile_text(CLEAR, "clear", machine(""))
    address = llvm.load(compiled, "torpor_test_clear")
    memory = (ctypes.c_ubyte * 1000)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)(ctypes.addressof(memory), 999)
    assert bytes(memory) == b"\7" * 999 + b"\0"


def test_an_object_is_loaded_once():
    """Its functions see the same memory, however they are asked for."""
    compiled = llvm.compile_text(COUNT, "count", machine(""))
    count = ctypes.CFUNCTYPE(ctypes.c_int64)
    add, tell = (count(llvm.load(compiled, f"torpor_test_{name}")) for name in ("add", "tell"))
    assert [add(), add(), tell()] == [1, 2, 2]


@pytest.mark.parametrize(
    ("target", "register"),
    [("sse", "xmm"), ("avx2", "ymm"), ("avx512", "zmm"), ("aarch64", "v0.4s")],
)
def test_assembly_for_any_machine(target, register):
    width = {"xmm": 4, "ymm": 8, "zmm": 16, "v0.4s": 4}[register]
    vector = f"<{width} x float>"
    text = f"""
define void @double(ptr %a, ptr %b) {{
  %x = load {vector}, ptr %b
  %y = fadd {vector} %x, %x
  store {vector} %y, ptr %a
  ret void
}}
"""
    with Context(TARGET=target):
        program = Program("double", text, "cpu", parameters=("float32", "float32"))
        compiler = Device["CPU"].compiler
        assembly = compiler.assembly(program)
        assert "double:" in assembly
        assert register in assembly
        assert "torpor_" not in assembly
        assert llvm.unsealed(compiler.compile(program))[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")


@pytest.mark.parametrize("target", ["sse", "avx2", "avx512", "aarch64"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=repr)
def test_small_floats_are_rounded_in_vectors(target, dtype):
    """No call, no lane on its own."""
    with Context(TARGET=target):
        device = Device["CPU"]
        (item,) = (Tensor.empty(4096).cast(dtype) * 3).schedule()
        assembly = device.compiler.assembly(program_for(item.ast, device.target))
    assert not re.search(r"\t(call|bl|v?p(ext|ins)r[bwdq]|umov|smov|cvtss2\w+)\s", assembly)
