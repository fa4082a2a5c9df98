"""Operands copied first, in the order in which a product that is summed reads them.

before  out[c, p] = sum(o, k, w[o, c, k] * x[o, p, k])
after   v[c, o, k] = w[o, c, k];  out[c, p] = sum(o, k, v[c, o, k] * x[o, p, k])

An operand of few elements that are read many times each, such as the weights of a convolution in
its gradient by the images, is else packed again and again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.contraction import find_contraction, is_movable
from torpor.kernel.kernel import Kernel
from torpor.kernel.ranges import find_loops, iterations, nesting
from torpor.kernel.stage import place

WORTH: Final = 1 << 22  # products from which another kernel pays
USES: Final = 256  # products that each element of the operand is a factor of


class Arranged(NamedTuple):
    """The kernel that copies parameter `slot` in order (parameter 1 to 0, of `size` elements), and
    the kernel that reads the copy instead.
    """

    copy: UOp
    rest: UOp
    slot: int
    size: int


def arranged(ast: UOp, target: Target) -> Arranged | None:
    """An operand's copy and the kernel on it; None where there is little to gain."""
    if not target.threads or iterations(tuple(ast.ranges())) < WORTH:
        return None
    kernel = Kernel(ast, target)
    found = find_contraction(kernel, USES)
    if found is None or not found.scattered or not is_movable(kernel, found.other, USES):
        return None
    load = found.other
    parameter = load.src[0].src[0]
    axes = sorted(find_loops(kernel.ast).free[load], key=nesting)
    users = [n for n in kernel.ast.toposort() if parameter in n.src]
    size = iterations(tuple(axes))
    if users != [load.src[0]]:
        return None
    fresh = parameter.replace(arg=ParamArg(parameter.arg.slot, size))
    read = UOp(Ops.LOAD, load.dtype, (place(fresh, axes),))
    rest = kernel.ast.substitute({load: read})
    return Arranged(copy_of(load, axes, size), rest, parameter.arg.slot, size)


def copy_of(load: UOp, axes: list[UOp], size: int) -> UOp:
    """The kernel that stores what is loaded row by row in the order of the axes."""
    own = [UOp.range(r.src[0].arg, number, AxisType.GLOBAL) for number, r in enumerate(axes)]
    origin = load.src[0].src[0]
    source = origin.replace(arg=ParamArg(1, origin.arg.size))
    moved = load.substitute({**dict(zip(axes, own, strict=True)), origin: source}).simplify()
    memory = UOp(Ops.PARAM, load.dtype, (), ParamArg(0, size))
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, own), moved, *own)))
