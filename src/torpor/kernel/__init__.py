"""Floor 4: loops, the optimisation primitives, and the way to a linear program."""

from torpor.ir.records import Opt, OptOps
from torpor.kernel.ahead import checked_ahead
from torpor.kernel.arrange import Arranged, arranged
from torpor.kernel.inplace import shareable
from torpor.kernel.kernel import Kernel
from torpor.kernel.lower import Lowered, lower
from torpor.kernel.offsets import in_offsets
from torpor.kernel.parts import Parted, in_parts
from torpor.kernel.phases import in_phases
from torpor.kernel.pieces import Piece, in_pieces, own_parameters
from torpor.kernel.rounds import over_met

__all__ = [
    "Arranged",
    "Kernel",
    "Lowered",
    "Opt",
    "OptOps",
    "Parted",
    "Piece",
    "arranged",
    "checked_ahead",
    "in_offsets",
    "in_parts",
    "in_phases",
    "in_pieces",
    "lower",
    "over_met",
    "own_parameters",
    "shareable",
]
