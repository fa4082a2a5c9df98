"""Launch sizes: numbers from expressions of the variables that a program is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from torpor.base.errors import DeviceError
from torpor.ir.ops import Ops
from torpor.ir.records import Program
from torpor.ir.uop import UOp


def launch_value(size: int | UOp, values: Mapping[str, int]) -> int:
    """A launch size as a number, its variables having `values`."""
    if not isinstance(size, UOp):
        return int(size)
    return int(_function_of(size, (*values,))(*values.values()))


@lru_cache(maxsize=4096)
def _function_of(size: UOp, names: tuple[str, ...]) -> Callable[..., int]:
    """A launch size as a function of the variables of these names."""
    given = [f"v{number}" for number in range(len(names))]
    known = dict(zip(names, given, strict=True))
    variables = [node for node in size.toposort() if node.op is Ops.VARIABLE]
    if any(node.arg[0] not in known for node in variables):
        raise DeviceError(f"a launch size is not known: {size.render()}")
    named = {node: UOp.variable(known[node.arg[0]], *node.arg[1:]) for node in variables}
    text = f"lambda {', '.join(given)}: {size.substitute(named).render()}"
    function: Callable[..., int] = eval(text)  # noqa: S307 (the compiler's own text)
    return function


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
