"""Floor 2: rewrite rules on arithmetic. Importing this makes `UOp.simplify` work.

`index_rules` on dtype index, comparisons of it and bool logic; `fold_rules` fold constants of any
format; `exact_rules` are identities that hold bit for bit on every format; `decided_rules` drop
conditions of accesses that are constants.
"""

from typing import Final

from torpor.base import settings
from torpor.ir.pattern import PatternMatcher
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.uop import UOp, register_simplifier
from torpor.rules.decided import decided_rules
from torpor.rules.exact import exact_rules
from torpor.rules.fold import fold_rules
from torpor.rules.index import index_rules
from torpor.rules.validity import conjuncts, simplify_under, simplify_valid
from torpor.rules.width import index_dtype

all_rules: Final[PatternMatcher] = index_rules + fold_rules + exact_rules + decided_rules


_BITS: Final = (1, 2)  # in `UOp.normal`: what is simplified already, without and with STRICT_FLOAT


def simplify(node: UOp) -> UOp:
    """An equal, usually shorter graph, by all rules; what `UOp.simplify` does."""
    if not node.src:
        return node
    bit = _BITS[bool(settings.number("STRICT_FLOAT"))]
    return node if node.normal & bit else graph_rewrite(node, all_rules, name="simplify", bit=bit)


register_simplifier(simplify)

__all__ = [
    "all_rules",
    "conjuncts",
    "exact_rules",
    "fold_rules",
    "index_dtype",
    "index_rules",
    "simplify",
    "simplify_under",
    "simplify_valid",
]
