"""The kernels' asts: each stored value as an expression over ranges, loads and numbered parameters.

Expressions are built by a trampoline of generators, since a fused chain may be thousands deep.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.ir.infer import count_of, shape_of, size_node
from torpor.ir.ops import MOVEMENT, Ops
from torpor.ir.records import CheckSite, ParamArg
from torpor.ir.rewrite import MAXIMUM_ORIGINS
from torpor.ir.uop import UOp
from torpor.rules import simplify_under, simplify_valid
from torpor.rules.affine import number_of
from torpor.rules.movement import TRUE, ZERO, Indices, flat
from torpor.rules.rebuild import with_slots
from torpor.rules.validity import is_gated
from torpor.schedule.cost import may_fail
from torpor.schedule.fuse import Fuser
from torpor.schedule.guards import guard_checks
from torpor.schedule.region import Region

Step = Generator["Request", UOp, UOp]
Request = tuple[UOp, Indices, UOp]  # node, indices, where it is valid
KINDS = {Ops.GATHER: "index", Ops.SCATTER: "index", Ops.CHECK: "requirement"}


def sure_size(buffer: UOp) -> int | None:
    """How many elements the memory of a BUFFER is sure to have; None where that varies."""
    size: int = buffer.arg.size
    return None if buffer.arg.options.varying else size


def anywhere(request: Request) -> Request:
    """The request without where it is valid, if it is for one element that is there everywhere: its
    many uses, each under conditions of its own, are one.
    """
    node, indices, valid = request
    if valid is TRUE or not all(index.op is Ops.CONST for index in indices):
        return request
    inside = zip(indices, shape_of(node), strict=True)
    if all(type(size) is int and 0 <= index.arg < size for index, size in inside):
        return node, indices, TRUE
    return request


class Builder:
    """Builds the ast of one region. `buffers` are the BUFFER nodes by parameter number."""

    def __init__(self, fuser: Fuser, region: Region, places: dict[UOp, UOp]):
        self.fuser, self.state = fuser, fuser.state
        self.region, self.places = region, places
        self.buffers: list[UOp] = []
        self.numbers: dict[UOp, int] = {}
        self.variables: dict[UOp, UOp] = {}  # BIND -> VARIABLE
        self.checks: list[CheckSite] = []
        self.check_numbers: dict[UOp, int] = {}
        self.done: dict[Request, UOp] = {}

    def ast(self) -> UOp:
        """SINK of the region's STOREs."""
        targets = [self.parameter(self.places[node]) for node in self.region.outputs]
        stores: list[UOp] = []
        for target, (node, indices) in zip(targets, self.region.outputs.items(), strict=True):
            if node.op is Ops.SCATTER:
                stores += self.scatter(node, target, indices, targets[1:])
            if node.op in (Ops.SCATTER, Ops.PRIOR):
                continue
            stores.append(self.store(node, node, target, indices))
        ast = guard_checks(UOp.sink(*stores))
        return self.without_bindings(self.without_unused(ast))

    def without_unused(self, root: UOp) -> UOp:
        """The ast with parameters numbered anew, where folding left some without use."""
        slots = sorted({n.arg.slot for n in root.toposort() if n.op is Ops.PARAM})
        if len(slots) == len(self.buffers):
            return root
        self.buffers = [self.buffers[slot] for slot in slots]
        return with_slots(root, slots)

    def parameter(self, buffer: UOp) -> UOp:
        """The PARAM that stands for a BUFFER."""
        number = self.numbers.setdefault(buffer, len(self.numbers))
        if number == len(self.buffers):
            self.buffers.append(buffer)
        return UOp(Ops.PARAM, buffer.dtype, (), ParamArg(number, sure_size(buffer)))

    def flat(self, indices: Indices, node: UOp) -> UOp:
        """Row-major position of `indices` in a tensor of the shape of `node`."""
        return flat(list(zip(indices, shape_of(node), strict=True)))

    def origins(self) -> tuple[Any, ...]:
        """Where the user's program made what this kernel computes: first the reduction of most
        elements, which is most of the work, then other reductions and the outputs. Where tensors
        that it reads were given their values is no part of it.
        """
        computed = [
            n for n, *_ in reversed(self.done) if self.state.home.get(n) in (None, self.region)
        ]
        reductions = [node for node in computed if node.op is Ops.REDUCE_AXIS]
        reductions.sort(key=lambda node: count_of(node.src[0]), reverse=True)
        nodes = (*reductions, *self.region.outputs, *computed)
        made = (n for n in nodes if n.below((Ops.RESHAPE,)).op is not Ops.BUFFER)
        found = dict.fromkeys(o for node in made for o in node.origins)
        return tuple(found)[:MAXIMUM_ORIGINS]

    # --- the trampoline ---------------------------------------------------------------------------
    def run(self, request: Request) -> UOp:
        """The value of `request`."""
        stack: list[tuple[Request, Step]] = [(request, self.value(request))]
        answer: UOp | None = None
        while stack:
            asked, step = stack[-1]
            try:
                wanted = step.send(answer) if answer is not None else next(step)
            except StopIteration as finished:
                answer = self.done[asked] = finished.value
                stack.pop()
                continue
            wanted = anywhere(wanted)
            answer = self.done.get(wanted)
            if answer is None:
                stack.append((wanted, self.value(wanted)))
        assert answer is not None
        return answer

    def value(self, request: Request) -> Step:
        node, indices, valid = request
        home = self.state.home.get(node)
        if home is not None and home is not self.region:
            return self.load(node, indices, valid)
        if node.op in (Ops.CONST, Ops.BIND):
            return self.constant(node)
        if node.op is Ops.BUFFER:
            return self.load(node, indices, valid)
        if node.op in (Ops.CONTIGUOUS, Ops.AFTER):
            return self.same(request)
        if node.op in MOVEMENT:
            return self.movement(request)
        if node.op is Ops.REDUCE_AXIS:
            return self.reduction(request)
        if node.op is Ops.GATHER:
            return self.gather(request)
        if node.op is Ops.SCAN_AXIS:
            return self.scan(request)
        return self.elementwise(request)

    # --- one kind of node each --------------------------------------------------------------------
    def constant(self, node: UOp) -> Step:
        return node
        yield  # a generator that asks for nothing

    def same(self, request: Request) -> Step:
        node, indices, valid = request
        return (yield node.src[0], indices, valid)

    def load(self, node: UOp, indices: Indices, valid: UOp) -> Step:
        buffer = self.places.get(node, node)
        position = self.flat(indices, node)
        if valid is not TRUE:
            position = simplify_under(position, valid)
            size = sure_size(buffer)
            if size is not None and position.vmin >= 0 and position.vmax < size:
                valid = TRUE  # whoever asked masks the value, and the access itself is safe
        where = () if valid is TRUE else (valid,)
        place = UOp(Ops.INDEX, node.dtype, (self.parameter(buffer), position, *where))
        return UOp(Ops.LOAD, node.dtype, (place,))
        yield

    def movement(self, request: Request) -> Step:
        node, indices, valid = request
        below, here = self.state.map(node, indices)
        if here is TRUE:
            return (yield node.src[0], below, valid)
        here = simplify_valid(here)
        inner = simplify_valid(valid & here)
        if inner.op is Ops.CONST and not inner.arg:
            return UOp.const(node.dtype, 0)
        value: UOp = yield node.src[0], below, inner
        if is_gated(value, here):
            return value
        return here.where(value, UOp.const(node.dtype, 0))

    def reduction(self, request: Request) -> Step:
        node, indices, valid = request
        below = self.fuser.reduce(self.region, node, indices)
        value: UOp = yield node.src[0], below, valid
        fresh = tuple(b for b, i in zip(below, indices, strict=True) if b is not i)
        ranges = tuple(r for r in fresh if r.op is Ops.RANGE)
        if not ranges:
            return value
        made = UOp(Ops.REDUCE, node.dtype, (value, *ranges), node.arg[0])
        return made

    def elementwise(self, request: Request) -> Step:
        node, indices, valid = request
        source = []
        for operand in node.src:
            scalar = shape_of(operand) == () and indices
            source.append((yield operand, () if scalar else indices, valid))
        if node.op is Ops.CHECK:
            value, holds = source
            always = holds.op is Ops.CONST and holds.arg  # then it only says what an index means
            return value if always else self.check(node, value, holds)
        if may_fail(node):
            source[1] = self.safe_divisor(node, source[1])
        made = node.replace(src=tuple(source))
        return made

    def scan(self, request: Request) -> Step:
        node, indices, valid = request
        op, axis = node.arg
        value: UOp = yield node.src[0], indices, valid
        initial: UOp = yield node.src[1], (*indices[:axis], ZERO, *indices[axis + 1 :]), valid
        return UOp(Ops.SCAN, node.dtype, (value, initial, indices[axis]), op)

    def gather(self, request: Request) -> Step:
        node, indices, valid = request
        if 0 in shape_of(node):  # nothing is read, and no index is wrong
            return UOp.const(node.dtype, 0)
        asked: UOp = yield node.src[1], indices, valid
        position, inside = self.checked_position(node, asked, node.arg)
        place: Indices = (*indices[: node.arg], position, *indices[node.arg + 1 :])
        value: UOp = yield node.src[0], place, valid
        number = self.check_numbers[node]
        if any(n.op is Ops.CHECK and n.arg == number for n in value.toposort()):
            return value
        # All along the axis is the same element, but the index may still be bad.
        return self.check(node, value, inside)

    def checked_position(self, node: UOp, asked: UOp, axis: int) -> tuple[UOp, UOp]:
        """A number from a tensor of indices as a place along an axis, which it is not beyond, and
        whether it was not.
        """
        length = shape_of(node.src[0])[axis]
        size = size_node(length)
        position = asked.cast(dtypes.index)
        last = size + -1
        clamped = position.maximum(0).minimum(last.simplify()).maximum(0)
        inside = ~(asked < 0) & (asked < size.cast(asked.dtype))
        checked = self.check(node, asked, inside, length)
        return clamped.substitute({position: checked.cast(dtypes.index)}), inside

    def scatter(self, node: UOp, target: UOp, indices: Indices, prior: Sequence[UOp]) -> list[UOp]:
        """The base, unless nothing of it is left; then the updates, each after what stood there was
        stored for a PRIOR (its memory is `prior`): the kernel's stores stay in this order.
        """
        base, index, values = node.src
        op, axis, distinct = node.arg
        steps = self.region.steps
        asked = self.run((index, steps, TRUE))
        value = self.run((values, steps, TRUE))
        position = asked.cast(dtypes.index)
        if not distinct:
            position, _ = self.checked_position(node, asked, axis)
        at = (*steps[:axis], position, *steps[axis + 1 :])
        place = UOp(Ops.INDEX, node.dtype, (target, self.flat(at, node)))
        ranges = tuple(i for i in steps if i.op is Ops.RANGE)
        # the range keeps the load in the loop, also where the place is always the same
        here = tuple(r for r in ranges if r is steps[axis])
        before = UOp(Ops.LOAD, node.dtype, (place, *here))
        if op is not Ops.STORE:
            value = before.alu(op, value)
        stores = [] if distinct else [self.store(base, node, target, indices)]
        for memory in prior:
            there = UOp(Ops.INDEX, node.dtype, (memory, self.flat(steps, index)))
            stores.append(UOp(Ops.STORE, dtypes.void, (there, before, *ranges)))
        return [*stores, UOp(Ops.STORE, dtypes.void, (place, value, *ranges))]

    def store(self, value: UOp, node: UOp, target: UOp, indices: Indices) -> UOp:
        """The STORE of a value into the memory of `node`."""
        made = self.run((value, indices, TRUE))
        place = UOp(Ops.INDEX, node.dtype, (target, self.flat(indices, node)))
        ranges = sorted(self.region.closure(indices), key=number_of)
        return UOp(Ops.STORE, dtypes.void, (place, made, *ranges))

    def safe_divisor(self, node: UOp, divisor: UOp) -> UOp:
        """The divisor, 1 in place of 0; the error word tells of a 0."""
        nonzero = divisor.ne(0)
        return self.check(node, nonzero.where(divisor, 1), nonzero)

    def check(self, node: UOp, value: UOp, holds: UOp, size: Any = None) -> UOp:
        number = self.check_numbers.setdefault(node, len(self.checks))
        if number == len(self.checks):
            self.checks.append(CheckSite(KINDS.get(node.op, "division"), node, size))
        return UOp(Ops.CHECK, value.dtype, (value, holds), number)

    # --- bound variables --------------------------------------------------------------------------
    def without_bindings(self, root: UOp) -> UOp:
        """BINDs as numbered VARIABLEs: the ast does not know the values or the user's names."""
        for node in root.toposort():
            if node.op is Ops.BIND and node not in self.variables:
                _, low, high = node.src[0].arg
                self.variables[node] = UOp.variable(f"v{len(self.variables)}", low, high)
        return root.substitute(dict(self.variables)) if self.variables else root
