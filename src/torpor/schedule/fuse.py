"""Which values are stored, and in which kernel each other value is computed.

Stored values get ranges, one an axis; the ranges are propagated towards the leaves, each movement
mapping the index expressions. A value that every use reads at the same indices is computed where it
is used. Otherwise it is recomputed or stored, by cost, and each boundary keeps its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torpor.ir.infer import shape_of
from torpor.ir.ops import ALU, LOOPED, MOVEMENT, AxisType, Ops
from torpor.ir.records import calls_host
from torpor.ir.uop import UOp
from torpor.rules.movement import ZERO, Indices
from torpor.schedule import cost
from torpor.schedule.fusion_state import LEAVES, FusionState
from torpor.schedule.loops import below_parts
from torpor.schedule.multi_output import MultiOutput
from torpor.schedule.reasons import Reasons
from torpor.schedule.region import STORED, Region, Use


class Fuser:
    """Parts a graph into kernels, from the roots down; `state` is what comes out."""

    def __init__(self, roots: Sequence[tuple[UOp, str]], apart: Collection[UOp] = ()):
        self.state = FusionState(roots, apart)
        self.reasons = Reasons(self.state)
        self.multi_output = MultiOutput(self.state, self.reasons)

    def run(self) -> None:
        """Visit every node after all of its uses."""
        for node in reversed(self.state.order):
            asked = node in self.state.roots or node in self.state.forced
            if node.op is not Ops.LOOP and (asked or node.op not in LEAVES):
                self.visit(node)

    def visit(self, node: UOp) -> None:
        """Store a value whose uses are all known, or compute it where these are."""
        reason = self.reasons.to_store(node)
        if reason is not None:
            self.store(node, reason)
        elif node not in self.state.home:
            for use in self.state.uses[node]:
                use.region.size += cost.length_of(node) if node.op in ALU else 0
                self.push(node, use)

    def store(self, node: UOp, reason: str) -> None:
        """Store `node`: as one more output of a kernel that computes it anyway, or in its own."""
        found = None
        if node not in self.state.apart:
            found = self.multi_output.computing_kernel(node) or self.multi_output.sibling_kernel(
                node
            )
        if node.op is Ops.PRIOR or node in self.state.home:
            host, indices = self.with_prior(node)
        elif node.op in LOOPED:
            host, indices = self.with_loop(node), ()
        elif found is None:
            host = self.state.new_region(node, reason)
            indices = host.start(node)
        else:
            host, indices = found
            host.outputs[node] = indices
            around = host.closure(indices)
            if around < frozenset(host.axes):
                host.hoisted.append(around)
        self.state.home[node] = host
        self.state.note_readers(host, self.state.readers_of(node) - {host})
        if node in self.state.roots and node.op not in STORED and len(self.state.roots) > 1:
            self.multi_output.note_root(node)
        if node.op is Ops.COPY:
            self.state.force(node.src[0], "copied to another device", host, (Ops.RESHAPE,))
        elif node.op is Ops.SCATTER:
            steps = host.steps or host.scatter(node)
            self.step(node, host, (indices, steps, steps))
        elif node.op is Ops.KERNEL:
            who = "call of the host" if calls_host(node) else "kernel of the user"
            for source in node.src:
                self.state.force(source, f"read by a {who}", host, (Ops.RESHAPE,))
        elif node.op in LOOPED:
            for source in node.src[0].src:
                self.state.force(below_parts(source)[0], "read by a loop", host, ())
        elif node.op is Ops.PRIOR:
            pass  # all that it needs are the operands of its SCATTER, which comes later
        elif node.op is Ops.SCAN_AXIS:
            axis = node.arg[1]
            self.step(node, host, (indices, (*indices[:axis], ZERO, *indices[axis + 1 :])))
        elif node.op is Ops.AFTER:
            self.state.force(node.src[1], "awaited by what is computed again", host, MOVEMENT)
            self.add(node.src[0], Use(host, indices))
        else:
            self.compute(node, host, indices)

    def compute(self, node: UOp, host: Region, indices: Indices) -> None:
        """Hand on what a stored value needs, also where its own kernel uses it elsewhere."""
        here = [use for use in self.state.uses[node] if use.region is host]
        for use in dict.fromkeys([Use(host, indices), *here]):
            host.size += node.op in ALU
            self.push(node, use)

    def with_prior(self, node: UOp) -> tuple[Region, Indices]:
        """The kernel that stores a PRIOR beside its SCATTER, and where it stores the node."""
        scatter = node.src[0] if node.op is Ops.PRIOR else node
        host = self.state.home.get(scatter)
        if host is None:
            host = self.state.new_region(node, "prior")
            host.start(scatter)
            self.state.home[scatter] = host
            host.outputs[node] = host.scatter(scatter)
        return host, host.outputs[node]

    def with_loop(self, node: UOp) -> Region:
        """What stores all that a LOOP gives."""
        loop = node.src[0]
        if loop not in self.state.loops:
            self.state.loops[loop] = self.state.new_region(node, "loop")
        self.state.loops[loop].outputs[node] = ()
        return self.state.loops[loop]

    def step(self, node: UOp, region: Region, places: Sequence[Indices]) -> None:
        """The operands of what goes step by step, each where it is needed. Only values that take no
        reduction are computed inside.
        """
        for source, indices in zip(node.src, places, strict=True):
            if self.state.weights.takes[source]:
                self.state.force(source, f"read by a {node.op.name.lower()}", region, MOVEMENT)
            self.add(source, Use(region, indices))

    def push(self, node: UOp, use: Use) -> None:
        """Hand the use of `node` on to its operands."""
        region, indices = use
        if node.op in MOVEMENT:
            below, _ = self.state.map(node, indices)
            self.add(node.src[0], Use(region, below))
        elif node.op is Ops.REDUCE_AXIS:
            self.add(node.src[0], Use(region, self.reduce(region, node, indices)))
        elif node.op is Ops.GATHER:
            self.state.force(node.src[0], "indexed by a tensor", region, MOVEMENT)
            self.add(node.src[1], use)
        else:
            for source in node.src:
                if shape_of(source) == () and indices:
                    self.add(source, Use(region, ()))
                else:
                    self.add(source, use)

    def add(self, node: UOp, use: Use) -> None:
        """Have a value used."""
        self.state.uses[node][use] = None

    def reduce(self, region: Region, node: UOp, indices: Indices) -> Indices:
        """Index expressions of a reduction's operand, with ranges on the reduced axes."""
        key = (region, node, indices)
        found = self.state.reduce_ranges.get(key)
        if found is None:
            use = Use(region, indices)
            found = self.multi_output.loops(node, use)
            if found is None:
                found = self.fresh_loops(node, use)
                self.multi_output.note_loops(node, use, found)
            self.state.reduce_ranges[key] = found
            self.multi_output.note_reduction(node, use)
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
