"""Functions of arrays that the host computes, as operations on tensors (LAPACK's are such).

Every one is `on_host` under a name: at the call, so that an error comes where it is made; where
values are not known yet (while a jit traces, in the step of a loop) as a command of the graph. A
rule under the same name gives the gradient, written with tensors, so that gradients of it can be
taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import LinAlgError
from torpor.device.host import FUNCTIONS
from torpor.graph import build
from torpor.graph.gradient import LOOKING
from torpor.graph.gradient_function import FUNCTIONS as RULES
from torpor.ir.ops import Ops
from torpor.ir.records import HostCall, Requirement
from torpor.ir.uop import UOp
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, located, standing_for, with_rule
from torpor.tensor.host import Array, known_shape
from torpor.tensor.inside import depends_on_step
from torpor.tensor.mode import enable_grad, held
from torpor.tensor.realisation import compute_all
from torpor.tensor.watch import active, watcher

Rule = Callable[..., Sequence[Any]]
Function = Callable[..., Sequence[Array]]
COMPLEX, REAL = "c", "r"
Layout = str  # of results in one tensor: for each "c" or "r" and its lengths, as in "r3 c3,3"
FAULTS: Final[dict[str, str]] = {}  # by name: what is said of a matrix that there is none of
# Where it is a list: what would be errors goes there instead, for each matrix 0 or what is wrong.
_told: Final[ContextVar[list[tuple[Any, str]] | None]] = ContextVar("torpor_told", default=None)


def host(
    name: str, fault: str = "did not converge", which: Callable[[Array], int] = lambda _: 1
) -> Callable[[Function], Callable[..., Any]]:
    """Make a function of arrays (..., n, m) and options one of tensors, computed on the host. Where
    it raises NumPy's `LinAlgError` the results of those matrices are NaN, and `fault` is the error,
    which for a matrix is of the kind `which`, not 0.
    """

    def register(function: Function) -> Callable[..., Any]:
        FAULTS[name] = fault
        FUNCTIONS[name] = partial(_packed, function, which)
        return partial(on_host, name, function)

    return register


def on_host(name: str, function: Function, *operands: Any, options: tuple[Any, ...] = ()) -> Any:
    """The tensors that a function of this name gives, or the only one. For its rule they are one
    tensor: flattened side by side but for the axes of the batch, complex ones in two parts, and
    what is wrong with each matrix.
    """
    kinds = "".join([COMPLEX if one.is_pair else REAL for one in operands])
    parts = [part.detach() for one in operands for part in one._parts]
    formats = tuple([part.dtype for part in parts])
    shapes = tuple([known_shape(part.shape) for part in parts])
    layout = _layout(function, kinds, options, tuple([one[-2:] for one in shapes]), formats)
    call = HostCall(name, (kinds, *options), shapes)
    compute = _as_command if any(map(is_unknown, operands)) else _at_once
    made = ruled(name, compute(call, parts, layout, operands), layout, operands)
    return made if len(made) > 1 else made[0]


def wide_of(dtype: DType) -> DType:
    """The format that LAPACK computes this one in."""
    return dtypes.float32 if dtype.itemsize < 4 else dtype


def is_unknown(one: Any) -> bool:
    """Whether a value cannot be asked for here: a function is traced, or it differs by step."""
    watching = watcher() if active else None
    if watching is not None:
        return not watching.at_once
    return any(depends_on_step(part._current()) for part in one._parts)


def _at_once(call: HostCall, parts: Sequence[Any], layout: Layout, operands: Sequence[Any]) -> Any:
    """The results, computed now."""
    if len(parts) > 1:  # together: a matrix and its right side often share work
        compute_all([(part._current(), part.device) for part in parts])
    arrays = [part.numpy() for part in parts]
    wide = [one.astype(np.float32) if one.itemsize < 4 else one for one in arrays]
    made = FUNCTIONS[call.name](*wide, *call.options)
    wrong, told = made[..., -1], _told.get()
    if told is not None:
        told.append((beside(wrong, parts[0]), words_for(call)))
    elif wrong.any():
        raise located(LinAlgError(words_for(call)), operands)
    return Handle._type(made[..., :-1].astype(arrays[0].dtype), device=parts[0].device)


def _as_command(
    call: HostCall, parts: Sequence[Any], layout: Layout, operands: Sequence[Any]
) -> Any:
    """The results, when the graph is computed."""
    device, dtype = parts[0].device, parts[0].dtype
    here = device if isinstance(device, str) else device[0]
    count = sum(math.prod(shape) * (1 + is_complex) for is_complex, shape in words_of(layout))
    shape = (*call.shapes[0][:-2], count + 1)
    wide = [part.cast(wide_of(part.dtype)).to(here) for part in parts]
    made: Any = derive(_node, wide, call, shape).to(device)
    wrong, told = made.narrow(-1, count, 1), _told.get()
    if told is not None:
        told.append((wrong.squeeze(-1), words_for(call)))
    else:
        fine = wrong.eq(0).expand(*shape)
        made = derive(build.check, (made, fine), Requirement("matrix", words_for(call)))
    return made.narrow(-1, 0, count).cast(dtype)


def words_for(call: HostCall) -> str:
    """The error where a matrix has no such results."""
    return f"{call.name}: {FAULTS[call.name]}"


def _node(*arguments: Any) -> UOp:
    *operands, call, shape = arguments
    return UOp(Ops.KERNEL, operands[0].dtype, tuple(operands), (call, shape))


def telling() -> Any:
    """What would be errors: tensors of what is wrong with each matrix, or 0, and their words."""
    return held(_told, [])


@lru_cache(maxsize=256)
def _layout(
    function: Function, kinds: str, options: tuple[Any, ...],
    shapes: tuple[tuple[int, ...], ...], formats: tuple[DType, ...],
) -> Layout:  # fmt: skip
    """The layout of a function's results, which it says of no matrices."""
    pairs = zip(shapes, formats, strict=True)
    operands = _operands(kinds, [np.empty(shape, wide_of(dtype).numpy) for shape, dtype in pairs])
    made = _of_nothing(function, operands, options)
    return " ".join(layout_of(np.iscomplexobj(one), one.shape[1:]) for one in made)


def _of_nothing(
    function: Function, operands: Sequence[Array], options: Sequence[Any]
) -> list[Array]:
    """What a function gives for no matrices like these."""
    nothing = (np.empty((0, *one.shape[-2:]), one.dtype) for one in operands)
    return [*map(np.asarray, function(*nothing, *options))]


def _operands(kinds: str, arrays: Sequence[Array]) -> list[Array]:
    """The operands of these kinds, of which complex ones are given in two parts."""
    given = iter(arrays)
    return [next(given) if kind == REAL else next(given) + 1j * next(given) for kind in kinds]


def _packed(function: Function, which: Callable[[Array], int], *arguments: Any) -> Array:
    """What a function gives of arrays, kinds and options, in one array, with what is wrong with
    each matrix behind.
    """
    count = next(n for n, one in enumerate(arguments) if isinstance(one, str))
    kinds, *options = arguments[count:]
    operands = _operands(kinds, arguments[:count])
    batch = operands[0].shape[:-2]
    wrong = np.zeros(batch)
    try:
        with np.errstate(all="ignore"):  # what is not finite goes through, as in kernels
            made = [*map(np.asarray, function(*operands, *options))]
    except np.linalg.LinAlgError:
        made = [np.full((*batch, *one.shape[1:]), np.nan, one.dtype)
                for one in _of_nothing(function, operands, options)]  # fmt: skip
        for place in product(*map(range, batch)):
            try:
                found = function(*(one[place] for one in operands), *options)
            except np.linalg.LinAlgError:
                wrong[place] = which(operands[0][place])
                continue
            for one, value in zip(made, found, strict=True):
                one[place] = value
    parts = [part for one in (*made, wrong[..., None])
             for part in ((one.real, one.imag) if np.iscomplexobj(one) else (one,))]  # fmt: skip
    flat = [one.reshape(*batch, math.prod(one.shape[len(batch) :])) for one in parts]
    return np.concatenate(flat, -1).astype(arguments[0].dtype, copy=False)


def ruled(name: str, packed: Any, layout: Layout, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results in a tensor, with the gradient for `operands` by the rule of this name."""
    kinds = "".join(COMPLEX if one.is_pair else REAL for one in operands)
    parts = [part for one in operands for part in one._parts]
    told = _told.get() is not None
    return apart(with_rule(packed, parts, name, str(packed.device), kinds, layout, told), layout)


def layout_of(is_complex: bool, shape: Sequence[int]) -> Layout:
    """Of one result, whose shape is this behind the axes of the batch."""
    return (COMPLEX if is_complex else REAL) + ",".join(map(str, shape))


def words_of(layout: Layout) -> Iterator[tuple[bool, list[int]]]:
    """Of each result whether it is complex, and its shape behind the axes of the batch."""
    for word in layout.split(" "):
        yield word[0] == COMPLEX, [int(size) for size in word[1:].split(",") if size]


def apart(packed: Any, layout: Layout) -> tuple[Any, ...]:
    """The results in a tensor."""
    made: list[Any] = []
    start = 0
    for is_complex, shape in words_of(layout):
        parts = []
        for _ in range(1 + is_complex):
            part = packed.narrow(-1, start, math.prod(shape))
            parts.append(part.reshape(*packed.shape[:-1], *shape))
            start += math.prod(shape)
        made.append(_joined(parts))
    return tuple(made)


def _joined(parts: Sequence[Any]) -> Any:
    """A real tensor, or a complex one of two parts."""
    return parts[0] if len(parts) == 1 else Handle._pairs.of(*parts)


def rule(name: str) -> Callable[[Rule], Rule]:
    """Make a function the gradient of what is computed on the host under a name: of the results,
    their gradients and the operands, it gives the gradients of the operands, None for no gradient.
    """

    def register(function: Rule) -> Rule:
        def through(node: UOp, g: UOp) -> tuple[UOp | None, ...]:
            device, kinds, layout, told = node.arg[1:]
            nodes = (node, g, *node.src[1:])
            packed, slopes, *rest = [standing_for(one, device, True) for one in nodes]
            given = iter(rest)
            operands = [_joined([next(given) for _ in ("ri" if kind == COMPLEX else "r")])
                        for kind in kinds]  # fmt: skip
            # What is computed on the way keeps its graph; no error is one for its gradient.
            with enable_grad(), telling() if told else nullcontext():
                found = function(apart(packed, layout), apart(slopes, layout), *operands)
            return tuple(part for one, kind in zip(found, kinds, strict=True)
                         for part in _nodes(one, kind))  # fmt: skip

        RULES[name] = through
        LOOKING.add(name)
        return function

    return register


def _nodes(gradient: Any, kind: str) -> Sequence[UOp | None]:
    """The parts of a gradient for an operand of a kind."""
    if gradient is None:
        return [None] * (2 if kind == COMPLEX else 1)
    if kind == REAL:
        return [gradient._parts[0]._current()]
    return [part._current() for part in Handle._pairs.with_real(gradient)._parts]
