"""What is legal at a stage, written in the rule language and checked after every pass.

A contract is a table of clauses: a pattern, and a predicate whose docstring says in one line what
it asks. A node is legal if some clause names its op and every clause that matches holds; so a
stricter stage is the table of a laxer one and a few clauses more. A pattern of any op asks
something of all nodes, and makes none legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from torpor.base import settings
from torpor.base.errors import ContractError
from torpor.ir.ops import Ops
from torpor.ir.pattern import UPat
from torpor.ir.text import show
from torpor.ir.uop import UOp

Clause = tuple[UPat, Callable[[UOp], bool]]
EXCERPT_NODES: Final = 12  # how many nodes of a faulty graph an error shows
# None: it matches by its op alone. The last: whether it names the op.
_Entry = tuple[UPat | None, Callable[[UOp], bool], bool]


def always(node: UOp) -> bool:
    """Such a node may be there."""
    return True


def never(node: UOp) -> bool:
    """Such a node is not there at this stage."""
    return False


class Contract:
    """The nodes that may appear at the stage called `name`."""

    def __init__(self, name: str, clauses: Sequence[Clause]):
        self.name, self.clauses = name, tuple(clauses)
        self._entries: dict[Ops, tuple[_Entry, ...]] = {}

    def and_also(self, name: str, *clauses: Clause) -> Contract:
        """The contract of a stricter stage: these clauses too."""
        return Contract(name, (*self.clauses, *clauses))

    def allows(self, node: UOp) -> bool:
        """Whether this node, looked at with its operands, is legal."""
        return self.fault(node) is None

    def fault(self, node: UOp) -> str | None:
        """What is wrong with the node: the first line of the docstring of what does not hold."""
        entries = self._entries.get(node.op)
        if entries is None:
            entries = self._entries[node.op] = self._entries_for(node.op)
        matched = False
        for pattern, holds, names in entries:
            if pattern is None or pattern.match(node, {}):
                matched = matched or names
                if not holds(node):
                    return (holds.__doc__ or holds.__name__).partition("\n")[0]
        return None if matched else "no clause is about such a node"

    def _entries_for(self, op: Ops) -> tuple[_Entry, ...]:
        """The clauses that may be about an op."""
        return tuple(
            (
                None if pattern.is_plain and pattern.dtypes is None else pattern,
                holds,
                pattern.ops is not None,
            )
            for pattern, holds in self.clauses
            if pattern.ops is None or op in pattern.ops
        )

    def check(self, root: UOp) -> None:
        """Raise a `ContractError` that shows the first illegal node below `root`."""
        self.check_all(root.toposort())

    def expect(self, graph: UOp | Sequence[UOp]) -> None:
        """Check the nodes below a root, or of a program, if the setting CHECK asks for it."""
        if settings.number("CHECK"):
            self.check_all(graph.toposort() if isinstance(graph, UOp) else graph)

    def check_all(self, nodes: Iterable[UOp]) -> None:
        """Raise a `ContractError` that shows the first illegal node."""
        for node in nodes:
            fault = self.fault(node)
            if fault is not None:
                excerpt = "\n".join(show(node).splitlines()[-EXCERPT_NODES:])
                raise ContractError(
                    f"not allowed at stage {self.name}: {node.op}: {fault}\n{excerpt}"
                )
