"""What steers a function of LLVM IR: loops, conditions, checks."""

from __future__ import annotations

from torpor.base.dtypes import DType
from torpor.ir.ops import AxisType
from torpor.ir.uop import UOp
from torpor.source.linear import constant
from torpor.source.llvm_function import Function
from torpor.source.llvm_text import mangled, type_of


def open_loop(function: Function, node: UOp) -> None:
    """For ridx in begin .. end: tested at the bottom, and before the first time if it may be
    empty.
    """
    body, kind = function.body, type_of(node.dtype)
    name = body.names.exact(f"ridx{node.arg[0]}")
    loop, latch, done = (f"{part}_{name}" for part in ("loop", "next", "done"))
    begin, end, bounded = "0", function.names[node.src[0]], constant(node.src[0])
    if node.arg[1] is AxisType.THREAD:
        begin, end, bounded = *thread_bounds(function, node.dtype), None
    until = "thread_end" if node.arg[1] is AxisType.THREAD else end.lstrip("%")
    body.line(f"; {name}: {begin.lstrip('%')} to {until}")
    if bounded is not None and bounded > 0:
        body.line(f"br label %{loop}")
    else:
        some = body.value("alu", f"icmp slt {kind} {begin}, {end}")
        body.line(f"br i1 {some}, label %{loop}, label %{done}")
    before = body.block
    body.label(loop)
    body.line(f"%{name} = phi {kind} [ {begin}, %{before} ], [ %{name}_next, %{latch} ]")
    function.names[node] = f"%{name}"
    function.ends[node] = (name, end)
    body.depth += 1


def thread_bounds(function: Function, dtype: DType) -> tuple[str, str]:
    """The first iteration of this thread and the one past its last, in the counter's format."""
    names = "%thread_begin", "%thread_end"
    if dtype.bits == 64:
        return names
    begin, end = (
        function.body.value("alu", f"trunc i64 {name} to {type_of(dtype)}") for name in names
    )
    return begin, end


def close_loop(function: Function, node: UOp) -> None:
    body, source = function.body, node.src[0]
    name, end = function.ends[source]
    kind = type_of(source.dtype)
    body.line(f"br label %next_{name}")
    body.depth -= 1
    body.label(f"next_{name}")
    body.line(f"%{name}_next = add nsw {kind} %{name}, 1")
    more = body.value("alu", f"icmp slt {kind} %{name}_next, {end}")
    body.line(f"br i1 {more}, label %loop_{name}, label %done_{name}")
    body.label(f"done_{name}")


def in_lanes(function: Function, operation: str, condition: UOp) -> str:
    """Whether a condition holds in all lanes ("and"), or in some ("or")."""
    name = f"llvm.vector.reduce.{operation}.{mangled(condition.dtype)}"
    given = type_of(condition.dtype), function.names[condition]
    return function.body.value("alu", function.body.call(name, "i1", given))


def open_condition(function: Function, node: UOp) -> None:
    condition = node.src[0]
    holds = function.names[condition]
    if condition.dtype.count > 1:
        holds = in_lanes(function, "or", condition)
    function.ends[node] = (function.branch(holds, "then"),)


def close_condition(function: Function, node: UOp) -> None:
    function.join(function.ends[node.src[0]][0])


def check(function: Function, node: UOp) -> None:
    """Set the error word to number + 1 if it is still 0 and a lane fails; a cold block."""
    value, condition = node.src
    function.names[node] = function.names[value]
    holds = function.names[condition]
    if condition.dtype.count > 1:
        holds = in_lanes(function, "and", condition)
    body, label = function.body, function.body.names.numbered("fail")
    body.line(f"br i1 {holds}, label %after_{label}, label %{label}, !prof !0")
    body.label(label)
    old = body.value("val", "load i64, ptr %error")
    free = body.value("alu", f"icmp eq i64 {old}, 0")
    new = body.value("alu", f"select i1 {free}, i64 {int(node.arg) + 1}, i64 {old}")
    body.line(f"store i64 {new}, ptr %error")
    function.join(f"after_{label}")


def nothing(function: Function, node: UOp) -> None:
    """One work item waits for nobody."""
