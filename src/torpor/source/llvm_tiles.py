"""Matrices in LLVM IR: AMX's tiles. Each has a register for as long as it is needed; a function
says where it begins what they hold, and releases them where it ends, so it may run on any thread,
after any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.base.errors import ContractError
from torpor.base.target import WORD, Fragment
from torpor.ir.ops import Ops
from torpor.ir.records import Rows
from torpor.ir.uop import UOp
from torpor.source.llvm_function import LOCAL_ALIGNMENT, Function

# By the formats of what is multiplied: the instruction.
PRODUCTS: Final = {
    ("bfloat16", "bfloat16"): "tdpbf16ps",
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
}
# The memory that LDTILECFG reads: palette 1, from byte 16 on two bytes for each tile, of how many
# bytes its rows are, from byte 48 on a byte for each, of how many rows it has.
CONFIGURATION: Final = 64
WIDTHS: Final = 16
HEIGHTS: Final = 48


def registers_for(nodes: Sequence[UOp]) -> dict[UOp, int]:
    """A tile register for each matrix of a linear program: sums have one for as long as any value
    of theirs is needed, others until they have been used last.
    """
    products = [n for n in nodes if n.op is Ops.MMA]
    if not products:
        return {}
    whole = owners(nodes)
    last = last_uses(nodes, whole)
    free = list(range(products[0].arg.registers))
    ends: dict[int, list[int]] = {}
    given: dict[UOp, int] = {}
    for place, node in enumerate(nodes):
        if whole.get(node) is node:
            if not free:
                raise ContractError("more matrices are needed at once than there are registers")
            given[node] = free.pop(0)  # that which has been free for longest
            ends.setdefault(last[node], []).append(given[node])
        free += ends.pop(place, [])
    return {node: given[owner] for node, owner in whole.items()}


def owners(nodes: Sequence[UOp]) -> dict[UOp, UOp]:
    """For each matrix that whose register it is in: sums are in that of their ACC."""
    summed = {n.src[0] for n in nodes if n.op is Ops.STORE and n.src[1].op is Ops.MMA}
    found: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op is Ops.ACC and node in summed:
            found[node] = node
        elif node.op is Ops.LOAD and node.src[0] in found:
            found[node] = found[node.src[0]]
        elif node.op is Ops.MMA and len(node.src) > 2:
            found[node] = found[node.src[2]]
        elif node.op is Ops.MMA or (node.op is Ops.LOAD and isinstance(node.arg, Rows)):
            found[node] = node
    return found


def last_uses(nodes: Sequence[UOp], whole: dict[UOp, UOp]) -> dict[UOp, int]:
    """Up to where each register is needed: what is used in a loop and was there before it, up to
    the end of the loop.
    """
    opened: list[tuple[UOp, int]] = []
    around: list[list[tuple[UOp, int]]] = []
    closed: dict[UOp, int] = {}
    for place, node in enumerate(nodes):
        if node.op is Ops.END:
            closed[node.src[0]] = place
            opened.pop()
        around.append(list(opened))
        if node.op is Ops.RANGE:
            opened.append((node, place))
    made: dict[UOp, int] = {}
    last: dict[UOp, int] = {}
    for place, node in enumerate(nodes):
        if node in whole:
            made.setdefault(whole[node], place)
        for owner in {whole[s] for s in (*node.src, node) if s in whole}:
            loops = [r for r, begun in around[place] if begun > made[owner]]
            last[owner] = max(last.get(owner, 0), closed[loops[0]] if loops else place)
    return last


# --- statements -----------------------------------------------------------------------------------
def configure(function: Function, nodes: Sequence[UOp]) -> None:
    """The shapes of all tiles, which are alike."""
    one: Fragment = next(n.arg for n in nodes if n.op is Ops.MMA)
    numbers = [0] * CONFIGURATION
    numbers[0] = 1
    for tile in range(one.registers):
        numbers[WIDTHS + 2 * tile] = one.columns * WORD
        numbers[HEIGHTS + tile] = one.rows
    body, kind = function.body, f"<{CONFIGURATION} x i8>"
    memory = body.register("tiles", f"[{CONFIGURATION} x i8]", LOCAL_ALIGNMENT)
    body.line(f"store {kind} <{', '.join(f'i8 {n}' for n in numbers)}>, ptr {memory}")
    body.line(body.call("llvm.x86.ldtilecfg", "void", ("ptr", memory)))


def release(function: Function) -> None:
    """The tiles are as they were before, empty: no thread has to keep them."""
    function.body.line(function.body.call("llvm.x86.tilerelease", "void"))


def add_matrix(function: Function, node: UOp) -> bool:
    """Append what a node does with tiles, if it is one that does."""
    tiles = function.tiles
    if node in tiles:
        number = function.names[node] = str(tiles[node])
        if node.op is Ops.ACC:
            start(function, node, number)
        elif node.op is Ops.MMA:
            multiply(function, node, number)
        elif node.src[0] not in tiles:
            move(function, "tileloadd64", node.src[0], number, node.arg.apart)
        return True
    if node.op is Ops.STORE and node.src[1] in tiles:
        place, value = node.src[:2]
        if place in tiles and tiles[place] != tiles[value]:
            raise ContractError("sums of matrices change their register")
        if place not in tiles:
            move(function, "tilestored64", place, function.names[value], node.arg.apart)
        return True
    if node.op is not Ops.END and any(s in tiles for s in node.src):
        raise ContractError(f"{node.op} of matrices is nothing that tiles can do")
    return False


def start(function: Function, node: UOp, number: str) -> None:
    """Sums begin as 0."""
    first = node.src[0]
    if any(n.op is not Ops.CONST or n.arg != 0 for n in first.src or (first,)):
        raise ContractError("sums of matrices begin as 0")
    clear(function, number)


def clear(function: Function, number: str) -> None:
    """A tile of zeros."""
    function.body.line(function.body.call("llvm.x86.tilezero", "void", ("i8", number)))


def multiply(function: Function, node: UOp, number: str) -> None:
    """sums += left @ right."""
    one: Fragment = node.arg
    if len(node.src) < 3:
        clear(function, number)
    numbers = (number, *(function.names[s] for s in node.src[:2]))
    name = f"llvm.x86.{PRODUCTS[one.left, one.right]}"
    function.body.line(function.body.call(name, "void", *(("i8", text) for text in numbers)))


def move(function: Function, name: str, place: UOp, number: str, apart: int) -> None:
    """A tile from or to memory, in rows so many elements apart."""
    address, size = function.names[place], place.src[0].dtype.scalar().itemsize
    arguments = ("i8", number), ("ptr", address), ("i64", str(apart * size))
    function.body.line(function.body.call(f"llvm.x86.{name}", "void", *arguments))
