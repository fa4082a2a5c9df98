"""`FusionState`: a graph that is being parted into kernels, with all that is decided so far."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence

from torpor.base import settings
from torpor.ir.infer import count_of, devices_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.movement import Indices, map_indices
from torpor.schedule import cost
from torpor.schedule.region import Region, Use

LEAVES = frozenset({Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.VARIABLE, Ops.SINK})


class FusionState:
    """Which values are stored (`home`: by which kernel) and where each is used (`uses`: at which
    indices, in which kernel).

    roots:          what has to be stored, and on which device.
    apart:          values to store by kernels of their own.
    order:          all nodes, operands first.
    regions:        the kernels.
    forced:         values that have to be stored, and why; `forced_readers`: for which kernels.
    reduce_ranges:  indices of reductions' operands.
    later:          by the number of a kernel, a bit for each that has to run after it.
    writers:        by the number of a kernel, those of the kernels that store what it reads.
    children:       by node, the nodes that use it.
    loops:          by LOOP, what stores all that it gives.
    """

    def __init__(self, roots: Sequence[tuple[UOp, str]], apart: Collection[UOp] = ()):
        self.roots = dict(roots)
        self.apart = apart
        sink = UOp.sink(*self.roots)
        self.devices = devices_of(sink)
        self.weights = cost.Weights(list(sink.toposort()))
        self.order = list(UOp.sink(*sorted(self.roots, key=self.precedence)).toposort())
        self.uses: dict[UOp, dict[Use, None]] = {node: {} for node in self.order}
        self.regions: list[Region] = []
        self.home: dict[UOp, Region] = {}
        self.forced: dict[UOp, str] = dict.fromkeys(apart, "parameter limit")
        self.forced_readers: dict[UOp, set[Region]] = {}
        self.reduce_ranges: dict[tuple[Region, UOp, Indices], Indices] = {}
        self.mapped: dict[tuple[UOp, Indices], tuple[Indices, UOp]] = {}
        self.limit = settings.number("KERNEL_SIZE")
        self.later: list[int] = []
        self.writers: list[set[int]] = []
        self.children: dict[UOp, list[UOp]] = {}
        self.loops: dict[UOp, Region] = {}
        for node in self.order:
            for source in dict.fromkeys(node.src):
                self.children.setdefault(source, []).append(node)

    def precedence(self, root: UOp) -> tuple[bool, int]:
        """Roots with reductions are visited first, large ones before small: others join them."""
        return self.weights.level[root] > 0, count_of(root)

    def device(self, node: UOp) -> str:
        """The device that a value is computed on."""
        if node in self.roots:
            return self.roots[node]
        found = self.devices[node]
        if found is not None:
            return found
        return next((use.region.device for use in self.uses[node]), next(iter(self.roots.values())))

    def new_region(self, node: UOp, reason: str) -> Region:
        """A kernel, nothing in it yet, where a value is computed."""
        made = Region(len(self.regions), self.device(node), reason)
        self.regions.append(made)
        self.later.append(0)
        self.writers.append(set())
        return made

    def readers_of(self, node: UOp) -> set[Region]:
        """The kernels that need the value."""
        return {use.region for use in self.uses[node]} | self.forced_readers.get(node, set())

    def note_readers(self, host: Region, readers: Iterable[Region]) -> None:
        """Other kernels read what one stores: they run after it, and so does all that has to run
        after them.
        """
        later = 0
        for reader in readers:
            self.writers[reader.number].add(host.number)
            later |= self.later[reader.number] | 1 << reader.number
        stack = [host.number]
        while stack:
            number = stack.pop()
            if self.later[number] | later != self.later[number]:
                self.later[number] |= later
                stack += self.writers[number]

    def runs_before(self, first: Region, later: Region) -> bool:
        """Whether `later` reads, perhaps through other kernels, what `first` stores."""
        return bool(self.later[first.number] >> later.number & 1)

    def force(self, source: UOp, reason: str, region: Region, below: Container[Ops]) -> None:
        """Have a value stored that `region` reads, below movements that are among `below`."""
        source = source.below(below)
        if source.op not in LEAVES or source.op is Ops.CONST:
            self.forced.setdefault(source, reason)
            self.forced_readers.setdefault(source, set()).add(region)

    def map(self, node: UOp, indices: Indices) -> tuple[Indices, UOp]:
        """Index expressions of a movement's operand, and where they are valid."""
        key = (node, indices)
        found = self.mapped.get(key)
        if found is None:
            found = self.mapped[key] = map_indices(node, indices)
        return found
