"""Floor 4: linear programs as text. One renderer a target; none needs its device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final

from torpor.base.errors import DeviceError
from torpor.base.target import get_target
from torpor.ir.uop import UOp
from torpor.source.linear import Signature, signature
from torpor.source.renderer import Renderer


class _Renderers(Mapping[str, type[Renderer]]):
    """The renderer of each target, which is imported when it is first asked for."""

    _places: Final = {
        "cpu": "llvm:LLVMRenderer",
        "c": "c:CRenderer",
        "cuda": "cuda:CUDARenderer",
        "opencl": "opencl:OpenCLRenderer",
        "metal": "metal:MetalRenderer",
        "wgsl": "wgsl:WGSLRenderer",
    }

    def __getitem__(self, target: str) -> type[Renderer]:
        module, _, name = self._places[target].partition(":")
        found: type[Renderer] = getattr(import_module(f"torpor.source.{module}"), name)
        return found

    def __contains__(self, target: object) -> bool:
        return target in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


RENDERERS: Final = _Renderers()


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
