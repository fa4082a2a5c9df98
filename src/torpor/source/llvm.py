"""LLVM IR for CPUs: loops as blocks, explicit vectors, registers as allocas.

The text needs only `mem2reg` (or `sroa`) before code generation: vectors are explicit, index
arithmetic carries what is known of its bounds, and each value stands where it is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Final

from torpor.base.dtypes import DType
from torpor.base.errors import ContractError
from torpor.base.target import Target
from torpor.ir.ops import ALU, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.source.linear import Signature, alignment, constant, prepare, signature
from torpor.source.llvm_ahead import fetch, fetches
from torpor.source.llvm_alu import alu, select
from torpor.source.llvm_pairs import multiply_add, needless, pairs_of
from torpor.source.llvm_quads import Quad, multiply_bytes, quads_of
from torpor.source.llvm_stream import MARK, MARK_MEANS, either, streamed_bytes, streamed_slots
from torpor.source.llvm_text import (
    Body,
    constant_text,
    mangled,
    memory_type,
    number_text,
    type_of,
    vector,
)
from torpor.source.names import identifier
from torpor.source.renderer import Renderer

# Memory of parameters may have come from outside, aligned to its elements only.
LOCAL_ALIGNMENT: Final = 64  # bytes: a cache line, and the widest vector register


Pairs = Collection[tuple[int, int]]


class LLVMRenderer(Renderer):
    """Writes one `define void @name(ptr %data0, ...)` as text for LLVM 20 and later."""

    def render(self, name: str, linear: Sequence[UOp], shared: Pairs = ()) -> str:
        nodes, name = prepare(linear), identifier(name)
        plain = _Function.of(nodes, self.target, shared)
        slots = streamed_slots(nodes)
        if not slots:
            return module((plain.text(name),), plain)
        streaming = _Function.of(nodes, self.target, shared, streams=True)
        ways = f"{name}_streaming", f"{name}_storing"
        texts = (
            either(name, plain.arguments, slots, shared, ways),
            streaming.text(ways[0]),
            plain.text(ways[1]),
        )
        return module(texts, plain, streaming)


def module(texts: Sequence[str], *functions: _Function) -> str:
    """The texts of functions, and what they refer to."""
    parts = ["\n\n".join(texts)]
    declared = {text for function in functions for text in function.body.declared.values()}
    if declared:
        parts += ["", *sorted(declared)]
    if functions[0].takes.checks:
        parts += ["", '!0 = !{!"branch_weights", i32 1048576, i32 1}']
    if any(function.streams for function in functions):
        parts += ["", MARK_MEANS]
    return "\n".join(parts) + "\n"


class _Function:
    """One function under construction; `names` maps nodes to the text of their values. `shared`:
    pairs of parameters that may be the same memory; `streams`: whether it stores past the caches
    where that is asked for.
    """

    def __init__(self, takes: Signature, target: Target, shared: Pairs, streams: bool):
        self.takes, self.target, self.streams = takes, target, streams
        self.body = Body()
        self.names: dict[UOp, str] = {}
        self.ends: dict[UOp, tuple[str, ...]] = {}
        self.pairs: dict[UOp, tuple[UOp, UOp]] = {}
        self.quads: dict[UOp, Quad] = {}
        self.ahead: dict[UOp, int] = {}
        self.held: dict[UOp, UOp] = {}  # by CHECK: the WHERE that gives its value where it holds
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

    @staticmethod
    def of(nodes: Sequence[UOp], target: Target, shared: Pairs, streams: bool = False) -> _Function:
        """The function of a linear program."""
        made = _Function(signature(nodes), target, shared, streams)
        made.pairs, made.quads = pairs_of(nodes), quads_of(nodes, target)
        made.ahead = fetches(nodes) if streams else {}
        made.held = {node.src[1]: node for node in nodes if is_held(node)}
        operands = {node: quad.operands for node, quad in made.quads.items()}
        unwritten = needless(nodes, {**made.pairs, **operands})
        for node in nodes:
            if node not in unwritten:
                made.add(node)
        return made

    def text(self, name: str) -> str:
        """The definition."""
        body = self.body
        head = f"define void @{name}({', '.join(self.arguments)}) nounwind {{"
        return "\n".join([head, "entry:", *body.registers, *body.lines, "  ret void", "}"])

    def add(self, node: UOp) -> None:
        """Append what the node needs."""
        if node in self.names:
            return
        text = constant_text(node)
        if text is not None:
            self.names[node] = text
        elif node in self.pairs:
            words = tuple(self.whole(word, node.dtype.count) for word in self.pairs[node])
            self.names[node] = multiply_add(self.body, (words[0], words[1]), node.dtype.count)
        elif node in self.quads:
            self.quad(node, self.quads[node])
        elif node.op in ALU:
            self.names[node] = alu(self.body, node, tuple(self.names[s] for s in node.src))
        elif node.op in _STATEMENTS:
            _STATEMENTS[node.op](self, node)
        else:
            raise ContractError(f"LLVM IR has no {node.op}")

    def quad(self, node: UOp, found: Quad) -> None:
        """The products of four bytes in each lane, added to a word."""
        count = node.dtype.count
        x, y = (self.whole(word, count) for word in found.words)
        total = "zeroinitializer" if found.total is None else self.names[found.total]
        self.names[node] = multiply_bytes(self.body, found, (x, y), total, count, self.target)

    def whole(self, value: UOp, count: int) -> str:
        """A value as a vector: a scalar in all lanes."""
        name = self.names[value]
        return name if value.dtype.count == count else self.broadcast(value.dtype, name, count)

    # --- loops and conditions ---------------------------------------------------------------------
    def open_loop(self, node: UOp) -> None:
        """For ridx in begin .. end: tested at the bottom, and before the first time if it may be
        empty.
        """
        body, kind = self.body, type_of(node.dtype)
        name = body.names.exact(f"ridx{node.arg[0]}")
        loop, latch, done = (f"{part}_{name}" for part in ("loop", "next", "done"))
        begin, end, bounded = "0", self.names[node.src[0]], constant(node.src[0])
        if node.arg[1] is AxisType.THREAD:
            begin, end, bounded = *self.thread_bounds(node.dtype), None
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
        self.names[node] = f"%{name}"
        self.ends[node] = (name, end)
        body.depth += 1

    def thread_bounds(self, dtype: DType) -> tuple[str, str]:
        """The first iteration of this thread and the one past its last, in the counter's format."""
        names = "%thread_begin", "%thread_end"
        if dtype.bits == 64:
            return names
        begin, end = (
            self.body.value("alu", f"trunc i64 {name} to {type_of(dtype)}") for name in names
        )
        return begin, end

    def close_loop(self, node: UOp) -> None:
        body, source = self.body, node.src[0]
        name, end = self.ends[source]
        kind = type_of(source.dtype)
        body.line(f"br label %next_{name}")
        body.depth -= 1
        body.label(f"next_{name}")
        body.line(f"%{name}_next = add nsw {kind} %{name}, 1")
        more = body.value("alu", f"icmp slt {kind} %{name}_next, {end}")
        body.line(f"br i1 {more}, label %loop_{name}, label %done_{name}")
        body.label(f"done_{name}")

    def open_condition(self, node: UOp) -> None:
        self.ends[node] = (self.branch(self.names[node.src[0]], "then"),)

    def close_condition(self, node: UOp) -> None:
        self.join(self.ends[node.src[0]][0])

    def branch(self, condition: str, prefix: str, hint: str = "") -> str:
        """Start a block that runs where the condition holds; the label that follows it."""
        name = self.body.names.numbered(prefix)
        self.body.line(f"br i1 {condition}, label %{name}, label %after_{name}{hint}")
        self.body.label(name)
        return f"after_{name}"

    def join(self, label: str) -> None:
        """End the block that `branch` started."""
        self.body.line(f"br label %{label}")
        self.body.label(label)

    # --- registers and memory ---------------------------------------------------------------------
    def define_local(self, node: UOp) -> None:
        kind = f"[{node.arg.size} x {memory_type(node.dtype)}]"
        self.names[node] = self.body.register("local", kind, LOCAL_ALIGNMENT)

    def define_register(self, node: UOp) -> None:
        """A register is set where it stands, anew in each round of the loops around it."""
        kind = type_of(node.dtype)
        align = min(LOCAL_ALIGNMENT, node.dtype.itemsize & -node.dtype.itemsize)
        name = self.names[node] = self.body.register("acc", kind, align)
        self.body.line(f"store {kind} {self.names[node.src[0]]}, ptr {name}")

    def index(self, node: UOp) -> None:
        """An unconditional address is computed where it stands, so outside loops if it can be."""
        if len(node.src) == 2:
            self.names[node] = self.address(node, self.names[node.src[1]])

    def address(self, place: UOp, position: str) -> str:
        memory, index = place.src[:2]
        element = memory_type(memory.dtype.scalar())
        return self.body.value(
            "at",
            f"getelementptr {element}, ptr {self.names[memory]}, {type_of(index.dtype)} {position}",
        )

    def align(self, place: UOp) -> int:
        """What the address is known to be a multiple of, bytes."""
        memory = place.src[0]
        size = memory.dtype.scalar().itemsize
        if memory.op is Ops.DEFINE_LOCAL:
            return alignment(place.src[1], size, LOCAL_ALIGNMENT)
        return size

    def load(self, node: UOp) -> None:
        place, dtype = node.src[0], node.dtype
        if place.op is Ops.ACC:
            kind = type_of(dtype)
            self.names[node] = self.body.value("val", f"load {kind}, ptr {self.names[place]}")
        elif len(place.src) == 2:
            self.names[node] = self.plain_load(dtype, self.names[place], self.align(place))
            if node in self.ahead:
                fetch(self.body, self.names[place], self.ahead[node])
        elif place.src[2].dtype.count == 1 and fits(place, dtype.count):
            self.names[node] = self.guarded_load(node)
        else:
            self.names[node] = self.masked_load(node)

    def plain_load(self, dtype: DType, address: str, align: int) -> str:
        kind = memory_type(dtype)
        value = self.body.value("val", f"load {kind}, ptr {address}, align {align}")
        return self.from_memory(dtype, value)

    def from_memory(self, dtype: DType, value: str) -> str:
        """A bool is a byte in memory."""
        if dtype.kind != "bool":
            return value
        zero = "0" if dtype.count == 1 else "zeroinitializer"
        return self.body.value("val", f"icmp ne {memory_type(dtype)} {value}, {zero}")

    def to_memory(self, dtype: DType, value: str) -> str:
        if dtype.kind != "bool":
            return value
        return self.body.value("val", f"zext {type_of(dtype)} {value} to {memory_type(dtype)}")

    def guarded_load(self, node: UOp) -> str:
        """Read element 0 where the condition fails, and then forget it: no branch."""
        place, dtype = node.src[0], node.dtype
        position, condition = place.src[1:3]
        test, zero = self.names[condition], number_text(position.dtype, 0)
        safe = select(self.body, condition, position.dtype, (test, self.names[position], zero))
        align = self.align(place)
        value = self.plain_load(dtype, self.address(place, safe), align)
        nothing = "zeroinitializer" if dtype.count > 1 else number_text(dtype, 0)
        return select(self.body, condition, dtype, (test, value, nothing))

    def mask(self, place: UOp, count: int) -> str:
        """The condition of an access, one a lane."""
        condition = place.src[2]
        if condition.dtype.count == count:
            return self.names[condition]
        return self.broadcast(condition.dtype, self.names[condition], count)

    def masked_load(self, node: UOp) -> str:
        place, dtype = node.src[0], node.dtype
        if dtype.count == 1:  # memory of no elements: the condition never holds
            return number_text(dtype, 0)
        kind = memory_type(dtype)
        mask = (f"<{dtype.count} x i1>", self.mask(place, dtype.count))
        address = ("ptr", self.address(place, self.names[place.src[1]]))
        call = self.body.call(
            f"llvm.masked.load.{mangled(dtype, memory=True)}.p0",
            kind,
            address,
            ("i32", str(self.align(place))),
            mask,
            (kind, "zeroinitializer"),
        )
        return self.from_memory(dtype, self.body.value("val", call))

    def store(self, node: UOp) -> None:
        place, value = node.src[:2]
        text = self.names[value]
        if place.op is Ops.ACC:
            self.body.line(f"store {type_of(value.dtype)} {text}, ptr {self.names[place]}")
            return
        text = self.to_memory(value.dtype, text)
        if self.streams and (width := streamed_bytes(node)):
            kind = memory_type(value.dtype)
            self.body.line(f"store {kind} {text}, ptr {self.names[place]}, align {width}{MARK}")
        elif len(place.src) == 2:
            self.plain_store(place, value.dtype, text, self.names[place])
        elif place.src[2].dtype.count == 1:
            after = self.branch(self.names[place.src[2]], "store")
            self.plain_store(
                place, value.dtype, text, self.address(place, self.names[place.src[1]])
            )
            self.join(after)
        else:
            self.masked_store(place, value.dtype, text)

    def plain_store(self, place: UOp, dtype: DType, value: str, address: str) -> None:
        kind = memory_type(dtype)
        self.body.line(f"store {kind} {value}, ptr {address}, align {self.align(place)}")

    def masked_store(self, place: UOp, dtype: DType, value: str) -> None:
        """A plain store where every lane is wanted, as all are but the last of a row: some
        processors take many times as long for a masked one.
        """
        kind, mask = f"<{dtype.count} x i1>", self.mask(place, dtype.count)
        address = self.address(place, self.names[place.src[1]])
        name = f"llvm.vector.reduce.and.v{dtype.count}i1"
        every = self.body.value("alu", self.body.call(name, "i1", (kind, mask)))
        label = self.body.names.numbered("whole")
        self.body.line(f"br i1 {every}, label %{label}, label %part_{label}")
        self.body.label(label)
        self.plain_store(place, dtype, value, address)
        self.body.line(f"br label %after_{label}")
        self.body.label(f"part_{label}")
        call = self.body.call(
            f"llvm.masked.store.{mangled(dtype, memory=True)}.p0",
            "void",
            (memory_type(dtype), value),
            ("ptr", address),
            ("i32", str(self.align(place))),
            (kind, mask),
        )
        self.body.line(call)
        self.join(f"after_{label}")

    # --- vectors ----------------------------------------------------------------------------------
    def broadcast(self, dtype: DType, value: str, count: int) -> str:
        """`count` copies of a scalar."""
        kind = vector(type_of(dtype), count)
        one = f"insertelement {kind} poison, {type_of(dtype)} {value}, i64 0"
        first = self.body.value("vec", one)
        shuffle = f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer"
        return self.body.value("vec", shuffle)

    def shuffle(self, left: UOp, right: UOp | None, chosen: Sequence[int]) -> str:
        """The lanes `chosen` of one vector, or of two end to end."""
        kind = type_of(left.dtype)
        other = "poison" if right is None else self.names[right]
        picks = ", ".join(f"i32 {n}" for n in chosen)
        text = f"shufflevector {kind} {self.names[left]}, {kind} {other}, <{len(chosen)} x i32>"
        return self.body.value("vec", f"{text} <{picks}>")

    def vectorize(self, node: UOp) -> None:
        source, count = node.src, node.dtype.count
        if all(s is source[0] for s in source):
            self.names[node] = self.broadcast(source[0].dtype, self.names[source[0]], count)
            return
        picked = lanes_of_two(source)
        if picked is not None:
            left, right, chosen = picked
            self.names[node] = self.shuffle(left, right, chosen)
            return
        kind, result = type_of(node.dtype), "poison"
        for number, one in enumerate(source):
            lane = f"{type_of(one.dtype)} {self.names[one]}, i64 {number}"
            result = self.body.value("vec", f"insertelement {kind} {result}, {lane}")
        self.names[node] = result

    def gep(self, node: UOp) -> None:
        source, chosen = node.src[0], tuple(node.arg)
        if source.dtype.count == 1:
            value = self.names[source]
            wide = len(chosen) > 1
            self.names[node] = self.broadcast(source.dtype, value, len(chosen)) if wide else value
        elif len(chosen) > 1:
            self.names[node] = self.shuffle(source, None, chosen)
        else:
            text = f"{type_of(source.dtype)} {self.names[source]}, i64 {chosen[0]}"
            self.names[node] = self.body.value("lane", f"extractelement {text}")

    # --- checks -----------------------------------------------------------------------------------
    def check(self, node: UOp) -> None:
        """Set the error word to number + 1 if it is still 0 and a lane fails; a cold block, which
        chooses what a WHERE on the same condition gives.
        """
        value, condition = node.src
        self.names[node] = self.names[value]
        holds = self.names[condition]
        if condition.dtype.count > 1:
            name = f"llvm.vector.reduce.and.{mangled(condition.dtype)}"
            kind = type_of(condition.dtype)
            holds = self.body.value("alu", self.body.call(name, "i1", (kind, holds)))
        body, label, before = self.body, self.body.names.numbered("fail"), self.body.block
        body.line(f"br i1 {holds}, label %after_{label}, label %{label}, !prof !0")
        body.label(label)
        old = body.value("val", "load i64, ptr %error")
        free = body.value("alu", f"icmp eq i64 {old}, 0")
        new = body.value("alu", f"select i1 {free}, i64 {int(node.arg) + 1}, i64 {old}")
        body.line(f"store i64 {new}, ptr %error")
        self.join(f"after_{label}")
        if (where := self.held.get(node)) is not None:
            kind, otherwise = type_of(where.dtype), constant_text(where.src[2])
            ways = f"[ {self.names[value]}, %{before} ], [ {otherwise}, %{label} ]"
            self.names[where] = body.value("val", f"phi {kind} {ways}")

    def nothing(self, node: UOp) -> None:
        """One work item waits for nobody."""


def is_held(node: UOp) -> bool:
    """Whether the node is where(condition, CHECK(x, condition), constant) of one lane."""
    if node.op is not Ops.WHERE or node.src[1].op is not Ops.CHECK:
        return False
    same = node.src[0] is node.src[1].src[1]
    return same and node.dtype.count == 1 and node.src[2].op is Ops.CONST


def fits(place: UOp, count: int) -> bool:
    """Whether the first `count` elements of the memory exist, to be read instead of others."""
    size = place.src[0].arg.size
    return bool(size >= count) if size is not None else count == 1


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


_STATEMENTS: Final[dict[Ops, Callable[[_Function, UOp], None]]] = {
    Ops.RANGE: _Function.open_loop,
    Ops.END: _Function.close_loop,
    Ops.IF: _Function.open_condition,
    Ops.ENDIF: _Function.close_condition,
    Ops.DEFINE_LOCAL: _Function.define_local,
    Ops.ACC: _Function.define_register,
    Ops.INDEX: _Function.index,
    Ops.LOAD: _Function.load,
    Ops.STORE: _Function.store,
    Ops.VECTORIZE: _Function.vectorize,
    Ops.GEP: _Function.gep,
    Ops.CHECK: _Function.check,
    Ops.BARRIER: _Function.nothing,
}
