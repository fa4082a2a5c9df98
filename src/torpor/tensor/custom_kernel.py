"""Kernels that users write: an expression over ranges, which the compiler takes like its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, GradientError, ShapeError, ValueRangeError
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.contracts import AST
from torpor.kernel.ranges import find_loops
from torpor.rules.movement import flat
from torpor.tensor.creation import as_tensor
from torpor.tensor.custom import Backward, ruled
from torpor.tensor.handle import derive
from torpor.tensor.host import known_shape

_DIVISIONS: Final = frozenset({Ops.IDIV, Ops.MOD})
Body = Callable[..., Any]
Index = UOp | int


class Loops:
    """The ranges of a kernel. `axes` run in any order, `over` are for reductions."""

    def __init__(self) -> None:
        self._count = 0
        self._parameters = 0

    def axes(self, *sizes: int) -> tuple[UOp, ...]:
        """A range from 0 below each size, for places of the result."""
        return self._ranges(sizes, AxisType.GLOBAL)

    def over(self, *sizes: int) -> tuple[UOp, ...]:
        """A range from 0 below each size, to be closed by `sum`, `prod`, `max` or `min`."""
        return self._ranges(sizes, AxisType.REDUCE)

    def _ranges(self, sizes: Sequence[int], kind: AxisType) -> tuple[UOp, ...]:
        first, self._count = self._count, self._count + len(sizes)
        return tuple(UOp.range(size, first + n, kind) for n, size in enumerate(sizes))

    def _parameter(self) -> int:
        self._parameters += 1
        return self._parameters - 1

    def sum(self, value: UOp, *ranges: UOp) -> UOp:
        """The sum of the value over ranges."""
        return _reduced(value, Ops.ADD, ranges)

    def prod(self, value: UOp, *ranges: UOp) -> UOp:
        """The product of the value over ranges."""
        return _reduced(value, Ops.MUL, ranges)

    def max(self, value: UOp, *ranges: UOp) -> UOp:
        """The greatest value over ranges."""
        return _reduced(value, Ops.MAX, ranges)

    def min(self, value: UOp, *ranges: UOp) -> UOp:
        """The least value over ranges."""
        return _reduced(value, Ops.MIN, ranges)


def _reduced(value: UOp, op: Ops, ranges: Sequence[UOp]) -> UOp:
    return UOp(Ops.REDUCE, value.dtype, (value, *ranges), op)


class Memory:
    """A tensor in a kernel, of the `shape` and `dtype` that it has. `memory[i, j]` is an element of
    an input, 0 outside; `result.store(value, i, j)` puts one there, nothing outside. Indices are
    ranges, numbers, integers read from memory, and what is computed from them.
    """

    def __init__(self, loops: Loops, shape: tuple[int, ...], dtype: DType, written: bool = False):
        self.shape, self.dtype, self._loops = shape, dtype, loops
        self._written = written
        self._memory: UOp | None = None

    def parameter(self) -> UOp:
        """What stands for it; numbered in the order of first use."""
        if self._memory is None:
            slot = ParamArg(self._loops._parameter(), math.prod(self.shape))
            self._memory = UOp(Ops.PARAM, self.dtype, (), slot)
        return self._memory

    @property
    def number(self) -> int | None:
        """Which parameter of the kernel it is; None for memory that it does not use."""
        return None if self._memory is None else self._memory.arg.slot

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> UOp:
        if self._written:
            raise ValueRangeError("the result of a kernel cannot be read in it")
        return UOp(Ops.LOAD, self.dtype, (self._place(indices),))

    def store(self, value: UOp | float, *indices: Index) -> UOp:
        """Put a value at a place, for all rounds of the ranges that the two still depend on."""
        if not self._written:
            raise ValueRangeError("only the result of a kernel is stored to")
        value = value if isinstance(value, UOp) else UOp.const(self.dtype, value)
        if value.dtype is not self.dtype:
            what = f"a value of {value.dtype} is stored to {self.dtype}; say .cast({self.dtype})"
            raise DTypeError(what)
        store = UOp(Ops.STORE, dtypes.void, (self._place(indices), value))
        ranges = sorted(find_loops(store).free[store], key=lambda one: one.arg[0])
        return store.replace(src=(*store.src, *ranges))

    def _place(self, indices: Index | tuple[Index, ...]) -> UOp:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise ShapeError(f"{len(given)} indices for memory of shape {self.shape} in a kernel")
        places = [UOp.index_const(one) if isinstance(one, int) else one.cast(dtypes.index)
                  for one in given]  # fmt: skip
        inside: tuple[UOp, ...] = ()
        for place, size in zip(places, self.shape, strict=True):
            if place.vmin < 0 or place.vmax >= size:
                here = (place >= 0) & (place < size)
                inside = (inside[0] & here if inside else here,)
        position = flat(list(zip(places, self.shape, strict=True)))
        return UOp(Ops.INDEX, self.dtype, (self.parameter(), position, *inside))


def custom_kernel(
    function: Body,
    *inputs: Any,
    shape: Shape | int,
    dtype: DType | None = None,
    backward: Backward | None = None,
) -> Any:
    """What a kernel of your own computes: a tensor of `shape` and `dtype` (by default the first
    input's), lazy as any other, on any device and under the jit.

    function:  `function(loops, result, *inputs)`, the kernel as an expression: it gives
               `result.store(value, *indices)`, or a list of such. `loops` has ranges and reductions
               over them (`Loops`), the others are `Memory`. Elements of the result that are not
               stored to can be anything. Division of integers by zero raises as elsewhere.
    backward:  of the gradient of the result, those of the float inputs (None for none), in tensors;
               without it gradients through the kernel are a `GradientError`.

    >>> def smoothed(loops, result, x):
    ...     (i,) = loops.axes(*result.shape)
    ...     (k,) = loops.over(3)
    ...     return result.store(loops.sum(x[i + k - 1], k) / 3.0, i)
    >>> torpor.custom_kernel(smoothed, Tensor([3.0, 6.0, 9.0]), shape=3).tolist()
    [3.0, 6.0, 5.0]
    """
    tensors = [as_tensor(one) for one in inputs]
    if any(one.is_pair for one in tensors) or not tensors:
        raise DTypeError("custom_kernel takes tensors of real numbers, one at least")
    sizes = known_shape((shape,) if isinstance(shape, int | UOp) else tuple(shape))
    made = derive(_node, tensors, function, sizes, dtype or tensors[0].dtype)
    smooth = [one for one in tensors if one.dtype.is_float]
    if not made.dtype.is_float or not smooth:
        return made
    return ruled(backward or _no_gradient, smooth, [made])[0]


def _no_gradient(gradient: Any) -> Any:
    raise GradientError("a custom_kernel without backward= has no gradient")


def _node(*arguments: Any) -> UOp:
    *operands, function, shape, dtype = arguments
    loops = Loops()
    result = Memory(loops, shape, dtype, written=True)
    result.parameter()
    memory = [Memory(loops, known_shape(shape_of(one)), one.dtype) for one in operands]
    found = function(loops, result, *memory)
    stores = found if isinstance(found, list | tuple) else (found,)
    if not all(isinstance(one, UOp) and one.op is Ops.STORE for one in stores):
        raise ValueRangeError("a kernel gives result.store(value, *indices), or a list of these")
    ast = _with_checks(UOp.sink(*stores))
    AST.expect(ast)
    read = sorted((m.number, n) for n, m in enumerate(memory) if m.number is not None)
    if not read:
        raise ValueRangeError("a custom_kernel that reads none of its inputs")
    return UOp(Ops.KERNEL, dtype, tuple(operands[n] for _, n in read), (ast, shape))


def _with_checks(ast: UOp) -> UOp:
    """The kernel with divisors of integers that are 1 where they are 0, which is told."""
    changed: dict[UOp, UOp] = {}
    for node in ast.toposort():
        if node.op in _DIVISIONS and node.src[1].vmin <= 0 <= node.src[1].vmax:
            divisor = node.src[1]
            nonzero = divisor.ne(0)
            safe = UOp(Ops.CHECK, divisor.dtype, (nonzero.where(divisor, 1), nonzero), 0)
            changed[node] = node.replace(src=(node.src[0], safe))
    return ast.substitute(changed) if changed else ast
