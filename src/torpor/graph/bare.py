"""Graphs as values depend on them: without what only gradients need; and parts of what is laid end
to end being parts of that one piece.

before  SHRINK(WHERE(i < 3, PAD(a), PAD(b)), ((5, 6),)), where b begins at 3
after   SHRINK(PAD(b), ((5, 6),))
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from torpor.graph.elementwise import uniform
from torpor.graph.sizes import is_plain
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

# The arg of a DETACH by `no_grad`: gradients do not flow through it, but tangents do, which are
# made of gradients while this holds.
UNRECORDED: Final = "no_grad"
following_tangents: Final[ContextVar[bool]] = ContextVar("torpor_tangents", default=False)
UNSEEN: Final = frozenset({Ops.LEAF, Ops.DETACH, Ops.FUNCTION})  # of no meaning for values


def is_passed(node: UOp) -> bool:
    """Whether what flows comes past a node: not past what is detached."""
    return node.op is not Ops.DETACH or (node.arg == UNRECORDED and following_tangents.get())


def bare(sink: UOp) -> UOp:
    """The graph without what only gradients need."""
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        if node.op in UNSEEN:
            done[node] = done[node.src[0]]
            continue
        source = tuple([done[s] for s in node.src])
        made = node.over(source)
        done[node] = made = part_of(made) if made.op is Ops.SHRINK else made
        made.origins = made.origins or node.origins
    return done[sink]


def part_of(node: UOp) -> UOp:
    """A SHRINK of what it is a part of: of one side of a WHERE, if it lies in that."""
    source, boxes = node.src[0], node.arg
    while all(map(is_plain, boxes)):
        if source.op is Ops.SHRINK and all(map(is_plain, source.arg)):
            pairs = zip(boxes, source.arg, strict=True)
            boxes = tuple([(first + low, last + low) for (first, last), (low, _) in pairs])
            source = source.src[0]
        elif source.op is Ops.WHERE and (true := box_of(source.src[0])) is not None:
            sides = list(zip(boxes, true, strict=True))
            if all(low <= first and last <= high for (first, last), (low, high) in sides):
                source = source.src[1]
            elif any(last <= low or high <= first for (first, last), (low, high) in sides):
                source = source.src[2]
            else:
                break
        else:
            break
    return node if source is node.src[0] else node.replace(src=(source,), arg=boxes)


def box_of(condition: UOp) -> list[tuple[int, int]] | None:
    """Where a condition holds, if that is one box that its graph says."""
    inside = condition.src[0] if condition.op is Ops.PAD else condition
    number = uniform(inside)
    if condition.op is not Ops.PAD or number is None or number.arg is not True:
        return None
    sizes = shape_of(inside)
    if not (is_plain(sizes) and all(map(is_plain, condition.arg))):
        return None
    pairs = zip(sizes, condition.arg, strict=True)
    return [(before, before + size) for size, (before, _) in pairs]


def parts_of(root: UOp) -> tuple[list[UOp], int]:
    """What a tree of WHEREs lays end to end, and along which axis; at least the tree itself."""
    axis = next((n for n, size in enumerate(shape_of(root)) if halved(root, n)), 0)
    parts: list[UOp] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if halved(node, axis):
            stack += (node.src[2].src[0], node.src[1].src[0])
        else:
            parts.append(node)
    return parts, axis


def halved(node: UOp, axis: int) -> bool:
    """Whether a WHERE has one value in front of another one along an axis."""
    if node.op is not Ops.WHERE or node.src[1].op is not Ops.PAD or node.src[2].op is not Ops.PAD:
        return False
    box = box_of(node.src[0])
    if box is None:
        return False
    size, cut = shape_of(node)[axis], box[axis][1]
    front = [(0, size - cut if n == axis else 0) for n, _ in enumerate(box)]
    behind = [(cut if n == axis else 0, 0) for n, _ in enumerate(box)]
    padded = (list(node.src[0].arg), list(node.src[1].arg), list(node.src[2].arg))
    return padded == (front, front, behind)
