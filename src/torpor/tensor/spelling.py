"""Interchangeable spellings: `dim`/`axis`, `keepdim`/`keepdims`; and axes and shapes as given."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from torpor.base.errors import AxisError, ShapeError, ValueRangeError
from torpor.ir.infer import Shape, Size
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, as_scalar, located
from torpor.tensor.watch import as_size

_Function = TypeVar("_Function", bound=Callable[..., Any])
PAIRS: Final = {
    "axis": "dim", "axes": "dim", "dims": "dim", "keepdims": "keepdim", "x": "input",
    "correction": "correction", "descending": "descending",
}  # fmt: skip


def spelled(function: _Function) -> _Function:
    """Let callers write `axis` for `dim`, `keepdims` for `keepdim`, and the other way round.

    An error about shapes or axes names the method and its operands, if it does not yet.
    """
    names = set(inspect.signature(function).parameters)
    table = {other: name for other, name in PAIRS.items() if name in names and other not in names}
    table |= {name: other for other, name in PAIRS.items() if other in names and name not in names}

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if options:
            options = {table.get(name, name): value for name, value in options.items()}
        try:
            return function(*arguments, **options)
        except ShapeError as error:
            if "\n" in str(error):
                raise
            raise located(type(error)(f"{function.__name__}: {error}"), arguments) from None

    return wrapped  # type: ignore[return-value]


def one_axis(dim: Any, ndim: int, extra: int = 0) -> int:
    """`dim` counted from the front; `ShapeError` if there is no such axis among ndim + extra."""
    count = ndim + extra
    if not hasattr(dim, "__index__"):
        raise ShapeError(f"an axis is an integer, not {dim!r}")
    axis = int(dim.__index__())
    if not -max(count, 1) <= axis < max(count, 1):
        raise AxisError(f"axis {axis} does not exist in a tensor of {ndim} axes")
    return axis + count if axis < 0 else axis


def some_axes(dim: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `dim` names, from the front: all for None, one, or each of a sequence."""
    if dim is None:
        return tuple(range(ndim))
    if not isinstance(dim, Sequence):
        axis = one_axis(dim, ndim)
        return (axis,) if ndim else ()
    axes = tuple(one_axis(d, ndim) for d in dim)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axes {tuple(dim)} name one axis twice")
    return axes if ndim else ()


def an_axis(dim: Any, handle: Handle) -> int:
    """As `one_axis`, for what needs an axis that is there: a 0-d tensor has none."""
    if not handle.ndim:
        raise located(ShapeError("a 0-d tensor has no axis"), (handle,))
    return one_axis(dim, handle.ndim)


def a_shape(sizes: Sequence[Any]) -> Shape:
    """The shape given as separate sizes or as one sequence of them."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = sizes[0]
    return tuple(a_size(size) for size in sizes)


def counts_of(numbers: Sequence[Any], what: str) -> Shape:
    """As `a_shape`, of numbers that say how often: a negative one is a `ShapeError`."""
    counts = a_shape(numbers)
    if any(isinstance(count, int) and count < 0 for count in counts):
        raise ShapeError(f"{what} cannot be negative: {counts}")
    return counts


def a_size(size: Any) -> Size:
    """A length: an integer, a 0-d tensor of one, or symbolic."""
    size = as_size(size)
    if isinstance(size, UOp):
        return size
    if not hasattr(size, "__index__") or isinstance(size, bool):
        raise ShapeError(f"a size is an integer, not {size!r}")
    return int(size.__index__())


def an_end(value: Any) -> Any:
    """Where a range starts or ends, or its step: a number, or symbolic."""
    given = isinstance(value, Handle) or hasattr(value, "dtype")
    return as_scalar(value) if given and not isinstance(value, UOp) else as_size(value)


def pair(value: Any, count: int = 2) -> tuple[int, ...]:
    """One number for each of `count` axes, given once (also as a sequence of one) or apart."""
    if isinstance(value, Sequence):
        if len(value) not in (1, count):
            raise ShapeError(f"expected one number or {count}, got {tuple(value)}")
        numbers = tuple(whole_number(v) for v in value)
        return numbers if len(numbers) == count else numbers * count
    return (whole_number(value),) * count


def within(what: str, number: float, low: float, high: float = math.inf) -> None:
    """A `ValueRangeError` unless the number that `what` names is between two others."""
    if not low <= number <= high:
        raise ValueRangeError(f"{what} is between {low} and {high}, not {number}")


def whole_number(value: Any) -> int:
    """`value` as an integer; a `ShapeError` for what is none."""
    if not hasattr(value, "__index__"):
        raise ShapeError(f"expected a whole number, got {value!r}")
    return int(value.__index__())
