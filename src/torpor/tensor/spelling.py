"""Interchangeable keywords: `dim`/`axis`, `keepdim`/`keepdims`; and axes and shapes as given."""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, TypeVar

from torpor.base.errors import (
    AxisError,
    DTypeError,
    OutOfBoundsError,
    ShapeError,
    TorporError,
    ValueRangeError,
)
from torpor.base.missing import did_you_mean
from torpor.graph.sizes import is_plain
from torpor.ir.infer import Shape, Size
from torpor.ir.uop import UOp
from torpor.tensor.handle import Handle, as_scalar, located, render_shape
from torpor.tensor.watch import as_size

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Keywords that mean the same: PyTorch's, NumPy's, the array API's and older ones.
_SAME: Final = tuple(
    frozenset(line.split())
    for line in """
    dim axis axes dims
    dim0 axis0
    dim1 axis1
    keepdim keepdims
    input x x1 input1
    y x2 input2
    size shape newshape
    shape sizes size
    other mat2 vec vec2 tensor x2 y b
    index indices
    src value
    source src
    split_size_or_sections split_size split_sizes
    indices_or_sections indices sections
    tensors arrays
    min a_min
    max a_max
    repeats reps
    end stop
    steps num
    correction ddof
    padding pad
    low from
    high to
    function f func
    path f
    hx state
    """.strip().splitlines()
)
_SELF: Final = ("self", "cls")
# PyTorch's keywords that say how something is done or lies in memory: no value depends on them.
_NO_MATTER: Final = frozenset({
    "layout", "memory_format", "pin_memory", "non_blocking", "sparse_grad", "force", "foreach",
    "driver", "chunk_size", "pickle_module", "pickle_protocol", "mmap",
})  # fmt: skip


def spelled(function: _Function) -> _Function:
    """Let callers write `axis` for `dim`, `keepdims` for `keepdim`, and so on, and by its name what
    is given apart (`permute(dims=(1, 0))`). With `out=` results are written there. A keyword that
    the function does not have is a `TypeError` that says which it could be.

    An error about shapes or axes names the method and its operands, if it does not yet.
    """
    code = inspect.unwrap(function).__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = frozenset(code.co_varnames[:count]).difference(_SELF)
    apart = code.co_varnames[count] if code.co_flags & inspect.CO_VARARGS else ""
    is_open = bool(code.co_flags & inspect.CO_VARKEYWORDS)

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if options and not names.issuperset(options):
            if "out" in options and "out" not in names:
                out = options.pop("out")
                return written(out, wrapped(*arguments, **options))
            if "reduction" in names:
                options = with_reduction(options)
            known = {_spelling(name, names, apart, options): name for name in options}
            known = {name: known[name] for name in known if name in names or name not in _NO_MATTER}
            if apart in known:
                arguments = (*arguments, options[known.pop(apart)])
            if not is_open and not names.issuperset(known):
                name = next(name for name in known if name not in names)
                raise unexpected(f"{function.__name__}()", name, {*names, apart})
            options = {name: options[given] for name, given in known.items()}
        try:
            return function(*arguments, **options)
        except ShapeError as error:
            if "\n" in str(error):
                raise
            raise located(type(error)(f"{function.__name__}: {error}"), arguments) from None
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            found = in_words(error, function.__name__, (*arguments, *options.values()))
            if found is error:
                raise
            raise found from None

    wrapped.is_spelled = True
    return wrapped  # type: ignore[return-value]


def in_words(error: Exception, name: str, given: Sequence[Any]) -> Exception:
    """An error of Python's own from inside of a function as one that names the function and what it
    was given; itself where it says so already, or may come from a function of the user's.
    """
    if isinstance(error, TorporError) or any(map(callable, given)):
        return error
    inside = error.__traceback__ and error.__traceback__.tb_next
    if inside is None:  # the call itself: arguments that are missing, or too many
        return type(error)(re.sub(r"^[\w.<>]+\.(?=\w+\(\))", "", str(error)))
    if isinstance(error, AttributeError):
        return no_tensor(error, name, given)
    kinds = {IndexError: OutOfBoundsError, ValueError: ValueRangeError}
    kind = next((kinds[one] for one in kinds if isinstance(error, one)), DTypeError)
    return kind(f"{name}({', '.join(map(_brief, given))}): {error}")


def no_tensor(error: Exception, name: str, given: Sequence[Any]) -> Exception:
    """An error that says that tensors are needed, where something plain was asked for what only
    tensors have; else the same.
    """
    if not isinstance(error, AttributeError) or error.name is None:
        return error
    plain = type(error.obj).__module__ in ("builtins", "numpy")
    if not plain or not any(one is error.obj for one in given):
        return error
    return DTypeError(f"{name} takes a tensor, not {_brief(error.obj)}")


def _brief(value: Any) -> str:
    if isinstance(value, Handle):
        return f"{value.dtype.name} {render_shape(value.shape)}"
    text = f"{value!r}"
    return text if len(text) < 40 else f"{text[:37]}..."


def written(out: Any, made: Any) -> Any:
    """What a function made, written to the tensor that was given for it, or to one for each result,
    which are given back; `out` may be None.
    """
    if out is None:
        return made
    if not isinstance(made, tuple):
        return out._take_result(made)
    pairs = zip(out, made, strict=True)
    parts = [one if other is None else written(one, other) for one, other in pairs]
    return made._make(parts) if hasattr(made, "_make") else tuple(parts)


def with_reduction(options: dict[str, Any]) -> dict[str, Any]:
    """Keywords where `reduction` says what `size_average` and `reduce` did in older programs."""
    average, reduce = options.pop("size_average", None), options.pop("reduce", None)
    if average is None and reduce is None:
        return options
    kind = "none" if reduce is False else "sum" if average is False else "mean"
    return {**options, "reduction": kind}


def _spelling(name: str, names: Collection[str], apart: str, given: Collection[str]) -> str:
    """The function's own word for a keyword; the keyword itself where it has none."""
    if name in names:
        return name
    for same in _SAME:
        own = [one for one in (*names, apart) if one in same and one not in given]
        if name in same and (own or name == apart):
            return own[0] if own else name
    return name


def in_words_of(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords by a function's own words for them."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {_spelling(name, names, "", options): value for name, value in options.items()}


def unexpected(function: str, name: str, names: Iterable[str]) -> TypeError:
    """The error for a keyword that a function does not have."""
    known = sorted(one for one in names if one)
    words = {*known, *(word for same in _SAME if same.intersection(known) for word in same)}
    hint = f" (it takes {', '.join(known)})" if known else ""
    return TypeError(f"{function} has no argument {name!r}{did_you_mean(name, words)}{hint}")


def bound_to(
    made: Any, signature: inspect.Signature, arguments: Sequence[Any], options: Mapping[str, Any]
) -> inspect.BoundArguments:
    """What is given to the constructor of `made`, by the names of its signature."""
    check_keywords(made, signature, options)
    return signature.bind(*arguments, **options)


def check_keywords(made: Any, signature: inspect.Signature, options: Iterable[str]) -> None:
    """Raise `unexpected` for a keyword that the constructor of `made` has not."""
    taken = signature.parameters
    if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return
    for option in options:
        if option not in taken:
            raise unexpected(f"{type(made).__name__}()", option, {*taken}.difference(_SELF))


def spell(owner: Any) -> None:
    """Make `spelled` all public functions of a class, or of a module, that have keywords; and let
    pickles find them all, which hold functions by their names.
    """
    elsewhere = inspect.ismodule(owner)  # a module also has what it imports
    for name, value in list(vars(owner).items()):
        function = value.__func__ if isinstance(value, staticmethod) else value
        if name.startswith("_") or not _has_keywords(function):
            continue
        if not elsewhere or function.__module__ == owner.__name__:
            made = spelled(function)
            setattr(owner, name, staticmethod(made) if function is not value else made)
    for name, value in vars(owner).items():
        function = value.__func__ if isinstance(value, staticmethod) else value
        if name[0] != "_" and type(function) is FunctionType and not _is_found(function):
            path = name if elsewhere else f"{owner.__qualname__}.{name}"
            module = owner.__name__ if elsewhere else owner.__module__
            function.__module__, function.__qualname__ = module, path


def _is_found(function: FunctionType) -> bool:
    """Whether it is what its module has by its name."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return function in (found, getattr(found, "__func__", None))


def _has_keywords(function: Any) -> bool:
    if not isinstance(function, FunctionType) or hasattr(function, "is_spelled"):
        return False  # what wraps a spelled function has the mark too
    code = inspect.unwrap(function).__code__
    count = code.co_argcount + code.co_kwonlyargcount
    return count > (code.co_varnames[:1] == ("self",)) or bool(code.co_flags & inspect.CO_VARARGS)


def one_axis(dim: Any, ndim: int, extra: int = 0) -> int:
    """`dim` counted from the front; `ShapeError` if there is no such axis among ndim + extra."""
    count = ndim + extra
    if type(dim) is int and -count <= dim < count:
        return dim if dim >= 0 else dim + count
    if not hasattr(dim, "__index__"):
        raise ShapeError(f"an axis is an integer, not {dim!r}")
    axis, most = int(dim.__index__()), max(count, 1)
    if not -most <= axis < most:
        raise AxisError(f"axis {axis} does not exist in a tensor of {ndim} axes")
    return axis + most if axis < 0 else axis


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
    rank = handle.ndim
    if not rank:
        raise located(ShapeError("a 0-d tensor has no axis"), (handle,))
    return one_axis(dim, rank)


def one_by_one(given: Sequence[Any]) -> Sequence[Any]:
    """What is given apart, or as one list or tuple."""
    return given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given


def a_shape(sizes: Sequence[Any]) -> Shape:
    """The shape given as separate sizes or as one sequence of them."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = sizes[0]
    return sizes if is_plain(sizes) else tuple(a_size(size) for size in sizes)


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
    try:
        inside = low <= number <= high
    except TypeError:
        raise DTypeError(f"{what} is a number, not {number!r}") from None
    if not inside:
        raise ValueRangeError(f"{what} is between {low} and {high}, not {number}")


def among(what: str, value: Any, *known: Any) -> None:
    """A `ValueRangeError` unless the value that `what` names is one of those known."""
    if value not in known:
        *others, last = [repr(one) for one in known if one is not None]
        raise ValueRangeError(f"{what} is {', '.join(others)} or {last}, not {value!r}")


def whole_number(value: Any) -> int:
    """`value` as an integer; a `ShapeError` for what is none."""
    if not hasattr(value, "__index__"):
        raise ShapeError(f"expected a whole number, got {value!r}")
    return int(value.__index__())
