"""Kinds of call that differ in sizes alone, and are computed by kernels for any of them.

What is called with ever other sizes is not traced for each. From the third on it is traced for any
size: its tensors are given symbolic sizes, and the function is told numbers of the tape for them
(see `number.py`), so that a replay asks what it asked of them. Where that does not serve, the
function is called, and what it gives is computed by kernels that take its sizes as numbers (see
`pipeline/vary.py`). A size that stays is traced after all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np

from torpor.base.errors import CaptureError
from torpor.capture.kind import TensorKey, without_sizes
from torpor.capture.tracer import Again
from torpor.capture.tree import Call, flatten
from torpor.ir.infer import JOINT, Shape, largest, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.ir.variable import Variable, bind
from torpor.pipeline.remade import most_terms, stand_in, terms_of
from torpor.pipeline.vary import ROOM, STORED
from torpor.tensor.handle import Handle, make
from torpor.tensor.realisation import value_of

TRACED: Final = 2  # sizes that are, before kernels for any are used
MOST: Final = 3  # sizes that vary independently of each other
LEAST: Final = 2  # below that a size means something else: axes of one element are repeated
GROWTH: Final = 2  # powers of two, beyond the next one, up to which a trace is for any size
KEPT: Final = 8  # such kinds of a function, and traces of each, up to other lengths
Place = tuple[int, int]  # the number of a tensor, and of its axis
Dynamic = str | Iterable[str] | Mapping[str, Any] | None


class AnySize:
    """Calls that differ in some sizes, and the traces of them for any such.

    places:  for each of these sizes which axes of which tensors have it.
    varying: the same axes by tensor; `rest`: what is the same for all the calls.
    refused: whether there is no such trace.
    """

    def __init__(self, places: Sequence[Sequence[Place]], key: tuple[Any, ...]):
        self.places = places
        self.varying: dict[int, set[int]] = {}
        for tensor, axis in chain(*places):
            self.varying.setdefault(tensor, set()).add(axis)
        self.rest = without_sizes(key, self.varying)
        self.traces: list[Any] = []
        self.growth, self.refused = GROWTH, False

    def values(self, key: tuple[Any, ...]) -> list[int] | None:
        """The sizes of a call with this key; None where it is none of these."""
        if without_sizes(key, self.varying) != self.rest:
            return None
        shapes = shapes_of(key)
        found = [{shapes[tensor][axis] for tensor, axis in places} for places in self.places]
        sizes = [min(one) for one in found if len(one) == 1]
        return sizes if len(sizes) == len(found) and min(sizes) >= LEAST else None

    def names(self) -> list[str]:
        """The sizes in words."""
        return [f"size of axis {axis} of tensor {tensor}" for (tensor, axis), *_ in self.places]

    def bound(self, call: Call) -> list[UOp]:
        """Variables with the sizes of a call, which may grow to some times as much."""
        sizes = call.numbers[len(call.numbers) - len(self.places) :]
        return [
            bind(Variable(f"anysize{number}", LEAST, 1 << (size.bit_length() + self.growth)), size)
            for number, size in enumerate(sizes)
        ]

    def stand_ins(self, tensors: Sequence[Handle], bound: Sequence[UOp]) -> list[Handle]:
        """The tensors of a call, those whose sizes vary in memory for the largest."""
        found = list(tensors)
        for number in self.varying:
            shape: list[Any] = [*tensors[number].shape]
            for size, places in zip(bound, self.places, strict=True):
                for axis in (axis for tensor, axis in places if tensor == number):
                    shape[axis] = size
            found[number] = in_room(tensors[number], tuple(shape))
        return found

    def admit(self, result: Any) -> None:
        """See that what a function gives has no size that varies, and nothing on the way takes more
        room than it may; else `Again`.
        """
        roots = [one._current() for one in tensors_of(result)]
        if any(isinstance(size, UOp) for root in roots for size in shape_of(root)):
            raise Again("its result has a size that varies")
        if any(exceeds(node) for node in UOp.sink(*roots).toposort()):
            self.growth -= 1
            raise Larger("it would take too much memory for the largest sizes")

    def keep(self, trace: Any) -> None:
        """Keep a trace of such a call, or note that there is none."""
        if trace is None or trace.leaves or len(self.traces) == KEPT:
            self.refused = True
        else:
            self.traces.insert(0, trace)


class Larger(Again):
    """A run has to be done again for sizes that grow less."""


def exceeds(node: UOp) -> bool:
    """Whether a value whose size varies may be too large for kernels of any size."""
    stored = node.op in STORED and any(isinstance(size, UOp) for size in shape_of(node))
    large = stored and prod(map(largest, shape_of(node))) > ROOM
    if large or node.op is not Ops.REDUCE_AXIS:
        return large
    return varies(node) and terms_of(node) > most_terms(node)


def varies(node: UOp) -> bool:
    """Whether it varies how many elements make one of a reduction."""
    shape = shape_of(node.src[0])
    return any(isinstance(shape[axis], UOp) for axis in node.arg[1])


def in_room(tensor: Handle, shape: Shape) -> Handle:
    """A tensor with the elements of another one, in memory for all that its shape may be."""
    values = value_of(tensor)
    node = stand_in(tensor.dtype, tensor._storage.device, prod(map(largest, shape)), shape)
    array = np.zeros(node.src[0].arg.size, values.dtype)
    array[: values.size] = values.ravel()
    node.src[0].arg.allocate().copyin(array)
    return make(node, tensor._storage.device, tensor.requires_grad)


def shapes_of(key: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """The shapes of a call's tensors."""
    return [part.shape for part in key if isinstance(part, TensorKey)]


class Sizes:
    """Which sizes of a function's tensors may vary: those of the arguments that are `dynamic`, a
    name, names, or names with axes; None: all of them, once they have.
    """

    def __init__(self, function: Callable[..., Any], dynamic: Dynamic = None):
        self._axes: dict[str, Any] | None = None
        self._any: list[AnySize] = []
        if dynamic is not None:
            names = [dynamic] if isinstance(dynamic, str) else dynamic
            self._axes = {n: names[n] if isinstance(names, Mapping) else None for n in names}
            self._signature = inspect.signature(function)
            unknown = [name for name in self._axes if name not in self._signature.parameters]
            if unknown:
                known = ", ".join(self._signature.parameters)
                raise CaptureError(f"jit(dynamic=...) names {unknown[0]!r}; there are {known}")

    def vary(self, key: tuple[Any, ...], known: Iterable[tuple[Any, ...]], call: Any) -> bool:
        """Whether a call of a new kind has come with enough other sizes to be one of any size."""
        axes = None if self._axes is None else self._named(call)
        rest = without_sizes(key, axes)
        others = sum(without_sizes(other, axes) == rest for other in known)
        return bool(others >= (TRACED if axes is None else 1))

    def explain(self) -> Iterator[str]:
        """What became of the traces for any size, in words."""
        for one in self._any:
            for trace in one.traces:
                kernels = len(trace.graph.commands)
                yield f"  trace for any size: {kernels} kernels, replayed {trace.hits} times"
                yield from (f"    takes the {name} as a number" for name in one.names())
                yield from (f"    guards {path}" for path in trace.used)

    def any_size(
        self, key: tuple[Any, ...], traced: Sequence[tuple[Any, ...]], call: Call
    ) -> tuple[AnySize, Call] | None:
        """The calls of any size that this is one of, and the call with its sizes as numbers."""
        for one in self._any:
            if (values := one.values(key)) is not None:
                return None if one.refused else (one, with_sizes(call, values))
        axes = None if self._axes is None else self._named(call)
        rest = without_sizes(key, axes)
        shapes = [shapes_of(other) for other in traced if without_sizes(other, axes) == rest]
        places = varying_places([*shapes, shapes_of(key)])
        if not shapes or not 1 <= len(places) <= MOST or not all(map(is_ordinary, call.tensors)):
            return None
        one = AnySize(places, key)
        if (values := one.values(key)) is None:
            return None
        self._any = [*self._any[-KEPT + 1 :], one]
        return one, with_sizes(call, values)

    def _named(self, call: Any) -> dict[int, Container[int]]:
        """By the number of a tensor in a call, its axes that may vary."""
        assert self._axes is not None, "there are names"
        found: dict[int, Container[int]] = {}
        bound = self._signature.bind(*call.arguments, **call.options)
        for name, value in bound.arguments.items():
            if name in self._axes:
                axes = self._axes[name]
                for tensor in tensors_of(value):
                    rank = tensor.ndim
                    named = range(rank) if axes is None else axes
                    chosen = [named] if isinstance(named, int) else named
                    number = next(n for n, one in enumerate(call.tensors) if one is tensor)
                    found[number] = {axis % rank for axis in chosen}
        return found


def varying_places(shapes: Sequence[Sequence[tuple[int, ...]]]) -> list[list[Place]]:
    """Axes of tensors that have had different sizes in some calls, together where the same ones."""
    columns: dict[tuple[int, ...], list[Place]] = {}
    for tensor, sizes in enumerate(zip(*shapes, strict=True)):
        for axis, column in enumerate(zip(*sizes, strict=True)):
            if len({*column}) > 1:
                columns.setdefault(column, []).append((tensor, axis))
    return [*columns.values()]


def is_ordinary(tensor: Handle) -> bool:
    """Whether a tensor is whole, on one device, and of sizes that are known."""
    known = all(isinstance(size, int) for size in tensor.shape)
    alone = tensor._path is None and JOINT not in tensor._storage.device
    return known and alone and not tensor.requires_grad


def with_sizes(call: Call, sizes: Sequence[int]) -> Call:
    """A call with sizes behind its numbers."""
    return call._replace(numbers=[*call.numbers, *sizes])


def tensors_of(tree: Any) -> list[Handle]:
    """The tensors in tuples, lists and dicts."""
    tensors: list[Handle] = []
    flatten(tree, tensors, [], [])
    return tensors


def computed(result: Any) -> Any:
    """What a function has given, its tensors computed together."""
    tensors = tensors_of(result)
    if tensors:
        tensors[0].realize(*tensors[1:])  # type: ignore[attr-defined]
    return result


def shown(keys: Iterable[tuple[Any, ...]]) -> str:
    """The shapes that calls came with."""
    shapes = [tuple(part.shape for part in key if isinstance(part, TensorKey)) for key in keys]
    sizes = [", ".join(map(str, one)) for one in shapes]
    return "; ".join(sizes[:4]) + ("; ..." if len(sizes) > 4 else "")
