"""Operands copied first, in the order in which a product that is summed reads them.

before  out[c, p] = sum(o, k, w[o, c, k] * x[o, p, k])
after   v[c, o, k] = w[o, c, k];  out[c, p] = sum(o, k, v[c, o, k] * x[o, p, k])

An operand of few elements that are read many times each, such as the weights of a convolution in
its gradient by the images, is else packed again and again. So is an image that is read by windows:
it is copied with its borders, channels last.

before  sum(c, j, i, w[o, c, j, i] * image[n, c, y + j - 1, x + i - 1])
after   v[n, y, x, c] = image[n, c, y-1, x-1];  sum(j, i, c, w[o, c, j, i] * v[n, y + j, x + i, c])

That copy is of the image's size, whatever that of the windows, their step and their dilation. No
condition is left, vectors run over `o`, and rows of any width are rows of register tiles.

Where instructions multiply whole matrices, the copy has zeros after each row, up to a whole number
of these: matrices are then read where they lie.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torpor.base.target import Target
from torpor.ir.ops import Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.choose.plans import best_plans
from torpor.kernel.choose.roles import Operand, find_factors
from torpor.kernel.choose.tiling import REUSE, copy_seconds
from torpor.kernel.choose.ways import fragment_for, least_seconds
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import Window, windows_along
from torpor.kernel.opts.stage import loads_of
from torpor.kernel.ranges import (
    find_loops,
    has_known_lengths,
    iterations,
    nesting,
    number_of,
    numbered,
    size_of,
)
from torpor.kernel.split.several import Parted, parted, stored_apart
from torpor.rules.affine import strides_of

PRODUCTS_WORTH: Final = 1 << 22  # products from which another kernel pays
GAIN: Final = 1.05  # times faster that a product has to be on a copy
# The same of an operand that might as well be read where it lies: more than the estimates of the
# two ways are off by (bench/results/regret.md).
SURE: Final = 1.15


class Copied(NamedTuple):
    """What a load is copied to: the axes of the copy, the places along them that the load reads,
    the value of the copy, and the order of the kernel's sum in which it reads them in a row.
    """

    load: UOp
    axes: tuple[UOp, ...]
    places: tuple[UOp, ...]
    value: UOp
    order: tuple[UOp, ...]


def arranged(ast: UOp, target: Target) -> Parted | None:
    """An operand's copy and the kernel on it; None where there is little to gain."""
    if not target.threads or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return None
    kernel = Kernel(ast, target)
    if not has_known_lengths(kernel.axes):
        return None
    plain, limit = best_plans(kernel)[:1], least_seconds(kernel)
    copies = copied_windows(kernel)
    gain = GAIN if copies else SURE
    for _, plan in plain if not copies else ():  # an image has far more to gain
        factors = (plan.roles.other, plan.roles.lead)
        copies = [in_rows(kernel, one.value) for one in factors if is_reused(one, kernel)]
    ways = [*((kernel, copied) for copied in copies), *with_zeros(kernel)]
    made = [one for one in (on_copy(*way) for way in ways) if one is not None]
    times = {one: time_with(kernel, one) for one in made}
    best = min(made, key=times.__getitem__, default=None)
    return best if best is not None and times[best] * gain < limit else None


def is_reused(operand: Operand, kernel: Kernel) -> bool:
    """Whether an operand is read as it is, and each of its elements many times."""
    value = operand.value
    used = iterations(tuple(find_loops(kernel.ast).free[value])) * REUSE
    return value.op is Ops.LOAD and not operand.masked and used <= iterations(tuple(kernel.axes))


def in_rows(kernel: Kernel, value: UOp) -> Copied:
    """The copy of a load over its own axes, in the order in which they are nested."""
    axes = tuple(sorted(find_loops(kernel.ast).free[value], key=nesting))
    return Copied(value, axes, axes, value, tuple(kernel.reduce_axes))


def time_with(kernel: Kernel, made: Parted) -> float:
    """Seconds on the copy, with those that copying takes."""
    copying = copy_seconds(made.memory.arg.size, made.memory.dtype.itemsize, kernel.target)
    return least_seconds(Kernel(made.rest.ast, kernel.target)) + copying


def with_zeros(kernel: Kernel) -> list[tuple[Kernel, Copied]]:
    """Copies of operands whose rows are no whole matrices, with zeros after them; and the kernel
    that sums these too.
    """
    fragment, last = fragment_for(kernel), len(kernel.axes) - 1
    if fragment is None or len(kernel.reduce_axes) != 1:
        return []
    if (size_of(kernel.reduce_axes[0]) or fragment.depth) % fragment.depth == 0:
        return []
    longer = kernel.copy().apply([Opt(OptOps.PADTO, last, fragment.depth)])
    free, order = find_loops(longer.ast).free, tuple(longer.reduce_axes)
    _, values = find_factors(longer) or ([], [])
    made = []
    for load in [loads[0] for loads in map(loads_of, values) if len(loads) == 1]:
        axes = tuple(sorted(free[load], key=nesting))
        near = strides_of(load.src[0].src[1]).get(order[0]) == 1
        if near and iterations(axes) * REUSE <= iterations(tuple(longer.axes)):
            made.append((longer, Copied(load, axes, axes, load, order)))
    return made


def on_copy(kernel: Kernel, copied: Copied) -> Parted | None:
    """The kernel that copies, and the other one on the copy; None where that reads the parameter
    elsewhere too.
    """
    load = copied.load
    parameter = load.src[0].src[0]
    if [n for n in kernel.ast.toposort() if parameter in n.src] != [load.src[0]]:
        return None
    copy, read = stored_apart(copied.value, copied.axes, copied.places)
    rest = in_order(kernel.ast.substitute({load: read}), copied.order)
    return parted(copy, rest, "order of use")


# --- windows --------------------------------------------------------------------------------------
def copied_windows(kernel: Kernel) -> list[Copied]:
    """Copies of the operand of a summed product that is read by windows, if one is."""
    outputs, values = find_factors(kernel) or ([], [])
    free = find_loops(kernel.ast).free
    for value, other in (values, values[::-1]) if values else ():
        axes, loads = [r for r in outputs if r in free[value]], loads_of(value)
        groups = [r for r in axes if r in free[other]]
        if len(loads) == 1 and (found := slid(kernel, loads[0], axes, groups)):
            return found
    return []


def slid(kernel: Kernel, load: UOp, outputs: list[UOp], groups: list[UOp]) -> list[Copied]:
    """Copies of what a load reads: in the middle the rows along which there are windows, last what
    else is summed, or what else has results. Along `groups` the other operand differs too.
    """
    fresh = 1 + max(number_of(r) for r in kernel.axes)
    own = [r for r in outputs if r not in groups]
    windows, results, rest = windows_along(load, own, kernel.reduce_axes, fresh)
    if not windows:
        return []
    value, order = windows[-1].value, tuple(kernel.reduce_axes)
    copies = []
    if rest:
        summed = (*(w.summed for w in windows), *rest)
        first = [r for r in outputs if r in groups or r in results]
        copies.append(Copied(load, *around(first, windows, rest), value, summed))
    if results:
        copies.append(Copied(load, *around([*groups, *rest], windows, results), value, order))
    return copies


def around(
    first: list[UOp], windows: list[Window], last: list[UOp]
) -> tuple[tuple[UOp, ...], tuple[UOp, ...]]:
    """The axes of a copy, those of the windows in the middle, and what of it a window reads."""
    axes = (*first, *(w.row for w in windows), *last)
    return axes, (*first, *(w.place for w in windows), *last)


def in_order(ast: UOp, order: tuple[UOp, ...]) -> UOp:
    """The kernel with the axes of its sum nested in another order, outermost first."""
    numbers = sorted(number_of(r) for r in order)
    away = {r: numbered(r, -1 - n) for r, n in zip(order, numbers, strict=True)}
    return ast.substitute(away).substitute(
        {r: numbered(r, -1 - number_of(r)) for r in away.values()}
    )
