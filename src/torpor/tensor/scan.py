"""Running reductions along an axis."""

from __future__ import annotations

import math
from typing import Any

from torpor.base.dtypes import as_dtype
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, derive, floats, with_rule
from torpor.tensor.results import Selected
from torpor.tensor.spelling import one_axis
from torpor.tensor.wide import wide_dtype, widely


class Scan(Handle):
    """Running reductions: each element becomes the one of all from the axis' start up to it. The
    shape stays.
    """

    __slots__ = ()

    def cumsum(self, dim: int, dtype: Any = None) -> Tensor:
        """Running sums, in formats as `sum`; with `dtype`, x is cast first.

        >>> Tensor([1, 2, 3]).cumsum(0).tolist()
        [1, 3, 6]
        """
        return _running(self, dim, dtype, Ops.ADD)

    def cumprod(self, dim: int, dtype: Any = None) -> Tensor:
        """Running products, in formats as `prod`; with `dtype`, x is cast first."""
        return _running(self, dim, dtype, Ops.MUL)

    def cummax(self, dim: int) -> Selected:
        """(values, indices): the greatest elements so far, NaN from the first NaN on, and where
        they stand: of equal ones the latest.
        """
        return _extremes(self, dim, Ops.MAX)

    def cummin(self, dim: int) -> Selected:
        """(values, indices) of the least elements so far, as `cummax`."""
        return _extremes(self, dim, Ops.MIN)

    @widely
    def logcumsumexp(self, dim: int) -> Tensor:
        """log of the running sums of exponentials, without overflow or underflow: in rounds, each
        of which doubles how many elements are joined.
        """
        made: Any = floats(self).clone()
        axis = one_axis(dim, self.ndim)
        if not self.ndim:
            return made
        length, reach = self.shape[axis], 1
        while reach < length:
            shift: list[Any] = [None] * self.ndim
            shift[axis] = (reach, -reach)
            made = _joined(made, made.pad(shift, value=-math.inf)).contiguous()
            reach *= 2
        return made


def _joined(x: Any, y: Any) -> Any:
    """Gives log(exp(x) + exp(y)) by way of the greater."""
    if x.is_pair:
        return x.logaddexp(y)
    top = x.maximum(y)
    top = top.isfinite().where(top, 0)
    return with_rule(((x - top).exp() + (y - top).exp()).log() + top, (x, y), "log_join")


def _scan_node(node: UOp, op: Ops, axis: int) -> UOp:
    return build.scan(node, op, axis)


def _running(operand: Any, dim: int, dtype: Any, op: Ops) -> Tensor:
    axis = one_axis(dim, operand.ndim)
    kind = as_dtype(dtype) if dtype is not None else None
    given = operand if kind is None else operand.cast(kind)
    if given.is_pair:
        return (given.cumsum if op is Ops.ADD else given.cumprod)(axis)
    wide = given.cast(wide_dtype(given.dtype) if kind is None or given.dtype.is_float else kind)
    final = given.dtype if given.dtype.is_float else wide.dtype
    if not wide.ndim or wide.shape[axis] == 1:
        return wide.clone().cast(final)
    return derive(_scan_node, (wide,), op, axis).cast(final)


def _extremes(operand: Any, dim: int, op: Ops) -> Selected:
    axis = one_axis(dim, operand.ndim)
    if not operand.ndim:
        found = _extremes(operand.reshape(1), 0, op)
        return Selected(found.values.reshape(()), found.indices.reshape(()))
    values = derive(_scan_node, (operand,), op, axis)
    return Selected(values, derive(build.latest, (operand.detach(), values.detach()), axis))
