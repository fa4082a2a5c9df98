"""Floor 4, first room: building graphs of tensor operations, their gradients and simplification."""

from torpor.graph.rules import simplify_graph

__all__ = ["simplify_graph"]
