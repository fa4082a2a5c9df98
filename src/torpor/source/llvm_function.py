"""A function of LLVM IR under construction: its arguments, the text of values, and what all kinds
of nodes need to write theirs.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Final

from torpor.base.dtypes import DType
from torpor.base.target import Target
from torpor.ir.uop import UOp
from torpor.source.linear import Signature
from torpor.source.llvm_text import Body, type_of, vector

# Memory of parameters may have come from outside, aligned to its elements only.
LOCAL_ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector register

Pairs = Collection[tuple[int, int]]
Masked = tuple[UOp, DType, str]  # an INDEX, and what is stored there


class Function:
    """One function under construction; `names` maps nodes to the text of their values. `shared`:
    pairs of parameters that may be the same memory; `streams`: whether it stores past the caches
    where that is asked for.
    """

    def __init__(self, takes: Signature, target: Target, shared: Pairs, streams: bool):
        self.takes, self.target, self.streams = takes, target, streams
        self.body = Body()
        self.names: dict[UOp, str] = {}
        self.ends: dict[UOp, tuple[str, ...]] = {}
        self.tiles: dict[UOp, int] = {}  # registers of matrices
        self.waiting: list[Masked] = []  # stores under one mask, which share a branch
        # What a kernel stores lies in no other parameter, unless it may take the place of one.
        together = set(chain.from_iterable(shared))
        self.arguments = [
            f"ptr{'' if n in together else ' noalias'} %{self.body.names.exact(f'data{n}')}"
            for n, _ in takes.parameters
        ]
        for slot, parameter in takes.parameters:
            if parameter is not None:
                self.names[parameter] = f"%data{slot}"
        for node in takes.variables:
            name = self.names[node] = f"%{self.body.names.exact(node.arg[0])}"
            self.arguments.append(f"{type_of(node.dtype)} {name}")
        if takes.checks:
            self.arguments.append(f"ptr %{self.body.names.exact('error')}")
        if takes.thread is not None:
            self.arguments += [
                f"i64 %{self.body.names.exact(name)}" for name in ("thread_begin", "thread_end")
            ]

    def text(self, name: str) -> str:
        """The definition."""
        body = self.body
        head = f"define void @{name}({', '.join(self.arguments)}) nounwind {{"
        return "\n".join([head, "entry:", *body.registers, *body.lines, "  ret void", "}"])

    def whole(self, value: UOp, count: int) -> str:
        """A value as a vector: a scalar in all lanes."""
        name = self.names[value]
        return name if value.dtype.count == count else self.broadcast(value.dtype, name, count)

    def broadcast(self, dtype: DType, value: str, count: int) -> str:
        """`count` copies of a scalar."""
        kind = vector(type_of(dtype), count)
        one = f"insertelement {kind} poison, {type_of(dtype)} {value}, i64 0"
        first = self.body.value("vec", one)
        shuffle = f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer"
        return self.body.value("vec", shuffle)

    def branch(self, condition: str, prefix: str) -> str:
        """Start a block that runs where the condition holds; the label that follows it."""
        name = self.body.names.numbered(prefix)
        self.body.line(f"br i1 {condition}, label %{name}, label %after_{name}")
        self.body.label(name)
        return f"after_{name}"

    def join(self, label: str) -> None:
        """End the block that `branch` started."""
        self.body.line(f"br label %{label}")
        self.body.label(label)
