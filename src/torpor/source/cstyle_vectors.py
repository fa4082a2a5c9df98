"""What OpenCL, Metal and WGSL have in common: arithmetic is said of vectors as it is of scalars."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.source.cstyle import CStyleRenderer
from torpor.source.cstyle_language import bare

# Numbers of groups and work items in Metal and WGSL, which take them as the vectors gid and lid.
GROUPS: Final = {f"{kind}idx{n}": f"{kind}id.{'xyz'[n]}" for kind in "gl" for n in range(3)}


class VectorRenderer(CStyleRenderer):
    """Base of the renderers for languages that have vectors."""

    vector_ops = frozenset({
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.AND, Ops.OR, Ops.XOR, Ops.CAST, Ops.BITCAST,
        Ops.SQRT, Ops.FLOOR, Ops.TRUNC, Ops.RINT,
    })  # fmt: skip

    convert_text = "{}({})"  # of vectors
    bitcast_text: str
    local_space, global_space = "__local", "__global"  # before a pointer's type

    def convert(self, source: DType, result: DType, text: str) -> str:
        if source.count > 1:
            return self.convert_text.format(self.type(result), bare(text))
        return super().convert(source, result, text)

    def bitcast(self, source: DType, result: DType, text: str) -> str:
        return self.bitcast_text.format(self.type(result), bare(text))

    def pointer(self, dtype: DType, place: UOp) -> str:
        is_local = place.src[0].op is Ops.DEFINE_LOCAL
        return f"{self.local_space if is_local else self.global_space} {self.type(dtype)}*"

    def vector(self, dtype: DType, lanes: tuple[str, ...]) -> str:
        """One value in all lanes is written once."""
        chosen = lanes[:1] if all(lane == lanes[0] for lane in lanes) else lanes
        return self.vector_text.format(self.type(dtype), ", ".join(chosen))

    def wrapping(self, infix: str, dtype: DType, operands: tuple[str, ...]) -> str:
        """Vectors of unsigned integers only: see `keeps`."""
        if dtype.count > 1:
            return f"({operands[0]}{infix}{operands[1]})"
        return super().wrapping(infix, dtype, operands)
