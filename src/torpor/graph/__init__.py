"""Floor 4, first room: building graphs of tensor operations, their gradients and simplification.

Rules are imported when something is first to be simplified: whoever builds a graph of known sizes
needs none.
"""

from typing import TYPE_CHECKING, Any

from torpor.ir.uop import UOp, register_simplifier

if TYPE_CHECKING:
    from torpor.graph.rules import simplify_graph as simplify_graph


def _simplify(node: UOp) -> UOp:
    """As `torpor.rules.simplify`, which takes its place."""
    from torpor.rules import simplify

    register_simplifier(simplify)
    return simplify(node)


register_simplifier(_simplify)


def __getattr__(name: str) -> Any:
    if name != "simplify_graph":
        raise AttributeError(f"{__name__} has no attribute {name!r}")
    from torpor.graph.rules import simplify_graph

    return simplify_graph


__all__ = ["simplify_graph"]
