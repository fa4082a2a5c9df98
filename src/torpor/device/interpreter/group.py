"""Runs a linear program for some work groups at once: every work item is a row of every array.

The value of a node is an array of shape (items,), or (items, lanes) where it is a vector; the first
axis is 1 where all items have the same value. All items take each step together, so a barrier has
nothing to do but to be reached by all items of a group or by none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from torpor.base.errors import ContractError
from torpor.device.interpreter.arithmetic import ARITHMETIC, Array, bitcast, cast, dot, multiply
from torpor.ir.ops import ALU, Ops
from torpor.ir.records import Rows
from torpor.ir.text import show
from torpor.ir.uop import UOp

EXCERPT_LINES: Final = 12


def fault(what: str, node: UOp) -> ContractError:
    """An error of the compiler's, with the node that shows it."""
    excerpt = "\n".join(show(node).splitlines()[-EXCERPT_LINES:])
    return ContractError(f"{what}\n{excerpt}")


class Groups:
    """The state of `count` groups of `size` items each.

    memory:  arrays by PARAM node.  values: known ones (PARAM-free leaves) by node.
    special: arrays of shape (items,) by name (gidx0, lidx0, ...).
    """

    def __init__(
        self,
        linear: Sequence[UOp],
        jump: dict[int, int],
        memory: dict[UOp, Array],
        variables: dict[str, int],
        special: dict[str, Array],
        groups: tuple[int, int],
    ):
        self.linear, self.jump, self.variables, self.special = linear, jump, variables, special
        self.count, self.size = groups
        self.memory = dict(memory)
        self.values: dict[UOp, Array] = {}
        self.registers: dict[UOp, Array] = {}
        self.masks: list[Array] = []  # of IFs, each already joined with the ones outside it
        self.group_of = np.repeat(np.arange(self.count), self.size)
        self.error = 0

    def run(self) -> int:
        """Run the program; the error word."""
        place = 0
        while place < len(self.linear):
            node = self.linear[place]
            if node.op is Ops.RANGE:
                place = self._enter(node, place)
            elif node.op is Ops.END:
                place = self._repeat(node.src[0], place)
            else:
                self._step(node)
                place += 1
        return self.error

    # --- control ----------------------------------------------------------------------------------
    def _bound(self, loop: UOp) -> int:
        bounds = self.value(loop.src[0])
        if self.masks and bounds.shape[0] > 1:
            bounds = bounds[self.masks[-1]]
        if bounds.size and (bounds != bounds.flat[0]).any():
            raise fault("the bound of a loop differs between work items", loop)
        return int(bounds.flat[0]) if bounds.size else 0

    def _enter(self, loop: UOp, place: int) -> int:
        self.values[loop] = np.zeros(1, loop.dtype.numpy)
        return place + 1 if self._bound(loop) > 0 else self.jump[place] + 1

    def _repeat(self, loop: UOp, place: int) -> int:
        following = self.values[loop] + 1
        if int(following[0]) >= self._bound(loop):
            return place + 1
        self.values[loop] = following.astype(loop.dtype.numpy)
        return self.jump[place] + 1

    def _branch(self, node: UOp) -> None:
        holds = self.value(node.src[0])
        some = holds.any(-1) if holds.ndim > 1 else holds
        condition = np.broadcast_to(some, (self.count * self.size,))
        self.masks.append(condition & self.masks[-1] if self.masks else condition)

    def _barrier(self, node: UOp) -> None:
        if not self.masks:
            return
        reached = self.masks[-1].reshape(self.count, self.size)
        if (reached.any(1) != reached.all(1)).any():
            raise fault("only some work items of a group reach a barrier", node)

    # --- values -----------------------------------------------------------------------------------
    def value(self, node: UOp) -> Array:
        """The value of a node; leaves need not be in the program's list."""
        known = self.values.get(node)
        if known is None:
            if node.src and node.op is not Ops.SPECIAL:
                raise fault("a value is used before it is computed", node)
            known = self.values[node] = self._leaf(node)
        return known

    def _leaf(self, node: UOp) -> Array:
        if node.op is Ops.CONST:
            return node.dtype.array([node.arg])
        if node.op is Ops.LANES:
            return np.arange(node.dtype.count, dtype=node.dtype.numpy)[None]
        if node.op is Ops.VARIABLE:
            return np.array([self.variables[node.arg[0]]], node.dtype.numpy)
        if node.op is Ops.SPECIAL:
            numbers = self.special[node.arg].astype(node.dtype.numpy)
            if (numbers >= self.value(node.src[0])).any():
                raise fault("the launch size exceeds the bound of a work item number", node)
            return numbers
        raise fault("the interpreter cannot compute this", node)

    def _step(self, node: UOp) -> None:
        op = node.op
        if op in ALU:
            self.values[node] = self._alu(node)
        elif op is Ops.LOAD:
            self.values[node] = self._load(node)
        elif op is Ops.STORE:
            self._store(node)
        elif op is Ops.VECTORIZE:
            lanes = np.broadcast_arrays(*(self.value(s) for s in node.src))
            self.values[node] = np.stack(lanes, -1)
        elif op is Ops.GEP:
            self.values[node] = self._lanes_of(node)
        elif op is Ops.MMA:
            operands = [self.value(s) for s in node.src]
            self.values[node] = multiply(*operands, fragment=node.arg)
        elif op is Ops.ACC:
            self.registers[node] = self.value(node.src[0])
        elif op is Ops.CHECK:
            self.values[node] = self._check(node)
        elif op is Ops.DEFINE_LOCAL:
            self.memory[node] = np.zeros(self.count * node.arg.size, node.dtype.numpy)
        elif op is Ops.IF:
            self._branch(node)
        elif op is Ops.ENDIF:
            self.masks.pop()
        elif op is Ops.BARRIER:
            self._barrier(node)
        elif op not in (Ops.INDEX, Ops.PARAM, Ops.SINK):
            self.value(node)

    def _alu(self, node: UOp) -> Array:
        operands = [self.value(s) for s in node.src]
        dtype = node.dtype.scalar()
        if node.op is Ops.CAST:
            return cast(operands[0], node.src[0].dtype.scalar(), dtype)
        if node.op is Ops.BITCAST:
            return bitcast(operands[0], dtype)
        if node.op is Ops.DOT:
            return dot(*operands, formats=node.arg)
        divides = node.op in (Ops.IDIV, Ops.MOD) and dtype.is_integral
        if divides and self._joined(operands[1] == 0).any():
            raise fault("an integer is divided by zero", node)
        result = ARITHMETIC[node.op](*operands)
        if result.dtype != dtype.numpy:
            raise fault(f"operands give {result.dtype}, not {dtype.name}", node)
        return result

    def _lanes_of(self, node: UOp) -> Array:
        values = [self.value(s) for s in node.src]
        if node.src[0].dtype.count == 1:
            values = [value[:, None] for value in values]
        value = np.concatenate(np.broadcast_arrays(*values), -1)
        return value[:, node.arg[0]] if len(node.arg) == 1 else value[:, list(node.arg)]

    def _joined(self, condition: Array) -> Array:
        """`condition` where the item is active, broadcast over lanes."""
        if not self.masks:
            return condition
        mask = self.masks[-1]
        return condition & (mask[:, None] if condition.ndim == 2 else mask)

    def _check(self, node: UOp) -> Array:
        failed = self._joined(~self.value(node.src[1]))
        if failed.any() and not self.error:
            self.error = int(node.arg) + 1
        return self.value(node.src[0])

    # --- memory -----------------------------------------------------------------------------------
    def _places(self, index: UOp, count: int, node: UOp) -> tuple[Array, Array, Array]:
        """Memory, positions in it and which are touched; shapes (items,) or (items, lanes)."""
        array = self.memory[index.src[0]]
        position = self.value(index.src[1]).astype(np.int64)
        size = array.size
        if index.src[0].op is Ops.DEFINE_LOCAL:
            size = index.src[0].arg.size
        if isinstance(node.arg, Rows):
            columns = np.arange(count // node.arg.count)
            lanes = np.arange(node.arg.count)[:, None] * node.arg.apart + columns
            position = position[:, None] + lanes.ravel()
        elif count > 1:
            position = position[:, None] + np.arange(count)
        active: Array = np.ones(position.shape, np.bool_)
        if len(index.src) > 2:
            valid = self.value(index.src[2])
            active = active & (valid[:, None] if valid.ndim < active.ndim else valid)
        active = self._joined(active)
        outside = active & ((position < 0) | (position >= size))
        if outside.any():
            first = np.broadcast_to(position, outside.shape)[outside][0]
            raise fault(f"position {first} of memory that has {size} elements", node)
        if index.src[0].op is Ops.DEFINE_LOCAL:
            start = self.group_of * size
            position = position + (start[:, None] if position.ndim == 2 else start)
        position, active = np.broadcast_arrays(position, active)
        return array, position, active

    def _load(self, node: UOp) -> Array:
        source = node.src[0]
        if source.op is Ops.ACC:
            return self.registers[source]
        array, position, active = self._places(source, node.dtype.count, node)
        if array.size == 0:
            return np.zeros(position.shape, array.dtype)
        loaded = array[np.where(active, position, 0)]
        result: Array = np.where(active, loaded, np.zeros((), array.dtype))
        return result

    def _store(self, node: UOp) -> None:
        target, value = node.src[0], self.value(node.src[1])
        if target.op is Ops.ACC:
            self._assign(target, value)
            return
        array, position, active = self._places(target, node.src[1].dtype.count, node)
        if value.dtype != array.dtype:
            raise fault(f"{value.dtype} is stored in memory of {array.dtype}", node)
        position, active, value = np.broadcast_arrays(position, active, value)
        array[position[active]] = value[active]

    def _assign(self, register: UOp, value: Array) -> None:
        if self.masks:
            mask: Any = self.masks[-1]
            mask = mask[:, None] if value.ndim == 2 else mask
            value = np.where(mask, value, self.registers[register])
        self.registers[register] = value
