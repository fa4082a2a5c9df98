"""`Tracer`: watches one run of a function: tensors, random draws, kernels, code that runs."""

from __future__ import annotations

import copy
import gc
import importlib
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Final, NamedTuple, final

import numpy as np

from torpor.base.attributes import attribute, attributes
from torpor.base.errors import CaptureError
from torpor.capture.code import (
    CHANGERS,
    CHANGING,
    OUTER,
    READING,
    asks_for_types,
    is_opaque,
    is_ours,
    root_of,
)
from torpor.capture.constant import READS, Constants
from torpor.capture.draws import Draw, Stream
from torpor.capture.holding import is_a, module_of, name_of, title_of
from torpor.capture.number import Tape
from torpor.capture.reach import Reach
from torpor.capture.stand_ins import StandIns
from torpor.capture.tree import UNCHANGING, Path, is_container, walk
from torpor.ir.infer import JOINT, Shape
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.pipeline.command import Prepared
from torpor.pipeline.run import recorders
from torpor.tensor.computing import compute
from torpor.tensor.handle import Handle
from torpor.tensor.mode import grad_enabled
from torpor.tensor.random import fresh_name, state_of
from torpor.tensor.storage import Storage, buffers_of, is_buffer, is_severed, recall
from torpor.tensor.watch import Watcher, active

_PURE: Final = frozenset(
    """
    builtins math cmath operator _operator itertools functools _functools numpy _collections _abc
    _thread _weakref _bisect _hashlib _heapq re copy collections _struct binascii zlib unicodedata
    """.split()  # noqa: SIM905 (a table that is read)
)
_IMPURE: Final = frozenset({"input", "open", "print", "exec", "eval", "breakpoint", "fromfile"})
# Methods of C code that tell more than what their objects hold.
_TELLING: Final = frozenset({"__subclasses__", "locked"})
# Functions that libraries call to speak to the world, or to read a state of theirs.
_IMPURE_INSIDE: Final = frozenset({"input", "open", "print", "_get_extobj_dict", "geterrobj"})
_ANY_NAME: Final = frozenset(
    {"getattr", "vars", "dir", "globals", "locals", "delattr", "setattr", "hasattr"}
)
_BY_NAME: Final = {attribute.__code__, attributes.__code__}
_importer: Any = importlib
_IMPORTING: Final = _importer._bootstrap._find_and_load  # what runs in it happens once
_PURE_TYPES: Final = (
    str, bytes, int, float, complex, tuple, list, dict, set, frozenset, range, slice, type,
    np.ndarray, np.generic, np.dtype, types.MappingProxyType, bytearray, memoryview,
)  # fmt: skip


class Again(BaseException):
    """The run is to be done again with plain numbers, or with the host's errors `at_once`."""

    def __init__(self, reason: str, at_once: bool = False):
        super().__init__(reason)
        self.reason, self.at_once = reason, at_once


class Input(NamedTuple):
    """A storage from outside whose value the function uses.

    base: its base when the function was entered.
    node: BUFFER (or RESHAPE of one) of its value.
    """

    storage: Storage
    base: UOp
    node: UOp
    requires: bool


class Passed(NamedTuple):
    """A list, dict or tuple among the arguments: a copy of what it held when the function was
    entered, and the keys that lead to it in (arguments, options); None: it is in several places.
    """

    container: Any
    kept: Any
    path: Path | None


def cut_of(storage: Storage) -> Any:
    """Along which axis a tensor over several devices is cut (computed if it has not been)."""
    if JOINT not in storage.device:
        return None
    return stored(storage).arg[0]


def _code_of(function: Any) -> Any:
    """The code that a callback of the garbage collector runs, whenever it likes."""
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


def _unheard(_: Any) -> None:
    """Nothing is told of any more."""


def hand_back(profiler: Any) -> None:
    """Let the thread be profiled as before. A profiler in C is no function: it starts itself."""
    if hasattr(profiler, "enable"):
        profiler.enable()
    else:
        sys.setprofile(profiler)


def stored(storage: Storage) -> UOp:
    """The value of a storage as BUFFER or RESHAPE of one; computed if it has not been."""
    base = storage.base
    if is_buffer(base):
        return base
    if is_severed(base):
        return base.src[0]
    value = recall(base)
    if value is None:
        (value,) = compute([(base, storage.device)])
        storage.settle(base, value)
    elif not storage.requires:
        storage.settle(base, value)
    return value


@final
class Tracer(Watcher):
    """What happened in one run of a function.

    reasons: why the run cannot be replayed; empty if it can.
    baked:   what it saw that no guard covers.
    """

    def __init__(self, strict: bool, tape: Tape, by_value: bool, constants: Constants):
        self.strict, self.tape, self.by_value = strict, tape, by_value
        self.constants = constants
        self.reasons: dict[str, None] = {}
        self.baked: dict[str, None] = {}
        self.reach = Reach(self.bake, self.note_grad)
        self.inner: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.inputs: dict[int, Input] = {}
        self.bases: set[int] = set()
        self.recorded: list[Prepared] = []
        self.produced: set[int] = set()
        self.grads: dict[int, tuple[Handle, Any]] = {}
        self.accumulated: set[int] = set()  # handles whose `.grad` was added to
        self.forgotten: set[int] = set()  # those whose `.grad` was set to None unseen
        self.streams: dict[int, Stream] = {}
        self.words: dict[str, Draw] = {}
        self.reseeded: dict[int, Any] = {}
        self.altered: dict[int, tuple[Any, Any, str]] = {}  # containers, and what they held before
        self.passed: dict[int, Passed] = {}  # lists, dicts and tuples among the arguments
        self.stand_ins = StandIns()
        self.turns: weakref.WeakValueDictionary[int, Handle]  # became others in place
        self.turns = weakref.WeakValueDictionary()
        self.gradients_taken = False
        self.state = state_of(None)  # seeded now at the latest, so that its draws count from here
        self.before = fresh_name()
        self._opened: set[types.CodeType] = set()
        self._opaque: dict[types.CodeType, bool] = {}
        self._computing: types.FrameType | None = None  # inside, no code of the user runs
        self._ignored = {compute.__code__, _IMPORTING.__code__, *map(_code_of, gc.callbacks)}
        self._thread = get_ident()

    # --- verdicts ---------------------------------------------------------------------------------
    def bake(self, what: str) -> None:
        """Something that no guard covers."""
        if what not in self.baked:
            self.baked[what] = None
            if self.strict:
                raise CaptureError(f"JIT=strict: a jitted function depends on {what}")

    def refuse(self, reason: str) -> None:
        """The run cannot be replayed."""
        if reason not in self.reasons:
            self.reasons[reason], self.at_once = None, True
            if self.strict:
                raise CaptureError(f"JIT=strict: a jitted function {reason}")

    def admit_containers(self, arguments: Any, options: Any) -> None:
        """Note the lists, dicts and tuples among the arguments."""
        for container, path in walk((arguments, options)):
            if is_container(container):
                where = None if id(container) in self.passed else path
                kept = container if is_a(container, UNCHANGING) else copy.copy(container)
                self.passed[id(container)] = Passed(container, kept, where)

    def close(self) -> None:
        """Let go of what the run was about, and `reach`, which knows this; only verdicts stay."""
        self.stand_ins.close(self.turns.values())
        self.inputs.clear()
        self.recorded.clear()
        self.grads.clear()
        self.altered.clear()
        self.passed.clear()
        self.reach = Reach(_unheard, _unheard)

    # --- the run ----------------------------------------------------------------------------------
    @contextmanager
    def watching(self) -> Iterator[None]:
        """Everything that this thread does inside is watched."""
        profiler = sys.getprofile()
        with self.recording():
            sys.setprofile(self.profile)
            try:
                yield
            finally:
                hand_back(profiler)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Tensors and kernels are watched, but not code."""
        active[self._thread], recorders[self._thread] = self, self.record
        try:
            yield
        finally:
            active.pop(self._thread, None)
            recorders.pop(self._thread, None)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Nothing inside is watched, calls neither: the compiler's are many."""
        kept = active.pop(self._thread, None), recorders.pop(self._thread, None)
        profiler = sys.getprofile()
        sys.setprofile(None)
        try:
            yield
        finally:
            hand_back(profiler)
            if kept[0] is not None and kept[1] is not None:
                active[self._thread], recorders[self._thread] = kept[0], kept[1]

    def record(self, ready: Sequence[Prepared]) -> None:
        for prepared in ready:
            self.recorded.append(prepared)
            for number in prepared.item.outputs:
                self.produced.add(id(prepared.item.buffers[number].arg))

    # --- code -------------------------------------------------------------------------------------
    def profile(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls when a function is entered and before C is called."""
        if self._computing is not None:
            if event == "return" and frame is self._computing:
                self._computing = None
            return
        code = frame.f_code
        if code in self._ignored and event == "call":
            self._computing = frame
            return
        if event == "call":
            if code not in self._opened:
                self._call(frame, code)
        elif event == "c_call":
            if self._is_opaque(code, frame):
                self._called_inside(argument, frame)
            else:
                self.called(argument)

    def _call(self, frame: types.FrameType, code: types.CodeType) -> None:
        if not self._is_opaque(code, frame):
            self._opened.add(code)
            self._enter(code, frame)
            return
        if code in _BY_NAME:
            self.reach.named(**frame.f_locals)
            return
        module = frame.f_globals.get("__name__", "")
        if root_of(module) not in CHANGING or module.startswith("importlib._"):
            self._opened.add(code)
            if root_of(module) in READING and self._entry_of(frame) is not None:
                self.reach.read_everything(True)
            return
        caller = frame.f_back
        if caller is not None and caller.f_globals.get("__name__") == "collections.abc":
            caller = caller.f_back  # `os.environ.get` is a mapping's method
        if caller is not None and not self._is_opaque(caller.f_code, caller):
            self.bake(f"a call of {module}.{code.co_name}")

    def _enter(self, code: types.CodeType, frame: types.FrameType) -> None:
        self.reach.enter(code, frame.f_globals)
        if self.tape.numbers and not self.by_value and not self.reasons:
            reason = asks_for_types(code)
            if reason is not None and root_of(frame.f_globals.get("__name__")) != "torpor":
                raise Again(reason)

    def _is_opaque(self, code: types.CodeType, frame: types.FrameType) -> bool:
        known = self._opaque.get(code)
        if known is None:
            known = self._opaque[code] = is_opaque(frame.f_globals.get("__name__"))
        return known

    def called(self, function: Any) -> None:
        """C code is about to be called by code that is looked into."""
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if owner is None or is_a(owner, types.ModuleType):
            module = getattr(function, "__module__", None) or ""
            if root_of(module) not in _PURE or name in _IMPURE:
                self.bake(f"a call of {module}.{name}")
            elif name in ("globals", "locals"):
                self.bake(f"a call of {name}()")
            elif name in _ANY_NAME:
                self.reach.read_everything(name in ("vars", "dir"))
        elif is_a(owner, ContextVar) and name == "get":
            self.reach.root(owner, f"the context variable {owner.name}")
        elif name in _TELLING:
            self.bake(f"a call of {title_of(owner)}.{name}")
        elif name in CHANGERS and (path := self.path_of(owner)) is not None:
            self._alters(owner, name, path)
        elif is_a(owner, type):
            if root_of(module_of(owner)) not in _PURE and is_opaque(module_of(owner)):
                self.bake(f"a call of {module_of(owner)}.{name_of(owner)}.{name}")
        elif not is_a(owner, _PURE_TYPES) and not name.startswith("__"):
            module = module_of(type(owner))
            if module.startswith("numpy.random") or root_of(module) not in ("torpor", *_PURE):
                self.bake(f"a call of {title_of(owner)}.{name}")

    def _called_inside(self, function: Any, frame: types.FrameType) -> None:
        """C code is about to be called by a library, maybe for code that is looked into."""
        if is_ours(frame.f_globals.get("__name__")):
            return
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        variable = is_a(owner, ContextVar) and name == "get"
        of_module = owner is None or is_a(owner, types.ModuleType)
        module = getattr(function, "__module__", None) if of_module else module_of(type(owner))
        if not variable and root_of(module) not in OUTER and name not in _IMPURE_INSIDE:
            return
        library = self._entry_of(frame)
        if library is None:
            return
        what = f"{library.f_globals.get('__name__', '')}.{library.f_code.co_name}"
        if variable:
            self.reach.root(owner, f"what {what} reads")
        else:
            self.bake(f"a call of {what}")

    def _entry_of(self, frame: types.FrameType) -> types.FrameType | None:
        """The function of a library that code which is looked into called, and this one runs in;
        None: it was called by torpor, or to import a module, which happens once.
        """
        while (caller := frame.f_back) is not None and self._is_opaque(frame.f_code, frame):
            module = frame.f_globals.get("__name__", "")
            if is_ours(module) or root_of(module) in ("importlib", "_frozen_importlib"):
                return None
            if not self._is_opaque(caller.f_code, caller):
                return frame
            frame = caller
        return None

    def _alters(self, owner: Any, name: str, path: str) -> None:
        """A container from outside, which nothing else is known to read, is about to be changed."""
        self.altered.setdefault(id(owner), (owner, copy.copy(owner), path))
        if name not in ("append", "extend") or type(owner) not in (list, deque):
            self.refuse(f"changes what {path} holds by {name}()")

    def path_of(self, value: Any) -> str | None:
        """How an object is reached from outside; None if it is not."""
        if self.reach.is_known(value):
            return self.reach.path_of(value)
        return next((p.path for p in self.reach.noted.places() if p.value is value), None)

    # --- tensors ----------------------------------------------------------------------------------
    def made(self, storage: Storage) -> None:
        self.inner.add(storage)

    def holds(self, storage: Storage) -> bool:
        return storage in self.inner or id(storage) in self.inputs

    def viewed(self, view: Handle) -> None:
        self.stand_ins.note(view)

    def touch(self, handle: Handle) -> None:
        if not self.holds(handle._storage):
            self.admit(handle._storage)

    def admit(self, storage: Storage) -> None:
        """A storage from outside becomes an input."""
        requires = storage.requires
        with self._paused():
            if requires and not is_severed(storage.base) and grad_enabled():
                self.refuse("uses a tensor through which gradients flow back to what made it")
            node = stored(storage)
        self.inputs[id(storage)] = Input(storage, storage.base, node, requires)
        self.bases.add(id(storage.base))

    def told(self, shape: Shape) -> tuple[Any, ...]:
        asks = sys._getframe(3)
        inside = not self.tape.sizes or self._is_opaque(asks.f_code, asks)
        return shape if inside else tuple(map(self.tape.size, shape))

    def fixes(self, size: UOp) -> None:
        self.tape.varies = False

    def writing(self, handle: Handle) -> None:
        self.touch(handle)
        if handle._storage.external is not None:
            self.refuse("writes to memory that is shared with an array")
        if id(handle._storage) in self.stand_ins.viewed:
            self.refuse("writes to a tensor of which it was given a view")
            self.stand_ins.put_back()

    def turned(self, handle: Handle) -> None:
        self.touch(handle)
        if handle._storage not in self.inner:
            self.turns[id(handle)] = handle

    def left(self) -> None:
        """The function has returned: what it made another view of and is there still is seen."""
        if self.turns:
            self.refuse("makes another view of a tensor from outside in place (.data = y, t_, ...)")
        if self.stand_ins.are_kept():
            self.refuse("hands out or keeps a part of a view that it was given")
            self.stand_ins.put_back()

    def read(self, handle: Handle, lent: bool) -> None:
        self.constants.hopeless |= lent
        if not self.constants.hopeless and {*self.reasons} <= {READS} and not self.tape.sizes:
            if self.constants.admit(handle, self.recorded, self.inputs):
                return
        self.refuse(READS)

    def differentiated(self, leaf: Handle | None) -> None:
        self.gradients_taken = True
        if leaf is not None:
            self.note_grad(leaf)
            if self.grads[id(leaf)][1] is leaf.grad:
                self.accumulated.add(id(leaf))

    def forgot(self, leaf: Handle) -> None:
        self.note_grad(leaf)
        if "grad" not in self.reach.noted.loaded:  # by no code so far, so nobody has looked at it
            self.forgotten.add(id(leaf))

    def note_grad(self, handle: Handle) -> None:
        """Remember what `.grad` is before the function changes it."""
        self.grads.setdefault(id(handle), (handle, handle.grad))

    def stands_for(self, node: UOp, value: UOp) -> bool:
        # Memory is no input of its own: what an array held before a write to it stands for it.
        if node.op is Ops.BUFFER or id(node) in self.bases:
            return True
        return is_buffer(value) and all(id(b) in self.produced for b in buffers_of(value))

    def drew(self, generator: Any, state: Any) -> None:
        if state.name > self.before:
            self.reseeded[id(generator)] = generator
            return
        stream = self.streams.get(state.name)
        if stream is None:
            stream = self.streams[state.name] = Stream(generator, state)
            number = len(self.streams) - 1
            for half in range(2):
                self.words[f"random_seed{state.name}_{half}"] = Draw(number, "seed", half)
        number = list(self.streams).index(state.name)
        name = f"random_draw{state.name}_{state.draw}"
        self.words[name] = Draw(number, "draw", state.draw - stream.draw)
