"""LLVM IR for CPUs: loops as blocks, explicit vectors, registers as allocas.

The text needs only `mem2reg` (or `sroa`) before code generation: vectors are explicit, index
arithmetic carries what is known of its bounds, and each value stands where it is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from torpor.base.errors import ContractError
from torpor.base.target import Target
from torpor.ir.ops import ALU, Ops
from torpor.ir.uop import UOp
from torpor.source import llvm_control, llvm_memory, llvm_tiles, llvm_vectors
from torpor.source.linear import prepare, signature
from torpor.source.llvm_alu import alu
from torpor.source.llvm_dot import dot
from torpor.source.llvm_function import Function, Pairs
from torpor.source.llvm_stream import MARK_MEANS, either, streamed_slots
from torpor.source.llvm_text import constant_text
from torpor.source.names import identifier
from torpor.source.renderer import Renderer


class LLVMRenderer(Renderer):
    """Writes one `define void @name(ptr %data0, ...)` as text for LLVM 20 and later."""

    def render(self, name: str, linear: Sequence[UOp], shared: Pairs = ()) -> str:
        nodes, name = prepare(linear), identifier(name)
        plain = function_of(nodes, self.target, shared)
        slots = streamed_slots(nodes)
        if not slots:
            return module((plain.text(name),), plain)
        streaming = function_of(nodes, self.target, shared, streams=True)
        ways = f"{name}_streaming", f"{name}_storing"
        texts = (
            either(name, plain.arguments, slots, shared, ways),
            streaming.text(ways[0]),
            plain.text(ways[1]),
        )
        return module(texts, plain, streaming)


def module(texts: Sequence[str], *functions: Function) -> str:
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


def function_of(
    nodes: Sequence[UOp], target: Target, shared: Pairs, streams: bool = False
) -> Function:
    """The function of a linear program."""
    made = Function(signature(nodes), target, shared, streams)
    made.tiles = llvm_tiles.registers_for(nodes)
    if made.tiles:
        llvm_tiles.configure(made, nodes)
    for node in nodes:
        if made.waiting and llvm_memory.ends_waiting(made, node):
            llvm_memory.store_waiting(made)
        add(made, node)
    if made.waiting:
        llvm_memory.store_waiting(made)
    if made.tiles:
        llvm_tiles.release(made)
    return made


def add(function: Function, node: UOp) -> None:
    """Append what the node needs."""
    if node in function.names or (function.tiles and llvm_tiles.add_matrix(function, node)):
        return
    text = constant_text(node)
    if text is not None:
        function.names[node] = text
    elif node.op is Ops.DOT:
        operands = tuple(function.names[s] for s in node.src)
        function.names[node] = dot(function.body, node, operands, function.target)
    elif node.op in ALU:
        function.names[node] = alu(function.body, node, tuple(function.names[s] for s in node.src))
    elif node.op in _STATEMENTS:
        _STATEMENTS[node.op](function, node)
    else:
        raise ContractError(f"LLVM IR has no {node.op}")


_STATEMENTS: Final[dict[Ops, Callable[[Function, UOp], None]]] = {
    Ops.RANGE: llvm_control.open_loop,
    Ops.END: llvm_control.close_loop,
    Ops.IF: llvm_control.open_condition,
    Ops.ENDIF: llvm_control.close_condition,
    Ops.DEFINE_LOCAL: llvm_memory.define_local,
    Ops.ACC: llvm_memory.define_register,
    Ops.INDEX: llvm_memory.index,
    Ops.LOAD: llvm_memory.load,
    Ops.STORE: llvm_memory.store,
    Ops.VECTORIZE: llvm_vectors.vectorize,
    Ops.GEP: llvm_vectors.gep,
    Ops.CHECK: llvm_control.check,
    Ops.BARRIER: llvm_control.nothing,
}
