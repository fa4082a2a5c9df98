"""The passes from a kernel's ast to a linear program, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError
from torpor.base.target import Target
from torpor.ir.contract import Contract
from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.trace import passed, watched
from torpor.ir.uop import UOp
from torpor.kernel.choose.heuristics import with_opts
from torpor.kernel.contracts import (
    AST,
    LINEAR,
    NORMAL,
    OPTIMISED,
    WRITTEN_OUT,
    decomposed,
    placed,
    sized,
)
from torpor.kernel.decompose import without_missing
from torpor.kernel.estimate import estimate
from torpor.kernel.lanes import lane_axes
from torpor.kernel.opts.fission import fission_loops
from torpor.kernel.opts.kernel import Kernel
from torpor.kernel.passes.groups import part_reductions, share_reductions, to_items
from torpor.kernel.passes.interleaved_loads import interleave_loads
from torpor.kernel.passes.interleaved_stores import interleave_stores
from torpor.kernel.passes.linearise import linearise
from torpor.kernel.passes.scatter import stage_scattered
from torpor.kernel.passes.unroll import unroll
from torpor.kernel.passes.vectorise import split_lane, vectorise
from torpor.kernel.passes.width import lower_index
from torpor.kernel.ranges import WRITTEN, kind_of, nesting, size_of
from torpor.rules.decided import decided_rules


@dataclass
class Lowering:
    """A kernel on its way through the passes."""

    kernel: Kernel
    target: Target
    ast: UOp
    root: UOp
    global_size: tuple[UOp | int, ...] = (1, 1, 1)
    local_size: tuple[int, ...] = (1, 1, 1)
    linear: list[UOp] = field(default_factory=list)


@dataclass(frozen=True)
class Lowered:
    """What `lower` gives: the linear program and what is known about it."""

    name: str
    linear: tuple[UOp, ...]
    opts: tuple[Opt, ...]
    global_size: tuple[UOp | int, ...]
    local_size: tuple[int, ...]
    thread_range: int | UOp | None
    ops: int
    bytes: int


def write_out(state: Lowering) -> None:
    """UPCAST and UNROLL axes become copies, the lane axis vectors; before positions are numbers of
    a fixed width, since copies differ by constants that index rules fold. While every axis is
    whole, reductions over a group and over loops become two.
    """
    state.root = part_reductions(state.root) if state.target.groups else state.root
    state.root, lanes = choose_lanes(state.root, state.target)
    written = [r for r in sorted(state.root.ranges(), key=nesting) if kind_of(r) in WRITTEN]
    state.root = unroll(state.root, [r for r in written if r not in lanes])
    if any(has_condition(n) for n in state.root.toposort()):
        state.root = state.root.simplify()
    for lane in lanes:
        state.root = vectorise(state.root, lane, size_of(lane) or 1)
    if not state.target.groups:
        state.root = interleave_stores(interleave_loads(state.root), state.target)
    if lanes:
        state.root = graph_rewrite(state.root, decided_rules, name="decided")


def place_items(state: Lowering) -> None:
    """Output axes become work items, where the target has them, and reductions over a group go
    through local memory; after copies have been written out, since each needs memory of its own.
    """
    if state.target.groups:
        shared = share_reductions(state.root, state.target)
        state.root, state.global_size, state.local_size = to_items(shared, state.target)
        state.root = state.root.simplify()


def choose_index_width(state: Lowering) -> None:
    """Index arithmetic becomes int32 or int64; after everything that uses its rules, which know by
    their clamps where indices that are read lie.
    """
    state.root = lower_index(state.root, state.target)


def decompose(state: Lowering) -> None:
    """What the target lacks, in terms of what it has; last, so that nothing matches on the
    pieces of a function.
    """
    state.root = without_missing(state.root, state.target)


def order(state: Lowering) -> None:
    """The graph as a list."""
    state.linear = list(with_parameters(linearise(fission_loops(state.root)), state.ast))


PASSES: Final[tuple[Callable[[Lowering], None], ...]] = (
    write_out,
    place_items,
    choose_index_width,
    decompose,
    order,
)
# What each pass leaves behind, which may depend on the target; checked under CHECK.
CONTRACTS: Final[dict[Callable[[Lowering], None], Contract | Callable[[Target], Contract]]] = {
    write_out: WRITTEN_OUT,
    place_items: placed,
    choose_index_width: sized,
    decompose: decomposed,
    order: LINEAR,
}


def lower(ast: UOp, target: Target, opts: Sequence[Opt] | None = None) -> Lowered:
    """The linear program of a kernel's ast; `opts=None` lets the heuristics choose, `[]` applies
    none, a list is applied as given (an `OptError` says which does not fit and why). A `DTypeError`
    names a format that the target has no way to compute in.
    """
    AST.expect(ast)
    refuse_formats(ast, target)
    kernel = Kernel(ast, target)
    NORMAL.expect(kernel.ast)
    ops, moved = estimate(kernel.ast)
    kernel = optimised(kernel, opts)
    state = Lowering(kernel, target, ast, kernel.ast)
    for step in PASSES:
        step(state)
        contract = CONTRACTS[step]
        found = contract if isinstance(contract, Contract) else contract(target)
        found.expect(state.linear or state.root)
        if not state.linear:
            passed(step.__name__, state.root)
    threads = [r for r in kernel.axes if kind_of(r) is AxisType.THREAD]
    return Lowered(
        kernel.name,
        tuple(state.linear),
        tuple(kernel.opts),
        state.global_size,
        state.local_size,
        iterations(threads[0]) if threads and target.threads else None,
        ops,
        moved,
    )


def optimised(kernel: Kernel, opts: Sequence[Opt] | None) -> Kernel:
    """The kernel with these opts; who listens to passes is told of each."""
    if opts is None:
        found = kernel if settings.number("NOOPT") else with_opts(kernel)
        if not watched():
            OPTIMISED.expect(found.ast)
            return found
        opts = found.opts
    for opt in opts:
        kernel.apply_opt(opt)
        OPTIMISED.expect(kernel.ast)
        passed(f"{opt.op.name} {opt.axis} {opt.arg}", kernel.ast)
    return kernel


def refuse_formats(ast: UOp, target: Target) -> None:
    """No target does without float64 by other formats, as by float32 without smaller ones."""
    if "float64" in target.missing and any(n.dtype is dtypes.float64 for n in ast.toposort()):
        raise DTypeError(f"{target.name} has no float64: cast to float32 first")


def iterations(one: UOp) -> int | UOp:
    """How often a range's loop runs: a number, or an expression of the variables."""
    size = size_of(one)
    return one.src[0] if size is None else size


def with_parameters(linear: Sequence[UOp], ast: UOp) -> tuple[UOp, ...]:
    """The program with every parameter of the ast, also those that folding left without use: the
    caller passes them all.
    """
    used = {node.arg.slot for node in linear if node.op is Ops.PARAM}
    unused = [n for n in ast.toposort() if n.op is Ops.PARAM and n.arg.slot not in used]
    return (*unused, *linear)


def has_condition(node: UOp) -> bool:
    """Whether copies that are written out may decide something of a node."""
    return node.op in (Ops.WHERE, Ops.CHECK) or (node.op is Ops.INDEX and len(node.src) > 2)


def choose_lanes(root: UOp, target: Target) -> tuple[UOp, list[UOp]]:
    """The kernel with each axis along which vectors run cut to a vector's width: it, the lanes."""
    lanes: list[UOp] = []
    for one, width in lane_axes(root, target):
        if not target.groups:
            root = stage_scattered(root, one)
        lane, root = split_lane(root, one, width)
        lanes.append(lane)
    return root, lanes
