"""Hand-written LLVM programs for the device tests."""

from __future__ import annotations

from torpor.device import Device, Executable
from torpor.ir import Program

# a[i] = b[i] * 2 + n for i in [begin, end)
SCALE = """
define void @scale(ptr %a, ptr %b, i32 %n, i64 %begin, i64 %end) {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %out
loop:
  %i = phi i64 [%begin, %entry], [%j, %loop]
  %p = getelementptr float, ptr %b, i64 %i
  %q = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %p
  %add = sitofp i32 %n to float
  %double = fmul float %x, 2.0
  %y = fadd float %double, %add
  store float %y, ptr %q
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %end
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""
# a[0] = v0 + v1; the error word becomes v0
ERROR = """
define void @fail(ptr %a, i32 %v0, i64 %v1, ptr %error) {
  %wide = sext i32 %v0 to i64
  %sum = add i64 %wide, %v1
  store i64 %sum, ptr %a
  store i64 %wide, ptr %error
  ret void
}
"""


def scale(size: object, ops: int = 10**9) -> Program:
    """SCALE over `size` elements; so many `ops` that it is cut among threads."""
    return Program(
        "scale", SCALE, "cpu", parameters=("float32", "float32"), variables=(("v0", "int32"),),
        thread_range=size, ops=ops,
    )  # fmt: skip


def fail() -> Program:
    variables = (("v0", "int32"), ("v1", "int64"))
    return Program("fail", ERROR, "cpu", parameters=("int64",), variables=variables, checks=3)


def load(program: Program, device: str = "CPU") -> Executable:
    """Compile and load."""
    opened = Device[device]
    return opened.executable(program, opened.compiler.compile(program))
