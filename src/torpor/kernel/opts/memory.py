"""Opts about memory beside the loops, about how results are stored, and about instructions that
take several terms of a sum. Each changes the kernel or raises an `OptError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torpor.ir.ops import STREAMED, AxisType
from torpor.ir.records import Opt
from torpor.ir.uop import UOp
from torpor.kernel.opts.accumulate import accumulate, accumulated, growing, inside
from torpor.kernel.opts.dot import find_products, parts_of, suits, sum_in_words
from torpor.kernel.opts.fragment import find_matrices, in_matrices
from torpor.kernel.opts.normalise import drop_single, merge_axes, renumber
from torpor.kernel.opts.sliding import rows_of
from torpor.kernel.opts.stage import (
    Tile,
    coefficients,
    copied,
    direct_loads,
    operands,
    stage,
    tile_of,
)
from torpor.kernel.ranges import iterations, kind_of

if TYPE_CHECKING:
    from torpor.kernel.opts.kernel import Kernel

LOOPS: Final = (AxisType.GLOBAL, AxisType.THREAD, AxisType.LOOP)  # in which memory may be filled


def tile_sum(kernel: Kernel, opt: Opt) -> None:
    """Cut a reduce axis into blocks; partial results are kept in memory."""
    one = kernel.axis(opt, kernel.axes)
    reduction = accumulated(kernel.ast, one)
    if reduction is None or kernel.target.groups:
        raise kernel.refused(opt, "its partial results cannot be kept in memory")
    amount = kernel.amount(opt, one)
    if growing(kernel.ast, reduction) is None:
        size = iterations(inside(kernel.ast, reduction)) * reduction.dtype.itemsize
        kernel.check_memory(opt, size)
    number = len(kernel.staged())
    made = accumulate(kernel.ast, reduction, one, amount, number, kernel.fresh)
    kernel.ast = renumber(drop_single(made))
    kernel.number_anew()


def pack(kernel: Kernel, opt: Opt) -> None:
    """Copy what the rounds of a loop read of one value, in the order of its use; or by an amount
    below 0 what windows slide over, each element once: by -1 that of the first load.
    """
    level, number = kernel.axis(opt, kernel.axes), opt.arg or 0
    whole, loads = operands(kernel.ast), direct_loads(kernel.ast)
    values = [*whole, *coefficients(kernel.ast)]
    if opt.arg is None or not -len(loads) <= number < len(values):
        why = f"reductions read {len(values)} values, and there are {len(loads)} loads"
        raise kernel.refused(opt, why)
    kernel.expect(opt, level, LOOPS)
    if number < 0:
        fill(kernel, opt, windows_of(kernel, opt, loads[~number], level))
        kernel.ast = kernel.ast.simplify()
        return
    tile = tile_of(kernel.ast, values[number], level, single=number >= len(whole))
    fill(kernel, opt, copied(tile, kernel.fresh))
    kernel.ast = merge_axes(kernel.ast, (AxisType.REDUCE,))  # what was packed lies in a row now


def windows_of(kernel: Kernel, opt: Opt, load: UOp, level: UOp) -> Tile:
    """The rows that windows slide over inside a loop."""
    lanes = kernel.target.lanes(load.dtype.itemsize)
    rows = rows_of(kernel.ast, load, level, kernel.fresh, lanes)
    if rows is None:
        raise kernel.refused(opt, "no windows slide over what it reads inside that loop")
    return rows


def fill(kernel: Kernel, opt: Opt, tile: Tile) -> None:
    """Copy a tile to packed memory."""
    kernel.check_memory(opt, tile.bytes)
    kernel.ast = stage(kernel.ast, tile, len(kernel.staged()))
    kernel.number_anew()


def stream(kernel: Kernel, opt: Opt) -> None:
    """Store past the caches: none of the kernel's loads reads what it stores."""
    if kernel.reads_stored():
        raise kernel.refused(opt, "it reads what it stores")
    stores = kernel.ast.src
    if all(s.arg == STREAMED for s in stores):
        raise kernel.refused(opt, "its stores are streamed already")
    kernel.ast = kernel.ast.substitute({s: s.replace(arg=STREAMED) for s in stores})


def dot(kernel: Kernel, opt: Opt) -> None:
    """Multiply and add two or four terms of a sum of small numbers at a time."""
    one, terms = kernel.axis(opt, kernel.reduce_axes), opt.arg or 0
    found = find_products(kernel.ast)
    formats = None if found is None else parts_of(kernel.target, found, terms)
    if found is None or formats is None:
        raise kernel.refused(opt, f"there is no instruction for {terms} terms of this sum")
    if kind_of(one) is not AxisType.REDUCE or not suits(found, one, terms):
        raise kernel.refused(opt, f"it needs a reduce axis of whole words of {terms} terms")
    kernel.ast = sum_in_words(kernel.ast, found, one, formats)


def mma(kernel: Kernel, opt: Opt) -> None:
    """Multiply what is written out of a sum of DOTs as whole matrices, along an axis of words."""
    one = kernel.axis(opt, kernel.reduce_axes)
    kernel.expect(opt, one, (AxisType.UNROLL,))
    found = find_matrices(kernel.ast, one, kernel.target)
    if isinstance(found, str):
        raise kernel.refused(opt, found)
    rows, columns = found.shape
    kernel.check_memory(opt, rows * columns * found.total.dtype.itemsize)
    kernel.ast = in_matrices(kernel.ast, found, len(kernel.staged()), kernel.fresh)
    kernel.number_anew()
