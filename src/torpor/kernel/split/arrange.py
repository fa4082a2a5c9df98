"""Operands copied first, in the order in which a product that is summed reads them.

before  out[c, p] = sum(o, k, w[o, c, k] * x[o, p, k])
after   v[c, o, k] = w[o, c, k];  out[c, p] = sum(o, k, v[c, o, k] * x[o, p, k])

An operand of few elements that are read many times each, such as the weights of a convolution in
its gradient by the images, is else packed again and again; so is an image that is read by windows
(`windows.py`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.choose.contraction import find_contraction, is_movable, time_of
from torpor.kernel.choose.windows import Copied, copied_windows, in_order
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import place
from torpor.kernel.ranges import find_loops, iterations, nesting

PRODUCTS_WORTH: Final = 1 << 22  # products from which another kernel pays
USES: Final = 256  # products that each element of the operand is a factor of
TURNED: Final = 128  # the same where neighbours are used one after the other: a transpose
MOVED: Final = 20.0  # products that take as long as copying an element of an image
GAIN: Final = 1.05  # times faster that a product has to be on the copy of an image


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
    if not target.threads or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return None
    kernel = Kernel(ast, target)
    copies = [on_copy(kernel, copied) for copied in copied_windows(kernel)]
    times = {made: time_with(kernel, made) for made in copies if made is not None}
    if times and min(times.values()) * GAIN < time_of(kernel, USES):
        return min(times, key=lambda made: times[made])
    found = find_contraction(kernel, USES)
    if found is None or not found.scattered:
        return None
    if not is_movable(kernel, found, TURNED if found.abreast else USES):
        return None
    axes = tuple(sorted(find_loops(kernel.ast).free[found.other], key=nesting))
    return on_copy(kernel, Copied(found.other, axes, axes, found.other, tuple(kernel.reduce_axes)))


def time_with(kernel: Kernel, made: Arranged) -> float:
    """Time for each product on the copy, with the time that copying takes."""
    copying = MOVED * made.size / iterations(tuple(kernel.axes))
    return time_of(Kernel(made.rest, kernel.target)) + copying


def on_copy(kernel: Kernel, copied: Copied) -> Arranged | None:
    """The kernel that copies, and the other one on the copy; None where that reads the parameter
    elsewhere too.
    """
    load = copied.load
    parameter = load.src[0].src[0]
    if [n for n in kernel.ast.toposort() if parameter in n.src] != [load.src[0]]:
        return None
    size = iterations(copied.axes)
    fresh = parameter.replace(arg=ParamArg(parameter.arg.slot, size))
    read = UOp(Ops.LOAD, load.dtype, (place(fresh, copied.axes, copied.places),))
    rest = in_order(kernel.ast.substitute({load: read}), copied.order)
    return Arranged(copy_of(copied, size), rest, parameter.arg.slot, size)


def copy_of(copied: Copied, size: int) -> UOp:
    """The kernel that stores what is copied row by row in the order of its axes."""
    own = [UOp.range(r.src[0].arg, number, AxisType.GLOBAL) for number, r in enumerate(copied.axes)]
    origin = copied.load.src[0].src[0]
    source = origin.replace(arg=ParamArg(1, origin.arg.size))
    changes = {**dict(zip(copied.axes, own, strict=True)), origin: source}
    moved = copied.value.substitute(changes).simplify()
    memory = UOp(Ops.PARAM, moved.dtype, (), ParamArg(0, size))
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, own), moved, *own)))
