"""What OpenCL, Metal and WGSL have in common: arithmetic is said of vectors as it is of scalars."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import DType
from torpor.ir.ops import Ops
from torpor.source.cstyle import CStyleRenderer

# Numbers of groups and work items in Metal and WGSL, which take them as the vectors gid and lid.
GROUPS: Final = {f"{kind}idx{n}": f"{kind}id.{'xyz'[n]}" for kind in "gl" for n in range(3)}


class VectorRenderer(CStyleRenderer):
    """Base of the renderers for languages that have vectors."""

    vector_ops = frozenset({
        Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.AND, Ops.OR, Ops.XOR, Ops.CAST, Ops.BITCAST,
        Ops.SQRT, Ops.FLOOR, Ops.TRUNC, Ops.RINT,
    })  # fmt: skip

    def vector(self, dtype: DType, lanes: tuple[str, ...]) -> str:
        """One value in all lanes is written once."""
        chosen = lanes[:1] if all(lane == lanes[0] for lane in lanes) else lanes
        return self.vector_text.format(self.type(dtype), ", ".join(chosen))

    def wrapping(self, infix: str, dtype: DType, operands: tuple[str, ...]) -> str:
        """Vectors of unsigned integers only: see `keeps`."""
        if dtype.count > 1:
            return f"({operands[0]}{infix}{operands[1]})"
        return super().wrapping(infix, dtype, operands)
