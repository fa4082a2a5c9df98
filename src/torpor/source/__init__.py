"""Floor 4: linear programs as text. One renderer a target; none needs its device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torpor.base.errors import DeviceError
from torpor.base.target import get_target
from torpor.ir.uop import UOp
from torpor.source.c import CRenderer
from torpor.source.cuda import CUDARenderer
from torpor.source.linear import Signature, signature
from torpor.source.llvm import LLVMRenderer
from torpor.source.metal import MetalRenderer
from torpor.source.opencl import OpenCLRenderer
from torpor.source.renderer import Renderer
from torpor.source.wgsl import WGSLRenderer

RENDERERS: Final[dict[str, type[Renderer]]] = {
    "cpu": LLVMRenderer,
    "c": CRenderer,
    "cuda": CUDARenderer,
    "opencl": OpenCLRenderer,
    "metal": MetalRenderer,
    "wgsl": WGSLRenderer,
}


def render(linear: Sequence[UOp], target: str, name: str) -> str:
    """The text of a linear program as a function called `name` for `target` (`c`, `cuda:sm_90a`).

    Operands that the list leaves out are put in; dtype index is rendered as int32. Raises a
    `DeviceError` for a target without text, a `ContractError` for a name that is no identifier.
    """
    chosen = get_target(target)
    if chosen.name not in RENDERERS:
        raise DeviceError(f"{target!r} has no source text; {', '.join(RENDERERS)} have")
    return RENDERERS[chosen.name](chosen).render(name, linear)


__all__ = ["RENDERERS", "Renderer", "Signature", "render", "signature"]
