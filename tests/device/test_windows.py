"""Machine code for Windows gives what NumPy gives, called by its convention from this system.

Its object files are loaded here as they would be there; a few functions in between turn one way to
call into the other. What they need of Windows is a function that touches the stack's pages, and one
that copies memory.
"""

import ctypes
import platform
import sys
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.device.workloads import workloads
from torpor.base.settings import Context
from torpor.device.launch import launch_value
from torpor.device.llvm import Entry, LlvmCompiler, entry_name, unsealed
from torpor.device.machine import LEVELS, Machine, facts, machine
from torpor.pipeline.compile import program_for

WORKLOADS = workloads()
LEVEL = "avx2" if machine("avx2").runs_here else "sse"
WINDOWS = Machine(
    "x86_64-pc-windows-msvc-elf", LEVELS[LEVEL], machine(LEVEL).features, runs_here=True
)
# `ret`: pages of the stack come by themselves here. It must keep every register. What copies memory
# is called by Windows's convention too.
SYSTEM = """
define void @__chkstk() nounwind prologue i8 195 {
  ret void
}
define win64cc ptr @memcpy(ptr %to, ptr %from, i64 %count) nounwind "no-builtins" {
start:
  br label %look
look:
  %n = phi i64 [0, %start], [%next, %copy]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %copy, label %done
copy:
  %from.n = getelementptr i8, ptr %from, i64 %n
  %to.n = getelementptr i8, ptr %to, i64 %n
  %byte = load volatile i8, ptr %from.n
  store i8 %byte, ptr %to.n
  %next = add i64 %n, 1
  br label %look
done:
  ret ptr %to
}
"""
THUNK = """
declare win64cc void @{0}(ptr, i64, i64)
define void @call_{0}(ptr %table, i64 %begin, i64 %end) {{
  call win64cc void @{0}(ptr %table, i64 %begin, i64 %end)
  ret void
}}
"""


@cache
def engine():
    """A loader of its own, since one engine finds a symbol once."""
    made = llvm.create_mcjit_compiler(llvm.parse_assembly(SYSTEM), host())
    made.finalize_object()
    return made


def host():
    found = machine("")
    return llvm.Target.from_triple(found.triple).create_target_machine(
        cpu=found.processor, features=found.features, codemodel="jitdefault", jit=True
    )


@cache
def loaded(program):
    """The program as a function of this system."""
    name = entry_name(program)
    compiled = unsealed(LlvmCompiler(WINDOWS).compile(program))
    engine().add_object_file(llvm.ObjectFileRef.from_data(compiled))
    thunk = host().emit_object(llvm.parse_assembly(THUNK.format(name)))
    engine().add_object_file(llvm.ObjectFileRef.from_data(thunk))
    engine().finalize_object()
    return Entry(engine().get_function_address(f"call_{name}"))


def run(item):
    """What the schedule's item stores, by its first buffer."""
    program = program_for(item.ast, facts(machine(LEVEL)))
    buffers = [node.arg for node in item.buffers]
    for buffer in buffers:
        if not buffer.is_allocated():
            buffer.allocate()
    error = ctypes.c_int64(0)
    words = [buffer.address for buffer in buffers] + [ctypes.addressof(error)]
    total = 0 if program.thread_range is None else launch_value(program.thread_range, {})
    loaded(program)(np.array(words, np.int64).tobytes(), 0, total)
    assert error.value == 0
    return buffers[0]


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="only x86-64 Linux knows how to call code for Windows",
)
@pytest.mark.parametrize("workload", WORKLOADS, ids=[w.name for w in WORKLOADS])
def test_windows_code_gives_what_numpy_gives(workload):
    with Context(TARGET=LEVEL):
        wanted = workload.compute(*workload.tensors())
        for item in wanted.schedule():
            stored = run(item)
        workload.verify(stored.numpy().reshape(wanted.shape))


def test_large_tiles_touch_the_stack_page_by_page():
    """Or Windows, which grows it by a page at a time, would end the process."""
    (tiled,) = (w for w in WORKLOADS if w.name == "matmul_tiled")
    with Context(TARGET=LEVEL):
        (item,) = tiled.compute(*tiled.tensors()).schedule()
        program = program_for(item.ast, facts(machine(LEVEL)))
    assert b"__chkstk" in unsealed(LlvmCompiler(WINDOWS).compile(program))
