"""`jit`: calls a function once for each kind of call, and replays what it did."""

from __future__ import annotations

import copy
import functools
import itertools
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, final

from torpor.base import settings
from torpor.base.errors import CaptureError
from torpor.base.locks import recursive_lock, taken
from torpor.base.phases import phase
from torpor.base.site import decode, here
from torpor.capture.attempt import Attempt, attempt, of_any_size
from torpor.capture.constant import READS, Seen
from torpor.capture.holding import is_a, is_tensor
from torpor.capture.kind import difference, kind_key, nearest
from torpor.capture.match import Pattern, pattern_of
from torpor.capture.native import Native, native_for
from torpor.capture.program import expect_native, make_native
from torpor.capture.sizes import Dynamic, Larger, Sizes, computed, shown
from torpor.capture.trace import MISS, Trace, is_whole
from torpor.capture.tracer import Again
from torpor.capture.tree import Call, arguments_of, holds_twice, names_of
from torpor.capture.words import change, changed, listed, told
from torpor.device.host import raise_held
from torpor.pipeline.anew import IN_A_ROW, warn
from torpor.pipeline.compiled_graph import Failed
from torpor.pipeline.general import Row
from torpor.pipeline.journal import journal, recording
from torpor.schedule.limit import Limit, limited, megabytes
from torpor.tensor.handle import Handle
from torpor.tensor.mode import grad_enabled
from torpor.tensor.storage import is_severed
from torpor.tensor.watch import active, watcher

MAXIMUM_TRACES: Final = 16  # of one function; the least recently used one goes
MAXIMUM_PROGRAMS: Final = 4  # kinds of call that are replayed without Python
MAXIMUM_REASONS: Final = 32  # that are kept for `explain`
UNSTABLE_AFTER: Final = 3  # runs whose guards did not even hold when the function returned
GIVE_UP_AFTER: Final = 4 * MAXIMUM_TRACES  # traces in a row without a replay
PATIENCE: Final = 5.0  # seconds that a thread waits for another one's run of the function
SHOWN_FROM: Final = 1 << 20  # bytes of memory that `explain` speaks of
NATIVE_AFTER: Final = 2  # replays by Python, so that what is called once or twice compiles nothing
MANY: Final = 8  # kernels of a trace, for which the first call is long enough to do it at once


@dataclass
class _Kind:
    """One kind of call: its traces, last used first, or why it runs as it is."""

    held: list[Any]
    traces: list[Trace] = field(default_factory=list)
    plain: str | None = None
    unstable: int = 0
    replays: int = 0  # when it was so last
    pattern: Pattern | None = None  # what tells calls of this kind
    native: Native | None = None  # replays its first trace without Python
    waited: int = 0  # replays before that is tried
    used: int = 0
    sized: bool = False  # computed by kernels for any size
    seen: Seen = field(default_factory=Seen)
    change: str = ""  # how its first call differed from the nearest kind


def _last_use(entry: tuple[Any, _Kind]) -> int:
    kind = entry[1]
    return max(kind.used, kind.native.used) if kind.native else kind.used


@final
class Jitted:
    """A function that is traced on its first call and replayed while its guards hold.

    Calling it means what calling the function means, in particular for changes of arguments, of
    tensors and of attributes that it reads. `explain()` says what became of it.
    """

    __qualname__: str  # the function's
    __slots__ = ("_programs", "__dict__", "__weakref__")
    _programs: tuple[Any, ...]  # native replays: addresses, each with what keeps it alive

    def __init__(
        self,
        function: Callable[..., Any],
        memory_limit: int | None = None,
        dynamic: Dynamic = None,
    ):
        functools.update_wrapper(self, function, updated=())
        self._limit = None if memory_limit is None else Limit(memory_limit)
        self.__wrapped__ = function
        self._sizes, self._dynamic = Sizes(function, dynamic), dynamic
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._programs = ()
        self._lock, self._uses = recursive_lock(), itertools.count(1)
        self._misses: list[str] = []
        self._by_value: str | None = None  # why numbers are guarded by value
        self._streak = 0  # traces since the last replay
        self._row = Row()  # of sizes by kernels for any
        self._baked: dict[str, None] = {}
        self._refused: dict[str, None] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __copy__(self) -> Jitted:
        return self

    def __deepcopy__(self, memo: Any) -> Jitted:
        """Functions are not copied; a method of an object becomes that of the object's copy."""
        wrapped = copy.deepcopy(self.__wrapped__, memo)
        if wrapped is self.__wrapped__:
            return self
        return Jitted(wrapped, self._limit_bytes(), self._dynamic)

    def __reduce__(self) -> Any:
        if is_a(self.__wrapped__, types.FunctionType):
            return self.__qualname__  # as functions are: by name
        return Jitted, (self.__wrapped__, self._limit_bytes(), self._dynamic)

    def _limit_bytes(self) -> int | None:
        return None if self._limit is None else self._limit.bytes

    def __repr__(self) -> str:
        return f"<jit of {self._name()}>"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if active and watcher() is not None:
            return self.__wrapped__(*arguments, **options)
        self._settle()
        if settings.text("JIT") == "0":
            return self.__wrapped__(*arguments, **options)
        try:
            call = Call.of(arguments, options)
        except RecursionError:
            return self._as_it_is("is passed a list that holds itself", arguments, options)
        key = kind_key(call.structure, call.tensors)
        kind = self._kinds.get(key)
        if kind and (result := self._replayed(kind, call)) is not MISS:
            self._go_native(kind)
            return result
        if (kind is None or kind.plain is None) and self._streak < GIVE_UP_AFTER:
            if call.numbers and holds_twice(call[:2]):  # they are inputs, each of its own
                return self._as_it_is("is passed a list of numbers twice", arguments, options)
            if not taken(self._lock, PATIENCE):  # may wait for a lock that is held here
                return self._as_it_is("is being traced by another thread", arguments, options)
            try:
                kind = self._kinds.get(key)
                if kind and (result := self._replayed(kind, call)) is not MISS:
                    return result  # another thread has just traced it
                kind = self._kind_of(key, call)
                if self._is_sized(key, kind):
                    return self._of_any_size(key, call)
                if kind.plain is None:
                    # The run may change lists in them.
                    pattern = pattern_of(key, arguments, options)
                    result = self._run(kind, call)
                    self._learn(kind, pattern)
                    return result
            finally:
                self._lock.release()
        plain = kind.plain if kind is not None else None
        return self._as_it_is(plain or "is called in another way each time", arguments, options)

    def _replayed(self, kind: _Kind, call: Call) -> Any:
        """What the first trace whose guards hold gives; `MISS` if there is none."""
        raise_held()  # native code may have been here, and ended early
        with phase("launch", self._name()):
            for trace in kind.traces:
                run = self._alone if trace.leaves else Trace.__call__
                try:
                    result = run(trace, call)
                except Failed:
                    # It has changed nothing; the function raises too, and can say more.
                    made = attempt(self.__wrapped__, call, False, self._by_value)
                    made.tracer.close()
                    return made.result
                if result is not MISS:
                    kind.used, self._streak = next(self._uses), 0
                    return result
        return MISS

    def _name(self) -> str:
        return getattr(self, "__qualname__", repr(self.__wrapped__))

    def _settle(self) -> None:
        """Take note of what has been replayed without Python."""
        for native in self._programs[1::2]:
            if native.settle():
                self._streak, native.used = 0, next(self._uses)

    def _go_native(self, kind: _Kind) -> None:
        """Have the next calls like one that Python has just replayed done without Python."""
        if kind.native is not None:
            kind.native.renew()
            return
        kind.waited = waited = kind.waited + 1  # other threads may count too
        if waited == NATIVE_AFTER and kind.pattern and make_native(Jitted, _general):
            kind.native = native_for(kind.pattern, kind.traces[0], self._lock)
            self._line_up()

    def _alone(self, trace: Trace, call: Call) -> Any:
        """What a trace that changes something gives, while no other thread changes it by a call of
        this function; `MISS` also where another thread does not come back.
        """
        if not taken(self._lock, PATIENCE):
            return MISS
        try:
            return trace(call)
        finally:
            self._lock.release()

    def _as_it_is(self, reason: str, arguments: Any, options: Any) -> Any:
        """Call the function itself, for this reason."""
        self._refused[reason] = None
        if settings.text("JIT") == "strict":
            raise CaptureError(f"JIT=strict: a jitted function {reason}")
        return self.__wrapped__(*arguments, **options)

    # --- tracing ----------------------------------------------------------------------------------
    def _kind_of(self, key: tuple[Any, ...], call: Call) -> _Kind:
        """The kind of call that this is; a new one if there was none of it. The lock is held."""
        kind, change = self._kinds.get(key), ""
        if kind is None:
            if self._kinds:
                names = names_of(self.__wrapped__, call, is_tensor)
                arguments = arguments_of(self.__wrapped__, call)
                why, *parts = difference(key, nearest(key, self._kinds), names, arguments)
                self._note_miss(why)
                change = changed(*parts)
            sized = self._sizes.vary(key, self._kinds, call)
            plain = _obstacle(call.tensors)
            kind = _Kind(call.objects, plain=plain, sized=sized, change=change)
            self._kinds[key] = kind
            kind.used = next(self._uses)
            self._let_go()
        elif kind.traces:
            self._note_miss(kind.traces[0].failing(call.tensors))
        if kind.sized and kind.plain is None:
            return kind
        self._streak += 1
        if self._streak == 1 + IN_A_ROW and len({*self._misses[-IN_A_ROW:]}) == 1:
            self._tell_of_misses()
        return kind

    def _is_sized(self, key: tuple[Any, ...], kind: _Kind) -> bool:
        """Whether a call is computed by kernels for any size: unless its size stays."""
        if not kind.sized or kind.plain is not None:
            return False
        kind.sized = not self._row.is_steady(key)
        return kind.sized

    def _of_any_size(self, key: tuple[Any, ...], call: Call) -> Any:
        """What a call gives by kernels for any size: replayed, if that can be, else computed."""
        traced = [other for other, kind in self._kinds.items() if _leaves_nothing(kind)]
        found = None if self._baked else self._sizes.any_size(key, traced, call)
        if found is None:
            return computed(self.__wrapped__(*call.arguments, **call.options))
        sizes, sized = found
        with phase("launch", self._name()), suppress(Failed):  # the function raises it anew
            for trace in sizes.traces:
                if (result := trace(sized)) is not MISS:
                    return result
        while sizes.growth >= 0:
            try:
                with phase("trace", self._name(), "sizes"):
                    made = of_any_size(self.__wrapped__, sized, False, sizes)
            except Larger:
                continue
            except Again:
                break
            sizes.keep(made.trace)
            made.tracer.close()
            return made.result
        result = computed(self.__wrapped__(*call.arguments, **call.options))
        sizes.refused = True
        return result

    def _tell_of_misses(self) -> None:
        """Warn that each of the last calls was traced, for the same reason."""
        site = here()
        if site is not None:
            warn(decode(site), self._misses, f"{self._name()} is traced")

    def _run(self, kind: _Kind, call: Call) -> Any:
        """Run the function for real, watched, and keep the trace if it can be replayed."""
        strict = settings.text("JIT") == "strict"
        why = self._misses[-1] if self._misses else "new"
        expect_native(Jitted)
        with phase("trace", self._name(), why), limited(self._limit):
            made = attempt(self.__wrapped__, call, strict, self._by_value, kind.seen.marks)
        self._by_value = made.by_value
        self._baked |= made.tracer.baked
        self._keep(kind, made)
        if recording():
            self._write_down(kind, call, made, why)
        made.tracer.close()
        return made.result

    def _write_down(self, kind: _Kind, call: Call, made: Attempt, why: str) -> None:
        """Tell who records what became of a run."""
        trace = made.trace
        names = names_of(self.__wrapped__, call, is_tensor)
        named = zip(names, call.tensors, strict=True)
        shapes = [f"{name}: {t.shape} {t.dtype.name}" for name, t in named]
        plain = kind.plain if made.trace else "; ".join(made.tracer.reasons)
        facts: dict[str, Any] = {"name": self._name(), "why": why, "change": kind.change}
        facts |= {"plain": plain, "arguments": shapes, "guards": [], "takes": []}
        facts["baked"] = list(made.tracer.baked)
        if trace is not None:
            used = [["arguments", path, ""] for path in trace.used]
            facts |= {"guards": used + told(trace.guards), "takes": list(trace.taken)}
            old = next((other for other in kind.traces if other is not trace), None)
            if old is not None:
                facts["change"] = change(why, old.guards, trace.guards)
        journal().jit(here(), facts, None if trace is None else trace.graph)

    def _keep(self, kind: _Kind, made: Attempt) -> None:
        trace = made.trace
        self._refused.pop(READS, None)
        if trace is None:
            reason, replays = "; ".join(made.tracer.reasons), sum(one.hits for one in kind.traces)
            self._refused[reason] = None
            if reason != READS or not kind.seen.may_match(made.tracer.constants, replays):
                kind.plain = reason
        elif (unstable := trace.guards.failing(made.given)) is not None:
            replays = sum(one.hits for one in kind.traces)
            kind.unstable = kind.unstable + 1 if replays == kind.replays else 1
            kind.replays = replays
            self._note_miss(unstable)
            if kind.unstable >= UNSTABLE_AFTER:
                kind.plain = f"changes what it reads: {unstable}"
                kind.traces = [one for one in kind.traces if one.hits]
            elif trace.is_for_a_next(made.given):
                kind.traces.insert(0, trace)
        else:
            kind.unstable = 0
            kind.traces.insert(0, trace)
            if all(one.plain != READS for one in [*self._kinds.values()]):
                self._refused.pop(READS, None)  # of an earlier run, before its numbers came again
        if kind.plain is not None:
            self._refused[kind.plain] = None
        self._let_go()

    def _learn(self, kind: _Kind, pattern: Pattern | None) -> None:
        """Note what tells calls of this kind, whose first trace is another one now."""
        kind.native, kind.pattern, kind.waited = None, pattern, 0
        self._line_up()
        if kind.traces and len(kind.traces[0].graph.commands) >= MANY:
            kind.waited = NATIVE_AFTER - 1
            self._go_native(kind)

    def _line_up(self) -> None:
        """Have the native replays of the kinds that were traced last."""
        kinds = [*self._kinds.values()]  # at once: other threads may add some
        natives = [kind.native for kind in kinds if kind.traces and kind.native]
        latest = natives[: -MAXIMUM_PROGRAMS - 1 : -1]
        self._programs = tuple(x for native in latest for x in (native.program.address, native))

    def _let_go(self) -> None:
        """Forget what is above the limits, the oldest first."""
        self._settle()
        oldest = sorted(self._kinds.items(), key=_last_use)
        for key, _ in oldest[: max(len(oldest) - 4 * MAXIMUM_TRACES, 0)]:
            del self._kinds[key]
        extra = sum(len(kind.traces) for kind in self._kinds.values()) - MAXIMUM_TRACES
        for _, kind in oldest:
            if extra > 0 and kind.traces:
                kept = max(len(kind.traces) - extra, 0)
                extra -= len(kind.traces) - kept
                kind.traces = kind.traces[:kept]
        self._line_up()

    def _note_miss(self, why: str) -> None:
        self._misses.append(why)
        del self._misses[:-MAXIMUM_REASONS]

    # --- explaining -------------------------------------------------------------------------------
    def explain(self) -> str:
        """What became of the function: traces, kernels, guards, misses, what is baked in."""
        self._settle()
        lines = [repr(self)]
        number = 0
        for kind in list(self._kinds.values()):
            for trace in kind.traces:
                number += 1
                kernels = len(trace.graph.commands)
                lines.append(f"  trace {number}: {kernels} kernels, replayed {trace.hits} times")
                if (peak := trace.graph.peak_bytes) >= SHOWN_FROM:
                    lines.append(f"    takes {megabytes(peak)} for results and on the way")
                lines += [f"    takes {path} as an input" for path in trace.taken]
                lines += [f"    guards {path}" for path in (*trace.used, *listed(trace.guards))]
        lines += self._sizes.explain()
        if len(lines) == 1:
            lines.append("  no traces")
        varying = [key for key, kind in [*self._kinds.items()] if kind.sized]
        if varying:
            lines.append(f"  takes sizes as numbers: {shown(varying)}")
        lines += [f"  missed because of {path}" for path in list(self._misses)]
        lines += [f"  baked in: {what}" for what in list(self._baked)]
        lines += [f"  runs as it is, since it {what}" for what in list(self._refused)]
        economies = self._limit.economies if self._limit is not None else []
        lines += [f"  memory_limit: {one}" for one in economies]
        return "\n".join(lines)


_general: Final = Jitted.__call__  # for calls that no native replay fits


def jit(function: Any = None, *, memory_limit: int | None = None, dynamic: Dynamic = None) -> Any:
    """`function`, traced on its first call; later calls replay its kernels while guards hold.

    Tensors among the arguments, and tensors that the function reaches in any other way, are inputs;
    tensors that it changes are changed again at each replay. Numbers among the arguments are inputs
    as far as they only meet tensors and other numbers. Strings, attributes, globals and closure
    cells that it reads are guarded: where one differs, the function is traced anew.
    Under JIT=0 it is called as it is; JIT=strict refuses what no guard can cover.

    memory_limit: the most bytes that a call may take for results and on the way, beside arguments
                  and what it reads. Values are computed again instead of kept until it fits;
                  `explain` says what that costs. `MemoryLimitError` where it cannot be.
    dynamic:      the name of an argument whose sizes vary, names, or a dict of names and axes:
                  kernels take these sizes as numbers after the first, and after the second those
                  of whichever tensors change if nothing is named.
    """
    if function is None:
        return functools.partial(jit, memory_limit=memory_limit, dynamic=dynamic)
    if not callable(function):
        raise CaptureError(f"jit takes a function, as in jit(f)(x), not {function!r}")
    if isinstance(function, Jitted) and memory_limit is None and dynamic is None:
        return function
    wrapped = function.__wrapped__ if isinstance(function, Jitted) else function
    return Jitted(wrapped, memory_limit, dynamic)


def explain(jitted: Any) -> str:
    """What became of a jitted function (see `Jitted.explain`)."""
    if isinstance(jitted, functools.partial):
        jitted = jitted.func
    if not isinstance(jitted, Jitted):
        raise CaptureError(f"explain takes a jitted function, not {type(jitted).__name__}")
    return jitted.explain()


def _leaves_nothing(kind: _Kind) -> bool:
    """Whether calls of a kind were traced, and only give something back."""
    return bool(kind.traces) and not any(trace.leaves for trace in kind.traces)


def _obstacle(tensors: Sequence[Handle]) -> str | None:
    """Why a call with these tensors cannot be traced, if so."""
    if grad_enabled():
        for tensor in tensors:
            whole = is_whole(tensor)
            graph = tensor._storage.requires and not is_severed(tensor._storage.base)
            if graph or (not whole and tensor.requires_grad):
                return "is called with a tensor through which gradients flow back to what made it"
    return None
