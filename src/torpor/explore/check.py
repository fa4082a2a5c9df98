"""The steps of a trace, executed one by one: where a result first differs.

A rule's step is computed before and after at random points of its ranges, variables and memory, or
where it is about tensors, of random tensors. A pass's step is run as a whole, on random memory. All
by the reference interpreter or NumPy, so what the compiler makes of a kernel is not what judges it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from torpor.base.errors import TorporError
from torpor.device.interpreter.arithmetic import Array
from torpor.device.interpreter.complete import complete, jumps
from torpor.device.interpreter.group import Groups
from torpor.explore.samples import LARGEST, alike, values
from torpor.explore.tensors import same_tensor
from torpor.ir.ops import ALU, MOVEMENT, AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.passes.linearise import linearise

POINTS: Final = 32  # at which a rule is tried
MOST_STEPS: Final = 100_000  # of the interpreter, for one run of a kernel
PATIENCE: Final = 4.0  # seconds after which no kernel is run as a whole any more
_COMPUTED: Final = ALU | {Ops.LOAD, Ops.INDEX, Ops.VECTORIZE, Ops.GEP, Ops.CONST, Ops.LANES,
                          Ops.PARAM, Ops.VARIABLE}  # fmt: skip
_SPREADING: Final = MOVEMENT - {Ops.PAD}  # whose elements are those of what they move
_PLAIN: Final = {AxisType.UNROLL: AxisType.REDUCE, AxisType.UPCAST: AxisType.LOOP}


class Tried(NamedTuple):
    """One step: a pass's, or a rule's."""

    whole: bool
    before: UOp
    after: UOp


def first_difference(ast: UOp | None, steps: Sequence[Tried]) -> tuple[int | None, int]:
    """The number of the first step whose result differs from what it began with, if any; and how
    many steps could be tried.
    """
    until = time.monotonic() + PATIENCE
    wanted = None if ast is None else outcome(ast)
    tried = 0
    known: dict[Tried, bool | None] = {}
    for number, step in enumerate(steps):
        late = time.monotonic() > until
        if step not in known:
            known[step] = None if step.whole else same_value(*step[1:])
            if known[step] is None and not late and step.whole:
                known[step] = same_outcome(wanted, step.after)
            elif known[step] is None and not late and ast is None:
                known[step] = same_tensor(*step[1:])
        if known[step] is False:
            return number, tried + 1
        tried += known[step] is True
    return None, tried


# --- rules ----------------------------------------------------------------------------------------
def same_value(before: UOp, after: UOp) -> bool | None:
    """Whether two expressions have one value at random points; None where that cannot be told."""
    opaque, others = set(leaves(before)), set(leaves(after))
    if not others <= opaque or before.dtype is not after.dtype or before.dtype.name == "void":
        return None
    if any(n.dtype.name == "void" for n in opaque):
        return None
    if before in opaque or before.op is Ops.INDEX:
        return None  # what a place in memory is, is seen where it is loaded
    random = np.random.default_rng(0)
    given = {leaf: points(leaf, random) for leaf in sorted(opaque, key=lambda one: one.key)}
    memory = {n: contents(n, random) for n in parameters(before, after)}
    try:
        old = computed(before, given, memory)
    except TorporError:
        return None
    try:
        return alike(old, computed(after, given, memory))
    except TorporError:
        return False


def leaves(root: UOp) -> Iterator[UOp]:
    """What an expression is computed from, beside memory: ranges, and what has no value here."""
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        memory = node.op is Ops.LOAD and (
            node.src[0].op is not Ops.INDEX or node.src[0].src[0].op is not Ops.PARAM
        )
        if node.op is Ops.VARIABLE or node.op not in _COMPUTED or memory:
            yield node
        else:
            stack.extend(node.src)


def points(leaf: UOp, random: np.random.Generator) -> Array:
    """Values of a leaf, within its bounds."""
    shape = (POINTS,) if leaf.dtype.count == 1 else (POINTS, leaf.dtype.count)
    base = leaf.below(_SPREADING)
    if base.op is Ops.CONST:
        return np.full(shape, base.arg, leaf.dtype.scalar().numpy)
    return values(leaf.dtype.scalar(), shape, random, leaf.vmin, leaf.vmax)


def computed(root: UOp, given: Mapping[UOp, Array], memory: Mapping[UOp, Array]) -> Array:
    """The value of an expression where its leaves have these."""
    order = root.toposort(lambda node: node not in given)
    groups = Groups([n for n in order if n not in given], {}, dict(memory), {}, {}, (POINTS, 1))
    groups.values.update(given)
    with np.errstate(all="ignore"):
        groups.run()
        return groups.value(root)


# --- passes ---------------------------------------------------------------------------------------
Memories = dict[int, Array]


def outcome(root: UOp) -> Memories | None:
    """What a kernel leaves in memory that was random before; None where it cannot be run alone, or
    takes too long.
    """
    nodes = root.toposort()
    if any(n.op is Ops.SPECIAL for n in nodes):
        return None
    variables = {n.arg[0]: int(min(max(n.vmin, 3), n.vmax)) for n in nodes if n.op is Ops.VARIABLE}
    loops = [n for n in nodes if n.op is Ops.RANGE]
    plain = {n: n.replace(arg=(n.arg[0], _PLAIN[n.arg[1]])) for n in loops if n.arg[1] in _PLAIN}
    random = np.random.default_rng(0)
    memory = {n: contents(n, random) for n in parameters(root)}
    try:
        linear = complete(linearise(root.substitute(plain)))
        if work(linear, variables) > MOST_STEPS:
            return None
        with np.errstate(all="ignore"):
            Groups(linear, jumps(linear), dict(memory), variables, {}, (1, 1)).run()
    except (TorporError, AssertionError, KeyError):
        return None
    return {node.arg.slot: array for node, array in memory.items()}


def same_outcome(wanted: Memories | None, root: UOp) -> bool | None:
    """Whether a kernel at a later stage leaves the same; None where that cannot be told."""
    found = None if wanted is None else outcome(root)
    if found is None or wanted is None:
        return None
    unlike = [array for slot, array in found.items() if not alike(wanted[slot], array)]
    rounded = any(n.op in ALU and n.dtype.scalar().is_float for n in root.toposort())
    if unlike and rounded and all(array.dtype.kind in "biu" for array in unlike):
        return None  # integers that are made of floats: their last bits may differ
    return not unlike


def work(linear: Sequence[UOp], variables: Mapping[str, int]) -> int:
    """How many nodes are interpreted."""
    total, rounds = 0, [1]
    known = {n: UOp.const(n.dtype, variables[n.arg[0]]) for n in linear if n.op is Ops.VARIABLE}
    for node in linear:
        total += rounds[-1]
        if node.op is Ops.RANGE:
            rounds.append(
                rounds[-1] * max(int(min(node.src[0].substitute(known).vmax, LARGEST)), 1)
            )
        elif node.op is Ops.END:
            rounds.pop()
    return total


# --- both -----------------------------------------------------------------------------------------
def parameters(*roots: UOp) -> list[UOp]:
    """The memory that is read and written, by number."""
    found = {n for root in roots for n in root.toposort() if n.op is Ops.PARAM}
    return sorted(found, key=lambda node: int(node.arg.slot))


def contents(parameter: UOp, random: np.random.Generator) -> Array:
    """Random memory."""
    size = LARGEST if parameter.arg.size is None else int(parameter.arg.size)
    return values(parameter.dtype.scalar(), (size,), random, 0, 8)
