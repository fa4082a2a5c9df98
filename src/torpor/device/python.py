"""`PYTHON`: the reference interpreter as a device. Slow, checked, and always there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from torpor.base.target import Target, get_target
from torpor.device import memory
from torpor.device.base import Allocator, Compiler, DeviceBase, Executable
from torpor.device.buffer import Buffer
from torpor.device.interpreter.arithmetic import Array
from torpor.device.interpreter.complete import complete, jumps
from torpor.device.interpreter.group import Groups
from torpor.device.launch import grid, named
from torpor.ir.ops import Ops
from torpor.ir.records import Program

ITEMS_AT_ONCE: Final = 1 << 14  # bounds the memory that one node's value takes


class PythonCompiler(Compiler):
    """There is nothing to compile: linear IR is interpreted as it is."""

    def compile(self, program: Program) -> bytes:
        return b""


class PythonExecutable(Executable):
    """Interprets `program.linear`; a fault of the compiler's is a `ContractError`."""

    def __init__(self, program: Program):
        self.program = program
        self._linear = complete(program.linear)
        self._jumps = jumps(self._linear)
        self._parameters = [n for n in self._linear if n.op is Ops.PARAM]

    def __call__(self, buffers: Sequence[Buffer], variables: Sequence[int] = ()) -> int:
        values = named(self.program, buffers, variables)
        memories = {
            node: buffers[node.arg.slot].numpy().view(node.dtype.scalar().numpy)
            for node in self._parameters
        }
        error = 0
        with np.errstate(all="ignore"):
            for special, groups in self._portions(grid(self.program, values)):
                portion = Groups(self._linear, self._jumps, memories, values, special, groups)
                error = error or portion.run()
        return error

    def _portions(
        self, size: tuple[int, ...]
    ) -> Iterator[tuple[dict[str, Array], tuple[int, int]]]:
        """Work item numbers of some groups at a time, with how many groups and items in each."""
        local = self.program.local_size
        items, total = math.prod(local), math.prod(size)
        step = max(1, ITEMS_AT_ONCE // items)
        for first in range(0, total, step):
            group = np.arange(first, min(first + step, total))
            inside = np.arange(items)
            special = {
                **_numbers("gidx", np.repeat(group, items), size),
                **_numbers("lidx", np.tile(inside, len(group)), local),
            }
            yield special, (len(group), items)


def _numbers(name: str, flat: Array, sizes: Sequence[int]) -> dict[str, Array]:
    """The number along each axis, the first varying fastest."""
    found = {}
    for axis, size in enumerate(sizes):
        found[f"{name}{axis}"] = flat % size
        flat = flat // size
    return found


class PythonDevice(DeviceBase):
    """Runs linear IR in NumPy."""

    kind: ClassVar[str] = "PYTHON"
    allocator: Allocator = memory.host
    target: Target = get_target("python")
    compiler: Compiler = PythonCompiler()
    key = "python"

    def executable(self, program: Program, compiled: bytes) -> PythonExecutable:
        return PythonExecutable(program)
