"""What is legal at a stage, written in the rule language and checked after every pass.

A contract is a list of patterns with a predicate each. Every node must match at least one whose
predicate holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torpor.base.errors import ContractError
from torpor.ir.pattern import UPat
from torpor.ir.text import show
from torpor.ir.uop import UOp

Clause = tuple[UPat, Callable[[UOp], bool]]
EXCERPT_NODES = 12  # how many nodes of a faulty graph an error shows


class Contract:
    """The nodes that may appear at the stage called `name`."""

    def __init__(self, name: str, clauses: Sequence[Clause]):
        self.name, self.clauses = name, tuple(clauses)

    def allows(self, node: UOp) -> bool:
        """Whether this node, looked at with its operands, is legal."""
        return any(p.match(node, {}) and holds(node) for p, holds in self.clauses)

    def check(self, root: UOp) -> None:
        """Raise a `ContractError` that shows the first illegal node below `root`."""
        self.check_all(root.toposort())

    def check_all(self, nodes: Iterable[UOp]) -> None:
        """Raise a `ContractError` that shows the first illegal node."""
        for node in nodes:
            if not self.allows(node):
                lines = show(node).splitlines()[-EXCERPT_NODES:]
                text = "\n".join(lines)
                raise ContractError(f"not allowed at stage {self.name}: {node.op}\n{text}")
