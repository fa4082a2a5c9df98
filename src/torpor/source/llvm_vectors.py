"""Vectors in LLVM IR: put together from scalars or from lanes of others, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.llvm_function import Function
from torpor.source.llvm_text import mangled, memory_type, type_of

GATHERED: Final = (4, 8)  # bytes of an element: AVX-512 gathers words of 32 and 64 bits


def shuffle(function: Function, left: UOp, right: UOp | None, chosen: Sequence[int]) -> str:
    """The lanes `chosen` of one vector, or of two end to end."""
    kind = type_of(left.dtype)
    other = "poison" if right is None else function.names[right]
    picks = ", ".join(f"i32 {n}" for n in chosen)
    text = f"shufflevector {kind} {function.names[left]}, {kind} {other}, <{len(chosen)} x i32>"
    return function.body.value("vec", f"{text} <{picks}>")


def vectorize(function: Function, node: UOp) -> None:
    """Copies of one scalar, a shuffle where lanes of vectors are put together, or one by one."""
    source, count = node.src, node.dtype.count
    if all(s is source[0] for s in source):
        function.names[node] = function.whole(source[0], count)
        return
    picked = lanes_of_two(source)
    if picked is not None:
        function.names[node] = shuffle(function, *picked)
        return
    if function.target.gathers and (positions := gathered(source)):
        function.names[node] = gather(function, node, positions)
        return
    kind, result = type_of(node.dtype), "poison"
    for number, one in enumerate(source):
        lane = f"{type_of(one.dtype)} {function.names[one]}, i64 {number}"
        result = function.body.value("vec", f"insertelement {kind} {result}, {lane}")
    function.names[node] = result


def gathered(source: Sequence[UOp]) -> tuple[UOp, UOp | None, list[int]] | None:
    """Where scalars lie that are read from one memory at lanes of one or two vectors: the lanes."""
    if any(s.op is not Ops.LOAD or len(s.src) > 1 or len(s.src[0].src) != 2 for s in source):
        return None
    memory = source[0].src[0].src[0]
    if memory.dtype.itemsize not in GATHERED or any(s.src[0].src[0] is not memory for s in source):
        return None
    return lanes_of_two([s.src[0].src[1] for s in source])


def gather(function: Function, node: UOp, positions: tuple[UOp, UOp | None, list[int]]) -> str:
    """One instruction reads all lanes; what read them one by one is not needed any more."""
    count, memory = node.dtype.count, node.src[0].src[0].src[0]
    index = f"<{count} x i{positions[0].dtype.bits}> {shuffle(function, *positions)}"
    element = memory_type(memory.dtype.scalar())
    text = f"getelementptr {element}, ptr {function.names[memory]}, {index}"
    addresses = function.body.value("at", text)
    kind = type_of(node.dtype)
    call = function.body.call(
        f"llvm.masked.gather.{mangled(node.dtype)}.v{count}p0",
        kind,
        (f"<{count} x ptr>", addresses),
        ("i32", str(memory.dtype.itemsize)),
        (f"<{count} x i1>", "splat (i1 true)"),
        (kind, "poison"),
    )
    return function.body.value("val", call)


def gep(function: Function, node: UOp) -> None:
    """One lane of a vector, or several as a vector, perhaps of two vectors."""
    source, chosen = node.src[0], tuple(node.arg)
    if len(node.src) > 1:
        function.names[node] = shuffle(function, source, node.src[1], chosen)
    elif source.dtype.count == 1:
        function.names[node] = function.whole(source, len(chosen))
    elif len(chosen) > 1:
        function.names[node] = shuffle(function, source, None, chosen)
    else:
        text = f"{type_of(source.dtype)} {function.names[source]}, i64 {chosen[0]}"
        function.names[node] = function.body.value("lane", f"extractelement {text}")


def lanes_of_two(source: Sequence[UOp]) -> tuple[UOp, UOp | None, list[int]] | None:
    """The one or two vectors of one format whose lanes these scalars are, and which lanes."""
    if any(s.op is not Ops.GEP or s.src[0].dtype.count == 1 for s in source):
        return None
    vectors = list(dict.fromkeys(s.src[0] for s in source))
    if len(vectors) > 2 or vectors[0].dtype is not vectors[-1].dtype:
        return None
    offset = {v: n * v.dtype.count for n, v in enumerate(vectors)}
    chosen = [offset[s.src[0]] + s.arg[0] for s in source]
    return vectors[0], vectors[1] if len(vectors) == 2 else None, chosen
