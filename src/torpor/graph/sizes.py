"""Arithmetic on sizes, which are ints or nodes of dtype index, and words for error messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeGuard

from torpor.base.errors import ShapeError
from torpor.ir.infer import Shape, Size, fold_size, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

_INT: Final = frozenset({int})
_noticed: Final = ContextVar[Callable[[], object] | None]("noticed", default=None)


@contextmanager
def noticing(noticed: Callable[[], object]) -> Iterator[None]:
    """Have `noticed` called where what is built inside is right for the values alone that variables
    are bound to now.
    """
    token = _noticed.set(noticed)
    try:
        yield
    finally:
        _noticed.reset(token)


def known(sizes: Sequence[Size]) -> TypeGuard[Sequence[int]]:
    """Whether every size is an int (and no bool)."""
    return _INT.issuperset(map(type, sizes))


def is_plain(shape: object) -> TypeGuard[tuple[int, ...]]:
    """Whether it is a tuple of ints."""
    return isinstance(shape, tuple) and _INT.issuperset(map(type, shape))


def add(left: Size, right: Size) -> Size:
    """Left + right, folded."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return fold_size(left + right if isinstance(left, UOp) else right + left)


def multiply(left: Size, right: Size) -> Size:
    """Left * right, folded."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return fold_size(left * right if isinstance(left, UOp) else right * left)


def subtract(left: Size, right: Size) -> Size:
    """Left - right, folded; a size less itself is 0."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return 0 if left is right else add(left, multiply(right, -1))


def floor_divide(left: Size, right: int) -> Size:
    """Left // right, folded."""
    return left // right if isinstance(left, int) else fold_size(left // right)


def least(size: Size) -> int | float:
    """The least value that the size can have (minus infinity where nothing is known)."""
    if isinstance(size, int):
        return size
    low: int | float = size.vmin
    return low


def at_most(left: Size, right: Size) -> bool:
    """Whether left <= right holds for every value of the variables, as far as can be proved."""
    if isinstance(left, int) and isinstance(right, int):
        return left <= right
    if left is right:
        return True
    room = subtract(right, left)
    return least(room) >= 0 or least(by_remainders(room)) >= 0


def fits(left: Size, right: Size) -> bool:
    """Whether left <= right holds for every value of the variables, or for those that they are
    bound to, which is noticed.
    """
    if at_most(left, right):
        return True
    holds = least(room_now(left, right)) >= 0
    if holds and (noticed := _noticed.get()) is not None:
        noticed()
    return holds


def room_now(left: Size, right: Size) -> Size:
    """Right - left with the values that variables are bound to."""
    room = subtract(right, left)
    if isinstance(room, int):
        return room
    now = {node: node.src[1] for node in room.toposort() if node.op is Ops.BIND}
    return fold_size(room.substitute(now))


def by_remainders(size: Size) -> Size:
    """The same size, with (x//c)*k*c as k*(x - x%c): of which bounds are nearer."""
    if isinstance(size, int):
        return size
    changes: dict[UOp, UOp] = {}
    for node in size.toposort():
        if node.op is Ops.MUL and node.src[1].op is Ops.CONST and node.src[0].op is Ops.IDIV:
            x, divisor = node.src[0].src
            if divisor.op is Ops.CONST and divisor.arg > 0 and node.src[1].arg % divisor.arg == 0:
                changes[node] = (x - x % divisor) * (node.src[1].arg // divisor.arg)
    return fold_size(size.substitute(changes)) if changes else size


def factors(shape: Sequence[Size]) -> tuple[int, Counter[UOp]]:
    """The number of elements as a product of an int and symbolic factors (with multiplicity)."""
    number, symbols = 1, Counter[UOp]()
    stack = list(shape)
    while stack:
        size = stack.pop()
        if isinstance(size, int):
            number *= size
        elif size.op is Ops.CONST:
            number *= size.arg
        elif size.op is Ops.MUL:
            stack.extend(size.src)
        else:
            symbols[size] += 1
    return number, symbols


def axis_of(operation: str, node: UOp, axis: int) -> int:
    """`axis` counted from the front; a `ShapeError` where the tensor has no such axis."""
    rank = len(shape_of(node))
    if not isinstance(axis, int):
        raise ShapeError(f"{operation} of {describe(node)}: an axis is an int, got {axis!r}")
    if not -rank <= axis < rank:
        legal = f"an axis from {-rank} to {rank - 1}" if rank else "no axis (the tensor is 0-d)"
        raise ShapeError(f"{operation} of {describe(node)}: expected {legal}, got {axis}")
    return axis % rank


def axes_of(operation: str, node: UOp, axes: int | Sequence[int] | None) -> tuple[int, ...]:
    """`axes` counted from the front, each at most once; None is all of them."""
    if axes is None:
        return tuple(range(len(shape_of(node))))
    found = (axes,) if isinstance(axes, int) else tuple(axes)
    rank = len(shape_of(node))
    if found and not (known(found) and min(found) >= 0 and max(found) < rank):
        found = tuple([axis_of(operation, node, axis) for axis in found])
    if len(set(found)) != len(found):
        raise ShapeError(f"{operation} of {describe(node)}: an axis is named twice in {axes}")
    return found


def show_shape(shape: Sequence[Size]) -> str:
    """The shape as a user writes it: (2, 3), (n, 4)."""
    texts = [str(s) if isinstance(s, int) else show_size(s) for s in shape]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def show_reach(*sizes: Size) -> str:
    """What the symbolic sizes can be, behind an error: "; i=2 reaches from 1 to 10"."""
    parts = [f"{show_shape((size,))[1:-2]} reaches from {size.vmin} to {size.vmax}"
             for size in dict.fromkeys(sizes) if not isinstance(size, int)]  # fmt: skip
    return "".join(f"; {part}" for part in parts)


def show_size(size: UOp) -> str:
    """A symbolic size as text: a Variable's name, bound or not, or the expression."""
    if size.op is Ops.BIND:
        return f"{size.src[0].arg[0]}={size.src[1].arg}"
    return size.arg[0] if size.op is Ops.VARIABLE else size.render()


def describe(node: UOp) -> str:
    """An operand in an error message: `float32 (2, 3)`."""
    return f"{node.dtype.name} {show_shape(shape_of(node))}"


def as_sizes(operation: str, node: UOp, shape: int | UOp | Sequence[Size]) -> Shape:
    """`shape` as a tuple of sizes; a `ShapeError` where it holds anything else."""
    if isinstance(shape, tuple) and known(shape):
        return tuple(shape)
    given: Sequence[Size] = (shape,) if isinstance(shape, int | UOp) else shape
    if known(given):
        return tuple(given)
    for size in given:
        if type(size) is not int and not is_size(size):
            raise ShapeError(
                f"{operation} of {describe(node)}: sizes are ints or Variables, got {size!r}"
            )
    return tuple([int(s) if isinstance(s, int) else fold_size(s) for s in given])


def is_size(value: object) -> bool:
    """Whether `value` can be a size or a position: an int (no bool), or a node of dtype index."""
    if isinstance(value, UOp):
        return value.dtype.kind == "index"
    return isinstance(value, int) and not isinstance(value, bool)
