"""`Kernel`: a kernel's axes, and the optimisations that split, reorder and rename them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.base.errors import OptError
from torpor.base.target import Target
from torpor.ir.ops import STREAMED, AxisType, Ops, identity
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.accumulate import accumulate, accumulated, growing, inside
from torpor.kernel.halves import PAIR, find_products, suits, sum_in_pairs
from torpor.kernel.normalise import drop_single, is_gated, merge_axes, normalise, renumber
from torpor.kernel.partition import partition
from torpor.kernel.quarters import QUARTERS, has_quads, sum_in_quads
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    iterations,
    kind_of,
    nesting,
    number_of,
    replace_range,
    replace_ranges,
    size_of,
)
from torpor.kernel.sliding import rows_of, slide
from torpor.kernel.stage import coefficients, direct_loads, operands, stage, tile_of

REDUCES: Final = (AxisType.GROUP, AxisType.REDUCE, AxisType.UNROLL)
OUTPUTS: Final = (AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL, AxisType.LOOP)
UNROLL_LIMIT: Final = 512  # copies of one axis past which code only grows


class AxisFacts(NamedTuple):
    """What is known about the axes of one state of a kernel's ast."""

    ast: UOp
    axes: list[UOp]
    reduce_axes: list[UOp]
    has_reduce: bool
    stores: tuple[UOp, ...]


class Kernel:
    """A kernel's ast for one target, with the opts applied so far.

    Axes are merged and numbered when it is made; opts refer to them by position in `axes`
    (UNROLL, GROUP and GROUPTOP by position in `reduce_axes`).
    """

    def __init__(self, ast: UOp, target: Target):
        self.target = target
        self.ast = normalise(ast)
        self.opts: list[Opt] = []
        self.no_locals = False
        self._facts: AxisFacts | None = None
        self._next = 1 + max((number_of(r) for r in self.ast.ranges()), default=-1)

    def copy(self) -> Kernel:
        """An independent kernel in the same state."""
        other = object.__new__(Kernel)
        other.__dict__.update(self.__dict__)
        other.opts = list(self.opts)
        return other

    def become(self, other: Kernel) -> None:
        """Take over the state of a copy on which opts were tried."""
        self.__dict__.update(other.copy().__dict__)

    def facts(self) -> AxisFacts:
        """The axes of the ast as it is now (looked for again only when it has changed)."""
        if self._facts is None or self._facts.ast is not self.ast:
            nodes = tuple(self.ast.toposort())
            axes = sorted((n for n in nodes if n.op is Ops.RANGE), key=nesting)
            reduced = {r for n in nodes if n.op is Ops.REDUCE for r in closed_by(n)}
            has_reduce = any(n.op is Ops.REDUCE for n in nodes)
            stores = self.ast.src
            inner = [r for r in axes if r in reduced and kind_of(r) in REDUCES]
            self._facts = AxisFacts(self.ast, axes, inner, has_reduce, stores)
        return self._facts

    @property
    def axes(self) -> list[UOp]:
        """Every axis, outermost first; written-out ones last."""
        return self.facts().axes

    @property
    def reduce_axes(self) -> list[UOp]:
        """The reduce axes in order."""
        return self.facts().reduce_axes

    @property
    def has_reduce(self) -> bool:
        """Whether the kernel reduces anything."""
        return self.facts().has_reduce

    @property
    def name(self) -> str:
        """`E` for elementwise kernels, `r` for reductions, with the sizes of the axes."""
        sizes = []
        for one in self.axes:
            size = size_of(one)
            sizes.append(str(size) if size is not None else f"to{one.src[0].vmax}")
        return "_".join(["r" if self.has_reduce else "E", *sizes])

    # --- applying opts ----------------------------------------------------------------------------
    def apply(self, opts: Sequence[Opt]) -> Kernel:
        """Apply several opts in order; gives the kernel itself."""
        for opt in opts:
            self.apply_opt(opt)
        return self

    def apply_opt(self, opt: Opt) -> None:
        """Apply one opt, or raise an `OptError` that names it and says why it does not fit."""
        handler = _HANDLERS.get(opt.op)
        if handler is None:
            raise self.refused(opt, "this optimisation is not there yet")
        handler(self, opt)
        self.opts.append(opt)

    def refused(self, opt: Opt, why: str) -> OptError:
        axes = ", ".join(f"{kind_of(r).name.lower()} {size_of(r) or 'symbolic'}" for r in self.axes)
        return OptError(
            f"{opt.op.name} of axis {opt.axis} by {opt.arg} does not fit kernel {self.name} "
            f"(axes: {axes}): {why}"
        )

    def axis(self, opt: Opt, among: Sequence[UOp]) -> UOp:
        """The axis that the opt means."""
        if opt.axis is None or not 0 <= opt.axis < len(among):
            raise self.refused(opt, f"there is no axis {opt.axis} among {len(among)}")
        return among[opt.axis]

    def amount(self, opt: Opt, one: UOp) -> int:
        """How much of the axis the opt takes: a divisor of its size."""
        size = size_of(one)
        if size is None:
            raise self.refused(opt, "the axis has a symbolic size")
        amount = opt.arg if opt.arg else size
        if amount < 1 or size % amount:
            raise self.refused(opt, f"{amount} does not divide {size}")
        return amount

    def split(self, one: UOp, amount: int, kind: AxisType, top: bool = False) -> UOp:
        """Cut `amount` iterations off an axis, as a new axis of type `kind`.

        The new axis is the fast one, or with `top` the slow one.
        """
        size = size_of(one)
        assert size is not None and size % amount == 0
        fresh = UOp.range(amount, self._next, kind)
        self._next += 1
        rest = size // amount
        if rest == 1:
            self.ast = replace_range(self.ast, one, fresh, [fresh])
            return fresh
        outer = UOp.range(rest, *one.arg)
        value = fresh * rest + outer if top else outer * amount + fresh
        self.ast = replace_range(self.ast, one, value, [outer, fresh]).simplify()
        return fresh

    def upcast(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        amount = self.amount(opt, one)
        if kind_of(one) not in OUTPUTS:
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        if amount > UNROLL_LIMIT:
            raise self.refused(opt, f"more than {UNROLL_LIMIT} copies")
        self.check_stages(opt, one)
        self.split(one, amount, AxisType.UPCAST)

    def overlap(self, opt: Opt) -> None:
        """Write out tiles of an axis that they do not divide: they overlap, as evenly as they can,
        and compute some results twice.
        """
        one, amount = self.axis(opt, self.axes), opt.arg or 0
        size = size_of(one)
        if kind_of(one) not in OUTPUTS or size is None or not 0 < amount < size:
            raise self.refused(opt, "it needs an output axis of fixed size, longer than a tile")
        if amount > UNROLL_LIMIT or self.reads_stored():
            raise self.refused(opt, "there are too many copies, or it reads what it stores")
        self.check_stages(opt, one)
        tiles = -(-size // amount)
        fresh = UOp.range(amount, self._next, AxisType.UPCAST)
        outer = UOp.range(tiles, *one.arg)
        self._next += 1
        start = outer * (size - amount) // (tiles - 1)
        self.ast = replace_range(self.ast, one, start + fresh, [outer, fresh]).simplify()

    def unroll(self, opt: Opt) -> None:
        one = self.axis(opt, self.reduce_axes)
        amount = self.amount(opt, one)
        if kind_of(one) is AxisType.UNROLL:
            raise self.refused(opt, "it is unrolled already")
        if amount > UNROLL_LIMIT:
            raise self.refused(opt, f"more than {UNROLL_LIMIT} copies")
        self.split(one, amount, AxisType.UNROLL)

    def local(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        if not self.target.groups:
            raise self.refused(opt, f"target {self.target.name} has no groups")
        if self.no_locals:
            raise self.refused(opt, "NOLOCALS was applied")
        if kind_of(one) is not AxisType.GLOBAL:
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        amount = self.amount(opt, one)
        self.check_group(opt, amount)
        self.check_stages(opt, one)
        self.split(one, amount, AxisType.LOCAL)

    def check_stages(self, opt: Opt, one: UOp) -> None:
        """Rounds that share a packed tile's memory come one after the other."""
        loops = find_loops(self.ast)
        for node in loops.order:
            anew = node.op is Ops.BARRIER and one in loops.free[node]
            grows = node.op is Ops.STORE and one in closed_by(node)
            if anew or (grows and one not in loops.free[node.src[0]]):
                raise self.refused(opt, "each of its rounds fills the same packed memory")

    def check_group(self, opt: Opt, amount: int) -> None:
        items = amount
        for one in self.axes:
            if kind_of(one) in (AxisType.LOCAL, AxisType.GROUP):
                items *= size_of(one) or 1
        if items > self.target.group_limit:
            raise self.refused(opt, f"a group has at most {self.target.group_limit} work items")
        count = sum(kind_of(r) in (AxisType.LOCAL, AxisType.GROUP) for r in self.axes)
        if count >= 3:
            raise self.refused(opt, "a group has at most three dimensions")

    def group(self, opt: Opt) -> None:
        one = self.axis(opt, self.reduce_axes)
        if not self.target.groups:
            raise self.refused(opt, f"target {self.target.name} has no groups")
        if self.no_locals:
            raise self.refused(opt, "NOLOCALS was applied")
        if kind_of(one) is not AxisType.REDUCE:
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        if any(kind_of(r) is AxisType.LOOP for r in self.axes):
            raise self.refused(opt, "there are loops around the reduction")
        loops = find_loops(self.ast)
        reductions = [n for n in loops.order if n.op is Ops.REDUCE]
        if any(loops.free[n] & set(self.reduce_axes) for n in reductions):
            raise self.refused(opt, "the reduction is inside another")
        amount = self.amount(opt, one)
        self.check_group(opt, amount)
        self.split(one, amount, AxisType.GROUP, top=opt.op is OptOps.GROUPTOP)

    def pad_to(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        size = size_of(one)
        if size is None or opt.arg is None or opt.arg < 1:
            raise self.refused(opt, "it needs an axis of fixed size and an amount")
        if kind_of(one) not in (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE):
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        padded = -(-size // opt.arg) * opt.arg
        if padded == size:
            return
        wider = UOp.range(padded, *one.arg)
        self.ast = mask_beyond(replace_range(self.ast, one, wider, [wider]), wider, size)

    def swap(self, opt: Opt) -> None:
        first = self.axis(opt, self.axes)
        if opt.arg is None or not 0 <= opt.arg < len(self.axes):
            raise self.refused(opt, f"there is no axis {opt.arg}")
        second = self.axes[opt.arg]
        if kind_of(first) is not AxisType.GLOBAL or kind_of(second) is not AxisType.GLOBAL:
            raise self.refused(opt, "only output axes that are not split can be swapped")
        spare = (-1, AxisType.GLOBAL)
        for old, arg in (
            (first, spare),
            (second, first.arg),
            (first.replace(arg=spare), second.arg),
        ):
            self.ast = self.ast.substitute({old: old.replace(arg=arg)})

    def without_locals(self, opt: Opt) -> None:
        if any(kind_of(r) in (AxisType.LOCAL, AxisType.GROUP) for r in self.axes):
            raise self.refused(opt, "there are local axes already")
        self.no_locals = True

    def thread(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        if not self.target.threads:
            raise self.refused(opt, f"target {self.target.name} has no threads")
        if kind_of(one) is not AxisType.GLOBAL:
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        if any(one not in closed_by(store) for store in self.facts().stores):
            raise self.refused(opt, "some output does not run over it")
        before = next((r for r in self.axes if kind_of(r) is AxisType.THREAD), None)
        if before is not None:
            self.thread_both(opt, before, one)
        elif opt.arg:
            self.split(one, self.amount(opt, one), AxisType.THREAD, top=True)
        else:
            threaded = one.replace(arg=(number_of(one), AxisType.THREAD))
            self.ast = replace_range(self.ast, one, threaded, [threaded])

    def thread_both(self, opt: Opt, before: UOp, one: UOp) -> None:
        """A second axis cut among threads: the two become one axis of all their pairs."""
        size, outer = size_of(one), size_of(before)
        if opt.arg or size is None or outer is None:
            raise self.refused(opt, "only whole axes of fixed size join what threads share")
        both = UOp.range(outer * size, *before.arg)
        changes = {before: (both // size, (both,)), one: (both % size, ())}
        self.ast = replace_ranges(self.ast, changes).simplify()

    def tile(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        if kind_of(one) is AxisType.REDUCE:
            self.tile_sum(opt, one)
            return
        if kind_of(one) not in (AxisType.GLOBAL, AxisType.THREAD):
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        amount = self.amount(opt, one)
        if amount == size_of(one):
            return
        inner = UOp.range(amount, number_of(one), AxisType.GLOBAL)
        outer = UOp.range((size_of(one) or 1) // amount, -1, kind_of(one))
        self.ast = replace_range(self.ast, one, outer * amount + inner, [outer, inner]).simplify()
        self.ast = renumber(self.ast)
        self._next = 1 + max(number_of(r) for r in self.ast.ranges())

    def tile_sum(self, opt: Opt, one: UOp) -> None:
        reduction = accumulated(self.ast, one)
        if reduction is None or self.target.groups:
            raise self.refused(opt, "its partial results cannot be kept in memory")
        amount = self.amount(opt, one)
        if growing(self.ast, reduction) is None:
            size = iterations(inside(self.ast, reduction)) * reduction.dtype.itemsize
            self.check_memory(opt, size)
        self.ast = accumulate(self.ast, reduction, one, amount, len(self.staged()), self._next)
        self.ast = renumber(drop_single(self.ast))
        self._next = 1 + max(number_of(r) for r in self.ast.ranges())

    def staged(self) -> list[UOp]:
        """The packed memory of the kernel."""
        return [n for n in self.ast.toposort() if n.op is Ops.DEFINE_LOCAL]

    def check_memory(self, opt: Opt, size: int) -> None:
        """Packed memory has room for `size` bytes more."""
        room = self.target.local_bytes if self.target.groups else self.target.stage_bytes
        taken = sum(n.arg.size * n.dtype.itemsize for n in self.staged()) + size
        if taken > room:
            raise self.refused(opt, f"{taken} bytes would be staged, and there are {room}")

    def cut(self, opt: Opt) -> None:
        one = self.axis(opt, self.axes)
        size = size_of(one)
        if size is None or not opt.arg or not 0 < opt.arg < size:
            raise self.refused(opt, "it needs an axis of fixed size and a part of it")
        if kind_of(one) not in (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE):
            raise self.refused(opt, f"it is a {kind_of(one).name.lower()} axis")
        self.ast = drop_single(partition(self.ast, one, opt.arg, self._next).simplify())
        self._next = 1 + max(number_of(r) for r in self.ast.ranges())

    def stage(self, opt: Opt) -> None:
        level = self.axis(opt, self.axes)
        whole = operands(self.ast)
        values = [*whole, *coefficients(self.ast)]
        if opt.arg is None or not 0 <= opt.arg < len(values):
            raise self.refused(opt, f"reductions read {len(values)} values")
        if kind_of(level) not in (AxisType.GLOBAL, AxisType.THREAD, AxisType.LOOP):
            raise self.refused(opt, f"it is a {kind_of(level).name.lower()} axis")
        tile = tile_of(self.ast, values[opt.arg], level, single=opt.arg >= len(whole))
        if tile.size < 1:
            raise self.refused(opt, "inside that loop the value does not change")
        self.check_memory(opt, tile.bytes)
        self.ast = stage(self.ast, tile, len(self.staged()), self._next)
        self.ast = merge_axes(self.ast, (AxisType.REDUCE,))  # what was packed lies in a row now
        self._next += len(tile.axes)

    def window(self, opt: Opt) -> None:
        level, loads = self.axis(opt, self.axes), direct_loads(self.ast)
        if opt.arg is None or not 0 <= opt.arg < len(loads):
            raise self.refused(opt, f"there are {len(loads)} loads of what is stored elsewhere")
        if kind_of(level) not in (AxisType.GLOBAL, AxisType.THREAD, AxisType.LOOP):
            raise self.refused(opt, f"it is a {kind_of(level).name.lower()} axis")
        load = loads[opt.arg]
        rows = rows_of(self.ast, load, level, self._next, self.target.lanes(load.dtype.itemsize))
        if rows is None:
            raise self.refused(opt, "no windows slide over what it reads inside that loop")
        self.check_memory(opt, rows.bytes)
        self.ast = slide(self.ast, rows, len(self.staged())).simplify()
        self._next = 1 + max(number_of(r) for r in self.ast.ranges())

    def reads_stored(self) -> bool:
        """Whether the kernel reads memory that it stores to."""
        written = {s.src[0].src[0] for s in self.facts().stores}
        return any(n.op is Ops.LOAD and n.src[0].src[0] in written for n in self.ast.toposort())

    def stream(self, opt: Opt) -> None:
        """Store past the caches: none of the kernel's loads reads what it stores."""
        if self.reads_stored():
            raise self.refused(opt, "it reads what it stores")
        stores = self.facts().stores
        if all(s.arg == STREAMED for s in stores):
            raise self.refused(opt, "its stores are streamed already")
        self.ast = self.ast.substitute({s: s.replace(arg=STREAMED) for s in stores})

    def pair(self, opt: Opt) -> None:
        """Multiply and add two terms of a sum of small integers at a time."""
        one = self.axis(opt, self.reduce_axes)
        found = find_products(self.ast)
        if not self.target.pairs or found is None:
            raise self.refused(opt, "there is no instruction for two terms of this sum")
        if kind_of(one) is not AxisType.REDUCE or not suits(found, one, PAIR):
            raise self.refused(opt, "it needs a reduce axis of whole pairs of terms")
        self.ast = sum_in_pairs(self.ast, found, one).simplify()

    def quad(self, opt: Opt) -> None:
        """Multiply and add four terms of a sum of small integers at a time."""
        one = self.axis(opt, self.reduce_axes)
        found = find_products(self.ast)
        if found is None or not has_quads(self.target, found):
            raise self.refused(opt, "there is no instruction for four terms of this sum")
        if kind_of(one) is not AxisType.REDUCE or not suits(found, one, QUARTERS):
            raise self.refused(opt, "it needs a reduce axis of whole fours of terms")
        self.ast = sum_in_quads(self.ast, found, one).simplify()


_HANDLERS: Final[dict[OptOps, Callable[[Kernel, Opt], None]]] = {
    OptOps.UPCAST: Kernel.upcast,
    OptOps.OVERLAP: Kernel.overlap,
    OptOps.UNROLL: Kernel.unroll,
    OptOps.LOCAL: Kernel.local,
    OptOps.GROUP: Kernel.group,
    OptOps.GROUPTOP: Kernel.group,
    OptOps.PADTO: Kernel.pad_to,
    OptOps.SWAP: Kernel.swap,
    OptOps.NOLOCALS: Kernel.without_locals,
    OptOps.THREAD: Kernel.thread,
    OptOps.TILE: Kernel.tile,
    OptOps.PARTITION: Kernel.cut,
    OptOps.STAGE: Kernel.stage,
    OptOps.WINDOW: Kernel.window,
    OptOps.STREAM: Kernel.stream,
    OptOps.PAIR: Kernel.pair,
    OptOps.QUAD: Kernel.quad,
}


def gated_product(value: UOp, condition: UOp) -> bool:
    """Whether a value is a product of two that are both 0 where the condition does not hold."""
    return value.op is Ops.MUL and all(is_gated(s, condition) for s in value.src)


def has_room(place: UOp, one: UOp) -> bool:
    """Whether packed memory has elements for all rounds of a padded output axis: what is read of
    them is stored nowhere, and need not be asked for.
    """
    memory, position = place.src[:2]
    packed = memory.op is Ops.DEFINE_LOCAL and kind_of(one) is not AxisType.REDUCE
    return packed and position.vmin >= 0 and position.vmax < memory.arg.size


def mask_beyond(root: UOp, one: UOp, size: int) -> UOp:
    """Loads, stores and checks that run over `one` do nothing from `size` on; reductions take
    their identity there.
    """
    inside = one < UOp.const(dtypes.index, size)
    loops = find_loops(root)
    stored = {n.src[0] for n in loops.order if n.op is Ops.STORE}
    done: dict[UOp, UOp] = {}
    for node in loops.order:
        source = tuple(done[s] for s in node.src)
        if node.op is Ops.INDEX and one in loops.free[node]:
            if node not in stored and has_room(node, one):
                done[node] = node if source == node.src else node.replace(src=source)
                continue
            source = (*source[:2], source[2] & inside if len(source) > 2 else inside)
        elif node.op is Ops.CHECK and one in loops.free[node]:
            source = (source[0], ~inside | source[1])
        elif node.op is Ops.REDUCE and one in closed_by(node):
            neutral = UOp.const(node.dtype, identity(node.arg, node.dtype))
            if node.arg is not Ops.ADD or not gated_product(source[0], inside):
                source = (inside.where(source[0], neutral), *source[1:])
        done[node] = node if source == node.src else node.replace(src=source)
    return done[root]
