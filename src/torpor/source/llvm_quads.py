"""Products of the four bytes of words, added: the one instruction that some processors have.

On x86 it is vpdpbusd, vpdpbssd or vpdpbuud, on AArch64 usdot, sdot or udot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.linear import constant
from torpor.source.llvm_text import Body, vector

BYTE: Final = 8  # bits
TOP: Final = 24  # bits below the highest byte of a word
QUARTERS: Final = 4  # bytes of a word
REGISTERS: Final = (4, 8, 16)  # lanes of what an instruction takes


class Byte(NamedTuple):
    """A byte of each lane of an int32 vector: the vector, or the scalar that all lanes are; which
    one; and whether it is signed.
    """

    word: UOp
    number: int
    signed: bool


class Quad(NamedTuple):
    """The words whose bytes are multiplied; which of them have signed bytes: the first has not, if
    one of them; and what the products are added to, if anything.
    """

    words: tuple[UOp, UOp]
    signed: tuple[bool, bool]
    total: UOp | None = None

    @property
    def operands(self) -> tuple[UOp, ...]:
        """All that the instruction reads."""
        return self.words if self.total is None else (*self.words, self.total)

    @property
    def formats(self) -> tuple[str, str]:
        """Of the bytes, in alphabetical order."""
        first, second = sorted("int8" if signed else "uint8" for signed in self.signed)
        return first, second


def byte_of(node: UOp) -> Byte | None:
    """(x << 24-8n) >> 24 is the signed byte n of x, (x >> 8n) & 255 the unsigned one."""
    if node.op is Ops.VECTORIZE and all(s is node.src[0] for s in node.src):
        return byte_of(node.src[0])
    if node.dtype.scalar() is not dtypes.int32:
        return None
    if node.op is Ops.AND and constant(node.src[1]) == (1 << BYTE) - 1:
        below, count = shift_of(node.src[0], Ops.SHR)
        return Byte(below, count // BYTE, False) if count % BYTE == 0 else None
    top, count = shift_of(node, Ops.SHR)
    if count != TOP:
        return None
    value, above = shift_of(top, Ops.SHL)
    return Byte(value, (TOP - above) // BYTE, True) if above % BYTE == 0 else None


def shift_of(node: UOp, direction: Ops) -> tuple[UOp, int]:
    """What a node shifts, and by how many bits: itself by none."""
    count = constant(node.src[1]) if node.op is direction else None
    return (node, 0) if count is None else (node.src[0], int(count))


def quad_of(node: UOp) -> Quad | None:
    """The words of ((b0*c0 + b1*c1) + b2*c2) + b3*c3 on int32 vectors, in any order."""
    if node.op is not Ops.ADD or node.dtype.scalar() is not dtypes.int32:
        return None
    products = list(terms_of(node))
    if node.dtype.count not in REGISTERS or len(products) != QUARTERS:
        return None
    pairs = [tuple(byte_of(s) for s in p.src) for p in products if p.op is Ops.MUL]
    found = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(found) != QUARTERS or {a.number for a, _ in found} != set(range(QUARTERS)):
        return None
    first, second = (b._replace(number=0) for b in sorted(found[0], key=is_signed))
    for a, b in found:
        alike = {a._replace(number=0), b._replace(number=0)} == {first, second}
        if a.number != b.number or not alike:
            return None
    return Quad((first.word, second.word), (first.signed, second.signed))


def is_signed(part: Byte) -> bool:
    """Whether a byte is of a signed format."""
    return part.signed


def terms_of(node: UOp) -> list[UOp]:
    """The summands of a sum of at most four."""
    terms = [node]
    while len(terms) < QUARTERS and any(t.op is Ops.ADD for t in terms):
        terms = [s for t in terms for s in (t.src if t.op is Ops.ADD else (t,))]
    return terms


def quads_of(nodes: Sequence[UOp], target: Target) -> dict[UOp, Quad]:
    """The sums of a linear program that one instruction of the target computes."""
    if not target.quads:
        return {}
    found = {node: quad_of(node) for node in nodes}
    quads = {n: q for n, q in found.items() if q is not None and q.formats in target.quads}
    uses = Counter(s for node in nodes for s in node.src)
    for node in nodes:
        for total, added in (node.src, node.src[::-1]) if node.op is Ops.ADD else ():
            quad = quads.get(added)
            if quad and quad.total is None and uses[added] == 1 and node not in quads:
                quads[node] = quads.pop(added)._replace(total=total)
    return quads


def multiply_bytes(
    body: Body, quad: Quad, words: tuple[str, str], total: str, count: int, target: Target
) -> str:
    """The sum of the products of bytes of two words and of `total`, all int32 vectors of `count`
    lanes: x86's instructions take words, AArch64's take bytes.
    """
    word, signs = vector("i32", count), "".join("us"[signed] for signed in quad.signed)
    if target.arch.startswith("aarch64"):
        bytes_ = vector("i8", QUARTERS * count)
        parts = [body.value("cast", f"bitcast {word} {text} to {bytes_}") for text in words]
        kind = {"uu": "udot", "ss": "sdot", "us": "usdot"}[signs]
        name = f"llvm.aarch64.neon.{kind}.v{count}i32.v{QUARTERS * count}i8"
        operands = [(bytes_, part) for part in parts]
    else:
        family = "avx512" if signs == "us" else "avx2"
        name = f"llvm.x86.{family}.vpdpb{signs}d.{32 * count}"
        operands = [(word, text) for text in words]
    return body.value("alu", body.call(name, word, (word, total), *operands))
