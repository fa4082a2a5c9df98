"""Windows of an image that a product sums, as places of an image with its borders, channels last.

before  sum(c, j, i, w[o, c, j, i] * image[n, c, y + j - 1, x + i - 1])
after   sum(j, i, c, w[o, c, j, i] * v[n, y + j, x + i, c]);  v[n, y, x, c] = image[n, c, y-1, x-1]

The copy is of the image's size, whatever that of the windows, their step and their dilation. No
condition is left, vectors run over `o`, and rows of any width are rows of register tiles.
"""

from __future__ import annotations

from typing import NamedTuple

from torpor.ir.uop import UOp
from torpor.kernel.choose.roles import axes_of_results
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.sliding import Window, windows_along
from torpor.kernel.opts.stage import loads_of, operands
from torpor.kernel.ranges import find_loops, number_of, numbered


class Copied(NamedTuple):
    """What a load is copied to: the axes of the copy, the places along them that the load reads,
    the value of the copy, and the order of the kernel's sum in which it reads them in a row.
    """

    load: UOp
    axes: tuple[UOp, ...]
    places: tuple[UOp, ...]
    value: UOp
    order: tuple[UOp, ...]


def copied_windows(kernel: Kernel) -> list[Copied]:
    """Copies of the operand of a summed product that is read by windows, if one is."""
    loops = find_loops(kernel.ast)
    outputs = axes_of_results(kernel, loops)
    summed = frozenset(kernel.reduce_axes)
    values = [v for v in operands(kernel.ast) if summed <= loops.free[v]]
    if outputs is None or len(values) != 2:
        return []
    for value, other in (values, values[::-1]):
        axes = [r for r in outputs if r in loops.free[value]]
        loads = loads_of(value)
        if len(loads) == 1:
            found = slid(kernel, loads[0], axes, [r for r in axes if r in loops.free[other]])
            if found:
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
