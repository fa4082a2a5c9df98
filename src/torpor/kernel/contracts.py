"""What is legal in a kernel at each stage, from the ast to the linear program.

Each contract is a table of clauses; most are an earlier one with a few clauses more. `lower.py`
says after which pass each is checked.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from torpor.base.dtypes import SMALL_FLOATS, dtypes
from torpor.base.target import Fragment, Target
from torpor.ir.contract import Clause, Contract, always, never
from torpor.ir.ops import ALU, COMPARE, GRAPH, TRANSCENDENTAL, AxisType, Ops
from torpor.ir.pattern import UPat
from torpor.ir.records import ParamArg, Rows
from torpor.ir.uop import UOp
from torpor.kernel.ranges import find_loops

_REDUCTIONS: Final = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN})
_SCHEDULED: Final = frozenset({AxisType.GLOBAL, AxisType.REDUCE, AxisType.SERIAL})
_NORMAL: Final = _SCHEDULED | {AxisType.LOOP}
_WRITTEN: Final = frozenset({AxisType.UPCAST, AxisType.UNROLL})
_ITEMS: Final = frozenset({AxisType.THREAD, AxisType.GLOBAL, AxisType.LOCAL, AxisType.GROUP})


# --- what nodes must look like --------------------------------------------------------------------
def is_scalar(node: UOp) -> bool:
    """There are no vectors yet, but matrices."""
    return node.dtype.count == 1 or is_matrix(node)


def is_matrix(node: UOp) -> bool:
    """A product of matrices, a sum of them, or what is read for one."""
    if node.op is Ops.REDUCE:
        return is_matrix(node.src[0])
    return node.op is Ops.MMA or (node.op is Ops.LOAD and isinstance(node.arg, Rows))


def multiplies_matrices(node: UOp) -> bool:
    """An MMA has words of the sizes that its Fragment says, and gives sums of another."""
    one = node.arg
    if not isinstance(one, Fragment):
        return False
    counts = one.rows * one.words, one.words * one.columns, one.rows * one.columns
    return node.dtype.count == counts[2] and all(
        s.dtype.count == count for s, count in zip(node.src, counts, strict=False)
    )


def lanes_agree(node: UOp) -> bool:
    """Operands have as many lanes as the result."""
    return all(s.dtype.count == node.dtype.count for s in node.src)


def compares_alike(node: UOp) -> bool:
    """A comparison gives bool and compares values of one format."""
    same = node.src[0].dtype is node.src[1].dtype
    return same and node.dtype.kind == "bool" and lanes_agree(node)


def computes_alike(node: UOp) -> bool:
    """Operands have the format of the result (casts, shifts and conditions aside)."""
    if node.op in (Ops.CAST, Ops.BITCAST, Ops.SHL, Ops.SHR, Ops.DOT):
        return lanes_agree(node)
    values = node.src[1:] if node.op is Ops.WHERE else node.src
    return lanes_agree(node) and all(s.dtype is node.dtype for s in values)


def names_memory(node: UOp) -> bool:
    """An INDEX is of memory, at a scalar integer, under a condition of bools."""
    memory, position = node.src[:2]
    if memory.op not in (Ops.PARAM, Ops.DEFINE_LOCAL) or position.dtype.count != 1:
        return False
    integral = position.dtype.kind in ("int", "index")
    return integral and all(s.dtype.kind == "bool" for s in node.src[2:3]) and len(node.src) < 4


def has_slot(node: UOp) -> bool:
    """Memory is numbered by a ParamArg."""
    return isinstance(node.arg, ParamArg)


def reads_memory(node: UOp) -> bool:
    """A LOAD is of an INDEX."""
    return node.src[0].op is Ops.INDEX


def reads_place(node: UOp) -> bool:
    """A LOAD is of an INDEX or a register."""
    return node.src[0].op in (Ops.INDEX, Ops.ACC)


def writes_memory(node: UOp) -> bool:
    """A STORE puts a value at an INDEX, over RANGEs; or what is no kernel into a PARAM."""
    place, value, *ranges = node.src
    if place.op is Ops.PARAM:
        return value.op in (Ops.COPY, Ops.KERNEL) and not ranges
    return place.op is Ops.INDEX and all(r.op in (Ops.RANGE, Ops.SPECIAL) for r in ranges)


def has_kind(node: UOp) -> bool:
    """A RANGE counts by the format of its bound; its arg is (number, AxisType)."""
    number, kind = node.arg
    return (
        isinstance(number, int) and isinstance(kind, AxisType) and node.src[0].dtype is node.dtype
    )


def is_scheduled_axis(node: UOp) -> bool:
    """In an ast an axis is GLOBAL, REDUCE or SERIAL."""
    return node.arg[1] in _SCHEDULED


def is_plain_axis(node: UOp) -> bool:
    """Before opts an axis is GLOBAL, LOOP, REDUCE or SERIAL."""
    return node.arg[1] in _NORMAL


def loops_twice(node: UOp) -> bool:
    """Axes of one iteration are gone, but those whose order matters."""
    once = node.src[0].op is Ops.CONST and node.src[0].arg == 1
    return not once or node.arg[1] is AxisType.SERIAL


def is_loop(node: UOp) -> bool:
    """No axis is left to be written out."""
    return node.arg[1] not in _WRITTEN


def is_own_loop(node: UOp) -> bool:
    """Axes shared by work items have become their numbers."""
    return node.arg[1] not in _ITEMS


def reduces_values(node: UOp) -> bool:
    """A REDUCE combines values of its format by ADD, MUL, MAX or MIN, over RANGEs."""
    values = [s for s in node.src if s.op is not Ops.RANGE]
    return node.arg in _REDUCTIONS and all(s.dtype is node.dtype for s in values)


def scans_values(node: UOp) -> bool:
    """A SCAN combines values of its format by ADD, MUL, MAX or MIN, over one RANGE."""
    value, initial, steps = node.src
    alike = value.dtype is node.dtype is initial.dtype
    return node.arg in _REDUCTIONS and alike and steps.op is Ops.RANGE


def has_one_kind(node: UOp) -> bool:
    """A reduction is over a group or over loops, not over both."""
    kinds = {s.arg[1] is AxisType.GROUP for s in node.src if s.op is Ops.RANGE}
    return len(kinds) < 2


def checks_bools(node: UOp) -> bool:
    """A CHECK passes its value on, asks a bool and has a number."""
    if node.dtype is dtypes.void:  # linear: the condition alone
        return True
    value, condition = node.src
    return value.dtype is node.dtype and condition.dtype.kind == "bool" and is_number(node.arg)


def is_number(arg: object) -> bool:
    """Whether it is a number from 0 on."""
    return isinstance(arg, int) and arg >= 0


def holds_stores(node: UOp) -> bool:
    """A SINK holds STOREs."""
    return all(s.op is Ops.STORE for s in node.src)


def closes_loops(node: UOp) -> bool:
    """Every loop is closed: by a REDUCE inside of it, or by the STOREs that run over it."""
    return not find_loops(node).free[node]


def makes_vector(node: UOp) -> bool:
    """A VECTORIZE has a scalar of its format for each lane."""
    scalar = node.dtype.scalar()
    return len(node.src) == node.dtype.count and all(s.dtype is scalar for s in node.src)


def picks_lanes(node: UOp) -> bool:
    """A GEP picks lanes that there are."""
    source = node.src[0].dtype
    fits = source.scalar() is node.dtype.scalar() and len(node.arg) == node.dtype.count
    alike = len(node.src) == 1 or (len(node.src) == 2 and node.src[1].dtype is source)
    return fits and alike and all(0 <= n < source.count * len(node.src) for n in node.arg)


def has_machine_format(node: UOp) -> bool:
    """No unbounded integers are left."""
    return node.dtype.scalar() is not dtypes.index


# --- the stages -----------------------------------------------------------------------------------
_COMPUTE: Final[tuple[Clause, ...]] = (
    (UPat(COMPARE), compares_alike),
    (UPat(ALU - COMPARE), computes_alike),
    (UPat(Ops.INDEX), names_memory),
    (UPat((Ops.PARAM, Ops.DEFINE_LOCAL)), has_slot),
    (UPat(Ops.RANGE), has_kind),
    (UPat(Ops.CHECK), checks_bools),
    (UPat(Ops.MMA), multiplies_matrices),
    (UPat((Ops.CONST, Ops.VARIABLE, Ops.BARRIER)), always),
)
_TREE: Final[tuple[Clause, ...]] = (
    *_COMPUTE,
    (UPat(Ops.LOAD), reads_memory),
    (UPat(Ops.STORE), writes_memory),
    (UPat(Ops.REDUCE), reduces_values),
    (UPat(Ops.SCAN), scans_values),
    (UPat(Ops.SINK), holds_stores),
)
_PLAIN: Final[tuple[Clause, ...]] = (
    *_TREE,
    (UPat(), is_scalar),
    (UPat(Ops.MMA), never),
    (UPat(Ops.SINK), closes_loops),
    (UPat((Ops.DEFINE_LOCAL, Ops.BARRIER)), never),
)
# As `schedule/` hands it over. Copies between devices never come to this room.
AST: Final = Contract("ast", (*_PLAIN, (UPat(Ops.RANGE), is_scheduled_axis)))
NORMAL: Final = Contract(
    "normalised", (*_PLAIN, (UPat(Ops.RANGE), is_plain_axis), (UPat(Ops.RANGE), loops_twice))
)
OPTIMISED: Final = Contract(
    "optimised", (*_TREE, (UPat(), is_scalar), (UPat(Ops.SINK), closes_loops))
)
WRITTEN_OUT: Final = Contract(
    "written out",
    (
        *_TREE,
        (UPat(Ops.RANGE), is_loop),
        (UPat(Ops.REDUCE), has_one_kind),
        (UPat(Ops.VECTORIZE), makes_vector),
        (UPat(Ops.GEP), picks_lanes),
        (UPat(Ops.LANES), always),
    ),
)


@cache
def placed(target: Target) -> Contract:
    """Work items have numbers, where the target has them; groups reduce through local memory."""
    if not target.groups:
        return WRITTEN_OUT
    own = UPat(Ops.RANGE), is_own_loop
    return WRITTEN_OUT.and_also("placed", (UPat(Ops.SPECIAL), always), own)


@cache
def sized(target: Target) -> Contract:
    """Index arithmetic has a machine's format."""
    return placed(target).and_also("sized", (UPat(), has_machine_format))


@cache
def decomposed(target: Target) -> Contract:
    """Nothing is computed that the target lacks."""
    small = [d for d in SMALL_FLOATS if d.name in target.missing]
    clauses: list[Clause] = [(UPat(TRANSCENDENTAL), never)]
    if small:
        clauses.append((UPat(ALU - {Ops.BITCAST, Ops.CAST}, small), never))
    soft = [d for d in small if d.name not in target.converts]
    if soft:
        clauses.append((UPat(Ops.CAST, soft), never))
    return sized(target).and_also("decomposed", *clauses)


_GONE: Final = frozenset({Ops.INDEX, Ops.REDUCE, Ops.SCAN, Ops.SINK, Ops.BIND, Ops.LOAD})
_LINEAR_OPS: Final = frozenset(Ops) - GRAPH - ALU - _GONE
LINEAR: Final = Contract(
    "linear",
    (
        *_COMPUTE,
        (UPat(_LINEAR_OPS), has_machine_format),
        (UPat(Ops.LOAD), reads_place),
        (UPat(TRANSCENDENTAL), never),
    ),
)
