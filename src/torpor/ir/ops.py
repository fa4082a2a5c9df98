"""The op table: one row an op. Every set of ops elsewhere is computed from a row's traits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from operator import add
from typing import Any, Final

from torpor.base.dtypes import DType, dtypes


class AxisType(Enum):
    """What becomes of a kernel's axis. The order is the order of nesting, outermost first."""

    THREAD = auto()  # cut among native threads
    GLOBAL = auto()  # a loop on a CPU, the grid on a GPU
    LOCAL = auto()  # work items of one group
    LOOP = auto()  # a loop inside a work item
    SERIAL = auto()  # a loop whose steps run in order, each after what the one before stored
    GROUP = auto()  # a reduce axis shared by the work items of one group
    REDUCE = auto()  # a reduce loop
    UNROLL = auto()  # a reduce axis written out
    UPCAST = auto()  # an output axis written out, or a vector's lanes
    __hash__ = object.__hash__  # enum's own is Python code, and every loop is found by its type

    def __repr__(self) -> str:
        return f"AxisType.{self.name}"


class Ops(Enum):
    """Every op from tensor to instruction; `ROWS` says what each means."""

    # leaves
    CONST = auto()
    BUFFER = auto()
    PARAM = auto()
    VARIABLE = auto()
    BIND = auto()
    LANES = auto()
    # movement of tensors
    RESHAPE = auto()
    PERMUTE = auto()
    EXPAND = auto()
    PAD = auto()
    SHRINK = auto()
    FLIP = auto()
    SHEAR = auto()
    # other ops on tensors
    REDUCE_AXIS = auto()
    CONTIGUOUS = auto()
    COPY = auto()
    LEAF = auto()
    DETACH = auto()
    AFTER = auto()
    FUNCTION = auto()
    GATHER = auto()
    SCATTER = auto()
    PRIOR = auto()
    SCAN_AXIS = auto()
    MULTI = auto()
    SLOT = auto()
    LOOP = auto()
    LAST = auto()
    STEPS = auto()
    TRAIL = auto()
    KERNEL = auto()
    CALL = auto()
    PART = auto()
    # arithmetic, one operand
    CAST = auto()
    BITCAST = auto()
    EXP = auto()
    EXP2 = auto()
    LOG = auto()
    LOG2 = auto()
    SIN = auto()
    COS = auto()
    TANH = auto()
    ERF = auto()
    SQRT = auto()
    FLOOR = auto()
    TRUNC = auto()
    RINT = auto()
    # arithmetic, two operands
    ADD = auto()
    SUB = auto()
    MUL = auto()
    FDIV = auto()
    IDIV = auto()
    MOD = auto()
    POW = auto()
    MAX = auto()
    MIN = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()
    SHR = auto()
    CMPLT = auto()
    CMPNE = auto()
    CMPEQ = auto()
    # arithmetic, three operands
    WHERE = auto()
    DOT = auto()
    # vectors
    VECTORIZE = auto()
    GEP = auto()
    MMA = auto()
    # kernels
    SINK = auto()
    RANGE = auto()
    END = auto()
    SPECIAL = auto()
    DEFINE_LOCAL = auto()
    ACC = auto()
    INDEX = auto()
    LOAD = auto()
    STORE = auto()
    REDUCE = auto()
    SCAN = auto()
    CHECK = auto()
    BARRIER = auto()
    IF = auto()
    ENDIF = auto()

    def __repr__(self) -> str:
        return f"Ops.{self.name}"

    __str__ = __repr__
    __hash__ = object.__hash__  # enum's own is Python code, and every node is found by its op

    def __lt__(self, other: Ops) -> bool:
        return bool(self.value < other.value)


class Trait(Enum):
    """What passes need to know about an op."""

    ALU = auto()  # computes each lane from the same lane of its operands
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()  # on integers and bools; floats only by licence
    COMPARE = auto()  # gives bool
    MOVEMENT = auto()  # a map of indices, moves no data
    GRAPH = auto()  # exists only before scheduling
    KERNEL = auto()  # exists only in kernels
    EFFECT = auto()  # must run, and in order


Bounds = tuple[int | float, int | float]


@dataclass(frozen=True)
class Row:
    """One op: `arity` operands (None: any number), its traits, its meaning on Python numbers,
    the bounds of its result from its operands', and in words what it means.
    """

    arity: int | None
    traits: frozenset[Trait]
    meaning: str
    fold: Callable[..., Any] | None = None
    bounds: Callable[..., Bounds] | None = None


def _corners(function: Callable[[Any, Any], Any]) -> Callable[[Bounds, Bounds], Bounds]:
    def bounds(a: Bounds, b: Bounds) -> Bounds:
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return bounds


def _ends(function: Callable[[Any, Any], Any]) -> Callable[[Bounds, Bounds], Bounds]:
    def bounds(a: Bounds, b: Bounds) -> Bounds:
        return function(a[0], b[0]), function(a[1], b[1])

    return bounds


def _times(a: int | float, b: int | float) -> int | float:
    return 0 if a == 0 or b == 0 else a * b  # 0 * infinity is 0: infinity stands for "unbounded"


def _floor_divide(a: Any, b: Any) -> Any:
    if isinstance(a, float) and math.isinf(a):
        return a if b > 0 else -a
    if isinstance(b, float) and math.isinf(b):
        return 0 if (a >= 0) == (b > 0) else -1
    return a // b


def _idiv_bounds(a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0 <= b[1]:
        return -math.inf, math.inf
    return _corners(_floor_divide)(a, b)


def _mod_bounds(a: Bounds, b: Bounds) -> Bounds:
    if b[0] > 0:
        if a[0] >= 0 and a[1] < b[0]:
            return a
        if b[0] == b[1] and _floor_divide(a[0], b[0]) == _floor_divide(a[1], b[0]):
            if not math.isinf(a[0]) and not math.isinf(a[1]):
                return a[0] % b[0], a[1] % b[0]
        return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    if b[1] < 0:
        return b[0] + 1, 0
    return -math.inf, math.inf  # by zero it has no value: bounds must not give it one


def _lt_bounds(a: Bounds, b: Bounds) -> Bounds:
    return int(a[1] < b[0]), int(a[0] < b[1])


def _ne_bounds(a: Bounds, b: Bounds) -> Bounds:
    apart = a[1] < b[0] or b[1] < a[0]
    return int(apart), int(not (a[0] == a[1] == b[0] == b[1]))


def _eq_bounds(a: Bounds, b: Bounds) -> Bounds:
    low, high = _ne_bounds(a, b)
    return 1 - high, 1 - low


def _and_bounds(a: Bounds, b: Bounds) -> Bounds:
    least = min(a[0], b[0])
    if least >= 0 and max(a[1], b[1]) <= 1:
        return least, min(a[1], b[1])
    most = [high for low, high in (a, b) if low >= 0]
    return (0, min(most)) if most else (-math.inf, math.inf)


def _shr_bounds(a: Bounds, b: Bounds) -> Bounds:
    if b[0] < 0:
        return -math.inf, math.inf
    return _corners(_floor_divide)(a, (1 << int(min(b[0], 64)), 1 << int(min(b[1], 64))))


def _or_bounds(a: Bounds, b: Bounds) -> Bounds:
    if min(a[0], b[0]) >= 0 and max(a[1], b[1]) <= 1:
        return max(a[0], b[0]), max(a[1], b[1])
    return -math.inf, math.inf


def _where_bounds(c: Bounds, a: Bounds, b: Bounds) -> Bounds:
    if c[0] == c[1]:
        return a if c[0] else b
    return min(a[0], b[0]), max(a[1], b[1])


def _fdiv(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))
    return a / b


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a >= b) else b


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or (b == b and a <= b) else b


def _shift_left(a: int, b: int) -> int:
    return 0 if b >= 64 else a << b


def _shift_right(a: int, b: int) -> int:
    return a >> min(b, 64)


_NOTHING: Final[frozenset[Trait]] = frozenset()
_GRAPH: Final = frozenset({Trait.GRAPH})
_MOVE: Final = frozenset({Trait.GRAPH, Trait.MOVEMENT})
_KERNEL: Final = frozenset({Trait.KERNEL})
_EFFECT: Final = frozenset({Trait.KERNEL, Trait.EFFECT})
_ALU: Final = frozenset({Trait.ALU})
_SYMMETRIC: Final = frozenset({Trait.ALU, Trait.COMMUTATIVE, Trait.ASSOCIATIVE})
_ORDER: Final = frozenset({Trait.ALU, Trait.COMPARE})
_EQUALITY: Final = frozenset({Trait.ALU, Trait.COMPARE, Trait.COMMUTATIVE})

ROWS: Final[dict[Ops, Row]] = {
    Ops.CONST: Row(0, _NOTHING, "the number arg; as a tensor it has shape ()"),
    Ops.BUFFER: Row(0, _GRAPH, "memory; arg is the runtime's Buffer, its shape (size,)"),
    Ops.PARAM: Row(0, _KERNEL, "kernel parameter; arg is ParamArg(slot, size)"),
    Ops.VARIABLE: Row(0, _NOTHING, "an integer known at launch; arg is (name, min, max)"),
    Ops.BIND: Row(2, _NOTHING, "a VARIABLE together with the CONST it has this time"),
    Ops.LANES: Row(0, _KERNEL, "the vector of lane numbers 0 ... dtype.count-1"),
    Ops.RESHAPE: Row(1, _MOVE, "row-major order kept; arg is the new shape"),
    Ops.PERMUTE: Row(1, _MOVE, "axis i of the result is axis arg[i] of the operand"),
    Ops.EXPAND: Row(1, _MOVE, "axes of size 1 repeated to the shape arg"),
    Ops.PAD: Row(1, _MOVE, "zeros around; arg is ((before, after), ...) an axis"),
    Ops.SHRINK: Row(1, _MOVE, "a box of the operand; arg is ((start, stop), ...) an axis"),
    Ops.FLIP: Row(1, _MOVE, "axes reversed where arg (a tuple of bool) is true"),
    Ops.SHEAR: Row(
        1,
        _MOVE,
        "out[.., o, .., k, ..] = x[.., o*stride + k*step + offset, .., k, ..]; "
        "arg is (axis of o, axis of k, length of o, stride, step, offset)",
    ),
    Ops.REDUCE_AXIS: Row(1, _GRAPH, "arg is (ADD|MUL|MAX|MIN, axes); reduced axes stay, size 1"),
    Ops.CONTIGUOUS: Row(
        1, _GRAPH, "the same value, stored in row-major order of its own; arg is None or a Stored"
    ),
    Ops.COPY: Row(1, _GRAPH, "the same value on the device named arg"),
    Ops.LEAF: Row(1, _GRAPH, "the same value under an identity of its own, arg"),
    Ops.DETACH: Row(1, _GRAPH, "the same value; no gradient flows (of arg no_grad, tangents do)"),
    Ops.AFTER: Row(
        2, _GRAPH, "its first operand's value as a node of its own, there once the second is"
    ),
    Ops.FUNCTION: Row(
        None,
        _GRAPH,
        "the value of its first operand, whose gradient for the others is by a rule of its own; "
        "arg is the rule's name and numbers",
    ),
    Ops.GATHER: Row(
        2,
        _GRAPH,
        "out[.., i, ..] = x[.., index[.., i, ..], ..] along the axis arg; outside raises at "
        "realisation",
    ),
    Ops.SCATTER: Row(
        3,
        _GRAPH,
        "out = base, then out[.., index[.., i, ..], ..] op= values[.., i, ..] for each i in order; "
        "arg is (STORE|ADD|MUL|MAX|MIN, axis, whether each place is stored to once and base is "
        "not looked at); outside raises at realisation",
    ),
    Ops.PRIOR: Row(
        1, _GRAPH, "of a SCATTER: what stood at the place of each of its updates just before it"
    ),
    Ops.SCAN_AXIS: Row(
        2,
        _GRAPH,
        "out[.., i, ..] = initial op x[.., 0, ..] op ... op x[.., i, ..]; operands are x and "
        "initial (of length 1 there), arg is (ADD|MUL|MAX|MIN, axis)",
    ),
    Ops.MULTI: Row(
        None,
        _GRAPH,
        "one tensor over several devices: its part on each; arg is (the axis they are cut along or "
        "None where each has all of it, the devices)",
    ),
    Ops.SLOT: Row(0, _GRAPH, "what a step of a loop has of an operand; arg is (number, shape)"),
    Ops.LOOP: Row(
        None,
        _GRAPH,
        "a body done step by step; arg is a Loop, whose body reads operand n at SLOT n",
    ),
    Ops.LAST: Row(1, _GRAPH, "what carry number arg of a LOOP is in the end"),
    Ops.STEPS: Row(1, _GRAPH, "the values that node arg of a LOOP's body has, step by step"),
    Ops.TRAIL: Row(1, _GRAPH, "what carry number arg of a LOOP is before each step and in the end"),
    Ops.KERNEL: Row(
        None,
        _GRAPH,
        "what a kernel or a HostCall stores in parameter 0, of the others; arg is (it, shape)",
    ),
    Ops.CALL: Row(None, _GRAPH, "what template arg makes of its operands; written out in planning"),
    Ops.PART: Row(1, _GRAPH, "result number arg of a CALL"),
    Ops.CAST: Row(1, _ALU, "converted to dtype: float to integer truncates, saturates, NaN is 0"),
    Ops.BITCAST: Row(1, _ALU, "the same bits read as dtype, of the same size"),
    Ops.EXP: Row(1, _ALU, "e to the power of it"),
    Ops.EXP2: Row(1, _ALU, "2 to the power of it"),
    Ops.LOG: Row(1, _ALU, "natural logarithm"),
    Ops.LOG2: Row(1, _ALU, "logarithm to base 2"),
    Ops.SIN: Row(1, _ALU, "sine, radians"),
    Ops.COS: Row(1, _ALU, "cosine, radians"),
    Ops.TANH: Row(1, _ALU, "hyperbolic tangent"),
    Ops.ERF: Row(1, _ALU, "error function"),
    Ops.SQRT: Row(1, _ALU, "square root"),
    Ops.FLOOR: Row(1, _ALU, "greatest integer not above it"),
    Ops.TRUNC: Row(1, _ALU, "rounded toward zero"),
    Ops.RINT: Row(1, _ALU, "rounded to nearest, ties to even"),
    Ops.ADD: Row(2, _SYMMETRIC, "sum; or on bool", lambda a, b: a + b, _ends(add)),
    Ops.SUB: Row(
        2, _ALU, "difference", lambda a, b: a - b, lambda a, b: (a[0] - b[1], a[1] - b[0])
    ),
    Ops.MUL: Row(2, _SYMMETRIC, "product; and on bool", lambda a, b: a * b, _corners(_times)),
    Ops.FDIV: Row(2, _ALU, "quotient of floats", _fdiv),
    Ops.IDIV: Row(
        2, _ALU, "floor of the quotient; by zero raises", lambda a, b: a // b, _idiv_bounds
    ),
    Ops.MOD: Row(
        2,
        _ALU,
        "a - (a//b)*b, also for floats; by integer zero raises",
        lambda a, b: a % b,
        _mod_bounds,
    ),
    Ops.POW: Row(2, _ALU, "power of floats"),
    Ops.MAX: Row(2, _SYMMETRIC, "the greater; NaN if either is NaN", _maximum, _ends(max)),
    Ops.MIN: Row(2, _SYMMETRIC, "the lesser; NaN if either is NaN", _minimum, _ends(min)),
    Ops.AND: Row(2, _SYMMETRIC, "bitwise and", lambda a, b: a & b, _and_bounds),
    Ops.OR: Row(2, _SYMMETRIC, "bitwise or", lambda a, b: a | b, _or_bounds),
    Ops.XOR: Row(2, _SYMMETRIC, "bitwise exclusive or", lambda a, b: a ^ b),
    Ops.SHL: Row(2, _ALU, "a * 2**b; 0 from a count of the width on", _shift_left),
    Ops.SHR: Row(2, _ALU, "a // 2**b; counts end at the width", _shift_right, _shr_bounds),
    Ops.CMPLT: Row(2, _ORDER, "whether a < b", lambda a, b: a < b, _lt_bounds),
    Ops.CMPNE: Row(2, _EQUALITY, "whether a != b", lambda a, b: a != b, _ne_bounds),
    Ops.CMPEQ: Row(2, _EQUALITY, "whether a == b", lambda a, b: a == b, _eq_bounds),
    Ops.WHERE: Row(
        3,
        _ALU,
        "second operand where the first holds, else third",
        lambda c, a, b: a if c else b,
        _where_bounds,
    ),
    Ops.DOT: Row(
        None,
        frozenset({Trait.ALU, Trait.KERNEL}),
        "products of the parts of two words of 32 bits, and src[2], added; arg is the formats",
    ),
    Ops.VECTORIZE: Row(None, _KERNEL, "a vector of its scalar operands"),
    Ops.GEP: Row(None, _KERNEL, "lanes arg (a tuple) of a vector, or of two end to end"),
    Ops.MMA: Row(None, _KERNEL, "a product of matrices of words as DOT's; arg is a Fragment"),
    Ops.SINK: Row(None, _NOTHING, "all of its operands"),
    Ops.RANGE: Row(1, _KERNEL, "loop counter from 0 below the operand; arg is (axis, AxisType)"),
    Ops.END: Row(None, _EFFECT, "end of the loop of its RANGE operand (linear form)"),
    Ops.SPECIAL: Row(1, _KERNEL, "work item number below the operand; arg is gidx0, lidx1, ..."),
    Ops.DEFINE_LOCAL: Row(0, _KERNEL, "memory of a group; arg is ParamArg(number, size)"),
    Ops.ACC: Row(1, _KERNEL, "a register (linear form): its initial value; arg is its number"),
    Ops.INDEX: Row(None, _KERNEL, "element src[1] of memory src[0], if src[2] (when there) holds"),
    Ops.LOAD: Row(
        None,
        _KERNEL,
        "the value at an INDEX (0 where its condition fails) or of an ACC; further operands: what "
        "must have happened before; arg: Rows of a matrix",
    ),
    Ops.STORE: Row(
        None,
        _EFFECT,
        "put src[1] at INDEX or ACC src[0]; further operands: the RANGEs that it runs over; arg: "
        "STREAMED where caches need not keep it, Rows of a matrix",
    ),
    Ops.REDUCE: Row(None, _KERNEL, "src[0] combined by arg (ADD|MUL|MAX|MIN) over RANGEs src[1:]"),
    Ops.SCAN: Row(
        3,
        _KERNEL,
        "src[1] combined by arg (ADD|MUL|MAX|MIN) with src[0] at every step of RANGE src[2] so far",
    ),
    Ops.CHECK: Row(
        2,
        _EFFECT,
        "src[0], but error number arg (in graphs: a Requirement) is raised where src[1] (a bool) "
        "does not hold",
    ),
    Ops.BARRIER: Row(None, _EFFECT, "all work items of a group wait; operands happened before"),
    Ops.IF: Row(None, _EFFECT, "run up to ENDIF where src[0] holds, in some lane (linear form)"),
    Ops.ENDIF: Row(1, _EFFECT, "end of its IF (linear form)"),
}


def having(*traits: Trait) -> frozenset[Ops]:
    """Every op that has all of `traits`."""
    return frozenset(op for op, row in ROWS.items() if row.traits.issuperset(traits))


ALU: Final = having(Trait.ALU)
LOOPED: Final = frozenset({Ops.LAST, Ops.STEPS, Ops.TRAIL})  # what a LOOP gives
COMMUTATIVE: Final = having(Trait.COMMUTATIVE)
ASSOCIATIVE: Final = having(Trait.ASSOCIATIVE)
COMPARE: Final = having(Trait.COMPARE)
MOVEMENT: Final = having(Trait.MOVEMENT)
EFFECT: Final = having(Trait.EFFECT)
GRAPH: Final = having(Trait.GRAPH)
KERNEL: Final = having(Trait.KERNEL)
UNARY: Final = frozenset(op for op in ALU if ROWS[op].arity == 1)
BINARY: Final = frozenset(op for op in ALU if ROWS[op].arity == 2)
STREAMED: Final = "streamed"  # arg of a STORE
RARE: Final = "rare"  # arg of a WHERE whose condition seldom holds
INSIDE: Final = "inside"  # arg of a CAST of floats that are within the bounds of the integer
ROUNDED: Final = "rounded"  # arg of a SUB whose operands are rounded first: no fused multiply-add
# Functions that a target may lack and that `kernel/decompose` then writes out.
TRANSCENDENTAL: Final = frozenset({
    Ops.EXP, Ops.EXP2, Ops.LOG, Ops.LOG2, Ops.SIN, Ops.COS, Ops.TANH, Ops.ERF, Ops.POW,
})  # fmt: skip


def alu_dtype(op: Ops, sources: tuple[DType, ...]) -> DType:
    """The format of `op` on operands of these formats: bool for comparisons, else the last's."""
    if op in COMPARE:
        return dtypes.bool.vec(sources[0].count)
    return sources[-1]


def identity(op: Ops, dtype: DType) -> int | float | bool:
    """The number that `op` (a reduction) leaves its other operand unchanged with."""
    if op in (Ops.ADD, Ops.OR, Ops.XOR):
        return dtype.cast_scalar(0)
    if op is Ops.MUL:
        return dtype.cast_scalar(1)
    return dtype.cast_scalar(dtype.min if op is Ops.MAX else dtype.max)
