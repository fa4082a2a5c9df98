"""One run of a function for real, watched: its arguments exchanged, and a trace made of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from torpor.base.attributes import attributes
from torpor.base.errors import DivisionByZeroError, LinAlgError, OutOfBoundsError, ValueRangeError
from torpor.capture.code import asks_for_types
from torpor.capture.constant import Constants
from torpor.capture.finish import finish
from torpor.capture.holding import is_given_one_of, is_tensor
from torpor.capture.number import Number, Tape
from torpor.capture.sizes import AnySize
from torpor.capture.trace import MISS, Trace, is_whole, storage_of_view
from torpor.capture.tracer import Again, Tracer, stored
from torpor.capture.tree import Call, Exchange, is_number, names_of
from torpor.capture.undo import can_undo, undo
from torpor.graph.sizes import noticing
from torpor.pipeline.compiled_graph import Failed
from torpor.tensor.elementwise import unpacking
from torpor.tensor.handle import Handle, make


@dataclass(frozen=True)
class Attempt:
    """What became of a run: what the function gave, and its trace unless it cannot be replayed."""

    result: Any
    trace: Trace | None
    tracer: Tracer
    given: Sequence[Handle]
    by_value: str | None


class NotReplayed(Exception):
    """What a run left to a replay that one could not do; nothing has changed."""


def attempt(
    function: Callable[..., Any],
    call: Call,
    strict: bool,
    by_value: str | None,
    seen: Container[int] = (),
) -> Attempt:
    """Run the function and trace it; `by_value` says why it is given its numbers as they are: they
    are guarded by value then. `seen`: marks of what earlier runs asked tensors for.
    """
    by_value = by_value or (call.numbers and asks_for_types(_code_of(function))) or None
    at_once, may_wait = False, True
    while True:
        run = _Run(function, call, strict, by_value, None, at_once, seen, may_wait)
        try:
            return run.attempt()
        except NotReplayed:
            may_wait = False
        except Again as again:
            by_value, at_once = (by_value, True) if again.at_once else (again.reason, at_once)


def of_any_size(function: Callable[..., Any], call: Call, strict: bool, sizes: AnySize) -> Attempt:
    """Run the function and trace it for any sizes, which are the last of the call's numbers;
    `Again` if that cannot be, and then nothing has changed.
    """
    if asks_for_types(_code_of(function)):
        raise Again("it asks for types")
    return _Run(function, call, strict, None, sizes).attempt()


def _code_of(function: Any) -> Any:
    return getattr(function, "__code__", None)


class _Run:
    def __init__(
        self,
        function: Any,
        call: Call,
        strict: bool,
        by_value: str | None,
        sizes: AnySize | None = None,
        at_once: bool = False,
        seen: Container[int] = (),
        may_wait: bool = False,
    ):
        self.function, self.call, self.by_value, self.sizes = function, call, by_value, sizes
        bound = sizes.bound(call) if sizes else []
        names = [*names_of(function, call, is_number), *(sizes.names() if sizes else ())]
        self.tape = Tape(call.numbers, names, bound)
        self.tracer = Tracer(strict, self.tape, by_value is not None, Constants(seen))
        self.tracer.at_once = at_once
        if by_value:
            for number in self.tape.numbers:
                self.tape.guard_value(number, by_value)
        given = [_stand_in(t) for t in call.tensors]
        self.given: list[Any] = sizes.stand_ins(given, bound) if sizes else given
        same = all(map(operator.is_, self.given, call.tensors))
        self.may_wait = may_wait and same  # views would not be where they were
        self.required = [one.requires_grad for one in self.given]
        self.exchange = Exchange()

    def attempt(self) -> Attempt:
        tracer, call = self.tracer, self.call
        self._admit()
        arguments, options = self.exchange.put((call.arguments, call.options), self._putter())
        tracer.admit_containers(arguments, options)
        tracer.reach.root(self.function, getattr(self.function, "__name__", "the function"))
        for number, value in enumerate(call.objects):
            tracer.reach.root(value, f"the object argument {number}")
        result = None
        try:
            with tracer.watching(), self.tape.deciding(), noticing(self._bound):
                result = self.function(*arguments, **options)
            tracer.left()
            if [one.requires_grad for one in self.given] != self.required:
                tracer.refuse("changes whether a tensor that it was given requires a gradient")
            if any(is_given_one_of(one, tracer.reach) for one in (*call.tensors, *self.given)):
                tracer.refuse("has to do with attributes of tensors that it is given")
            if self.sizes:
                self.sizes.admit(result)
                if tracer.reasons or not self.tape.varies:
                    raise Again("it depends on a size in another way than as a number")
            trace, waits = self._finished(result)
        except Again:
            undo(tracer)
            raise
        except BaseException as error:
            if not self._may_fail(error):  # Ctrl-C, say
                tracer.stand_ins.close(tracer.turns.values())
                raise
            undo(tracer)
            raise Again(f"a {type(error).__name__} was raised: {error}") from error
        finally:
            self.tape.close()
            self._take_back((arguments, options))
        if trace is not None and waits:
            del result, arguments, options  # nothing but what was there may hold memory
            result = self._replayed(trace)
        else:
            result = self.exchange.take_back(result, self._plain)
        return Attempt(result, trace, tracer, self.given, self.by_value)

    def _bound(self) -> None:
        self.tracer.refuse("takes a part that is there for some values of a Variable only")

    def _may_fail(self, error: BaseException) -> bool:
        """Whether a run with stand-ins for numbers or sizes may raise what one without does not."""
        if self.sizes:
            return isinstance(error, Exception)
        if self.by_value or not self.call.numbers or self.tracer.baked:
            return False
        return isinstance(error, TypeError | ValueError) and can_undo(self.tracer)

    def _replayed(self, trace: Trace) -> Any:
        """What the trace gives, where the run itself has changed nothing."""
        self.tracer.close()
        try:
            result = trace(self.call)
        except Failed:  # a run can say more
            result = MISS
        if result is MISS:
            raise NotReplayed
        trace.hits = 0
        return result

    def _finished(self, result: Any) -> tuple[Trace | None, bool]:
        """The trace of the run, and whether a replay has to follow (see `finish`). Where a check
        fails nothing has changed, as in a replay.
        """
        call, tracer = self.call, self.tracer
        try:
            held, may_wait = call.objects, self.may_wait
            return finish(tracer, call.tensors, self.given, result, held, may_wait)
        except (DivisionByZeroError, OutOfBoundsError, ValueRangeError) as error:
            if can_undo(tracer):
                undo(tracer)
                if isinstance(error, LinAlgError) and not tracer.at_once:
                    raise Again(str(error), at_once=True) from error
            raise

    def _admit(self) -> None:
        for handle, tensor in zip(self.given, self.call.tensors, strict=True):
            if self.sizes or not is_whole(tensor):
                self.tracer.stand_ins.put(handle, tensor, self.sizes is not None)
            self.tracer.admit(handle._storage)
            self.tracer.note_grad(handle)

    # --- arguments --------------------------------------------------------------------------------
    def _putter(self) -> Callable[[Any], Any]:
        """What is put in place of each leaf, in the order in which `flatten` finds them."""
        swap = {id(t): g for t, g in zip(self.call.tensors, self.given, strict=True)}
        numbers = iter(self.tape.numbers)
        self.originals = {id(g): t for t, g in zip(self.call.tensors, self.given, strict=True)}

        def put(leaf: Any) -> Any:
            if type(leaf) in (int, float):
                number = next(numbers)
                return leaf if self.by_value else number
            return swap.get(id(leaf), leaf) if is_tensor(leaf) else leaf

        return put

    def _plain(self, leaf: Any) -> Any:
        if type(leaf) is Number:
            return leaf._value
        return self.originals.get(id(leaf), leaf) if is_tensor(leaf) else leaf

    def _take_back(self, arguments: Any) -> None:
        """Leave nothing of the exchange behind: in arguments, or where the function put it."""
        take_back, reach = self.exchange.take_back, self.tracer.reach
        take_back(arguments, self._plain)
        for container, *_ in (*reach.contents.values(), *self.tracer.altered.values()):
            take_back(container, self._plain)
        for place, now in reach.noted.rebound():
            plain = take_back(now, self._plain)
            if plain is not now:
                place.put(plain)


def _stand_in(tensor: Handle) -> Handle:
    """The tensor itself; for a view a tensor of its own with the value that it shows."""
    if is_whole(tensor):
        stored(tensor._storage)
        return tensor
    storage = storage_of_view(tensor)
    made = make(storage.base, storage.device, storage=storage)
    attributes(made).update(attributes(tensor))
    return unpacking(made, tensor._current()) if tensor.dtype.kind == "packed" else made
