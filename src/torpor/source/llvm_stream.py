"""Stores past the caches in LLVM IR: which ones can be, and the choice between two functions.

Such a store needs memory aligned to its vector. Torpor's own memory is; what came from outside may
not be, which shows when the kernel is called. So there are two functions, and a third that calls
the one that suits the addresses it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from torpor.ir.ops import STREAMED, Ops
from torpor.ir.uop import UOp
from torpor.source.linear import alignment

WIDTHS: Final = (16, 32, 64)  # bytes of the vectors that have such stores
MARK: Final = ", !nontemporal !1"
MARK_MEANS: Final = "!1 = !{i32 1}"  # LLVM Language Reference, "store"


def streamed_bytes(node: UOp) -> int:
    """The width of a store that may go past the caches where its parameter is aligned to as much;
    0 for any other node.
    """
    if node.op is not Ops.STORE or node.arg != STREAMED:
        return 0
    place, value = node.src[:2]
    width = value.dtype.count * value.dtype.scalar().itemsize
    if place.op is not Ops.INDEX or len(place.src) > 2 or width not in WIDTHS:
        return 0
    aligned = alignment(place.src[1], value.dtype.scalar().itemsize, width) == width
    return width if aligned and place.src[0].op is Ops.PARAM else 0


def streamed_slots(nodes: Iterable[UOp]) -> dict[int, int]:
    """To what each parameter has to be aligned so that its stores can be streamed, bytes."""
    found: dict[int, int] = {}
    for node in nodes:
        if width := streamed_bytes(node):
            slot = node.src[0].src[0].arg.slot
            found[slot] = max(width, found.get(slot, 0))
    return found


def either(
    name: str, arguments: Sequence[str], slots: dict[int, int], shared: Iterable[tuple[int, int]],
    ways: Sequence[str],
) -> str:  # fmt: skip
    """The function `name`, which calls the first of two functions where all addresses are aligned
    and nothing is stored in the place of what is read (of the pairs `shared`), since that is in the
    caches anyway; else the second. What the first one stores is there for other threads when it
    returns.
    """
    passed = ", ".join(argument.replace(" noalias", "") for argument in arguments)
    lines, last = [], "0"
    for slot, width in slots.items():
        lines += [
            f"%at{slot} = ptrtoint ptr %data{slot} to i64",
            f"%low{slot} = and i64 %at{slot}, {width - 1}",
            f"%any{slot} = or i64 {last}, %low{slot}",
        ]
        last = f"%any{slot}"
    for slot, other in shared:
        both = f"{slot}.{other}"
        lines += [
            f"%same{both} = icmp eq ptr %data{slot}, %data{other}",
            f"%same.bit{both} = zext i1 %same{both} to i64",
            f"%any{both} = or i64 {last}, %same.bit{both}",
        ]
        last = f"%any{both}"
    body = [
        *lines,
        f"%aligned = icmp eq i64 {last}, 0",
        "br i1 %aligned, label %streaming, label %storing",
    ]
    return "\n".join([
        f"define void @{name}({', '.join(arguments)}) nounwind {{",
        "entry:",
        *(f"  {line}" for line in body),
        "streaming:",
        f"  call void @{ways[0]}({passed})",
        "  fence seq_cst",
        "  ret void",
        "storing:",
        f"  call void @{ways[1]}({passed})",
        "  ret void",
        "}",
    ])  # fmt: skip
