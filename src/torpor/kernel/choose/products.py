"""Opts for products of two operands that are summed, as plans say (`tiling.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Final

from torpor.base.target import WORD, Fragment
from torpor.ir.ops import AxisType
from torpor.ir.records import Opt, OptOps
from torpor.kernel.choose.columns import tile_columns
from torpor.kernel.choose.registers import cut_apart, stage_over, write_rows
from torpor.kernel.choose.roles import RESULTS, position_of, put_in_order
from torpor.kernel.choose.slides import copy_rows
from torpor.kernel.choose.tiling import Plan
from torpor.kernel.choose.vectors import WRITTEN_OUT, attempt_all
from torpor.kernel.choose.ways import ways
from torpor.kernel.estimate import copies
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.opts.stage import direct_loads
from torpor.kernel.ranges import closed_by, kind_of, nesting, number_of, size_of

PUT_TOGETHER: Final = 2  # times the instructions of others that words of several parts take
TRIED: Final = 4  # plans that are tried where opts of better ones are refused


def tile_products(kernel: Kernel) -> bool:
    """Choose opts for a kernel that sums products, by the plan that is predicted to be quickest of
    all ways to multiply, matrices before words; or for one that sums down columns, of which two
    rows make words as quickly as they become int32. Says whether it is one of them.
    """
    made = [*ways(kernel)]
    pairs = [way.kernel for way in made if way.is_pairs]
    plain = min((taken for taken, _ in made[0].plans()[:1]), default=inf)
    found = [
        (way.fragment is None, taken, way, plan)
        for way in made
        for taken, plan in way.plans()[:TRIED]
        if way.fragment is None or taken < plain
    ]
    for _, _, way, plan in sorted(found, key=itemgetter(0, 1)):
        if way.fragment is None and down_columns(kernel, pairs):
            return True
        if attempt_all(kernel, way.kernel, apply_plan, plan, way.fragment):
            return True
    return down_columns(kernel, [*pairs, kernel])


def down_columns(kernel: Kernel, some: Sequence[Kernel]) -> bool:
    """Have the kernel become the first of some that sums down columns; says whether one does."""
    return any(attempt_all(kernel, one, tile_columns) for one in some)


def apply_plan(kernel: Kernel, plan: Plan, fragment: Fragment | None = None) -> bool:
    """The opts of a plan: blocks for threads, blocks of the sum, copies, register tiles, or those
    that an instruction for matrices multiplies; says whether there is room.
    """
    together = fragment is not None and plan.together
    level, row = share_blocks(kernel, plan, plan.tile.rows if together else 1)
    if plan.image and not copy_windows(kernel, plan, level):
        return False
    if plan.depth:
        results = len(kernel.axes) - len(kernel.reduce_axes)
        first = results + cut_sum(kernel, plan.depth)
        level, row = first - 1, first + row - level - 1
    panel = plan.tile.panel
    if (size_of(kernel.axes[row + 1]) or 1) % panel:
        kernel.apply_opt(Opt(OptOps.PADTO, row + 1, panel))
    kernel.apply_opt(Opt(OptOps.UPCAST, row + 1, panel))
    if plan.packs and not plan.image and not pack_lanes(kernel, level):
        return False
    if fragment is not None and not multiply_rows(kernel, plan, row, fragment):
        return False
    if fragment is None:
        if plan.together and not plan.depth:
            row = part_rows(kernel, plan, row)
        tile_rows(kernel, plan, row)
    if plan.depth:
        store_vectors(kernel)
    return True


def store_vectors(kernel: Kernel) -> None:
    """Sums that grew in memory become results by vectors along the innermost of their loops."""
    loops = [r for s in kernel.ast.src for r in closed_by(s) if kind_of(r) is AxisType.GLOBAL]
    lane, width = max(loops, key=nesting, default=None), kernel.target.lanes(WORD)
    size = 0 if lane is None else size_of(lane) or 0
    if lane is not None and size >= width > 1:
        opt = OptOps.OVERLAP if size % width else OptOps.UPCAST
        kernel.apply_opt(Opt(opt, kernel.axes.index(lane), width))


def share_blocks(kernel: Kernel, plan: Plan, rows: int = 1) -> tuple[int, int]:
    """The axes in order, blocks of them for the threads; gives the place of the last axis outside
    of a block, -1 where there is none, and that of the rows, which are made a multiple of so many.
    """
    roles = plan.roles
    axes = [r for r in kernel.axes if kind_of(r) in RESULTS]
    put_in_order(kernel, axes, roles.order())
    row, tiles = len(axes) - 2, 0
    if roles.height % rows:
        kernel.apply_opt(Opt(OptOps.PADTO, row, rows))
    if plan.block and roles.lanes % plan.block:
        kernel.apply_opt(Opt(OptOps.PADTO, row + 1, plan.block))
    if plan.block:
        kernel.apply_opt(Opt(OptOps.TILE, row + 1, plan.block))
        row, tiles = row + 1, tiles + 1
    if plan.rows:
        cut = row - len(roles.rows) + 1 + plan.outer
        kernel.apply_opt(Opt(OptOps.TILE, cut, plan.rows))
        row, tiles = row + 1, tiles + 1
    around = len(roles.around) + plan.outer
    if plan.image:
        around, row, tiles = cut_image(kernel, plan, row, tiles)
    shared = [number_of(r) for r in [*kernel.axes[tiles : tiles + around], *kernel.axes[:tiles]]]
    if kind_of(kernel.axes[0]) is AxisType.GLOBAL:
        for number in shared:
            kernel.apply_opt(Opt(OptOps.THREAD, position_of(kernel, number), 0))
        row -= max(len(shared) - 1, 0)
        shared = shared[:1]
    if plan.depth and plan.together and plan.together < plan.height:
        kernel.apply_opt(Opt(OptOps.TILE, row, plan.together))
        row += 1
    return len(shared) - 1, row


def cut_image(kernel: Kernel, plan: Plan, row: int, tiles: int) -> tuple[int, int, int]:
    """The last axis around, of an image's rows, in blocks for which windows are copied: gives how
    many axes around it threads share, the place of the rows, and how many axes are blocks.
    """
    place = len(plan.roles.around) - 1
    if plan.image in (1, size_of(kernel.axes[place])):
        return place + (plan.image == 1), row, tiles
    kernel.apply_opt(Opt(OptOps.TILE, place, plan.image))
    return place, row + 1, tiles + 1


def copy_windows(kernel: Kernel, plan: Plan, level: int) -> bool:
    """What windows slide over along the vectors, copied in the loop at `level`."""
    loads = direct_loads(kernel.ast)
    parameter = plan.roles.lead.value.src[0].src[0]
    number = next((n for n, load in enumerate(loads) if load.src[0].src[0] is parameter), None)
    if number is None or level < 0:
        return False
    copy_rows(kernel, level, number)
    return True


def cut_sum(kernel: Kernel, depth: tuple[int, ...]) -> int:
    """Each reduce axis in blocks of so many rounds; gives how many loops over blocks that makes."""
    number = count = 0
    for amount in depth:
        one = kernel.reduce_axes[number]
        if amount < (size_of(one) or 1):
            kernel.apply_opt(Opt(OptOps.TILE, kernel.axes.index(one), amount))
            count += 1
        number += amount > 1
    return count


def pack_lanes(kernel: Kernel, level: int) -> bool:
    """What runs along the vectors, packed inside the loop at `level`; says whether it fits."""
    written = [number_of(r) for r in kernel.axes if kind_of(r) is AxisType.UPCAST]
    room = kernel.target.stage_bytes
    return all(
        stage_over(kernel, level, kernel.axes[position_of(kernel, number)], room)
        for number in written
    )


def part_rows(kernel: Kernel, plan: Plan, row: int) -> int:
    """The rows, now at `row`, in blocks that are packed together; rows that fill no block apart.
    Gives the place of the axis within a block.
    """
    if plan.height % plan.together:
        rest = cut_apart(kernel, row, plan.height - plan.height % plan.together)
        if rest is not None:
            write_rows(kernel, rest, 4)
    return block_rows(kernel, plan.together, row)


def block_rows(kernel: Kernel, together: int, row: int) -> int:
    """The rows at `row` in blocks, in the loops around the lanes; gives the place of the axis
    within a block.
    """
    if (size_of(kernel.axes[row]) or 1) < 2 * together:
        return row
    kernel.apply_opt(Opt(OptOps.TILE, row, together))
    first = 1 if kind_of(kernel.axes[0]) is AxisType.THREAD else 0
    for position in range(first, row):
        kernel.apply_opt(Opt(OptOps.SWAP, position, position + 1))
    return row + 1


def tile_rows(kernel: Kernel, plan: Plan, row: int) -> None:
    """Register tiles of the rows at `row`; they are packed in the loop around it, unless they are
    read where they are. What lies side by side stays so in the tiles.
    """
    beside = plan.roles.other.stride(plan.roles.rows[-1]) == 1
    most = kernel.target.stage_bytes
    if plan.together and not beside:
        stage_over(kernel, row - 1, kernel.axes[row], most)
    vectors = plan.tile.panel // kernel.target.lanes(4)
    tiles = write_rows(kernel, row, plan.tile.rows, vectors)
    if plan.together and beside:
        for tile in tiles:
            stage_over(kernel, row - 1, tile, most)


def multiply_rows(kernel: Kernel, plan: Plan, row: int, fragment: Fragment) -> bool:
    """Tiles of the rows at `row` for matrices; they are packed in the loop around it. Says whether
    there is room, for what is written out too.
    """
    kernel.apply_opt(Opt(OptOps.UNROLL, len(kernel.reduce_axes) - 1, fragment.words))
    if plan.together and not plan.depth:
        row = block_rows(kernel, plan.together, row)
    whole = (size_of(kernel.axes[row]) or 1) % plan.tile.rows == 0
    around = number_of(kernel.axes[row - 1])
    kernel.apply_opt(Opt(OptOps.UPCAST if whole else OptOps.OVERLAP, row, plan.tile.rows))
    if plan.together and not stage_over(
        kernel, position_of(kernel, around), kernel.axes[-1], kernel.target.stage_bytes
    ):
        return False
    kernel.apply_opt(Opt(OptOps.MMA, len(kernel.reduce_axes) - 1))
    return PUT_TOGETHER * copies(kernel.ast, kernel.target) <= WRITTEN_OUT * kernel.target.lanes(4)
