"""Products of the 16-bit halves of words, added: the one instruction that x86 processors have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.llvm_text import Body, vector

HALF: Final = 16  # bits
# What an instruction takes the place of.
PARTS: Final = (Ops.ADD, Ops.MUL, Ops.SHL, Ops.SHR, Ops.AND, Ops.VECTORIZE)


class Half(NamedTuple):
    """A half of each lane of an int32 vector: the vector, or the scalar that all lanes are; and
    whether it is the high one.
    """

    word: UOp
    high: bool


def half_of(node: UOp) -> Half | None:
    """x >> 16 is the high half of x, (x << 16) >> 16 the low one, both signed."""
    if node.op is Ops.VECTORIZE and all(s is node.src[0] for s in node.src):
        return half_of(node.src[0])
    value = shifted(node, Ops.SHR)
    if value is None or node.dtype.scalar() is not dtypes.int32:
        return None
    lower = shifted(value, Ops.SHL)
    return Half(value, True) if lower is None else Half(lower, False)


def shifted(node: UOp, direction: Ops) -> UOp | None:
    """What a node shifts by half a word."""
    if node.op is not direction:
        return None
    count = node.src[1]
    if count.op is Ops.VECTORIZE and all(s is count.src[0] for s in count.src):
        count = count.src[0]
    return node.src[0] if count.op is Ops.CONST and count.arg == HALF else None


def words_of(node: UOp) -> tuple[UOp, UOp] | None:
    """x and y of low(x)*low(y) + high(x)*high(y) on int32 vectors, in the order of the factors, so
    that the text of a kernel is always the same.
    """
    if node.op is not Ops.ADD or node.dtype.scalar() is not dtypes.int32 or node.dtype.count < 4:
        return None
    if any(s.op is not Ops.MUL for s in node.src):
        return None
    low, high = (dict.fromkeys(map(half_of, product.src)) for product in node.src)
    found = [h for h in low if h is not None and not h.high]
    same = {Half(h.word, True) for h in found}
    if len(found) != len(low) or same != high.keys():
        return None
    return found[0].word, found[-1].word


def pairs_of(nodes: Sequence[UOp]) -> dict[UOp, tuple[UOp, UOp]]:
    """The sums of a linear program that one instruction computes, and the words they are of."""
    found = {node: words_of(node) for node in nodes if node.op is Ops.ADD}
    return {node: words for node, words in found.items() if words is not None}


def needless(nodes: Sequence[UOp], sums: Mapping[UOp, tuple[UOp, ...]]) -> set[UOp]:
    """The parts of words and products that only sums of them use, each of which reads some words:
    they are not written.
    """
    used: set[UOp] = set()
    gone: set[UOp] = set()
    for node in reversed(nodes) if sums else ():
        if node.op in PARTS and node not in used:
            gone.add(node)
        else:
            used.update(sums.get(node, node.src))
    return gone


def multiply_add(body: Body, words: tuple[str, str], count: int) -> str:
    """The text by which LLVM finds the instruction: vectors of halves, the even and the odd ones
    of each apart, sign-extended, multiplied, added. `words` are int32 vectors of `count` lanes.
    """
    word, half = vector("i32", count), vector("i16", 2 * count)
    halves = [body.value("cast", f"bitcast {word} {text} to {half}") for text in words]
    products = []
    for first in range(2):
        lanes = ", ".join(f"i32 {n}" for n in range(first, 2 * count, 2))
        mask = f"{vector('i32', count)} <{lanes}>"
        factors = []
        for text in halves:
            part = body.value("vec", f"shufflevector {half} {text}, {half} poison, {mask}")
            wide = f"sext {vector('i16', count)} {part} to {word}"
            factors.append(body.value("cast", wide))
        products.append(body.value("alu", f"mul {word} {factors[0]}, {factors[1]}"))
    return body.value("alu", f"add {word} {products[0]}, {products[1]}")
