"""Rewriting a graph by rules until none applies. Iterative, so depth costs no stack."""

from __future__ import annotations

from typing import Final

from torpor.ir.pattern import PatternMatcher
from torpor.ir.trace import Event, listener
from torpor.ir.uop import UOp

MAXIMUM_STEPS: Final = 1000  # rewrites of one node: a rule set that needs more does not terminate
MAXIMUM_ORIGINS: Final = 8  # origins kept a node


def unite_origins(old: UOp, new: UOp) -> None:
    """Let `new` carry the origins of `old`, besides its own."""
    if old.origins and old.origins != new.origins:
        merged = dict.fromkeys((*new.origins, *old.origins))
        new.origins = tuple(merged)[:MAXIMUM_ORIGINS]


def hand_down_origins(root: UOp) -> None:
    """Let nodes below `root` that have no origins carry those of a node that uses them: an
    operation on tensors, or a rule, makes several nodes, and only the last is known to the user.
    """
    for node in reversed(root.toposort()):
        hand_down(node)


def hand_down(node: UOp) -> None:
    """Let what a node uses, and has no origins, carry those of the node."""
    if node.origins:
        for source in node.src:
            if not source.origins and source.src:
                source.origins = node.origins


class _Rewriter:
    def __init__(self, rules: PatternMatcher, ctx: object, stage: str, bit: int):
        self.rules, self.ctx, self.stage, self.bit = rules, ctx, stage, bit
        self.done: dict[UOp, UOp] = {}
        self.steps: dict[UOp, int] = {}
        self.listen = listener()

    def once(self, node: UOp) -> UOp | None:
        found = self.rules.rewrite(node, self.ctx)
        if found is None:
            return None
        made, rule = found
        unite_origins(node, made)
        if self.listen is not None:
            self.listen(Event(self.stage, rule, node, made))
        return made

    def count(self, origin: UOp, node: UOp, made: UOp) -> None:
        self.steps[made] = steps = self.steps.get(node, 0) + 1
        if steps > MAXIMUM_STEPS:
            raise RecursionError(f"rules {self.stage!r} rewrite one node without end: {node.op}")

    def top_down(self, root: UOp) -> UOp:
        """Operands first, then the node; what a rule makes is rewritten in turn."""
        done, bit = self.done, self.bit
        # (node, rebuilt): rebuilt is None before the operands are done; else the node to finish
        stack: list[tuple[UOp, UOp, int]] = [(root, root, 0)]
        while stack:
            key, node, phase = stack.pop()
            if key in done:
                continue
            if node.normal & bit:
                done[key] = done[node] = node
            elif phase == 0:
                stack.append((key, node, 1))
                stack.extend((s, s, 0) for s in reversed(node.src) if s not in done)
            elif phase == 1:
                source = tuple([done[s] for s in node.src])
                built = node.over(source)
                if built is not node:
                    unite_origins(node, built)
                made = self.once(built)
                if made is None:
                    done[key] = done[built] = built
                    built.normal |= bit
                elif made in done:
                    done[key] = done[made]
                else:
                    self.count(key, node, made)
                    stack.append((key, made, 2))
                    stack.append((made, made, 0))
            else:
                done[key] = done[node]
        return done[root]

    def bottom_up(self, root: UOp) -> UOp:
        """The node first, until no rule fits, then the operands of what it became."""
        done = self.done
        stack: list[tuple[UOp, UOp, bool]] = [(root, root, False)]
        while stack:
            key, node, ready = stack.pop()
            if key in done:
                continue
            if not ready:
                made = self.once(node)
                while made is not None:
                    self.count(key, node, made)
                    node, made = made, self.once(made)
                stack.append((key, node, True))
                stack.extend((s, s, False) for s in reversed(node.src) if s not in done)
            else:
                source = tuple([done[s] for s in node.src])
                done[key] = node.over(source)
                unite_origins(node, done[key])
        return done[root]


def graph_rewrite(
    uop: UOp,
    rules: PatternMatcher,
    ctx: object = None,
    bottom_up: bool = False,
    name: str = "rewrite",
    bit: int = 0,
) -> UOp:
    """`uop` rewritten by `rules` until none applies anywhere.

    By default operands are rewritten before the node that uses them; with `bottom_up` a node is
    rewritten before its operands are looked at. `name` labels the recorded events. `bit` is the
    rule set's own in `UOp.normal`, if it has one: what the rules are known to leave as it is, is
    not looked at again (for rules without context, from operands up).
    """
    rewriter = _Rewriter(rules, ctx, name, bit)
    return rewriter.bottom_up(uop) if bottom_up else rewriter.top_down(uop)
