"""The frozen records that the rooms of floor 4 hand each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torpor.base.errors import ShapeError
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp


class OptOps(Enum):
    """The optimisation primitives on axes."""

    UPCAST = auto()
    OVERLAP = auto()
    UNROLL = auto()
    LOCAL = auto()
    GROUP = auto()
    GROUPTOP = auto()
    PADTO = auto()
    SWAP = auto()
    NOLOCALS = auto()
    TILE = auto()
    PARTITION = auto()
    STAGE = auto()
    THREAD = auto()
    STREAM = auto()
    DOT = auto()
    TENSORCORE = DOT  # another name for it
    MMA = auto()

    def __repr__(self) -> str:
        return f"OptOps.{self.name}"


@dataclass(frozen=True)
class Opt:
    """Apply `op` to axis `axis` (for UNROLL, GROUP and GROUPTOP a reduce axis) with amount `arg`;
    an amount of 0 means the whole axis.
    """

    op: OptOps
    axis: int | None = None
    arg: int | None = None


@dataclass(frozen=True)
class ParamArg:
    """Arg of PARAM and DEFINE_LOCAL: its number, and its size in elements (None: not fixed)."""

    slot: int
    size: int | None = None


@dataclass(frozen=True)
class Rows:
    """Arg of a LOAD or STORE of a matrix: a vector of rows, so many elements apart in memory."""

    count: int
    apart: int


@dataclass(frozen=True)
class Stored:
    """Arg of CONTIGUOUS, if any: why the value is stored (`ScheduleItem.reason`), where if that
    does not follow from what it is made of, and whether it is parts of a longer reduction.
    """

    reason: str = "contiguous"
    device: str | None = None
    parts: bool = False


@dataclass(frozen=True)
class Loop:
    """Arg of a LOOP. Its first operands are what the carries begin as.

    count:     how many steps; None: as long as `goes_on`, a bool of what a step begins with.
    nexts:     what each carry is after a step, by nodes over SLOTs.
    stepped:   the operands that a step has one row of, along their first axis: step by step from
               the first row on, or from the last with `backwards`. Of other operands it has all.
    lean:      whether nothing is in the body that need not be done step by step.
    """

    count: int | UOp | None
    nexts: tuple[UOp, ...]
    stepped: tuple[int, ...] = ()
    backwards: bool = False
    lean: bool = False
    goes_on: UOp | None = None

    @property
    def length(self) -> int | UOp:
        """How many steps, where that is known."""
        assert self.count is not None, "loops with rows know how many they have"
        return self.count


@dataclass(frozen=True)
class HostCall:
    """In place of a KERNEL's ast: it is computed on the host, by the function of this name (see
    `torpor.device.host`) of arrays of these `shapes`, and options.
    """

    name: str
    options: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]


def calls_host(node: UOp) -> bool:
    """Whether a KERNEL is a call of the host."""
    return node.op is Ops.KERNEL and isinstance(node.arg[0], HostCall)


@dataclass(frozen=True)
class BufferSpec:
    """How a buffer is to be allocated. `alignment` in bytes. `varying`: it stands for others, of
    fewer elements perhaps. `zeros`: all its bytes are to be 0, on the host.
    """

    alignment: int = 64
    external_pointer: int | None = None
    varying: bool = False
    zeros: bool = False


@dataclass(frozen=True)
class Requirement:
    """Arg of a CHECK in graphs: the error, in the user's terms, where its condition fails. `kind`
    is "index", "value" or "matrix", which says the type of the error.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class CheckSite:
    """What error number `arg` of a CHECK means: `kind` is "division", "index" or "requirement";
    `node` is the tensor operation that asks (its origins say where; a requirement's arg says what),
    `size` the length of the indexed axis. `looped`: it is asked in a loop, where its operands are
    others at each step.
    """

    kind: str
    node: UOp
    size: int | UOp | None = None
    looped: bool = False


@dataclass(frozen=True, eq=False)
class Section:
    """Consecutive items in groups (`ScheduleItem.group`, in order), of which none needs another:
    they may run at the same time. Of the BUFFER nodes `own` each may have a copy for itself: it
    writes them before it reads them, and nobody reads them after it.
    """

    own: frozenset[UOp]


@dataclass(frozen=True, eq=False)
class Counter:
    """Counts the rounds of some items, of which there are so many: one at least."""

    rounds: int | UOp


@dataclass(frozen=True)
class Jump:
    """The schedule goes on `by` items further, or back, if the bool that it reads is `holds`. With
    a `counter`: at the beginning of its rounds (`by` is 1), or back until all of them are done.
    """

    by: int
    holds: bool = True
    counter: Counter | None = None

    @property
    def begins(self) -> bool:
        """Whether rounds begin here."""
        return self.by == 1


@dataclass(frozen=True)
class ScheduleItem:
    """One kernel to run.

    ast:       SINK of STOREs with numbered parameters; equal work has an equal `ast.key`.
               Or a SINK of one COPY: `buffers[0]` is to become a copy of `buffers[1]`.
               Or a SINK of one IF, of `buffers[0]`: see `jump`.
    buffers:   BUFFER nodes by parameter number.
    variables: values of the ast's VARIABLEs, by name.
    reason:    why its outputs are stored rather than fused into what reads them.
    checks:    what the error numbers in the ast mean.
    outputs:   which parameters it writes.
    origins:   places in the user's program that its operations come from.
    bindings:  the BIND node that each of `variables` comes from.
    group:     the section that it is in, if any, and the number of its group there.
    jump:      of an item that only says where to go on.
    moves:     variables that are larger by so much at each round of a counter.
    """

    ast: UOp
    buffers: tuple[UOp, ...]
    variables: tuple[tuple[str, int], ...] = ()
    reason: str = "output"
    checks: tuple[CheckSite, ...] = ()
    outputs: tuple[int, ...] = (0,)
    origins: tuple[Any, ...] = field(default=(), compare=False)
    bindings: tuple[UOp, ...] = field(default=(), compare=False)
    group: tuple[Section, int] | None = field(default=None, compare=False)
    jump: Jump | None = None
    moves: tuple[tuple[str, Counter, int], ...] = ()


@dataclass(frozen=True)
class Program:
    """A kernel as text for one target.

    global_size, local_size: the grid, counted in groups, and a group's shape, in work items; three
                 numbers each (symbolic sizes as nodes). All 1 on targets without groups.
    parameters:  dtype names of the memory parameters, by number.
    variables:   names of the integer parameters that follow them, with their dtype names.
    thread_range: number of iterations that may be cut among threads (the function then takes the
                 first and the one past the last as its last two parameters), or None.
    ops, bytes:  estimated arithmetic operations and memory traffic.
    checks:      how many error numbers the program may raise: it then takes a pointer to an error
                 word (int64) after the variables.
    shared:      (output, input) pairs of parameters that may be given the same memory, each of them
                 in one pair only; what the input held is then gone.
    """

    name: str
    source: str
    target: str
    global_size: tuple[Any, ...] = (1, 1, 1)
    local_size: tuple[int, ...] = (1, 1, 1)
    opts: tuple[Opt, ...] = ()
    ops: Any = 0
    bytes: Any = 0
    parameters: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    thread_range: Any = None
    checks: int = 0
    written: tuple[int, ...] = (0,)
    linear: tuple[UOp, ...] = field(default=(), repr=False, compare=False)
    shared: tuple[tuple[int, int], ...] = ()
    assembly: str | None = None

    def values_of(self, variables: Iterable[tuple[str, Any]]) -> tuple[Any, ...]:
        """The values of its variables, in its order; a `ShapeError` for one that has none."""
        known = dict(variables)
        for name, _ in self.variables:
            if name not in known:
                what = f"Variable {name!r} has no value: compute with {name}.bind(value) in its"
                raise ShapeError(f"{what} place")
        return tuple(known[name] for name, _ in self.variables)
