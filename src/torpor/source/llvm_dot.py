"""DOT in LLVM IR: the one instruction that a processor has for the products of parts of words."""

from __future__ import annotations

from typing import Final

from torpor.base.target import WORD, Target
from torpor.ir.uop import UOp
from torpor.source.llvm_text import Body, type_of, vector

# By the formats of the parts: the name of LLVM's intrinsic for vectors of so many words and bits,
# and the parts of the vectors that it takes, with how many there are to a word.
Instructions = dict[tuple[str, str], tuple[str, str, int]]
X86: Final[Instructions] = {
    ("int8", "int8"): ("llvm.x86.avx2.vpdpbssd.{bits}", "i32", 1),
    ("uint8", "uint8"): ("llvm.x86.avx2.vpdpbuud.{bits}", "i32", 1),
    ("uint8", "int8"): ("llvm.x86.avx512.vpdpbusd.{bits}", "i32", 1),
    ("bfloat16", "bfloat16"): ("llvm.x86.avx512bf16.dpbf16ps.{bits}", "bfloat", 2),
}
NEON: Final[Instructions] = {
    ("int8", "int8"): ("llvm.aarch64.neon.sdot.v{words}i32.v{bytes}i8", "i8", 4),
    ("uint8", "uint8"): ("llvm.aarch64.neon.udot.v{words}i32.v{bytes}i8", "i8", 4),
    ("uint8", "int8"): ("llvm.aarch64.neon.usdot.v{words}i32.v{bytes}i8", "i8", 4),
    ("bfloat16", "bfloat16"): ("llvm.aarch64.neon.bfdot.v{words}f32.v{halves}bf16", "bfloat", 2),
}
# pmaddwd, which adds to nothing: by words. LLVM joins it and the sum where there is vpdpwssd.
SHORT: Final = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def dot(body: Body, node: UOp, operands: tuple[str, ...], target: Target) -> str:
    """The products of the parts of two vectors of words, added to the third operand, if any."""
    words = node.dtype.count
    kind = type_of(node.dtype)
    sums = [(kind, operands[2] if len(operands) > 2 else "zeroinitializer")]
    if node.arg == ("int16", "int16"):
        factors = parts_of(body, node, operands, "i16", 2)
        made = body.value("alu", body.call(f"llvm.x86.{SHORT[words]}", kind, *factors))
        return body.value("alu", f"add {kind} {sums[0][1]}, {made}")
    table = NEON if target.arch.startswith("aarch64") else X86
    form, part, each = table[node.arg]
    size = words * WORD
    name = form.format(words=words, bits=size * 8, bytes=size, halves=size // 2)
    factors = parts_of(body, node, operands, part, each)
    return body.value("alu", body.call(name, kind, *sums, *factors))


def parts_of(
    body: Body, node: UOp, operands: tuple[str, ...], part: str, each: int
) -> list[tuple[str, str]]:
    """The two vectors of words as vectors of parts."""
    words, kind = type_of(node.src[0].dtype), vector(part, node.dtype.count * each)
    if words == kind:
        return [(kind, text) for text in operands[:2]]
    return [(kind, body.value("cast", f"bitcast {words} {x} to {kind}")) for x in operands[:2]]
