"""The way from a storage's base to a view: a chain of steps, each with its inverse.

`forward` says what a handle sees of the base. `backward` carries a value that is written to the
handle back to the base, together with a mask of the elements that it covers (None: all of them).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.graph import build
from torpor.graph.bare import UNRECORDED
from torpor.ir.infer import Shape, Size, fold_size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.mode import with_tangents
from torpor.tensor.storage import recall


def detached(node: UOp) -> UOp:
    """The same value, through which no gradient flows: its graph is not held where it is known."""
    return UOp(Ops.DETACH, node.dtype, (recall(node) or node,))


def unrecorded(node: UOp) -> UOp:
    """As `detached`, by `no_grad`: tangents flow through it, if some may be asked for."""
    below = node if with_tangents() else recall(node) or node
    return UOp(Ops.DETACH, node.dtype, (below,), UNRECORDED)


# `node` moved by one step of a kind.
FORWARD: Final[dict[str, Callable[[UOp, Any], UOp]]] = {
    "reshape": build.reshape, "permute": build.permute, "expand": build.expand,
    "shrink": build.shrink, "pad": build.pad, "flip": build.flip, "bitcast": build.bitcast,
    "again": build.again, "alias": build.alias,
    "leaf": lambda node, identity: UOp(Ops.LEAF, node.dtype, (node,), identity),
    "detach": lambda node, arg: (unrecorded if arg == UNRECORDED else detached)(node),
    "stride": lambda node, axis_and_step: build.stride_axis(node, *axis_and_step),
    "window": lambda node, arguments: build.window(node, *arguments),
}  # fmt: skip
_SAME: Final = frozenset({"leaf", "detach", "again", "alias"})
RESTING: Final = "resting"  # the arg of a detach: a leaf that has let go of requiring a gradient


class Step:
    """One movement of a view, after `previous` (None: right at the base).

    before:   what it is applied to: (shape, dtype).
    requires: whether what it gives requires a gradient; None: as the storage does.
    leaf:     whether a leaf that requires a gradient lies on the way.
    """

    __slots__ = ("previous", "kind", "arg", "before", "requires", "leaf")

    requires: bool | None
    leaf: bool

    def __init__(self, previous: Step | None, kind: str, arg: Any, node: UOp):
        self.previous, self.kind, self.arg = previous, kind, arg
        self.before = (shape_of(node), node.dtype)
        self.requires = None if previous is None else previous.requires
        self.leaf = previous is not None and previous.leaf
        if kind == "leaf":
            self.requires = self.leaf = True
        elif kind == "detach":
            self.requires, self.leaf = arg == UNRECORDED and with_tangents(), False

    @property
    def resizes(self) -> bool:
        """Whether a bitcast has another number of elements."""
        return bool(self.arg.bits != self.before[1].bits)

    def inverse(self, value: UOp, mask: UOp | None) -> tuple[UOp, UOp | None]:
        """`value` and its mask as they lie in what this step was applied to."""
        if self.kind == "bitcast":
            return build.bitcast(value, self.before[1]), mask
        if self.kind in _SAME:
            return value, mask
        if mask is None and self.kind in ("shrink", "stride"):
            mask = _everywhere(shape_of(value))
        back = _INVERSE[self.kind]
        return back(self, value), None if mask is None else back(self, mask)


def extended(path: Step | None, kind: str, arg: Any, node: UOp) -> Step:
    """`path` and a step more, which is applied to `node`. What is cut from each expanded axis to
    one place repeats nothing: it is cut before the expand, so that it can be written to.
    """
    if kind == "shrink" and path is not None and path.kind == "expand":
        sizes = [*zip(arg, path.before[0], shape_of(node), strict=True)]
        if all(n == m or (type(m) is int and pair[1] - pair[0] == 1) for pair, n, m in sizes):
            pairs = tuple([pair if n == m else (0, 1) for pair, n, m in sizes])
            cut = Step(path.previous, kind, pairs, node)
            cut.before = path.before
            return cut
    return Step(path, kind, arg, node)


def forward(path: Step | None, base: UOp, movements: bool = False) -> UOp:
    """What a handle with this path sees of `base`; of `movements` alone, if only the place of its
    elements is asked for.
    """
    steps = []
    while path is not None:
        if not movements or path.kind not in _SAME:
            steps.append(path)
        path = path.previous
    for step in reversed(steps):
        base = FORWARD[step.kind](base, step.arg)
    return base


def backward(path: Step | None, value: UOp, base: UOp) -> tuple[UOp, UOp | None]:
    """`value`, written to a handle with this path, as it lies in the base, and what it covers."""
    mask: UOp | None = None
    while path is not None:
        if mask is not None and path.kind == "bitcast" and path.resizes:
            sides = [value, forward(path, base)]
            if value.dtype.kind == "packed":
                sides = [build.cast(side, dtypes.int8) for side in sides]
            value = build.cast(build.elementwise(Ops.WHERE, mask, *sides), value.dtype)
            mask = None  # an element may be written in part, so all of them are
        value, mask = path.inverse(value, mask)
        path = path.previous
    return value, mask


def _unpermute(step: Step, value: UOp) -> UOp:
    places = {axis: place for place, axis in enumerate(step.arg)}
    return build.permute(value, tuple(places[axis] for axis in range(len(step.arg))))


def _unexpand(step: Step, value: UOp) -> UOp:
    if shape_of(value) == step.before[0]:
        return value
    raise ShapeError(
        f"cannot write to a view of shape {shape_of(value)} that was expanded from "
        f"{step.before[0]}: several of its elements are one; write to a clone() of it"
    )


@lru_cache(maxsize=1024)
def _everywhere(shape: Shape) -> UOp:
    return build.constant(True, dtypes.bool, shape)


def _unshrink(step: Step, value: UOp) -> UOp:
    sizes = zip(step.arg, step.before[0])
    return build.pad(value, tuple([(start, _minus(size, stop)) for (start, stop), size in sizes]))


def _minus(left: Size, right: Size) -> Size:
    if type(left) is int and type(right) is int:
        return left - right
    return fold_size(left - right if isinstance(left, UOp) else left + right * -1)


def _unpad(step: Step, value: UOp) -> UOp:
    pairs = tuple(
        (front, front + size) for (front, _), size in zip(step.arg, step.before[0], strict=True)
    )
    return build.shrink(value, pairs)


def _unstride(step: Step, value: UOp) -> UOp:
    """x[::s] back: each element followed by s-1 that are not written, then cut to size."""
    axis, stride = step.arg
    shape: Shape = shape_of(value)
    spread = build.reshape(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    pairs = [(0, 0)] * (len(shape) + 1)
    pairs[axis + 1] = (0, stride - 1)
    spread = build.pad(spread, tuple(pairs))
    long = (*shape[:axis], shape[axis] * stride, *shape[axis + 1 :])
    boxes = [(0, size) for size in long]
    boxes[axis] = (0, step.before[0][axis])
    return build.shrink(build.reshape(spread, long), tuple(boxes))


def _unwindow(step: Step, value: UOp) -> UOp:
    raise ShapeError(
        f"cannot write to a view of shape {shape_of(value)} made by unfold: its windows may "
        "overlap; write to a clone() of it"
    )


_INVERSE: Final[dict[str, Callable[[Step, UOp], UOp]]] = {
    "reshape": lambda step, value: build.reshape(value, step.before[0]),
    "permute": _unpermute,
    "expand": _unexpand,
    "shrink": _unshrink,
    "pad": _unpad,
    "flip": lambda step, value: build.flip(value, step.arg),
    "stride": _unstride,
    "window": _unwindow,
}
