"""What C, CUDA, OpenCL, Metal and WGSL have in common: blocks, names, expressions.

A language overrides the small methods of `Language` that say how it spells types, constants, memory
and its function's head. A renderer is used for one program at a time by one thread: `render` makes
its own state, a `Function`, and the language's methods that need helper functions record them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torpor.ir.uop import UOp
from torpor.source.cstyle_alu import expression
from torpor.source.cstyle_function import Function
from torpor.source.cstyle_language import Language
from torpor.source.lanes import write_out
from torpor.source.linear import prepare, signature
from torpor.source.names import identifier


class CStyleRenderer(Language):
    """Base of the renderers of C-like text."""

    def render(
        self, name: str, linear: Sequence[UOp], shared: Collection[tuple[int, int]] = ()
    ) -> str:
        fresh = type(self)(self.target)  # helpers belong to one program
        return fresh.write(identifier(name), prepare(linear))

    def expression(self, node: UOp, operands: tuple[str, ...]) -> str:
        return expression(self, node, operands)

    def write(self, name: str, nodes: list[UOp]) -> str:
        """The text of the prepared program."""
        takes = signature(nodes)
        self.helpers, self.features = {}, set()
        function = Function(self, write_out(nodes, self.keeps), takes)
        body = function.lines()
        self.formats = {n.dtype.scalar().name for n in function.nodes}
        head = self.head(name, takes, self.group_shape(nodes))
        prelude = self.prelude(nodes)
        declarations = [*prelude, *self.helpers.values(), *self.outside(nodes)]
        return "\n".join([*declarations, head, *body, "}"]) + "\n"
