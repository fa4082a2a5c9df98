"""The interface that all renderers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from torpor.base.target import Target
from torpor.ir.uop import UOp


class Renderer(ABC):
    """Writes linear programs as text for one target; needs no device."""

    def __init__(self, target: Target):
        self.target = target

    @abstractmethod
    def render(
        self, name: str, linear: Sequence[UOp], shared: Collection[tuple[int, int]] = ()
    ) -> str:
        """The program as a function called `name`; a `ContractError` if `name` is no identifier or
        the program holds what the target cannot say.

        `shared`: pairs of parameters that may be given the same memory; others never are. Only
        programs for the target `cpu` are given any.
        """
