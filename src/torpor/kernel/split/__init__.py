"""Kernels that are better done as several before opts are chosen: the rules, in their order.

Each module has one rule, with its equation, and gives the kernels that take a kernel's place, or
nothing where they gain nothing. The first that gives some does; pieces go on to the rules below it.
"""

from collections.abc import Callable
from typing import Final

from torpor.base.target import Target
from torpor.ir.uop import UOp
from torpor.kernel.split.ahead import checked_ahead
from torpor.kernel.split.arrange import arranged
from torpor.kernel.split.offsets import in_offsets
from torpor.kernel.split.parts import in_parts
from torpor.kernel.split.phases import in_phases
from torpor.kernel.split.pieces import in_pieces
from torpor.kernel.split.several import Parted, Piece

Rule = Callable[[UOp, Target], Parted | tuple[Piece, ...] | None]

RULES: Final[tuple[Rule, ...]] = (
    checked_ahead,
    in_phases,  # first, since each phase is a sum, or a copy, of its own
    in_offsets,  # before sums are split, which leaves sums of fewer terms
    in_parts,
    in_pieces,  # of what sums nothing
    arranged,  # for the loops that are left, whose operands others may have cut or moved
)
OF_CHECKS: Final[tuple[Rule, ...]] = (checked_ahead,)  # nothing else takes a check out of its place
OF_GROUPS: Final[tuple[Rule, ...]] = (in_phases,)  # of blocks of tiles, whose operands few share
