"""Launch sizes: numbers from expressions of the variables that a program is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torpor.base.errors import DeviceError
from torpor.ir.ops import Ops
from torpor.ir.records import Program
from torpor.ir.uop import UOp


def launch_value(size: int | UOp, values: Mapping[str, int]) -> int:
    """A launch size as a number, its variables having `values`."""
    if not isinstance(size, UOp):
        return int(size)
    known = {
        node: UOp.const(node.dtype, values[node.arg[0]])
        for node in size.toposort()
        if node.op is Ops.VARIABLE and node.arg[0] in values
    }
    value = size.substitute(known)
    if value.vmin != value.vmax:
        raise DeviceError(f"a launch size is not known: {value.render()}")
    return int(value.vmin)


def grid(program: Program, values: Mapping[str, int]) -> tuple[int, ...]:
    """The number of groups along each of the three axes."""
    return tuple(launch_value(size, values) for size in program.global_size)


def named(program: Program, buffers: Sequence[object], variables: Sequence[int]) -> dict[str, int]:
    """The variables by name; a `DeviceError` if the call does not fit the program."""
    if len(buffers) != len(program.parameters) or len(variables) != len(program.variables):
        raise DeviceError(
            f"{program.name} takes {len(program.parameters)} buffers and "
            f"{len(program.variables)} variables, got {len(buffers)} and {len(variables)}"
        )
    return dict(zip((name for name, _ in program.variables), variables, strict=True))
