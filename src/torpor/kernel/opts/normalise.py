"""The canonical form of a kernel's axes: nested reductions joined, axes merged, loops in order and
forwards.
"""

from __future__ import annotations

from functools import lru_cache

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.rewrite import graph_rewrite
from torpor.ir.trace import listener
from torpor.ir.uop import UOp
from torpor.kernel.access import accesses
from torpor.kernel.opts.digits import cut_axes, evened
from torpor.kernel.opts.fission import fission_loops
from torpor.kernel.ranges import (
    Changes,
    Loops,
    closed_by,
    find_loops,
    is_no_load,
    kind_of,
    nesting,
    number_of,
    numbered,
    rename_ranges,
    replace_ranges,
    size_of,
)
from torpor.rules.affine import strides_of
from torpor.rules.validity import is_gated

# What may be infinite or NaN of small finite numbers.
POLES = frozenset({Ops.FDIV, Ops.LOG, Ops.LOG2, Ops.POW, Ops.SQRT, Ops.EXP, Ops.EXP2})


def join_reductions(outer: UOp, inner: UOp) -> UOp | None:
    """reduce(reduce(x, r), s) = reduce(x, s, r) for one operation."""
    if outer.arg is not inner.arg:
        return None
    return outer.replace(src=(inner.src[0], *outer.src[1:], *inner.src[1:]))


def join_masked_sum(outer: UOp, inner: UOp, condition: UOp) -> UOp | None:
    """sum(where(c, sum(x, r), 0), s) = sum(where(c, x, 0), s, r): zeros add nothing."""
    if outer.arg is not Ops.ADD or inner.arg is not Ops.ADD:
        return None
    if any(r in condition.toposort() for r in closed_by(inner)):
        return None
    masked = condition.where(inner.src[0], UOp.const(inner.dtype, 0))
    return outer.replace(src=(masked, *outer.src[1:], *inner.src[1:]))


def join_masks(outer: UOp, inner: UOp, value: UOp) -> UOp:
    """where(a, where(b, x, 0), 0) = where(a and b, x, 0)."""
    return (outer & inner).where(value, UOp.const(value.dtype, 0))


def drop_mask(condition: UOp, product: UOp) -> UOp | None:
    """where(c, x*y, 0) = x*y where x and y are loads that give 0 unless c holds."""
    return product if is_gated(product, condition) else None


def drop_padding(reduction: UOp, condition: UOp, product: UOp) -> UOp | None:
    """sum(where(c, x*y, 0)) = sum(x*y) where one is such a load, and c only bounds an axis.

    A licence (off under STRICT_FLOAT): where the other is infinite or NaN, padding then gives NaN,
    not 0; zeros between elements never do. Not where the other may be so of finite numbers, such as
    the zeros that it is made of beyond c. A gradient of a slice is no sum, and keeps its zeros.
    """
    gated = [is_gated(s, condition) for s in product.src]
    if not any(gated) or all(gated) or reduction.arg is not Ops.ADD:
        return None
    exact = settings.number("STRICT_FLOAT") and product.dtype.is_float
    between = any(n.op is Ops.MOD for n in condition.toposort())
    other = product.src[gated.index(False)].toposort(is_no_load)
    if exact or between or any(n.op in POLES for n in other):
        return None
    return reduction.replace(src=(product, *reduction.src[1:]))


_inner = UPat(Ops.REDUCE, name="inner")
_masked = UPat.var("condition").where(UPat(Ops.MUL, name="product"), UPat.const(0))
_join_rules = PatternMatcher(
    [
        (
            UPat.var("outer").where(
                UPat.var("inner").where(UPat.var("value"), UPat.const(0)), UPat.const(0)
            ),
            join_masks,
        ),
        (_masked, drop_mask),
        (UPat(Ops.REDUCE, src=(_masked,), name="reduction", more=True), drop_padding),
        (UPat(Ops.REDUCE, src=(_inner,), name="outer", more=True), join_reductions),
        (
            UPat(
                Ops.REDUCE,
                src=(UPat.var("condition").where(_inner, UPat.const(0)),),
                name="outer",
                more=True,
            ),
            join_masked_sum,
        ),
    ]
)


def joined(ast: UOp) -> UOp:
    """The same kernel with nested reductions of one operation as one."""
    return graph_rewrite(ast, _join_rules, name="join reductions").simplify()


def normalise(ast: UOp) -> UOp:
    """The same kernel with as few axes as possible, numbered in nesting order from 0. Kernels of
    one schedule are asked for more than once; who listens hears every rewrite each time.
    """
    if listener() is not None:
        return normal_form(ast)
    return _kept(ast, settings.number("STRICT_FLOAT"))


@lru_cache(maxsize=256)
def _kept(ast: UOp, strict: int) -> UOp:
    return normal_form(ast)


def normal_form(ast: UOp) -> UOp:
    """What `normalise` does."""
    ast = only_stored(fission_loops(drop_single(joined(ast))))
    ast = cut_axes(evened(order_outputs(ast)))
    ast = turn_axes(merge_axes(ast))
    return renumber(ast)


def turn_axes(ast: UOp) -> UOp:
    """Axes of results along which memory is only gone through backwards, the other way round."""
    loops = find_loops(ast)
    found, changes = accesses(loops), Changes()
    for one in (r for r in loops.axes if kind_of(r) in (AxisType.GLOBAL, AxisType.LOOP)):
        ways = {a.stride(one) for a in found}
        if -1 in ways and 1 not in ways:
            changes[one] = one.src[0] - 1 - one, (one,)
    return replace_ranges(ast, changes).simplify() if changes else ast


def drop_single(ast: UOp) -> UOp:
    """Axes of one iteration become the constant 0; not those whose order tells stores apart."""
    zero = UOp.index_const(0)
    ones = [r for r in ast.ranges() if size_of(r) == 1 and kind_of(r) is not AxisType.SERIAL]
    if not ones:
        return ast
    return replace_ranges(ast, dict.fromkeys(ones, (zero, ()))).simplify()


def only_stored(ast: UOp) -> UOp:
    """Axes of reductions that are gone (the largest of equal numbers) are those of outputs: some
    STORE runs over them.
    """
    reduced = {r for n in ast.toposort() if n.op in (Ops.REDUCE, Ops.SCAN) for r in closed_by(n)}
    free = 1 + max((number_of(r) for r in ast.ranges()), default=0)
    alone = [r for r in ast.ranges() if kind_of(r) is AxisType.REDUCE and r not in reduced]
    kinds = {r: r.replace(arg=(free + n, AxisType.GLOBAL)) for n, r in enumerate(alone)}
    return rename_ranges(ast, kinds) if kinds else ast


def order_outputs(ast: UOp) -> UOp:
    """Output axes that hoisted reductions depend on go outside; the others become inner loops."""
    loops = find_loops(ast)
    outputs = [r for r in loops.order if r.op is Ops.RANGE and kind_of(r) is AxisType.GLOBAL]
    reduce_free = [loops.free[n] & frozenset(outputs) for n in loops.order if n.op is Ops.REDUCE]
    stored = [
        frozenset(closed_by(n)) & frozenset(outputs) for n in loops.order if n.op is Ops.STORE
    ]
    partial = [f for f in reduce_free if f != frozenset(outputs)] + [
        s for s in stored if s != frozenset(outputs)
    ]
    if not partial:
        return ast
    common = frozenset(outputs).intersection(*partial)
    rank = {r: -sum(r in f for f in partial) for r in outputs}
    order = sorted(outputs, key=lambda r: (r not in common, rank[r], number_of(r)))
    changes = {}
    for number, one in enumerate(order):
        kind = AxisType.GLOBAL if one in common else AxisType.LOOP
        changes[one] = one.replace(arg=(number, kind))
    return rename_ranges(ast, changes)


def index_expressions(ast: UOp) -> UOp:
    """A SINK of every position, condition operand and value that is computed from ranges."""
    found: dict[UOp, None] = {}
    for node in ast.toposort():
        if node.dtype is dtypes.index or node.op is Ops.RANGE:
            continue
        closed = closed_by(node)
        for source in node.src:
            if source.dtype is dtypes.index and source not in closed:
                found[source] = None
    return UOp.sink(*found)


def divisions(expressions: UOp) -> int:
    """How many divisions and remainders the expressions contain."""
    return sum(n.op in (Ops.IDIV, Ops.MOD) for n in expressions.toposort())


def mergeable(loops: Loops, outer: UOp, inner: UOp) -> bool:
    """Whether two axes always loop together: in the same stores, reductions and hoisted values."""
    for node in loops.order:
        closed = closed_by(node)
        if (outer in closed) != (inner in closed):
            return False
        if node.op is Ops.REDUCE and outer not in closed:
            if (outer in loops.free[node]) != (inner in loops.free[node]):
                return False
    return True


def merge_pair(ast: UOp, outer: UOp, inner: UOp) -> UOp | None:
    """Two axes as one, if that takes no division that was not there before."""
    sizes = size_of(outer), size_of(inner)
    if sizes[0] is None or sizes[1] is None:
        return None
    before = index_expressions(ast)
    if divisions(before) == 0 and not all(runs_on(e, outer, inner) for e in before.src):
        return None
    merged = UOp.range(sizes[0] * sizes[1], *outer.arg)
    mapping = {outer: merged // sizes[1], inner: merged % sizes[1]}
    after = before.substitute(mapping).simplify()
    if divisions(after) > divisions(before):
        return None
    changes = {outer: (mapping[outer], (merged,)), inner: (mapping[inner], ())}
    return replace_ranges(ast, changes).simplify()


def runs_on(expression: UOp, outer: UOp, inner: UOp) -> bool:
    """Whether an axis goes on where the one inside of it ends, if that is known."""
    strides = strides_of(expression)
    slow, fast = strides.get(outer, 0), strides.get(inner, 0)
    return slow is None or fast is None or slow == fast * (size_of(inner) or 0)


def merge_axes(
    ast: UOp, kinds: tuple[AxisType, ...] = (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE)
) -> UOp:
    """Neighbouring axes of the same kind merged wherever every index allows it."""
    loops = find_loops(ast)
    axes = [r for r in loops.order if r.op is Ops.RANGE]
    for kind in kinds:
        group = sorted((r for r in axes if kind_of(r) is kind), key=number_of)
        position = len(group) - 2
        while position >= 0:
            outer, inner = group[position], group[position + 1]
            made = merge_pair(ast, outer, inner) if mergeable(loops, outer, inner) else None
            if made is not None:
                ast = made
                loops = find_loops(ast)
                merged = next(r for r in loops.order if r.op is Ops.RANGE and r.arg == outer.arg)
                group[position : position + 2] = [merged]
                position = min(position, len(group) - 2)
            else:
                position -= 1
    return ast


def renumber(ast: UOp) -> UOp:
    """Axis numbers 0, 1, ... in nesting order: equal kernels get equal numbers."""
    axes = sorted(ast.ranges(), key=nesting)
    changes = {r: numbered(r, number) for number, r in enumerate(axes)}
    return rename_ranges(ast, {old: new for old, new in changes.items() if old is not new})
