"""Loops: a body that is done step by step, as one node.

    loop(initial, rows, constants)          SLOT n in the body is what a step has of operand n
    last(loop, k), steps(loop, node)        what carry k is in the end; a node's value at each step

`enclosed` makes one of graph nodes: what does not depend on a step's values is an operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import GradientError
from torpor.graph.call import without_calls
from torpor.graph.elementwise import constant, uniform
from torpor.graph.reduce import AGAIN, identity
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Size, largest, shape_of, shaped
from torpor.ir.ops import LOOPED, MOVEMENT, Ops
from torpor.ir.records import Loop
from torpor.ir.rewrite import unite_origins
from torpor.ir.uop import UOp

MARKERS: Final = frozenset({Ops.LEAF})  # which say nothing inside of a body
CUSTOM: Final = "custom"  # a FUNCTION whose gradients are what its arg makes of its own
ORDERS: Final = 3  # of gradients of one function, each made of the one before: a choice
NAMING: Final = frozenset({AGAIN, "same"})  # FUNCTIONs whose numbers only tell them apart
# More than work on each element by itself.
HEAVY: Final = frozenset({Ops.REDUCE_AXIS, Ops.SCAN_AXIS, Ops.SCATTER, Ops.GATHER}) | LOOPED
VARYING: Final = frozenset({Ops.BUFFER, Ops.SLOT, Ops.BIND, Ops.VARIABLE, Ops.LOOP, Ops.MULTI})
NO_CONSTANT: Final = VARYING | MARKERS  # a leaf may be one, and has a gradient of its own


def slot(number: object, like: UOp, stepped: bool = False) -> UOp:
    """What a step has of an operand: one row of it, if it is read step by step."""
    shape = shape_of(like)
    return UOp(Ops.SLOT, like.dtype, (), (number, shape[1:] if stepped else shape))


def slots_of(loop: UOp) -> list[UOp]:
    """The SLOT of each operand of a LOOP."""
    return [slot(n, source, n in loop.arg.stepped) for n, source in enumerate(loop.src)]


def last(loop: UOp, number: int) -> UOp:
    """What a carry is after the last step."""
    return UOp(Ops.LAST, loop.src[number].dtype, (loop,), number)


def steps(loop: UOp, node: UOp) -> UOp:
    """The values of a node of the body, along a first axis that counts steps."""
    return UOp(Ops.STEPS, node.dtype, (loop,), node)


def only_names(node: UOp) -> bool:
    """Whether a FUNCTION only gives its value another name: its gradient is that of the value."""
    return node.arg[0] in NAMING and (node.arg[0] == AGAIN or node.src[1] is node.src[0])


def bytes_of(nodes: Iterable[UOp]) -> int:
    """How much memory values take."""
    return sum(math.prod(map(largest, shape_of(n))) * n.dtype.itemsize for n in nodes)


class BodyRule:
    """The rule of a CUSTOM function in a body: gradients of its operands as nodes of the body, made
    of a SLOT that stands for its own. They may be made of its value, so they come after it.
    """

    def __init__(self, node: UOp, order: int):
        self.g = UOp(Ops.SLOT, node.dtype, (), (("gradient", identity()), shape_of(node)))
        self.failed: Exception | None = None
        self.known: tuple[dict[UOp, UOp], ...] = ()  # what stands for SLOTs of rules around this
        try:
            if order > ORDERS:
                raise GradientError(
                    f"gradients of a function in a loop are of order {ORDERS} at most"
                )
            self.made: Sequence[UOp | None] = node.arg[1](self.g)
        except Exception as error:  # for those who ask for the gradient
            self.made, self.failed = (), error

    def roots(self) -> list[UOp]:
        """The gradients that there are."""
        return [one for one in self.made if one is not None]

    def __call__(self, g: UOp) -> list[UOp | None]:
        if self.failed is not None:
            raise self.failed
        sink = UOp.sink(*self.roots())
        for known in (*self.known, {self.g: g}):
            sink = _with_known(sink, known)
        found = iter(sink.src)
        return [None if one is None else next(found) for one in self.made]

    def within(self, known: dict[UOp, UOp]) -> BodyRule:
        """The rule where something stands for SLOTs; itself where its gradients have none."""
        if known.keys().isdisjoint(UOp.sink(*self.roots()).toposort()):
            return self
        made = copy(self)
        made.known = (*self.known, known)
        return made


def _with_known(root: UOp, known: dict[UOp, UOp]) -> UOp:
    """The graph, and the rules of the functions in it, where something stands for SLOTs."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort(lambda n: n not in known):
        if (made := known.get(node)) is None:
            made = node.over(tuple([done[s] for s in node.src]))
            if node.op is Ops.FUNCTION and isinstance(rule := node.arg[-1], BodyRule):
                made = made.replace(arg=(CUSTOM, rule.within(known)))
        done[node] = made
    return done[root]


class Enclosed:
    """Nodes as the body of a loop.

    carried: nodes that stand for a carry, with what it begins as.
    rows:    nodes that stand for a row of a value, with the value.
    fixed:   nodes that stand for the same at each step, with what it is.
    Of `rows` and `fixed` only what is used becomes an operand; and so does whatever else a body
    uses that is no constant and comes from outside.
    """

    def __init__(
        self,
        roots: Sequence[UOp],
        carried: Mapping[UOp, UOp],
        rows: Mapping[UOp, UOp],
        fixed: Mapping[UOp, UOp] | None = None,
    ):
        self.carried, self.rows, self.fixed = carried, rows, fixed or {}
        self.operands: list[UOp] = list(carried.values())
        self.stepped: list[int] = []
        self.inside: dict[UOp, UOp] = {}  # node -> node of the body
        self.outside: dict[UOp, UOp] = {}  # operand -> SLOT
        for number, (node, initial) in enumerate(carried.items()):
            self.inside[node] = slot(number, initial)
        given = {*carried, *rows, *self.fixed}
        self.rules: dict[UOp, BodyRule] = {}
        roots, gradients = self.with_gradients(roots, given)
        self.inside |= {rule.g: rule.g for rule in self.rules.values()}
        for node in self.order:
            if node not in self.inside and (node in self.inner or node in self.constant):
                self.inside[node] = self.moved_in(node)
        self.roots = [self.reached(root) for root in roots]
        after = map(self.reached, gradients)
        for rule in self.rules.values():
            rule.made = [None if one is None else next(after) for one in rule.made]

    def with_gradients(self, roots: Sequence[UOp], given: set[UOp]) -> tuple[list[UOp], list[UOp]]:
        """The roots, and what the gradients of CUSTOM functions below are: those of the functions
        that these gradients are made of too, order by order.
        """
        roots, gradients = self.ordered(roots, given), list[UOp]()
        for order in count(1):
            fresh = [n for n in reversed(self.order) if self.has_rule(n) and n not in self.rules]
            if not fresh:
                break
            self.rules |= {node: BodyRule(node, order) for node in fresh}
            given |= {self.rules[node].g for node in fresh}
            gradients += [one for node in fresh for one in self.rules[node].roots()]
            gradients = self.ordered([*roots, *gradients], given)[len(roots) :]
        return roots, gradients

    def ordered(self, roots: Sequence[UOp], given: set[UOp]) -> list[UOp]:
        """The roots without calls; notes what is below them, and which of it depends on a step."""
        self.order = list(UOp.sink(*roots).toposort(lambda node: node not in given))[:-1]
        if any(node.op is Ops.CALL for node in self.order):
            there = without_calls(roots, ends=given)
            roots = [there[root] for root in roots]
            self.order = list(UOp.sink(*roots).toposort(lambda node: node not in given))[:-1]
        self.inner, self.constant = self.placed(given)
        return list(roots)

    def has_rule(self, node: UOp) -> bool:
        """Whether a node of the body has gradients that its arg makes."""
        return node.op is Ops.FUNCTION and node.arg[0] == CUSTOM and node in self.inner

    def placed(self, given: set[UOp]) -> tuple[set[UOp], set[UOp]]:
        """The nodes that depend on what is given, and those that are constants."""
        inner: set[UOp] = set()
        constant: set[UOp] = set()
        for node in self.order:
            if node in given or (node.src and not inner.isdisjoint(node.src)):
                inner.add(node)
            elif node.op not in NO_CONSTANT and constant.issuperset(node.src):
                constant.add(node)
        return inner, constant

    def moved_in(self, node: UOp) -> UOp:
        """The node in the body."""
        given = self.rows.get(node, self.fixed.get(node))
        if given is not None and (number := uniform(given)) is not None:
            return constant(number.arg, node.dtype, shape_of(node))
        if node in self.rows:
            self.stepped.append(len(self.operands))
            self.operands.append(self.rows[node])
            return slot(len(self.operands) - 1, self.rows[node], stepped=True)
        if node in self.fixed:
            return self.operand(self.fixed[node])
        if node.op in MARKERS or (node.op is Ops.FUNCTION and only_names(node)):
            return self.reached(node.src[0])
        source = tuple([self.reached(s) for s in node.src])
        made = node.over(source)
        if node in self.rules:
            made = made.replace(arg=(CUSTOM, self.rules[node]))
        unite_origins(node, made)
        return shaped(made, shape_of(node))

    def reached(self, node: UOp) -> UOp:
        """What a node of the body finds in place of a node that it uses, or a root."""
        if node in self.inside:
            return self.inside[node]
        moves = []
        while node.op in MOVEMENT:
            moves.append(node)
            node = node.src[0]
        made = self.operand(node)
        for move in reversed(moves):
            made = shaped(move.replace(src=(made,)), shape_of(move))
        return made

    def operand(self, node: UOp) -> UOp:
        """The SLOT of a value that is the same at each step."""
        if node not in self.outside:
            self.outside[node] = slot(len(self.operands), node)
            self.operands.append(node)
        return self.outside[node]

    def has_plain_shapes(self) -> bool:
        """Whether all sizes in the body are numbers."""
        return all(is_plain(shape_of(node)) for node in self.inside.values())

    def rounds(self) -> UOp:
        """The LOOP that goes on as long as the last root says; the others are the next carries."""
        arg = Loop(None, tuple(self.roots[:-1]), goes_on=self.roots[-1])
        return UOp(Ops.LOOP, dtypes.void, tuple(self.operands), arg)

    def loop(self, count: Size, backwards: bool = False, lean: bool = False) -> UOp:
        """The LOOP; the first roots are what the carries are after a step."""
        nexts = tuple(self.roots[: len(self.carried)])
        arg = Loop(count, nexts, tuple(self.stepped), backwards, lean)
        return UOp(Ops.LOOP, dtypes.void, tuple(self.operands), arg)
