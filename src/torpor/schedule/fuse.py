"""Which values are stored, and in which kernel each other value is computed.

Stored values get ranges, one an axis; the ranges are propagated towards the leaves, each movement
mapping the index expressions. A value that every use reads at the same indices is computed where it
is used. Otherwise it is recomputed or stored, by cost, and each boundary keeps its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from torpor.base import settings
from torpor.ir.infer import devices_of, shape_of
from torpor.ir.ops import ALU, MOVEMENT, AxisType, Ops
from torpor.ir.records import Stored
from torpor.ir.uop import UOp
from torpor.schedule import cost
from torpor.schedule.company import Company, reductions_near
from torpor.schedule.region import STORED, ZERO, Indices, Region, Use, count
from torpor.view.movement import map_indices

_LEAVES = frozenset({Ops.BUFFER, Ops.CONST, Ops.BIND, Ops.VARIABLE, Ops.SINK})


class Fuser:
    """Decides, from the roots down, what is stored (`home`) and over which ranges (`ranges`)."""

    def __init__(self, roots: Sequence[tuple[UOp, str]], apart: Collection[UOp] = ()):
        self.roots = dict(roots)
        self.apart = apart  # values to store by kernels of their own
        sink = UOp.sink(*self.roots)
        self.devices = devices_of(sink)
        self.weights = cost.Weights(list(sink.toposort()))
        self.order = list(UOp.sink(*sorted(self.roots, key=self.precedence)).toposort())
        self.company = Company(self)
        self.uses: dict[UOp, dict[Use, None]] = {node: {} for node in self.order}
        self.regions: list[Region] = []
        self.home: dict[UOp, Region] = {}
        self.forced: dict[UOp, str] = dict.fromkeys(apart, "parameter limit")
        self.forced_readers: dict[UOp, set[Region]] = {}
        self.reduce_ranges: dict[tuple[Region, UOp, Indices], Indices] = {}
        self.mapped: dict[tuple[UOp, Indices], tuple[Indices, UOp]] = {}
        self.limit = settings.number("KERNEL_SIZE")
        self.readers: dict[Region, set[Region]] = {}  # region -> regions that read what it stores
        self.children: dict[UOp, list[UOp]] = {}  # node -> nodes that use it
        for node in self.order:
            for source in dict.fromkeys(node.src):
                self.children.setdefault(source, []).append(node)

    def precedence(self, root: UOp) -> tuple[bool, int]:
        """Roots with reductions are visited first, large ones before small: others join them."""
        return self.weights.level[root] > 0, count(shape_of(root))

    def run(self) -> None:
        """Visit every node after all of its uses."""
        for node in reversed(self.order):
            if node.op in _LEAVES and node not in self.roots:
                continue
            self.visit(node)

    def visit(self, node: UOp) -> None:
        reason = self.reason_to_store(node)
        if reason is not None:
            self.store(node, reason)
        elif node not in self.home:
            for use in self.uses[node]:
                use.region.size += cost.steps_of(node) if node.op in ALU else 0
                self.push(node, use)

    # --- the decision -----------------------------------------------------------------------------
    def reason_to_store(self, node: UOp) -> str | None:
        """Why `node` has to be stored; None if it is computed where it is used."""
        if node in self.roots:
            return "output"
        if node in self.forced:
            return self.forced[node]
        if node.op is Ops.CONTIGUOUS:
            return (node.arg or Stored()).reason
        if node.op in STORED:
            return node.op.name.lower()
        uses = self.uses[node]
        if not uses or node.op in MOVEMENT:
            return None
        if any(use.region.size >= self.limit for use in uses):
            return "kernel size"
        return self.reason_to_part(node, list(uses))

    def reason_to_part(self, node: UOp, uses: Sequence[Use], commit: bool = True) -> str | None:
        """Why these uses cannot each have the value computed on the spot."""
        if node.op is Ops.REDUCE_AXIS:
            return self.reason_for_reduction(node, uses, commit)
        if self.weights.carries[node]:
            return self.reason_for_epilogue(node, uses)
        return self.reason_for_elementwise(node, uses)

    def reason_for_reduction(self, node: UOp, uses: Sequence[Use], commit: bool) -> str | None:
        if len({use.region for use in uses}) > 1:
            return "used by several kernels"
        if len(uses) > 1:
            return "used at several indices"
        if self.company.is_crowded(uses[0].region, node):
            return "product beside many streams"
        return self.refusal(node, uses[0], commit)

    def reason_for_epilogue(self, node: UOp, uses: Sequence[Use]) -> str | None:
        """For elementwise work on a reduction: store it here if the reduction cannot move on."""
        if len({use.region for use in uses}) > 1:
            return "used by several kernels"
        refusals = [self.refusal(node, use, commit=False) for use in uses]
        if any(refusals):
            levels = [self.weights.level[one] for one in reductions_near(node)]
            if min(levels, default=0) < self.weights.level[node]:
                # A row is reduced and read again, and so stored: this is work on memory.
                return self.reason_for_elementwise(node, uses)
        if len(uses) == 1:
            return refusals[0]
        if any(refusals):
            return "used at several indices"
        region = uses[0].region
        local = all(region.closure(use.indices) < frozenset(region.axes) for use in uses)
        return None if local else "used at several indices"

    def refusal(self, node: UOp, use: Use, commit: bool = True) -> str | None:
        """Why a reduction (or work on one) cannot be computed inside the kernel of `use`."""
        region = use.region
        around = region.closure(use.indices)
        outputs = frozenset(region.axes)
        size = count(shape_of(node))
        evaluations = region.evaluations(use.indices)
        if around - outputs:
            return self.nested_refusal(node, around - outputs, evaluations / max(size, 1))
        if evaluations > size:
            return "recompute"
        if around == outputs:
            return "beside a product" if self.disturbs_product(node, region) else None
        if self.products_of(region):
            return "beside a product"
        if any(not (around <= other or other <= around) for other in region.hoisted):
            return "loops do not nest"
        rows = max(evaluations, 1)
        reduction = self.weights.work_on[node]
        work = count(shape_of(reduction.src[0]))
        if work > cost.SMALL and self.weights.is_product(self.sum_below(reduction)):
            return "product in an outer loop"  # where its tiles would have other loops beside them
        shared = max(work, count(shape_of(next(iter(region.outputs)))))
        if rows < cost.PARALLEL and shared > cost.SMALL:  # all of the kernel would run on one core
            return "too few rows to keep the cores busy"
        if work > cost.SMALL and work // rows > cost.ROW_LIMIT:
            return "too few rows to keep the cores busy"
        if commit:
            region.hoisted.append(around)
        return None

    def disturbs_product(self, node: UOp, region: Region) -> bool:
        """Whether a kernel for the tiles of a product would have another reduction beside it."""
        products = self.products_of(region) if node.op is Ops.REDUCE_AXIS else []
        return bool(products) and node is not max(products, key=self.terms_summed)

    def products_of(self, region: Region) -> list[UOp]:
        """The products whose tiles a kernel is for: it should have no other loops."""
        first = next(iter(region.outputs))
        near = reductions_near(first)
        level, whole = self.weights.level, count(shape_of(first))
        last = [r for r in near if level[r] == level[first] and count(shape_of(r)) >= whole]
        return [r for r in last if self.weights.is_product(self.sum_below(r))]

    def terms_summed(self, reduction: UOp) -> int:
        """How many terms the innermost of sums that merge into one has."""
        return cost.terms_of(self.sum_below(reduction))

    def sum_below(self, reduction: UOp) -> UOp:
        """The innermost of sums that merge into one: each only feeds the next."""
        while True:
            below = reduction.src[0]
            while below.op in MOVEMENT:
                below = below.src[0]
            if below.op is not Ops.REDUCE_AXIS or below.arg[0] is not Ops.ADD:
                return reduction
            if not self.only_feeds_sum(below):
                return reduction
            reduction = below

    def nested_refusal(self, node: UOp, loops: frozenset[UOp], again: float) -> str | None:
        """A reduction inside another's loop: only small ones, or sums that merge into the outer
        (padding makes them run over more than there is: `again` times as often).
        """
        if node.op is not Ops.REDUCE_AXIS:
            return "recompute"
        inner = count(shape_of(node.src[0])) // max(count(shape_of(node)), 1)
        if node.arg[0] is Ops.ADD and again <= cost.PADDING and self.only_feeds_sum(node):
            return None
        small = inner <= cost.NESTED_MOST and len(loops) == 1 and again <= 1
        return None if small else "nested reduction"

    def only_feeds_sum(self, node: UOp) -> bool:
        """Whether nothing but movement lies between this sum and the next."""
        readers = self.children.get(node, [])
        while len(readers) == 1 and readers[0].op in MOVEMENT:
            readers = self.children.get(readers[0], [])
        return (
            len(readers) == 1 and readers[0].op is Ops.REDUCE_AXIS and readers[0].arg[0] is Ops.ADD
        )

    def is_unpacked(self, node: UOp) -> bool:
        """Whether this is a narrow value made wide, or only scales such ones."""
        readers = self.children.get(node, [])
        if any(reader.op is Ops.REDUCE_AXIS for reader in readers):
            return False  # what is summed, which shares nothing
        if node.op in ALU and self.weights.unpacks(node):
            return True
        if self.weights.steps[node] > cost.UNPACKING or node.op not in ALU | MOVEMENT:
            return False
        return bool(readers) and all(self.is_unpacked(reader) for reader in readers)

    def reason_for_elementwise(self, node: UOp, uses: Sequence[Use]) -> str | None:
        steps, reads = self.weights.steps[node], self.weights.reads[node]
        size = max(count(shape_of(node)), 1)
        regions = {use.region for use in uses}
        evaluations = sum(use.region.evaluations(use.indices) for use in uses)
        if len(regions) > 1:
            cheaper = cost.recompute_is_cheaper(steps, reads, size, evaluations, len(uses))
            return None if cheaper else "used by several kernels"
        reduced = any(use.region.closure(use.indices) - set(use.region.axes) for use in uses)
        again = evaluations / size
        if len(uses) > 8 and steps > 4:
            return "used at many indices"
        if reduced and again > cost.TILE_REUSE and reads and not self.is_unpacked(node):
            if steps * again / cost.TILE_REUSE > steps + cost.MOVE * reads:
                return "recompute"
        if again > 4 and steps >= cost.FUNCTION and size > 64:
            return "recompute"
        return None

    # --- its consequences -------------------------------------------------------------------------
    def store(self, node: UOp, reason: str) -> None:
        """Store `node`: as one more output of a kernel that computes it anyway, or in its own."""
        found = None
        if node not in self.apart:
            found = self.company.host(node) or self.company.neighbour(node)
        if node.op is Ops.PRIOR or node in self.home:
            host, indices = self.with_prior(node)
        elif found is None:
            host = Region(len(self.regions), self.device(node), reason)
            self.regions.append(host)
            indices = host.start(node)
        else:
            host, indices = found
            host.outputs[node] = indices
            around = host.closure(indices)
            if around < frozenset(host.axes):
                host.hoisted.append(around)
        self.home[node] = host
        self.readers.setdefault(host, set()).update(self.readers_of(node) - {host})
        if node in self.roots and node.op not in STORED and len(self.roots) > 1:
            self.company.note_root(node)
        if node.op is Ops.COPY:
            self.force(node.src[0], "copied to another device", host, (Ops.RESHAPE,))
        elif node.op is Ops.SCATTER:
            steps = host.steps or host.scatter(node)
            self.step(node, host, (indices, steps, steps))
        elif node.op is Ops.PRIOR:
            pass  # all that it needs are the operands of its SCATTER, which comes later
        elif node.op is Ops.SCAN_AXIS:
            axis = node.arg[1]
            self.step(node, host, (indices, (*indices[:axis], ZERO, *indices[axis + 1 :])))
        else:
            self.compute(node, host, indices)

    def compute(self, node: UOp, host: Region, indices: Indices) -> None:
        """Hand on what a stored value needs, also where its own kernel uses it elsewhere."""
        here = [use for use in self.uses[node] if use.region is host]
        for use in dict.fromkeys([Use(host, indices), *here]):
            host.size += node.op in ALU
            self.push(node, use)

    def with_prior(self, node: UOp) -> tuple[Region, Indices]:
        """The kernel that stores a PRIOR beside its SCATTER, and where it stores the node."""
        scatter = node.src[0] if node.op is Ops.PRIOR else node
        host = self.home.get(scatter)
        if host is None:
            host = Region(len(self.regions), self.device(node), "prior")
            self.regions.append(host)
            host.start(scatter)
            self.home[scatter] = host
            host.outputs[node] = host.scatter(scatter)
        return host, host.outputs[node]

    def runs_before(self, first: Region, later: Region) -> bool:
        """Whether `later` reads, perhaps through other kernels, what `first` stores."""
        stack, seen = [first], {first}
        while stack:
            region = stack.pop()
            if region is later:
                return True
            fresh = self.readers.get(region, set()) - seen
            seen |= fresh
            stack.extend(fresh)
        return False

    def device(self, node: UOp) -> str:
        if node in self.roots:
            return self.roots[node]
        found = self.devices[node]
        if found is not None:
            return found
        return next((use.region.device for use in self.uses[node]), next(iter(self.roots.values())))

    def readers_of(self, node: UOp) -> set[Region]:
        """The kernels that need the value."""
        return {use.region for use in self.uses[node]} | self.forced_readers.get(node, set())

    def force(self, source: UOp, reason: str, region: Region, below: Container[Ops]) -> None:
        """Have a value stored that `region` reads, below movements that are among `below`."""
        while source.op in below:
            source = source.src[0]
        if source.op not in _LEAVES or source.op is Ops.CONST:
            self.forced.setdefault(source, reason)
            self.forced_readers.setdefault(source, set()).add(region)

    def step(self, node: UOp, region: Region, places: Sequence[Indices]) -> None:
        """The operands of what goes step by step, each where it is needed. Only values that take no
        reduction are computed inside.
        """
        for source, indices in zip(node.src, places, strict=True):
            if self.weights.takes[source]:
                self.force(source, f"read by a {node.op.name.lower()}", region, MOVEMENT)
            self.add(source, Use(region, indices))

    def push(self, node: UOp, use: Use) -> None:
        """Hand the use of `node` on to its operands."""
        region, indices = use
        if node.op in MOVEMENT:
            below, _ = self.map(node, indices)
            self.add(node.src[0], Use(region, below))
        elif node.op is Ops.REDUCE_AXIS:
            self.add(node.src[0], Use(region, self.reduce(region, node, indices)))
        elif node.op is Ops.GATHER:
            self.force(node.src[0], "indexed by a tensor", region, MOVEMENT)
            self.add(node.src[1], use)
        else:
            for source in node.src:
                if shape_of(source) == () and indices:
                    self.add(source, Use(region, ()))
                else:
                    self.add(source, use)

    def add(self, node: UOp, use: Use) -> None:
        self.uses[node][use] = None

    def map(self, node: UOp, indices: Indices) -> tuple[Indices, UOp]:
        """Index expressions of a movement's operand, and where they are valid."""
        key = (node, indices)
        found = self.mapped.get(key)
        if found is None:
            found = self.mapped[key] = map_indices(node, indices)
        return found

    def reduce(self, region: Region, node: UOp, indices: Indices) -> Indices:
        """Index expressions of a reduction's operand, with ranges on the reduced axes."""
        key = (region, node, indices)
        found = self.reduce_ranges.get(key)
        if found is None:
            use = Use(region, indices)
            found = self.company.loops(node, use)
            if found is None:
                found = self.fresh_loops(node, use)
                self.company.note_loops(node, use, found)
            self.reduce_ranges[key] = found
            self.company.note_reduction(node, use)
        return found

    def fresh_loops(self, node: UOp, use: Use) -> Indices:
        """Index expressions with ranges of their own on the reduced axes."""
        region, indices = use
        axes = node.arg[1]
        sizes = tuple(s if a in axes else 1 for a, s in enumerate(shape_of(node.src[0])))
        fresh = region.new_ranges(sizes, AxisType.REDUCE)
        around = region.closure(indices)
        for one in fresh:
            if one.op is Ops.RANGE:
                region.inside[one] = around
        return tuple(fresh[a] if a in axes else index for a, index in enumerate(indices))
