"""`jit`: calls a function once for each kind of call, and replays what it did."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from torpor.base import settings
from torpor.base.errors import CaptureError
from torpor.capture.finish import finish
from torpor.capture.trace import MISS, Trace, is_whole, storage_of_view
from torpor.capture.tracer import Tracer, is_severed, stored
from torpor.capture.tree import flatten, rebuild
from torpor.ir.infer import shape_of
from torpor.tensor.handle import Handle, make
from torpor.tensor.mode import default_float, grad_enabled, training
from torpor.tensor.watch import active, watcher

MAXIMUM_TRACES: Final = 16  # of one function; the least recently used one goes
MAXIMUM_REASONS: Final = 32  # that are kept for `explain`
UNSTABLE_AFTER: Final = 3  # runs whose guards did not even hold when the function returned
GIVE_UP_AFTER: Final = 4 * MAXIMUM_TRACES  # traces in a row without a replay
_calls: Final = itertools.count(1)
_SETTINGS: Final = ("NOOPT", "STRICT_FLOAT", "BEAM", "DEVICE", "KERNEL_SIZE", "JIT")


@dataclass
class _Kind:
    """One kind of call: its traces, last used first, or why it runs as it is."""

    held: list[Any]
    traces: list[Trace] = field(default_factory=list)
    plain: str | None = None
    unstable: int = 0
    traced: int = 0
    hits: int = 0
    views_observed: bool = False
    used: int = 0


def _last_use(entry: tuple[Hashable, _Kind]) -> int:
    return entry[1].used


class _Settings:
    """The settings that decide what a trace holds, as one hashable; made anew when they change."""

    seen: tuple[Mapping[str, Any] | None, tuple[Any, ...]] = (None, ())

    @classmethod
    def key(cls) -> tuple[Any, ...]:
        mapping, known = cls.seen
        now = settings.snapshot()
        if mapping is not now:
            known = tuple(now[name] for name in _SETTINGS)
            cls.seen = now, known
        return known


@final
class Jitted:
    """A function that is traced on its first call and replayed while its guards hold.

    Calling it means what calling the function means, in particular for changes of arguments, of
    tensors and of attributes that it reads. `explain()` says what became of it.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        self._kinds: dict[Hashable, _Kind] = {}
        self._lock = threading.RLock()
        self._misses: list[str] = []
        self._streak = 0  # traces since the last replay
        self._baked: dict[str, None] = {}
        self._refused: dict[str, None] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {getattr(self, '__qualname__', repr(self.__wrapped__))}>"

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if (active and watcher() is not None) or settings.text("JIT") == "0":
            return self.__wrapped__(*arguments, **options)
        tensors: list[Any] = []
        objects: list[Any] = []
        structure = flatten((arguments, options), tensors, objects)
        key = (structure, _Settings.key(), grad_enabled(), training(), default_float(),
               *_tensor_keys(tensors))  # fmt: skip
        kind = self._kinds.get(key)
        if kind is not None and (result := self._replayed(kind, tensors)) is not MISS:
            return result
        if (kind is None or kind.plain is None) and self._streak < GIVE_UP_AFTER:
            with self._lock:
                kind = self._kind_of(key, objects, tensors)
                if (result := self._replayed(kind, tensors)) is not MISS:
                    return result  # another thread has just traced it
                if kind.plain is None:
                    return self._run(kind, tensors, objects, arguments, options)
        plain = kind.plain if kind is not None else None
        return self._as_it_is(plain or "is called in another way each time", arguments, options)

    def _replayed(self, kind: _Kind, tensors: list[Any]) -> Any:
        """What the first trace whose guards hold gives; `MISS` if there is none."""
        for trace in kind.traces:
            if trace.guards.check(tensors):
                result = trace.replay(tensors)
                if result is not MISS:
                    kind.hits += 1
                    kind.used = next(_calls)
                    self._streak = 0
                    return result
        return MISS

    def _as_it_is(self, reason: str, arguments: Any, options: Any) -> Any:
        """Call the function itself, for this reason."""
        self._refused[reason] = None
        if settings.text("JIT") == "strict":
            raise CaptureError(f"JIT=strict: a jitted function {reason}")
        return self.__wrapped__(*arguments, **options)

    # --- tracing ----------------------------------------------------------------------------------
    def _kind_of(self, key: Hashable, objects: list[Any], tensors: list[Any]) -> _Kind:
        """The kind of call that this is; a new one if there was none of it. The lock is held."""
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(objects, plain=_obstacle(tensors))
            kind.used = next(_calls)
            self._let_go()
        elif kind.traces:
            self._note_miss(kind.traces[0].guards.failing(tensors))
        self._streak += 1
        return kind

    def _run(
        self, kind: _Kind, tensors: list[Any], objects: list[Any], arguments: Any, options: Any
    ) -> Any:
        """Run the function for real, watched, and keep the trace if it can be replayed."""
        tracer = Tracer(settings.text("JIT") == "strict")
        views = [tensor for tensor in tensors if not is_whole(tensor)]
        observing = bool(views) and not kind.views_observed
        given = tensors if observing else [_stand_in(t) for t in tensors]
        for handle, tensor in zip(given, tensors, strict=True):
            if not is_whole(tensor):
                tracer.viewed |= {id(handle._storage), id(tensor._storage)}
            tracer.admit(handle._storage)
            tracer.note_grad(handle)
        if views and not observing:
            swap = {id(t): g for t, g in zip(tensors, given, strict=True)}

            def swapped(leaf: Any) -> Any:
                return swap.get(id(leaf), leaf)

            arguments = rebuild(arguments, swapped)
            options = rebuild(options, swapped)
        before = _identities(arguments, options)
        tracer.reach.root(self.__wrapped__, getattr(self, "__name__", "the function"))
        for number, value in enumerate(objects):
            tracer.reach.root(value, f"the object argument {number}")
        with tracer.watching():
            result = self.__wrapped__(*arguments, **options)
        if _identities(arguments, options) != before:
            tracer.refuse("changes a list or dict that it was passed")
        trace = finish(tracer, tensors, given, result, objects)
        self._baked |= tracer.baked
        if observing:
            kind.views_observed = True
            if tracer.reasons:
                kind.plain = "; ".join(tracer.reasons)
        else:
            self._keep(kind, trace, tracer, given)
        return result

    def _keep(
        self, kind: _Kind, trace: Trace | None, tracer: Tracer, given: Sequence[Handle]
    ) -> None:
        kind.traced += 1
        if trace is None:
            kind.plain = "; ".join(tracer.reasons)
        elif (unstable := trace.guards.failing(given)) is not None:
            kind.unstable += 1
            self._note_miss(unstable)
            if kind.unstable >= UNSTABLE_AFTER:
                kind.plain = f"changes what it reads: {unstable}"
        else:
            kind.unstable = 0
            kind.traces.insert(0, trace)
        if kind.plain is not None:
            self._refused[kind.plain] = None
        self._let_go()

    def _let_go(self) -> None:
        """Forget what is above the limits, the oldest first."""
        oldest = sorted(self._kinds.items(), key=_last_use)
        for key, _ in oldest[: max(len(oldest) - 4 * MAXIMUM_TRACES, 0)]:
            del self._kinds[key]
        extra = sum(len(kind.traces) for kind in self._kinds.values()) - MAXIMUM_TRACES
        for _, kind in oldest:
            if extra > 0 and kind.traces:
                kept = max(len(kind.traces) - extra, 0)
                extra -= len(kind.traces) - kept
                kind.traces = kind.traces[:kept]

    def _note_miss(self, path: str | None) -> None:
        self._misses.append(path or "tensors share memory in another way")
        del self._misses[:-MAXIMUM_REASONS]

    # --- explaining -------------------------------------------------------------------------------
    def explain(self) -> str:
        """What became of the function: traces, kernels, guards, misses, what is baked in."""
        lines = [repr(self)]
        number = 0
        for kind in list(self._kinds.values()):
            for trace in kind.traces:
                number += 1
                kernels = len(trace.plan.commands)
                lines.append(f"  trace {number}: {kernels} kernels, replayed {trace.hits} times")
                lines += [f"    guards {path}" for path in trace.guards.paths()]
        if not number:
            lines.append("  no traces")
        lines += [f"  missed because of {path}" for path in self._misses]
        lines += [f"  baked in: {what}" for what in self._baked]
        lines += [f"  runs as it is, since it {what}" for what in self._refused]
        return "\n".join(lines)


def jit(function: Callable[..., Any]) -> Jitted:
    """`function`, traced on its first call; later calls replay its kernels while guards hold.

    Tensors among the arguments, and tensors that the function reaches in any other way, are inputs;
    tensors that it changes are changed again at each replay. Numbers, strings, attributes, globals
    and closure cells that it reads are guarded: where one differs, the function is traced anew.
    Under JIT=0 it is called as it is; JIT=strict refuses what no guard can cover.
    """
    return function if isinstance(function, Jitted) else Jitted(function)


def explain(jitted: Any) -> str:
    """What became of a jitted function (see `Jitted.explain`)."""
    if isinstance(jitted, functools.partial):
        jitted = jitted.func
    if not isinstance(jitted, Jitted):
        raise CaptureError(f"explain takes a jitted function, not {type(jitted).__name__}")
    return jitted.explain()


# --- arguments ------------------------------------------------------------------------------------
def _tensor_keys(tensors: Sequence[Handle]) -> list[Any]:
    """What a trace depends on in the tensors that it is called with."""
    first: dict[int, int] = {}
    found = []
    for number, tensor in enumerate(tensors):
        storage, path = tensor._storage, tensor._path
        node = tensor._node if tensor._stamp == storage.stamp else tensor._current()
        shared = first.setdefault(id(storage), number)
        whole = None if path is None else is_whole(tensor)
        graph = storage.requires and not is_severed(storage.base)
        found.append(
            (shape_of(node), node.dtype, storage.device, tensor.requires_grad, whole, graph, shared)
        )
    return found


def _obstacle(tensors: Sequence[Handle]) -> str | None:
    """Why a call with these tensors cannot be traced, if so."""
    if grad_enabled():
        for tensor in tensors:
            whole = is_whole(tensor)
            graph = tensor._storage.requires and not is_severed(tensor._storage.base)
            if graph or (not whole and tensor.requires_grad):
                return "is called with a tensor through which gradients flow back to what made it"
    return None


def _stand_in(tensor: Handle) -> Handle:
    """The tensor itself; for a view a tensor of its own with the value that it shows."""
    if is_whole(tensor):
        stored(tensor._storage)
        return tensor
    storage = storage_of_view(tensor)
    return make(storage.base, storage.device, storage=storage)


def _identities(*trees: Any) -> list[int]:
    found: list[int] = []

    def note(leaf: Any) -> None:
        found.append(id(leaf))

    rebuild(trees, note)
    return found
