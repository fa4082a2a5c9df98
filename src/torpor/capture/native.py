"""A replay as steps of the native replayer, for calls in which nothing is unusual.

What is not here (views, devices other than the host, random streams, names bound anew) is
replayed by `Trace`, which is also what a miss of the steps falls back to. Both run the same graph.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.base.locks import recursive_lock, taken
from torpor.base.phases import listeners
from torpor.capture.commit import Fixed, Leaf, Value, own_result
from torpor.capture.holding import is_a
from torpor.capture.match import Pattern, look
from torpor.capture.program import Known, Program, Slot, Step, Steps, step
from torpor.capture.python import Unknown
from torpor.capture.trace import Trace
from torpor.device import Buffer
from torpor.device.buffer import buffer_node
from torpor.device.commands import CALL
from torpor.device.pool import pool, thread_count
from torpor.pipeline.compiled_graph import KEPT, CompiledGraph
from torpor.pipeline.report import timing
from torpor.pipeline.reuse import Fresh, Result, Reused
from torpor.tensor.handle import Handle
from torpor.tensor.pairs import Pair
from torpor.tensor.storage import Storage
from torpor.tensor.tensor import view_of

_LEND: Final = pool.lend  # one object each, whose address native code has
_TAKE_BACK: Final = pool.take_back
LONG: Final = 10e-6  # seconds; for kernels that take less Python's lock is kept
_BYTES_PER_SECOND: Final = 10e9  # of one thread, roughly
_OPS_PER_SECOND: Final = 2e9


class Unfit(Exception):
    """The replay needs something that there is no step for."""


class Native:
    """A trace's program, and how far it has been used. `used`: when its function last saw that."""

    used = 0

    def __init__(self, pattern: Pattern, trace: Trace, lock: Any):
        """`Unfit` if there is no such program."""
        self._trace = trace
        self._lock = own = lock if trace.leaves else trace.lock
        writer = _Writer(pattern, trace)
        steps = writer.steps(own)
        places = [*pattern.places, *[f"s{number}" for number in range(len(pattern.places))]]
        words = writer.words
        self.program = Program(steps, places, writer.arguments, words, own.release)
        self._seen, self._settling = 0, recursive_lock()  # runs that the trace knows of
        self.renew()

    def settle(self) -> int:
        """Have the trace know of the runs since it was last told; how many these are."""
        with self._settling:
            runs = self.program.get("count") - self._seen
            self._seen += runs
            self._trace.hits += runs
        return runs

    def renew(self) -> None:
        """Have it run the graph's executor, if there is one, unless another thread runs it now."""
        if not taken(self._lock):
            return
        try:
            self._renew()
        finally:
            self._lock.release()

    def _renew(self) -> None:
        self.settle()
        program, graph = self.program, self._trace.graph
        executor = graph.executor
        if executor is None or executor.waits:
            program.set(runs=0)
            return
        several, threads = executor.packed is None, thread_count()
        program.set(
            executor=executor.place,
            execute=executor.entry,
            lend=id(_LEND) if several else 0,
            take_back=id(_TAKE_BACK),
            lent=pool.lent.ctypes.data,
            threads=threads,
            long=several or seconds_of(graph) >= LONG,
            runs=1,
        )


def native_for(pattern: Pattern, trace: Trace, lock: Any) -> Native | None:
    """The native replay of a trace for calls like `pattern`; None if it needs Python.

    `lock` is what keeps other threads from changing what the trace changes.
    """
    try:
        return Native(pattern, trace, lock)
    except (Unfit, Unknown):
        return None


def seconds_of(graph: CompiledGraph) -> float:
    """How long a run takes by one thread, roughly; infinite where that depends on the call."""
    total = 0.0
    for command in graph.commands:
        program = command.program
        moved: Any = 2 * command.nbytes if program is None else program.bytes
        operations: Any = 0 if program is None else program.ops
        if not isinstance(moved, int) or not isinstance(operations, int):
            return math.inf
        total += moved / _BYTES_PER_SECOND + operations / _OPS_PER_SECOND
    return total


class _Writer:
    """Writes the steps of a replay. `words`: how many the executor is given."""

    def __init__(self, pattern: Pattern, trace: Trace):
        special = (trace.streams, trace.draws, trace.seeded, trace.rewrites, trace.additions,
                   trace.effects)  # fmt: skip
        plain = all(isinstance(source, int | Storage) for source in trace.sources)
        timed = timing() or not trace.on_host
        if any(special) or not plain or timed:
            raise Unfit
        self._pattern, self._trace = pattern, trace
        self._steps: list[Step] = [*pattern.steps]
        self._made: dict[int, str] = {}  # registers of what has been made, by id of its spec
        self._graph, self._first = trace.graph, trace.graph.memory.first_result
        if trace.graph.executor is None:
            raise Unfit
        self.words = trace.graph.executor.words
        self.arguments = pattern.given

    def steps(self, own: Any) -> Steps:
        """All steps. `own` is the lock for what a replay uses and changes."""
        self._steps += look("noted", listeners, None)
        places = self._pattern.places
        passed = [*map(self._passed, range(len(self._trace.passed)))]
        storages = [f"s{number}" for number in range(len(places))]
        for name in (*places, *passed, *storages, *self._pattern.amounts):
            self._add("own", name)  # lists among the arguments may change while a guard is asked
        self._add("lock", Known(own.acquire))
        self._steps += self._trace.guards.native(len(places))
        self._compute()
        self._gather()
        self._take()
        self._add("run")
        self._commit()
        return self._steps

    def _add(self, operation: str, *operands: Any) -> None:
        self._steps.append(step(operation, *operands))

    def _compute(self) -> None:
        """What follows from the numbers among the arguments: words, and the numbers `n`."""
        amounts, count = self._pattern.amounts, self._graph.words
        first = CALL + len(self._trace.sources) + len(self._trace.takes) + len(self._graph.takes)
        sizes = self.words + CALL - first - count
        if not amounts:  # it is the same each time
            found = self._numbers(())
            if found is None:
                raise Unfit
            for place, word in enumerate(found[0], first):
                self._add("word", place, word)
            self._add("constant", "n", Known(found[1]))
            return
        self._add("tuple", "amounts", 0, len(amounts))
        for number, name in enumerate(amounts):
            self._add("tuple_put", "amounts", number, name)
        self._add(
            "call", "found", Known(self._numbers if sizes else self._trace.numbers), "amounts"
        )
        self._add("not", "found", Known(None))
        self._add("tuple_item", "w", "found", 0)
        self._add("tuple_item", "n", "found", 1)
        for number in range(count + sizes):
            self._add("number", first + number, "w", number)

    def _numbers(self, given: Any) -> Any:
        """What follows from numbers, and with the words the sizes that follow from these."""
        found = self._trace.numbers(given)
        return found and ((*found[0], *self._graph.sizes_in(found[0])), found[1])

    # --- what it takes ----------------------------------------------------------------------------
    def _gather(self) -> None:
        """Storages, buffers and addresses of the inputs: registers `g0`, `b0` and so on."""
        trace = self._trace
        for number, source in enumerate(trace.sources):
            storage, buffer = f"g{number}", f"b{number}"
            if isinstance(source, int):
                self._add("slot", storage, self._pattern.places[source], Slot(Handle, "_storage"))
                for fixed in trace.fixed:
                    self._add("not", storage, fixed)
            else:
                self._add("constant", storage, Known(source))
            self._add("own", storage)
            self._add("slot", "node", storage, Slot(Storage, "base"))
            self._add("buffer", buffer, "node")
            self._add("own", buffer)
        for left, right in trace.shared:
            self._add("agree", f"b{left}", f"b{right}")
        for number in range(len(trace.sources)):
            self._add("address", CALL + number, f"b{number}", Slot(Buffer, "place"))

    def _take(self) -> None:
        """The results for this run: registers `r0` and so on."""
        for number, take in enumerate(self._trace.takes):
            result, giver = f"r{number}", take.__self__  # type: ignore[attr-defined]
            make, heir = step("make", result, Known(take)), self._trace.heirs[number]
            if heir is not None:
                before, giver = heir
                if isinstance(before, int):
                    self._add("slot", "before", f"g{before}", Slot(Storage, "base"))
                else:
                    owner = self._owner(before.source)
                    self._add("slot", "before", owner, Slot(Handle, "grad"))
                self._add("call", result, Known(giver.take), "before")
            elif not isinstance(giver, Fresh):
                raise Unfit
            elif isinstance(giver, Reused):
                either = (make,)
                found = (
                    step("constant", "giver", Known(giver)),
                    step("slot", "known", "giver", Slot(Reused, "known")),
                    step("slot", "alone", "giver", Slot(Reused, "alone")),
                    step("take", result, "known", "alone"),
                )
                self._steps += [one._replace(either=either) for one in found]
            else:
                self._steps.append(make)
            place = CALL + len(self._trace.sources) + number
            self._add("address", place, result, Slot(Result, "address"))
        arenas = zip(self._graph.memory.arenas, self._graph.takes, strict=True)
        first = CALL + len(self._trace.sources) + len(self._trace.takes)
        for place, (kind, arena) in enumerate(arenas, first):
            if kind.nbytes <= KEPT:
                self._add("word", place, arena().place)
            else:
                self._add("make", f"arena{place}", Known(arena))
                self._add("address", place, f"arena{place}", Slot(Buffer, "place"))

    # --- what it leaves behind --------------------------------------------------------------------
    def _commit(self) -> None:
        """Everything is made before anything is changed, so that a failure changes nothing."""
        trace = self._trace
        for number, value in enumerate(trace.values):
            made = f"m{number}"
            self._add("new", made, Known(Storage))
            self._node(value, f"{made}.base")
            self._add("constant", f"{made}.stamp", Known(0))
            fixed = {"device": value.device, "requires": value.requires, "external": None,
                     "depth": 0}  # fmt: skip
            self._fill(made, Storage, fixed, ("base", "stamp"))
        changes: list[Step] = []
        for number, value in trace.changes:
            storage = f"g{number}"
            self._node(value, f"{storage}.base")
            self._add("slot", f"{storage}.stamp", storage, Slot(Storage, "stamp"))
            self._add("following", f"{storage}.stamp", f"{storage}.stamp")
            self._add("constant", f"{storage}.requires", Known(value.requires))
            changes += [
                step("put", storage, Slot(Storage, name), f"{storage}.{name}")
                for name in ("requires", "base", "stamp")
            ]
        self._changed = {f"g{number}" for number, _ in trace.changes}
        for owner, tree in trace.grads:
            changes.append(step("put", self._owner(owner), Slot(Handle, "grad"), self._tree(tree)))
        result = self._tree(trace.result)
        self._steps += changes
        self._add("return", result)

    def _fill(self, made: str, kind: type, fixed: dict[str, Any], names: tuple[str, ...]) -> None:
        """Fill the slots of a fresh object: with fixed things, and with registers named like it."""
        for name, value in fixed.items():
            self._add("constant", "fixed", Known(value))
            self._add("put", made, Slot(kind, name), "fixed")
        for name in names:
            self._add("put", made, Slot(kind, name), f"{made}.{name}")

    def _node(self, value: Value, name: str) -> None:
        """A register for the node of a value, which has to be one of a result."""
        number = own_result(value, self._trace.shown, self._first)
        if number is None:
            raise Unfit
        self._add("slot", name, f"r{number}", Slot(Result, "node"))

    def _tree(self, tree: Any) -> str:
        """The register with a tree of `Leaf` and `Fixed` made again; one object is made once."""
        known = self._made.get(id(tree))
        if known is None:
            known = self._made[id(tree)] = self._part(tree)
        return known

    def _part(self, tree: Any) -> str:
        kind = type(tree)
        held = tree if kind in (tuple, list) else tree._parts if is_a(tree, Pair) else ()
        parts = [*map(self._tree, held)]
        name = f"x{len(self._steps)}.made"
        if kind is Leaf:
            return self._leaf(tree, name)
        if kind is Fixed:
            self._add("constant", name, Known(tree.value))
        elif kind in (tuple, list):
            self._add(kind.__name__, name, 0, len(parts))
            for number, part in enumerate(parts):
                self._add(f"{kind.__name__}_put", name, number, part)
        elif is_a(tree, Pair):
            self._add("new", name, Known(kind))
            for slot, part in zip(("_re", "_im"), parts, strict=True):
                self._add("put", name, Slot(Pair, slot), part)
        else:
            raise Unfit
        return name

    def _leaf(self, leaf: Leaf, name: str) -> str:
        if leaf.kind == "argument":
            return self._pattern.places[leaf.number]
        if leaf.kind == "passed":
            return self._passed(leaf.number)
        if leaf.kind == "number":
            self._add("tuple_item", name, "n", leaf.number)
            return name
        storage = f"{'m' if leaf.kind == 'new' else 'g'}{leaf.number}"
        if leaf.steps:
            return self._view(leaf, storage, name)
        self._add("new", name, Known(Handle._type))
        if leaf.kind != "new" and storage not in self._changed:
            self._add("slot", f"{storage}.base", storage, Slot(Storage, "base"))
            self._add("slot", f"{storage}.stamp", storage, Slot(Storage, "stamp"))
        for slot, register in (("_storage", storage), ("_node", f"{storage}.base"),
                               ("_stamp", f"{storage}.stamp")):  # fmt: skip
            self._add("put", name, Slot(Handle, slot), register)
        self._fill(name, Handle, {"_path": None, "_site": None, "grad": None}, ())
        return name

    def _view(self, leaf: Leaf, storage: str, name: str) -> str:
        """The register of a view, which derives its node when it is first looked at: its stamp is
        none that a storage has.
        """
        like = view_of(self._like(leaf), leaf.steps)
        if like._path is not None and like._path.leaf:  # has an identity of its own
            raise Unfit
        self._add("new", name, Known(Handle._type))
        self._add("put", name, Slot(Handle, "_storage"), storage)
        fixed = {"_path": like._path, "_node": like._node, "_stamp": -1, "_site": None}
        self._fill(name, Handle, {**fixed, "grad": None}, ())
        return name

    def _like(self, leaf: Leaf) -> Storage:
        """A storage without memory like the one that a leaf is a view of."""
        trace = self._trace
        if leaf.kind == "new":
            slot, shape = trace.values[leaf.number].parts[0]
            dtype = self._graph.memory.results[slot - self._first].dtype
        else:
            shape, dtype, *_ = trace.kinds[leaf.number]
        sizes = [size for size in shape if isinstance(size, int)]
        if len(sizes) != len(shape):
            raise Unfit
        return Storage(buffer_node(Buffer("CPU", math.prod(sizes), dtype), shape), "CPU")

    def _owner(self, owner: Any) -> str:
        """The register of a tensor whose gradient is set."""
        if isinstance(owner, int):
            return self._pattern.places[owner]
        name = f"o{len(self._steps)}"
        self._add("constant", name, Known(owner))
        return name

    def _passed(self, number: int) -> str:
        """The register of a container among the arguments, or of one in it."""
        first, *keys = self._trace.passed[number]
        if first != 0 or not keys:
            raise Unfit
        operands = ("argument", keys[0])
        for key in keys[1:]:
            operands = (self._place(operands), key)
        return self._place(operands)

    def _place(self, looked: tuple[Any, Any]) -> str:
        """The register with what the pattern took out of a container, or of the arguments."""
        for known in self._pattern.steps:
            if known.operation == "argument" and ("argument", known.operands[1]) == looked:
                return str(known.operands[0])
            if known.operation in ("tuple_item", "list_item") and known.operands[1:] == looked:
                return str(known.operands[0])
        raise Unfit
