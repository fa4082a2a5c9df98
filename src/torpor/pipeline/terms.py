"""Like terms of a sum become one term over rows: their number is a size then.

before  f(a, 2) + f(b, 3) + f(c, 5)           a, b and c lie in memory of their own
after   f(rows, numbers) summed over axis 0   rows: memory with a, b and c one after the other

So a sum over as many terms as an episode has steps, or a list has losses, and its gradients, are
one kernel for any number of terms (see `general.py`). Terms are alike if they are the same
operations on what differs in values alone: memory of one size, numbers, and where boxes lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.graph.abreast import Abreast, expand, is_possible, reshape
from torpor.graph.bare import bare, parts_of
from torpor.graph.elementwise import constant, elementwise
from torpor.graph.indexed import gather
from torpor.graph.loop import slot
from torpor.graph.sizes import is_plain
from torpor.ir.infer import JOINT, shape_of
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.uop import UOp
from torpor.pipeline.general import Roots

LEAST: Final = 4  # like terms that become one: a choice
LARGEST: Final = 1 << 20  # bytes of rows that are put together for one sum
MOST_PIECES: Final = 4  # laid end to end, so that their number says little
LOOKED_AT: Final = 16  # times the nodes of a graph that may be looked at for its sums
ROUNDS: Final = 3  # sums in terms of sums, that deep
COMBINED: Final = frozenset({Ops.ADD, Ops.SUB, Ops.WHERE})  # in which like terms are looked for
BOXES: Final = frozenset({Ops.SHRINK, Ops.PAD})
VALUES: Final = frozenset({Ops.CONST, Ops.BUFFER})  # may be others in other terms
VIEWED: Final = VALUES | MOVEMENT  # written down each time: that two are one may be chance


class Unlike(Exception):
    """Terms that are no rows of one."""


class Word(NamedTuple):
    """A node of a term: what it is, and where its operands are."""

    op: Ops
    dtype: DType
    what: Hashable
    operands: tuple[int, ...]


class Written(NamedTuple):
    """A term, operands first: what is the same for like terms, and the nodes."""

    words: tuple[Word, ...]
    nodes: list[UOp]


def folded(roots: Roots) -> Roots | None:
    """The graph with rows in place of like terms; None where there are too few of them."""
    device = roots[0][1]
    if any(other != device or JOINT in other for _, other in roots):
        return None
    sink = bare(UOp.sink(*(node for node, _ in roots)))
    before = sink
    for _ in range(ROUNDS):
        made = Sums(sink, device).results()
        if not made:
            break
        sink = sink.substitute(made)
    if sink is before:
        return None
    return [(node, device) for node, (_, device) in zip(sink.src, roots, strict=True)]


class Sums:
    """The sums of a graph that have like terms."""

    def __init__(self, sink: UOp, device: str):
        self.order = list(sink.toposort())
        self.uses = Counter(s for node in self.order for s in node.src)
        self.device = device
        self.looked_at = 0  # nodes, for one sum after the other
        self.rows: dict[tuple[Any, ...], UOp] = {}  # what was put together, by what it is made of

    def results(self) -> dict[UOp, UOp]:
        """What stands for each of the outermost of these sums."""
        found: dict[UOp, UOp] = {}
        inside: set[UOp] = set()
        for node in reversed(self.order):
            if node in inside or node.op not in COMBINED or not is_plain(shape_of(node)):
                continue
            if self.looked_at > LOOKED_AT * len(self.order):
                break
            made = self.joined(node) if node.op is Ops.WHERE else self.summed(node, inside)
            if made is not None:
                found[node], own = made
                inside |= own
        return found

    def terms(self, root: UOp, inside: set[UOp]) -> Iterator[tuple[UOp, bool]]:
        """What is added up in a sum, in order, and whether it is subtracted. Sums on the way that
        nobody else uses are `inside`.
        """
        stack = [(root, False)]
        while stack:
            node, negative = stack.pop()
            whole = node is root or self.uses[node] == 1
            if whole and node.op in (Ops.ADD, Ops.SUB) and shape_of(node) == shape_of(root):
                inside.add(node)
                left, right = node.src
                stack += ((right, negative != (node.op is Ops.SUB)), (left, negative))
            else:
                yield node, negative

    def joined(self, root: UOp) -> tuple[UOp, set[UOp]] | None:
        """What lies end to end along an axis, parts in a row that are alike as one; as `summed`."""
        parts, axis = parts_of(root)
        if len(parts) < LEAST:
            return None
        owners, shared = owners_of(parts)
        texts = [written(part, shared) for part in parts]
        pieces: list[UOp] = []
        alone: set[int] = set()
        for _, run in groupby(range(len(parts)), lambda n: texts[n].words):
            numbers = list(run)
            try:
                pieces.append(end_to_end(self.over_rows([texts[n] for n in numbers]), axis))
                alone.update(numbers)
            except Unlike:
                pieces += [parts[n] for n in numbers]
        if len(pieces) > MOST_PIECES:
            return None
        return laid(pieces, axis), own_of(owners, shared, alone)

    def summed(self, root: UOp, inside: set[UOp]) -> tuple[UOp, set[UOp]] | None:
        """A sum with like terms as one, and the nodes that only these had; None where there are too
        few.
        """
        signed = list(self.terms(root, inside))
        if len(signed) < LEAST:
            return None
        owners, shared = owners_of([term for term, _ in signed])
        self.looked_at += len(owners)
        groups: dict[Any, list[int]] = {}
        texts = [written(term, shared) for term, _ in signed]
        for number, text in enumerate(texts):
            groups.setdefault((text.words, signed[number][1]), []).append(number)
        parts = dict(enumerate(signed))
        alone: set[int] = set()
        for numbers in groups.values():
            try:
                one = total_of(self.over_rows([texts[n] for n in numbers]))
            except Unlike:
                continue
            alone.update(numbers)
            for number in numbers[1:]:
                del parts[number]
            parts[numbers[0]] = one, signed[numbers[0]][1]
        if not alone:
            return None
        return added([*parts.values()]), own_of(owners, shared, alone)

    # --- several terms as one ---------------------------------------------------------------------
    def over_rows(self, terms: Sequence[Written]) -> UOp:
        """One term over rows in place of like terms: their values along a first axis. `Unlike`
        where that cannot be, or there are too few of them.
        """
        if len(terms) < LEAST:
            raise Unlike
        rows: dict[UOp, UOp] = {}  # what stands for a row, by what it is a row of
        fixed: dict[UOp, UOp] = {}
        made: list[UOp] = []
        columns = zip(*(term.nodes for term in terms), strict=True)
        for word, column in zip(terms[0].words, columns, strict=True):
            if word.operands:
                source = tuple([made[place] for place in word.operands])
                made.append(self.computed(column, source, rows))
            elif all(node is column[0] for node in column):
                fixed[column[0]] = column[0]
                made.append(column[0])
            else:
                made.append(row_of(self.together(column), rows))
        given = {slot: value for value, slot in rows.items()}
        return Abreast(len(terms), given, fixed).values(made[-1])

    def computed(self, column: Sequence[UOp], source: tuple[UOp, ...], rows: dict[UOp, UOp]) -> UOp:
        """An operation of one term on its operands; boxes that lie elsewhere in each term are read
        from where a row says.
        """
        node = column[0]
        if not is_possible(node):
            raise Unlike
        if all(other.arg == node.arg for other in column):
            return node.replace(src=source)
        (x,), boxes = source, list(node.arg)
        for axis, box in enumerate(node.arg):
            lie = [other.arg[axis] for other in column]
            if all(other == box for other in lie):
                continue
            if node.op is Ops.SHRINK:
                boxes[axis] = 0, box[1] - box[0]
                places = np.array(lie)[:, :1] + np.arange(box[1] - box[0])
            else:
                x, boxes[axis] = padded(x, axis, 0, sum(box)), (0, 0)
                whole: Any = shape_of(x)[axis]
                places = (np.arange(whole) - np.array(lie)[:, :1]) % whole
            x = placed(x, axis, row_of(self.numbers(places, dtypes.int64), rows))
        return node.replace(src=(x,), arg=tuple(boxes))

    def together(self, column: Sequence[UOp]) -> UOp:
        """Numbers, or values in memory, as rows."""
        key, first = tuple(column), column[0]
        if key not in self.rows:
            if first.op is Ops.CONST and first.dtype is not dtypes.index:
                self.rows[key] = self.numbers([node.arg for node in column], first.dtype)
            elif first.op is Ops.BUFFER and all(node.arg.is_allocated() for node in column):
                if first.arg.nbytes * len(column) > LARGEST:
                    raise Unlike
                self.rows[key] = self.stored([node.arg.numpy() for node in column], first.dtype)
            else:
                raise Unlike
        return self.rows[key]

    def numbers(self, values: Any, dtype: DType) -> UOp:
        """Numbers in memory, a row for each term."""
        return self.stored(dtype.array(values), dtype)

    def stored(self, values: Any, dtype: DType) -> UOp:
        """Values in memory, a row for each term."""
        array = np.ascontiguousarray(values)
        if array.nbytes > LARGEST:
            raise Unlike
        buffer = Buffer(self.device, array.size, dtype).allocate().copyin(array)
        return buffer_node(buffer, array.shape)


def added(signed: Sequence[tuple[UOp, bool]]) -> UOp:
    """The sum of terms, some of which are subtracted; the first is not."""
    (total, _), *rest = signed
    for term, negative in rest:
        total = elementwise(Ops.SUB if negative else Ops.ADD, total, term)
    return total


def total_of(wide: UOp) -> UOp:
    """The sum over rows."""
    total = UOp(Ops.REDUCE_AXIS, wide.dtype, (wide,), (Ops.ADD, (0,)))
    return reshape(total, shape_of(wide)[1:])


def end_to_end(wide: UOp, axis: int) -> UOp:
    """Values along a first axis laid end to end along another one."""
    count, *shape = shape_of(wide)
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1))
    turned = UOp(Ops.PERMUTE, wide.dtype, (wide,), order)
    return reshape(turned, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))


def laid(pieces: Sequence[UOp], axis: int) -> UOp:
    """Pieces laid end to end."""
    whole, *rest = pieces
    for piece in rest:
        sizes, more = shape_of(whole), shape_of(piece)[axis]
        inside = padded(constant(True, dtypes.bool, sizes), axis, 0, more)
        sides = padded(whole, axis, 0, more), padded(piece, axis, sizes[axis], 0)
        whole = elementwise(Ops.WHERE, inside, *sides)
    return whole


def own_of(owners: Mapping[UOp, int], shared: set[UOp], some: set[int]) -> set[UOp]:
    """What only some of the terms have."""
    return {node for node, number in owners.items() if number in some and node not in shared}


def row_of(value: UOp, rows: dict[UOp, UOp]) -> UOp:
    """What stands for a row of a value."""
    if value not in rows:
        rows[value] = slot(len(rows), value, stepped=True)
    return rows[value]


def padded(x: UOp, axis: int, before: Any, behind: Any) -> UOp:
    """A value with so many zeros around it along an axis."""
    boxes = tuple((before, behind) if n == axis else (0, 0) for n, _ in enumerate(shape_of(x)))
    return UOp(Ops.PAD, x.dtype, (x,), boxes)


def placed(x: UOp, axis: int, places: UOp) -> UOp:
    """The elements of a value at places along an axis."""
    (count,), shape = shape_of(places), shape_of(x)
    lined = reshape(places, tuple(count if n == axis else 1 for n, _ in enumerate(shape)))
    wide = expand(lined, tuple(count if n == axis else size for n, size in enumerate(shape)))
    return gather(x, wide, axis)


# --- which terms are alike ------------------------------------------------------------------------
def owners_of(terms: Sequence[UOp]) -> tuple[dict[UOp, int], set[UOp]]:
    """For each node of some terms the number of a term that has it, and those that several have;
    but for what is made of constants alone, which two terms may have by chance.
    """
    owners: dict[UOp, int] = {}
    shared: set[UOp] = set()
    for number, term in enumerate(terms):
        stack = [term]
        while stack:
            node = stack.pop()
            if node not in owners:
                owners[node] = number
                stack += node.src
            elif owners[node] != number:
                shared.add(node)
    stack = [*shared]
    while stack:
        below = [node for node in stack.pop().src if node not in shared]
        shared.update(below)
        stack += below
    return owners, shared - made_of_constants(shared)


def made_of_constants(nodes: set[UOp]) -> set[UOp]:
    """Those of some nodes that are computed of constants alone."""
    found: set[UOp] = set()
    for node in UOp.sink(*nodes).toposort():
        if node.op is Ops.CONST or (node.src and found.issuperset(node.src)):
            found.add(node)
    return found


def written(term: UOp, shared: set[UOp]) -> Written:
    """A term as words, operands first. What other terms have too is one word."""
    words: list[Word] = []
    nodes: list[UOp] = []
    places: dict[UOp, int] = {}
    values: list[int] = []
    stack = [(term, False)]
    while stack:
        node, entered = stack.pop()
        if node in places:
            values.append(places[node])
            continue
        source = () if node in shared and node.op not in VIEWED else node.src
        if source and not entered:
            stack.append((node, True))
            stack += [(below, False) for below in reversed(source)]
            continue
        first = len(values) - len(source)
        values, operands = values[:first], tuple(values[first:])
        if node.op not in VIEWED:
            places[node] = len(words)
        values.append(len(words))
        words.append(Word(node.op, node.dtype, what_of(node, source), operands))
        nodes.append(node)
    return Written(tuple(words), nodes)


def what_of(node: UOp, source: Sequence[UOp]) -> Hashable:
    """What like nodes have in common besides op and format."""
    if not source:
        if node.op is Ops.BUFFER:
            return node.arg.device, node.arg.size
        return shape_of(node)
    if node.op in BOXES and all(map(is_plain, node.arg)):
        sign = -1 if node.op is Ops.SHRINK else 1
        return tuple([stop + sign * start for start, stop in node.arg])
    hashable: Hashable = node.arg
    return hashable
