"""What of a loop's body need not be done step by step is done for all steps at once.

before  at each step: h' = tanh(x @ W + h @ V), y = h' @ U
after   all x @ W as one product;  at each step: h' = tanh(xW + h @ V);  all h' @ U as one product

What does not depend on a carry is done before the loop; that on which no carry depends after it,
from values that the loop leaves behind. Sums over steps then fuse with what they sum: the gradient
of V is one product. Carries that nobody needs are left out. What a carry is before and after each
step lies in one place (TRAIL).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from torpor.graph.abreast import Abreast, are_possible, is_possible, reshape
from torpor.graph.elementwise import uniform
from torpor.graph.loop import HEAVY, Enclosed, bytes_of, last, slots_of, steps
from torpor.graph.loop_layout import with_transposes
from torpor.graph.rules import simplify_graph
from torpor.graph.sizes import add
from torpor.ir.infer import Size, largest, shape_of
from torpor.ir.ops import LOOPED, MOVEMENT, Ops
from torpor.ir.records import Stored, calls_host
from torpor.ir.uop import UOp

WIDER: Final = 2  # times the bytes of a value that its operands may take, of all steps
ROOM: Final = 1 << 26  # bytes of the values of all steps for which a reduction is done outside
REPEATED: Final = (
    4  # steps for which a transpose of what all of them read is less work than reading across
)
WHOLE: Final = frozenset({Ops.CONST, Ops.BIND, Ops.VARIABLE, Ops.SHRINK})


def simplified(root: UOp) -> UOp:
    """An equal graph whose loops have nothing in them that need not be done step by step."""
    while (loop := _topmost(root)) is not None:
        items = [n for n in root.toposort() if n.op in LOOPED and n.src[0] is loop]
        found = Fission(loop, items).results() if loop.arg.goes_on is None else rounds(loop, items)
        root = simplify_graph(root.substitute(found))
    return root


def rounds(loop: UOp, items: Sequence[UOp]) -> dict[UOp, UOp]:
    """What stands for each item of a loop that goes on as long as it says: all of it is done in its
    rounds.
    """
    arg = loop.arg
    body = simplified(simplify_graph(UOp.sink(*arg.nexts, arg.goes_on)))
    lean = replace(arg, nexts=body.src[:-1], goes_on=body.src[-1], lean=True)
    made = loop.replace(src=tuple(map(whole, loop.src)), arg=lean)
    return {item: item.replace(src=(made,)) for item in items}


def _topmost(root: UOp) -> UOp | None:
    """A LOOP that has not been looked at and on which no other such depends."""
    loops = [n for n in root.toposort() if n.op is Ops.LOOP and not n.arg.lean]
    return loops[-1] if loops else None


class Fission:
    """A LOOP taken apart, of which `items` are wanted.

    values:   the nodes of the body whose values are wanted step by step, by item.
    nexts:    by number, what those carries are after a step that are needed and change.
    later:    values that are computed after the loop; `inside`: those that the loop leaves behind.
    """

    def __init__(self, loop: UOp, items: Sequence[UOp]):
        self.loop, self.items, self.slots = loop, items, slots_of(loop)
        self.counted = isinstance(loop.arg.count, int)
        wanted = [item for item in items if item.op is Ops.STEPS]
        nodes = *loop.arg.nexts, *(item.arg for item in wanted)
        body = simplified(simplify_graph(UOp.sink(*nodes)))
        count = len(loop.arg.nexts)
        self.nexts = dict(enumerate(body.src[:count]))
        self.fixed = {s: loop.src[n] for n, s in enumerate(self.slots) if self.is_fixed(n)}
        if largest(loop.arg.length) >= REPEATED:
            carries = [s for s in self.slots[:count] if s not in self.fixed]
            moving = depending(body.toposort(), carries)
            body, transposes = with_transposes(body, self.fixed, moving)
            self.fixed |= transposes
        self.values = dict(zip(wanted, body.src[count:], strict=True))
        self.nexts = dict(enumerate(body.src[:count]))
        self.nexts = {n: self.nexts[n] for n in self.needed()}
        self.rows = {self.slots[n]: loop.src[n] for n in loop.arg.stepped}
        self.carried = {self.slots[n]: whole(loop.src[n]) for n in self.nexts}
        order = list(body.toposort())
        self.moving = depending(order, self.carried)
        self.heavy = depending(order, [n for n in order if n.op in HEAVY or calls_host(n)])
        self.core = set(UOp.sink(*self.nexts.values()).toposort())
        self.inside: dict[UOp, None] = {}
        self.later: dict[UOp, None] = {}
        self.divide()

    def is_fixed(self, number: int) -> bool:
        """Whether an operand is the same at each step: no rows, nor a carry that changes."""
        if number not in self.nexts:
            return number not in self.loop.arg.stepped
        after, begins = self.nexts[number], uniform(self.loop.src[number])
        return after is self.slots[number] or (begins is not None and uniform(after) is begins)

    def needed(self) -> list[int]:
        """The carries that change and that something wanted depends on."""
        found = {
            n.arg for n in self.items if n.op is Ops.LAST and self.slots[n.arg] not in self.fixed
        }
        waiting = [*self.values.values(), *(self.nexts[n] for n in found)]
        seen: set[UOp] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op is Ops.SLOT and node.arg[0] in self.nexts and node not in self.fixed:
                found.add(node.arg[0])
                waiting.append(self.nexts[node.arg[0]])
            waiting += node.src
        return sorted(found)

    # --- what is done where -----------------------------------------------------------------------
    def divide(self) -> None:
        """Decide which values are computed after the loop. What one leaves behind serves others."""
        waiting = dict.fromkeys(self.values.values())
        while True:
            found = {node: left for node in waiting if (left := self.left_behind(node)) is not None}
            if not found:
                break
            for node, left in found.items():
                del waiting[node]
                self.later[node] = None
                self.inside |= dict.fromkeys(left)
        self.inside |= waiting

    def left_behind(self, node: UOp) -> list[UOp] | None:
        """What the loop leaves of each step for a value that is computed after it; None where it is
        better computed inside.
        """
        found: dict[UOp, None] = {}
        stack, seen = [node], {node}
        while stack:
            one = stack.pop()
            if one in self.moving and one in self.core and one.op not in MOVEMENT:
                if one.op is Ops.LOOP:
                    return None  # it is no value
                found[one] = None
            elif not is_possible(one, self.counted):
                return None
            else:
                fresh = dict.fromkeys(s for s in one.src if s not in seen)
                seen.update(fresh)
                stack += fresh
        more = bytes_of(one for one in found if one not in self.inside)
        small = more <= WIDER * bytes_of([node])
        room = node in self.heavy and more * largest(self.loop.arg.length) <= ROOM
        return list(found) if small or room else None

    def ahead(self, abreast: Abreast, roots: Iterable[UOp]) -> None:
        """Have values computed before the loop that take a reduction, and that no carry is in."""
        for node in list(UOp.sink(*roots).toposort()):
            if node not in self.moving and node.op is not Ops.SINK:
                continue
            for source in node.src:
                base = source.below(MOVEMENT)
                if base in self.moving or base not in self.heavy or base in abreast.wide:
                    continue
                if are_possible([base], self.counted) and self.fits(base):
                    abreast.values(base)
                    (self.rows if base in abreast.wide else self.fixed)[base] = (
                        abreast.wide if base in abreast.wide else abreast.same
                    )[base]

    def fits(self, node: UOp) -> bool:
        """Whether there is room for the values of all steps."""
        rows = [below for below in node.toposort() if below in self.rows]
        size = bytes_of([node])
        return size * largest(self.loop.arg.length) <= ROOM or size <= WIDER * bytes_of(rows)

    # --- what comes of it -------------------------------------------------------------------------
    def results(self) -> dict[UOp, UOp]:
        """What stands for each item."""
        count = self.loop.arg.length
        before = Abreast(count, self.rows, self.fixed)
        roots = [*self.nexts.values(), *self.inside]
        self.ahead(before, roots)
        body = Enclosed(roots, self.carried, self.rows, self.fixed)
        made = body.loop(count, self.loop.arg.backwards, lean=True)
        left = self.left(made, body.roots[len(self.nexts) :])
        after = Abreast(count, {**self.rows, **left}, self.fixed)
        found = {item: after.values(node) for item, node in self.values.items()}
        for item in self.items:
            if item.op is Ops.LAST:
                found[item] = self.end(made, item.arg)
        return found

    def left(self, made: UOp, nodes: Sequence[UOp]) -> dict[UOp, UOp]:
        """The values that the loop leaves behind."""
        found = {}
        places = {n: place for place, n in enumerate(self.nexts)}
        count, first = made.arg.length, int(made.arg.backwards)
        for old, new in zip(self.inside, nodes, strict=True):
            starts = [places[n] for n in self.nexts if self.slots[n] is old]
            ends = [places[n] for n, after in self.nexts.items() if after is old]
            if starts:
                found[old] = part(trail(made, starts[0]), first, count)
            elif ends:
                found[old] = part(
                    trail(made, ends[0]), int(not made.arg.backwards), made.arg.length
                )
            else:
                found[old] = steps(made, new)
        self.trails = {n for n in self.nexts if {self.slots[n], self.nexts[n]} & self.inside.keys()}
        return found

    def end(self, made: UOp, number: int) -> UOp:
        """What a carry is in the end."""
        if number not in self.nexts:
            return self.loop.src[number]
        place = list(self.nexts).index(number)
        if number not in self.trails:
            return last(made, place)
        rest = trail(made, place)
        one = part(rest, 0 if made.arg.backwards else made.arg.length, 1)
        return reshape(one, shape_of(one)[1:])


def depending(order: Iterable[UOp], some: Iterable[UOp]) -> set[UOp]:
    """The nodes that depend on some of them, these included."""
    found = set(some)
    for node in order:
        if node.src and not found.isdisjoint(node.src):
            found.add(node)
    return found


def trail(loop: UOp, number: int) -> UOp:
    """What a carry is before each step and in the end."""
    return UOp(Ops.TRAIL, loop.src[number].dtype, (loop,), number)


def part(node: UOp, start: Size, length: Size) -> UOp:
    """Rows of a node."""
    rest = tuple((0, size) for size in shape_of(node)[1:])
    return UOp(Ops.SHRINK, node.dtype, (node,), ((start, add(start, length)), *rest))


def whole(node: UOp) -> UOp:
    """The value, stored by itself, where it is none that is stored or can be."""
    if node.below((Ops.RESHAPE,)).op in WHOLE:
        return UOp(Ops.CONTIGUOUS, node.dtype, (node,), Stored("read by a loop"))
    return node
