"""What all schedules of learning rates are made of."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torpor.base.errors import DTypeError, ValueRangeError
from torpor.nn.optim.optimizer import REQUIRED, Optimizer, signature_of
from torpor.tensor.spelling import bound_to


class LRScheduler:
    """Base: subclasses say the rate that follows `now` at step `last_epoch`, or, as for PyTorch, in
    `get_lr` that of each group, by `base_lrs` and `last_epoch`. `last_epoch` is -1 for a schedule
    that begins, else the number of the step that it goes on from. The `options` of a constructor
    are attributes.

    >>> class Warmup(torpor.optim.lr_scheduler.LRScheduler):
    ...     def __init__(self, optimizer, steps, last_epoch=-1):
    ...         self.steps = steps
    ...         super().__init__(optimizer, last_epoch)
    ...     def get_lr(self):
    ...         return [lr * min(1, (self.last_epoch + 1) / self.steps) for lr in self.base_lrs]
    >>> optimiser = torpor.optim.SGD(torpor.nn.Linear(2, 3).parameters(), lr=0.5)
    >>> schedule = Warmup(optimiser, 4)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    options: ClassVar[Mapping[str, Any]] = {}  # of the constructor, with their defaults
    __signature__: ClassVar[inspect.Signature]
    optimizer: Optimizer
    last_epoch: int

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls) -> None:
        if "options" in vars(cls):
            cls.__signature__ = _signature(cls.options)
        elif "__init__" in vars(cls):
            own_init = inspect.signature(vars(cls)["__init__"])
            cls.__signature__ = own_init.replace(parameters=[*own_init.parameters.values()][1:])

    def __init__(self, *arguments: Any, **options: Any):
        # not its own `__signature__`, which is that of a constructor that calls this one
        bound = bound_to(self, _signature(self.options), arguments, options)
        bound.apply_defaults()
        vars(self).update(bound.arguments)
        check_optimiser(self, self.optimizer)
        self.begin()
        for group in self.optimizer.param_groups:
            if self.last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueRangeError("a schedule that goes on needs groups with an initial_lr")
        self.base_lrs = [float(group["initial_lr"]) for group in self.optimizer.param_groups]
        self.step()

    def begin(self) -> None:
        """Look at the options before the first step."""

    def rate(self, base: float, now: float, place: int) -> Any:
        """The rate of a group that began with `base`, has `now`, and is number `place`."""
        raise NotImplementedError

    def for_each_group(self, given: Any, what: str = "values") -> list[Any]:
        """What is given for each group, or once for all."""
        count = len(self.optimizer.param_groups)
        if not isinstance(given, Sequence):
            return [given] * count
        if len(given) != count:
            raise ValueRangeError(f"{len(given)} {what} for {count} groups: {given}")
        return list(given)

    def given_for(self, place: int, given: Sequence[Any]) -> Any:
        """What was given for the group number `place`; what all have, for one that came later."""
        if place < len(given):
            return given[place]
        if any(one != given[0] for one in given):
            what = f"{type(self).__name__} was given {list(given)}, and nothing for a later group"
            raise ValueRangeError(what)
        return given[0]

    def get_last_lr(self) -> list[float]:
        """The rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[Any]:
        """The rate of each group at step `last_epoch`, where they are now those of the step before.
        `get_last_lr` is what a program asks for.
        """
        return self._following(self.get_last_lr())

    def _following(self, rates: list[Any]) -> list[Any]:
        pairs = enumerate(zip(self.base_lrs, rates, strict=True))
        return [self.rate(base, now, place) for place, (base, now) in pairs]

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next rates, or to those of step `epoch`. A group of parameters that came
        after the schedule goes on from its own rate.
        """
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:
            self.base_lrs.append(float(group.setdefault("initial_lr", group["lr"])))
        if epoch is None or type(self).get_lr is not LRScheduler.get_lr:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            rates = self.get_lr()
        else:
            rates = self.base_lrs
            for self.last_epoch in range(epoch + 1):
                rates = self._following(rates)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if rate != group["lr"]:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """Its numbers, as PyTorch lays them out, without the optimiser; of functions that are
        objects, what these hold.
        """
        kept = {k: v for k, v in vars(self).items() if k != "optimizer" and not callable(v)}
        made = {k: [*map(held_by, v)] if _are_functions(v) else v for k, v in kept.items()}
        return {"_step_count": self.last_epoch + 1, "_last_lr": self.get_last_lr()} | made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, here or in PyTorch."""
        own = vars(self)
        for name, value in state_dict.items():
            if _are_functions(own.get(name)):
                for function, held in zip(own[name], value, strict=True):
                    vars(function).update(held or {})
            elif name in own or not name.startswith("_"):
                own[name] = self.read(name, value)

    def read(self, name: str, value: Any) -> Any:
        """A number of a state as it is kept."""
        return value


def _are_functions(value: Any) -> bool:
    return isinstance(value, list) and any(map(callable, value))


def held_by(function: Any) -> dict[str, Any] | None:
    """What a callable object holds; nothing of a function."""
    return None if inspect.isroutine(function) else dict(vars(function))


def check_optimiser(schedule: Any, optimiser: Any) -> None:
    if not hasattr(optimiser, "param_groups"):
        raise DTypeError(f"{type(schedule).__name__} is of an optimiser, not {optimiser!r}")


def check_schedules(schedule: Any, optimiser: Any, parts: Sequence[Any]) -> None:
    """Raise unless the parts are schedules of one optimiser."""
    check_optimiser(schedule, optimiser)
    for part in parts:
        if getattr(part, "optimizer", None) is not optimiser:
            what = f"{type(schedule).__name__} joins schedules of its optimiser, not {part!r}"
            raise ValueRangeError(what)


def _signature(options: Mapping[str, Any]) -> inspect.Signature:
    return signature_of({"optimizer": REQUIRED, **options, "last_epoch": -1})


LRScheduler.__signature__ = _signature({})
