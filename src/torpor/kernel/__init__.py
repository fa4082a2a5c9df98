"""Floor 4: loops, the optimisation primitives, and the way to a linear program."""

from torpor.ir.records import Opt, OptOps
from torpor.kernel.lower import Lowered, lower
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.passes.inplace import shareable
from torpor.kernel.split import OF_CHECKS, OF_GROUPS, RULES, Rule
from torpor.kernel.split.several import Parted, Piece

__all__ = [
    "OF_CHECKS",
    "OF_GROUPS",
    "RULES",
    "Kernel",
    "Lowered",
    "Opt",
    "OptOps",
    "Parted",
    "Piece",
    "Rule",
    "lower",
    "shareable",
]
