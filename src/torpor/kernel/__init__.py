"""Floor 4: loops, the optimisation primitives, and the way to a linear program."""

from torpor.ir.records import Opt, OptOps
from torpor.kernel.lower import Lowered, lower
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.passes.inplace import shareable
from torpor.kernel.split.ahead import checked_ahead
from torpor.kernel.split.arrange import Arranged, arranged
from torpor.kernel.split.offsets import in_offsets
from torpor.kernel.split.parts import Parted, in_parts
from torpor.kernel.split.phases import in_phases
from torpor.kernel.split.pieces import Piece, in_pieces, own_parameters

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
    "own_parameters",
    "shareable",
]
