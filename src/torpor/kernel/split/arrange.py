"""Operands copied first, in the order in which a product that is summed reads them.

before  out[c, p] = sum(o, k, w[o, c, k] * x[o, p, k])
after   v[c, o, k] = w[o, c, k];  out[c, p] = sum(o, k, v[c, o, k] * x[o, p, k])

An operand of few elements that are read many times each, such as the weights of a convolution in
its gradient by the images, is else packed again and again; so is an image that is read by windows
(`windows.py`).
"""

from __future__ import annotations

from math import inf
from typing import Final

from torpor.base.dtypes import dtypes
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.choose.plans import first_plan
from torpor.kernel.choose.tiling import copy_seconds
from torpor.kernel.choose.windows import Copied, copied_windows, in_order
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import place
from torpor.kernel.ranges import find_loops, iterations, nesting
from torpor.kernel.split.several import Parted, memory_between, parted

PRODUCTS_WORTH: Final = 1 << 22  # products from which another kernel pays
USES: Final = 16  # products, at least, that each element of an operand is a factor of
GAIN: Final = 1.05  # times faster that a product has to be on a copy


def arranged(ast: UOp, target: Target) -> Parted | None:
    """An operand's copy and the kernel on it; None where there is little to gain."""
    if not target.threads or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return None
    kernel = Kernel(ast, target)
    plain = first_plan(kernel)
    copies = copied_windows(kernel)
    if plain is not None:
        value = plain[1].roles.other.value
        axes = tuple(sorted(find_loops(kernel.ast).free[value], key=nesting))
        used = iterations(axes) * USES <= iterations(tuple(kernel.axes))
        if value.op is Ops.LOAD and not plain[1].roles.other.masked and used:
            copies.append(Copied(value, axes, axes, value, tuple(kernel.reduce_axes)))
    made = [one for one in (on_copy(kernel, copied) for copied in copies) if one is not None]
    times = {one: time_with(kernel, one) for one in made}
    best = min(made, key=times.__getitem__, default=None)
    limit = plain[0] if plain is not None else inf
    return best if best is not None and times[best] * GAIN < limit else None


def time_with(kernel: Kernel, made: Parted) -> float:
    """Seconds on the copy, with those that copying takes."""
    plan = first_plan(Kernel(made.rest, kernel.target))
    copying = copy_seconds(made.size, made.dtype.itemsize, kernel.target)
    return (plan[0] if plan is not None else inf) + copying


def on_copy(kernel: Kernel, copied: Copied) -> Parted | None:
    """The kernel that copies, and the other one on the copy; None where that reads the parameter
    elsewhere too.
    """
    load = copied.load
    parameter = load.src[0].src[0]
    if [n for n in kernel.ast.toposort() if parameter in n.src] != [load.src[0]]:
        return None
    memory = memory_between(parameter.dtype, iterations(copied.axes))
    read = UOp(Ops.LOAD, load.dtype, (place(memory, copied.axes, copied.places),))
    rest = in_order(kernel.ast.substitute({load: read}), copied.order)
    return parted(copy_of(copied, memory), rest, memory, "order of use")


def copy_of(copied: Copied, memory: UOp) -> UOp:
    """The kernel that stores what is copied row by row in the order of its axes."""
    own = [UOp.range(r.src[0].arg, number, AxisType.GLOBAL) for number, r in enumerate(copied.axes)]
    moved = copied.value.substitute(dict(zip(copied.axes, own, strict=True))).simplify()
    return UOp.sink(UOp(Ops.STORE, dtypes.void, (place(memory, own), moved, *own)))
