"""From a graph to a program: loops opened and closed, reductions as registers, one order.

Every value stands in the innermost loop that it depends on, so what does not change in a loop is
computed before it. Within a block, a value comes just before what first needs it. What only the
first value of a RARE choice needs stands under its condition:

before  y = where(far, f(x), g(x)) (RARE)
after   r = g(x);  if any(far): r = where(far, f(x), g(x));  y = r
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile, zip_longest
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ContractError
from torpor.ir.ops import ALU, RARE, Ops, identity
from torpor.ir.uop import UOp
from torpor.kernel.passes.unroll import adds, plus
from torpor.kernel.ranges import Loops, closed_by, find_loops, nesting, values_of

ARITHMETIC: Final = ALU | {Ops.VECTORIZE, Ops.GEP}  # what may stand in a branch
Nest = tuple[UOp, ...]


@dataclass(eq=False)
class _Block:
    """One loop body (the whole function for the empty nest)."""

    nest: Nest
    effects: list[UOp] = field(default_factory=list)  # stores and reductions that end up here
    children: dict[UOp, _Block] = field(default_factory=dict)
    updates: list[UOp] = field(default_factory=list)  # reductions whose sums grow here
    scans: list[UOp] = field(default_factory=list)  # running values that grow here
    needs: dict[UOp, None] = field(default_factory=dict)  # nodes of outer blocks used inside


@dataclass(eq=False)
class _Branch:
    """WHEREs of one block whose condition seldom holds, and what only their first values need: it
    is computed where the condition holds in some lane.
    """

    choices: list[UOp]
    nodes: list[UOp]

    def needs(self) -> list[UOp]:
        """What must have been computed before."""
        inside = {*self.nodes, *self.choices}
        used = [s for node in (*self.nodes, *self.choices) for s in node.src]
        return [s for s in dict.fromkeys(used) if s not in inside]


class _Lineariser:
    def __init__(self, root: UOp):
        self.root = root
        self.loops: Loops = find_loops(root)
        self.stored = frozenset(root.src)
        self.top = _Block(())
        self.blocks: dict[Nest, _Block] = {(): self.top}
        self.home: dict[UOp, _Block] = {}
        self.accumulators: dict[UOp, UOp] = {}
        self.results: dict[UOp, UOp] = {}
        self.branches: dict[UOp, _Branch] = {}
        self.lines: list[UOp] = []
        self.value_of: dict[UOp, UOp] = {}

    def block(self, nest: Nest) -> _Block:
        """The block of a loop nest."""
        block = self.blocks.get(nest)
        if block is None:
            block = self.blocks[nest] = _Block(nest)
            self.block(nest[:-1]).children[nest[-1]] = block
        return block

    def run(self) -> list[UOp]:
        for node in self.loops.order:
            if node.op in (Ops.SINK, Ops.RANGE):
                continue
            free = self.loops.free[node]
            if node.op is Ops.STORE:
                free = free | frozenset(closed_by(node))
            self.home[node] = block = self.block(self.loops.nest_of(free))
            if (node.op is Ops.STORE and closed_by(node)) or node in self.stored:
                block.effects.append(node)
            if node.op is Ops.REDUCE:
                inner = self.block(self.loops.nest_of(free | frozenset(closed_by(node))))
                inner.updates.append(node)
            elif node.op is Ops.SCAN:
                block.scans.append(node)
        self.find_branches()
        self.find_needs()
        self.emit_constants()
        self.emit(self.top)
        return self.declarations() + self.lines

    def find_needs(self) -> None:
        """For each loop, what of the blocks around it its body uses."""
        for node in self.loops.order:
            if node.op in (Ops.SINK, Ops.RANGE):
                continue
            self.need(node.src, self.home[node])
            if node.op is Ops.BARRIER:
                self.need_before(node)
            if node.op is Ops.REDUCE:
                closed = frozenset(closed_by(node))
                inner = self.block(self.loops.nest_of(self.loops.free[node] | closed))
                self.need(node.src, inner)

    def need(self, source: tuple[UOp, ...], block: _Block) -> None:
        for operand in source:
            if operand.op is not Ops.RANGE and (home := self.home[operand]) is not block:
                for depth in range(len(home.nest) + 1, len(block.nest) + 1):
                    self.block(block.nest[:depth]).needs[operand] = None

    def need_before(self, barrier: UOp) -> None:
        """Effects in loops beside those of the barrier come before these."""
        nest = self.home[barrier].nest
        for effect in barrier.src:
            both = zip(self.home[effect].nest, nest, strict=False)
            shared = sum(1 for _ in takewhile(lambda p: p[0] is p[1], both))
            for depth in range(shared + 1, len(nest) + 1):
                self.block(nest[:depth]).needs[effect] = None

    def find_branches(self) -> None:
        """What is only needed for values that are seldom chosen."""
        rare = [n for n in self.loops.order if n.op is Ops.WHERE and n.arg == RARE]
        if not rare:
            return
        places = {node: number for number, node in enumerate(self.loops.order)}
        users: dict[UOp, list[UOp]] = {}
        for node in places:
            for source in node.src:
                users.setdefault(source, []).append(node)
        groups: dict[tuple[UOp, _Block], list[UOp]] = {}
        for node in rare:
            groups.setdefault((node.src[0], self.home[node]), []).append(node)
        for (condition, block), choices in groups.items():
            before = UOp.sink(condition, *(c.src[2] for c in choices)).toposort()
            apart = not before.keys().isdisjoint(choices)
            for some in [[one] for one in choices] if apart else [choices]:
                branch = _Branch(some, self.only_for(some, block, users, places))
                self.branches.update(dict.fromkeys(some, branch))

    def only_for(
        self, choices: list[UOp], block: _Block, users: dict[UOp, list[UOp]], places: dict[UOp, int]
    ) -> list[UOp]:
        """The arithmetic of a block, in order, that nothing but the first values of these WHEREs
        needs. `users`: of each node; `places`: its number in the order of all.
        """
        firsts, others = ({c.src[place] for c in choices} for place in (1, 2))

        def is_here(node: UOp) -> bool:
            return node.op in ARITHMETIC and self.home[node] is block

        below = {n for one in firsts for n in one.toposort(is_here) if is_here(n)}
        inside: set[UOp] = set()
        for node in sorted(below - others, key=places.__getitem__, reverse=True):
            apart = [one for one in users[node] if one not in inside]
            if not apart or (node in firsts and all(one in choices for one in apart)):
                inside.add(node)
        return sorted(inside - {choices[0].src[0]}, key=places.__getitem__)

    # --- emission ---------------------------------------------------------------------------------
    def emit(self, block: _Block) -> None:
        """The statements of a block: what they need first, loops where their results are needed."""
        emitted: set[UOp | _Block] = set()
        for effect in block.effects:
            self.visit(effect, block, emitted)
        self.grow(block, emitted)
        for inner in block.children.values():
            self.visit(inner, block, emitted)

    def visit(self, goal: UOp | _Block, block: _Block, emitted: set[UOp | _Block]) -> None:
        """The statements that a value, store or loop of a block takes, but those already there."""
        stack: list[tuple[UOp | _Block, bool]] = [(goal, False)]
        begun: set[UOp | _Block] = set()
        while stack:
            item, ready = stack.pop()
            if item in emitted:
                continue
            if not ready:
                if item in begun:
                    raise ContractError("something is needed to compute itself")
                begun.add(item)
                stack.append((item, True))
                needs = self.needs_of(item, block)
                stack.extend((n, False) for n in reversed(needs) if n not in emitted)
                continue
            emitted.add(item)
            if isinstance(item, _Block):
                self.loop(item, block)
            else:
                self.statement(item)

    def needs_of(self, item: UOp | _Block, block: _Block) -> list[UOp | _Block]:
        if isinstance(item, _Block):
            found: list[UOp | _Block] = []
            for node in item.needs:
                store = node.op is Ops.STORE
                found += self.before(node, block) if store else self.local((node,), block)
            return found
        if item.op is Ops.REDUCE:
            inner = self.loops.nest_of(self.loops.free[item] | frozenset(closed_by(item)))
            return [self.block(inner[: len(block.nest) + 1])]
        if item in self.branches:
            return self.local(self.branches[item].needs(), block)
        if item.op is Ops.BARRIER:
            return [n for s in item.src for n in self.before(s, block)]
        return self.local(item.src, block)

    def before(self, effect: UOp, block: _Block) -> list[UOp | _Block]:
        """What must have run for the effect to have happened: itself, or the loops around it."""
        nest = self.home[effect].nest
        if nest[: len(block.nest)] != block.nest:
            return []  # in loops beside this one, which need it
        return (
            [self.block(nest[: len(block.nest) + 1])] if len(nest) > len(block.nest) else [effect]
        )

    def local(self, nodes: Iterable[UOp], block: _Block) -> list[UOp | _Block]:
        """The nodes that this block computes (outer ones are there already)."""
        return [n for n in nodes if n.op is not Ops.RANGE and self.home[n] is block]

    def loop(self, inner: _Block, outer: _Block) -> None:
        one = inner.nest[-1]
        for node in inner.scans:
            self.accumulate(node, self.rebuilt(node.src[1]))
        for reduction in self.reductions_starting(inner, outer):
            self.accumulate(reduction, neutral(reduction))
        self.lines.append(self.rebuilt(one))
        self.emit(inner)
        self.lines.append(UOp.end(self.rebuilt(one)))

    def accumulate(self, node: UOp, initial: UOp) -> None:
        """A register for a reduction, a scan, or a choice."""
        register = UOp(Ops.ACC, node.dtype, (initial,), len(self.accumulators))
        self.accumulators[node] = register
        self.lines.append(register)

    def reductions_starting(self, inner: _Block, outer: _Block) -> list[UOp]:
        """Reductions of the outer block whose first loop is this one."""
        found: list[UOp] = []
        stack = [inner]
        while stack:
            block = stack.pop()
            found.extend(r for r in block.updates if self.home[r] is outer)
            stack.extend(block.children.values())
        return found

    def grow(self, block: _Block, emitted: set[UOp | _Block]) -> None:
        """register = register op value for each sum that grows here and each of its values."""
        totals: dict[UOp, UOp] = {}
        for reduction, value in in_order(block.updates):
            fused = reduction.arg is Ops.ADD and adds(value)
            for need in self.local(value.src if fused else (value,), block):
                self.visit(need, block, emitted)
            before = totals.get(reduction) or self.total(reduction)
            made = self.rebuilt_of(value) if fused else self.rebuilt(value)
            totals[reduction] = plus(before, made) if fused else before.alu(reduction.arg, made)
            self.lines.append(totals[reduction])
        for reduction, total in totals.items():
            self.lines.append(UOp(Ops.STORE, dtypes.void, (self.accumulators[reduction], total)))

    def total(self, reduction: UOp) -> UOp:
        """What a sum has grown to before a round of its innermost loop."""
        inner = self.rebuilt(max(closed_by(reduction), key=nesting))
        found = UOp(Ops.LOAD, reduction.dtype, (self.accumulators[reduction], inner))
        self.lines.append(found)
        return found

    def advance(self, node: UOp) -> UOp:
        """register = register op value, which is also the value of this step."""
        register = self.accumulators[node]
        before = UOp(Ops.LOAD, node.dtype, (register, self.rebuilt(node.src[2])))
        made = before.alu(node.arg, self.rebuilt(node.src[0]))
        self.lines += before, made, UOp(Ops.STORE, dtypes.void, (register, made))
        return made

    def statement(self, node: UOp) -> None:
        if node in self.value_of:
            return
        if node.op is Ops.SCAN:
            self.value_of[node] = self.advance(node)
            return
        if node in self.branches:
            self.branch(self.branches[node])
            return
        if node.op is Ops.REDUCE:
            register = self.accumulators[node]
            outer = min(closed_by(node), key=nesting)
            made = UOp(Ops.LOAD, node.dtype, (register, UOp.end(self.rebuilt(outer))))
        else:
            made = self.rebuilt_of(node)
        self.value_of[node] = made
        if node.op not in (Ops.PARAM, Ops.VARIABLE, Ops.DEFINE_LOCAL):
            self.lines.append(made)

    def branch(self, branch: _Branch) -> None:
        """Registers of values that are mostly chosen, and others put there under a condition."""
        for node in branch.choices:
            self.accumulate(node, self.rebuilt(node.src[2]))
        opened = UOp(Ops.IF, dtypes.void, (self.rebuilt(branch.choices[0].src[0]),))
        self.lines.append(opened)
        for node in (*branch.nodes, *branch.choices):
            self.value_of[node] = self.rebuilt_of(node)
            self.lines.append(self.value_of[node])
        for node in branch.choices:
            register = self.accumulators[node]
            self.lines.append(UOp(Ops.STORE, dtypes.void, (register, self.value_of[node])))
        closed = UOp(Ops.ENDIF, dtypes.void, (opened,))
        self.lines.append(closed)
        for node in branch.choices:
            register = self.accumulators[node]
            self.value_of[node] = UOp(Ops.LOAD, node.dtype, (register, closed))
            self.lines.append(self.value_of[node])

    def rebuilt_of(self, node: UOp) -> UOp:
        source = tuple(self.rebuilt(s) for s in node.src)
        if node.op is Ops.STORE:
            source = source[:2]
        return node.over(source)

    def rebuilt(self, node: UOp) -> UOp:
        """What the node has become in the program."""
        found = self.value_of.get(node)
        if found is None:
            assert node.op in (Ops.RANGE, Ops.CONST), f"{node.op} is used before it is computed"
            found = self.value_of[node] = self.rebuilt_of(node)
        return found

    def emit_constants(self) -> None:
        """What loops count to and registers start from stands before everything else."""
        for node in self.loops.order:
            if node.op is Ops.RANGE:
                self.emit_early(node.src[0])
            elif node.op is Ops.REDUCE:
                self.emit_early(neutral(node))

    def emit_early(self, node: UOp) -> None:
        for below in node.toposort():
            if below not in self.value_of:
                self.statement(below)

    def declarations(self) -> list[UOp]:
        """Parameters, variables and local memory, in order of their numbers."""
        found = {op: [n for n in self.loops.order if n.op is op] for op in _DECLARED}
        parameters = sorted(found[Ops.PARAM], key=lambda n: n.arg.slot)
        variables = sorted(found[Ops.VARIABLE], key=lambda n: (len(n.arg[0]), n.arg[0]))
        memory = sorted(found[Ops.DEFINE_LOCAL], key=lambda n: n.arg.slot)
        return [*parameters, *variables, *memory]


def neutral(reduction: UOp) -> UOp:
    """The value that a reduction starts from."""
    return UOp.const(reduction.dtype, identity(reduction.arg, reduction.dtype.scalar()))


def in_order(reductions: list[UOp]) -> list[tuple[UOp, UOp]]:
    """The (sum, value) pairs of sums that grow side by side: the first values of all sums, then the
    second ones, so that no addition waits for another.
    """
    found: list[tuple[UOp, UOp]] = []
    for step in zip_longest(*map(values_of, reductions)):
        terms = [(r, v) for r, v in zip(reductions, step, strict=True) if v is not None]
        found += by_shared_operand(terms)
    return found


def by_shared_operand(terms: list[tuple[UOp, UOp]]) -> list[tuple[UOp, UOp]]:
    """The (sum, value) pairs so that values with an operand in common follow each other: of their
    operands the one in fewer values, so that few others have to be kept in registers meanwhile.
    """
    uses = Counter(s for _, value in terms for s in value.src)
    groups: dict[UOp, list[tuple[UOp, UOp]]] = {}
    for reduction, value in terms:
        least = min(value.src, key=uses.__getitem__, default=value)
        groups.setdefault(least, []).append((reduction, value))
    return [term for group in groups.values() for term in group]


_DECLARED = (Ops.PARAM, Ops.VARIABLE, Ops.DEFINE_LOCAL)


def linearise(root: UOp) -> list[UOp]:
    """The kernel as a list of nodes in program order."""
    return _Lineariser(root).run()
