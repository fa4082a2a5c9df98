"""Learning rates that change from step to step or from epoch to epoch.

A schedule writes the `lr` of each group when its `step` is called. Those that only scale what is
there may be chained: each acts on the rate that the others left. An argument out of its range is a
`ValueRangeError`.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torpor.base.errors import DTypeError, ValueRangeError
from torpor.nn.optim.groups import Group
from torpor.nn.optim.optimizer import REQUIRED, Optimizer
from torpor.nn.optim.schedule import LRScheduler, check_optimiser, check_schedules, held_by
from torpor.tensor.spelling import among, within

_LRScheduler = LRScheduler  # the older name


class LambdaLR(LRScheduler):
    """The first rate times a function of the step, one for all groups or one for each."""

    options = {"lr_lambda": REQUIRED}

    def begin(self) -> None:
        self.lr_lambdas = self.for_each_group(vars(self).pop("lr_lambda"), "functions")
        if not all(map(callable, self.lr_lambdas)):
            count = len(self.lr_lambdas)
            raise ValueRangeError(f"{count} functions for {count} groups: {self.lr_lambdas}")

    def rate(self, base: float, now: float, place: int) -> Any:
        return base * float(self.given_for(place, self.lr_lambdas)(self.last_epoch))


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the step."""

    def rate(self, base: float, now: float, place: int) -> Any:
        function = self.given_for(place, self.lr_lambdas)
        return now * float(function(self.last_epoch)) if self.last_epoch else now


class _Scaled(LRScheduler):
    """A schedule that is a factor of the first rate."""

    def share(self, step: int) -> Any:
        raise NotImplementedError

    def rate(self, base: float, now: float, place: int) -> Any:
        if self.last_epoch == 0:
            return now * self.share(0)
        before = self.share(self.last_epoch - 1)
        return now * self.share(self.last_epoch) / before if before else now


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    options = {"step_size": REQUIRED, "gamma": 0.1}

    def begin(self) -> None:
        within("step_size", self.step_size, 1)

    def rate(self, base: float, now: float, place: int) -> Any:
        turns = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return now * self.gamma if turns else now


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the steps `milestones`."""

    options = {"milestones": REQUIRED, "gamma": 0.1}
    milestones: Any  # how often each step is one

    def begin(self) -> None:
        if not isinstance(self.milestones, Iterable):
            raise DTypeError(f"milestones are a list of steps, not {self.milestones!r}")
        self.milestones = Counter(self.milestones)

    def read(self, name: str, value: Any) -> Any:
        if name != "milestones":
            return value
        kept = {int(k): v for k, v in value.items()} if isinstance(value, Mapping) else value
        return Counter(kept)

    def rate(self, base: float, now: float, place: int) -> Any:
        return now * self.gamma ** self.milestones[self.last_epoch]


class ConstantLR(_Scaled):
    """Times `factor` until step `total_iters`."""

    options = {"factor": 1 / 3, "total_iters": 5}

    def begin(self) -> None:
        within("factor", self.factor, 0, 1)

    def share(self, step: int) -> Any:
        return self.factor if step < self.total_iters else 1.0


class LinearLR(_Scaled):
    """Times what goes in a line from `start_factor` to `end_factor` in `total_iters` steps."""

    options = {"start_factor": 1 / 3, "end_factor": 1.0, "total_iters": 5}

    def begin(self) -> None:
        if not 0 < self.start_factor <= 1:
            raise ValueRangeError(f"start_factor is above 0 and at most 1, not {self.start_factor}")
        within("end_factor", self.end_factor, 0, 1)

    def share(self, step: int) -> Any:
        part = min(step, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * part


class ExponentialLR(LRScheduler):
    """Times `gamma` at every step."""

    options = {"gamma": REQUIRED}

    def rate(self, base: float, now: float, place: int) -> Any:
        return now * self.gamma if self.last_epoch else now


class PolynomialLR(_Scaled):
    """Times (1 - step / total_iters)**power."""

    options = {"total_iters": 5, "power": 1.0}

    def share(self, step: int) -> Any:
        return (1 - min(step, self.total_iters) / max(self.total_iters, 1)) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Along a half wave from the first rate to `eta_min` in `T_max` steps, and back: Loshchilov and
    Hutter, 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    options = {"T_max": REQUIRED, "eta_min": 0.0}

    def rate(self, base: float, now: float, place: int) -> Any:
        if self.last_epoch == 0:
            return now
        height, before = (
            1 + math.cos(math.pi * at / self.T_max) for at in (self.last_epoch, self.last_epoch - 1)
        )
        if before > 1e-12:  # what follows the lowest place is not a multiple of it
            return self.eta_min + (now - self.eta_min) * height / before
        return self.eta_min + (base - self.eta_min) * height / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half waves that begin again after `T_0` steps, each `T_mult` times as long as the one before:
    Loshchilov and Hutter, 2017, arXiv:1608.03983. `step` takes parts of epochs, too.
    """

    options = {"T_0": REQUIRED, "T_mult": 1, "eta_min": 0.0}

    def begin(self) -> None:
        within("T_0", self.T_0, 1)
        within("T_mult", self.T_mult, 1)
        self.T_cur: float = self.last_epoch  # where in a wave, which is so long:
        self.T_i: float = self.T_0

    def step(self, epoch: float | None = None) -> None:
        at: float = self.T_cur + 1
        length: float = self.T_i
        if epoch is not None:
            within("epoch", epoch, 0)
            at, length = epoch, self.T_0
        if self.T_mult == 1:
            at %= length
        while at >= length:
            at, length = at - length, length * self.T_mult
        self.T_cur, self.T_i = at, length
        super().step(None if epoch is None else math.floor(epoch))

    def rate(self, base: float, now: float, place: int) -> Any:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return self.eta_min + (base - self.eta_min) * height


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again: Smith, 2017, arXiv:1506.01186. `mode` is
    "triangular", "triangular2" (each cycle half as high) or "exp_range" (times gamma**step). Rates
    and momenta are one for all groups, or one for each.
    """

    options = {
        "base_lr": REQUIRED, "max_lr": REQUIRED, "step_size_up": 2000, "step_size_down": None,
        "mode": "triangular", "gamma": 1.0, "scale_fn": None, "scale_mode": "cycle",
        "cycle_momentum": True, "base_momentum": 0.8, "max_momentum": 0.9,
    }  # fmt: skip

    def begin(self) -> None:
        if self.scale_fn is None:
            among("mode", self.mode, "triangular", "triangular2", "exp_range")
        self.lows, self.max_lrs = map(self.for_each_group, (self.base_lr, self.max_lr))
        momenta = self.base_momentum, self.max_momentum
        self.base_momentums, self.max_momentums = map(self.for_each_group, momenta)
        if self.last_epoch == -1:
            for group, low in zip(self.optimizer.param_groups, self.lows, strict=True):
                group["lr"] = low

    def state_dict(self) -> dict[str, Any]:
        """As of others."""
        made = super().state_dict() | {"_scale_fn_custom": self.scale_fn and held_by(self.scale_fn)}
        made.pop("scale_fn", None)
        return made

    def height(self) -> Any:
        """How high this step is, from 0 to 1."""
        up, down = self.step_size_up, self.step_size_down or self.step_size_up
        cycle, at = divmod(self.last_epoch, up + down)
        rise = at / up if at <= up else (up + down - at) / down
        if self.scale_fn is not None:
            by_cycle = self.scale_mode == "cycle"
            return rise * self.scale_fn(cycle + 1 if by_cycle else self.last_epoch)
        scales = {"triangular2": 0.5**cycle, "exp_range": self.gamma**self.last_epoch}
        return rise * scales.get(self.mode, 1.0)

    def rate(self, base: float, now: float, place: int) -> Any:
        height = self.height()
        if self.cycle_momentum:
            low = self.given_for(place, self.base_momentums)
            high = self.given_for(place, self.max_momentums)
            set_momentum(self.optimizer.param_groups[place], high - (high - low) * height)
        low, high = self.given_for(place, self.lows), self.given_for(place, self.max_lrs)
        return low + (high - low) * height


def annealed(strategy: str, share: float) -> float:
    """How far a change is at this share of its steps."""
    among("anneal_strategy", strategy, "cos", "linear")
    return (1 - math.cos(math.pi * share)) / 2 if strategy == "cos" else share


class OneCycleLR(LRScheduler):
    """Up to `max_lr` in `pct_start` of the steps and down to almost nothing in the rest: Smith and
    Topin, 2018, arXiv:1708.07120. Momentum goes the other way. `max_lr` and momenta are one for all
    groups, or one for each.
    """

    options = {
        "max_lr": REQUIRED, "total_steps": None, "epochs": None, "steps_per_epoch": None,
        "pct_start": 0.3, "anneal_strategy": "cos", "cycle_momentum": True, "base_momentum": 0.85,
        "max_momentum": 0.95, "div_factor": 25.0, "final_div_factor": 1e4, "three_phase": False,
    }  # fmt: skip
    total_steps: Any

    def begin(self) -> None:
        if self.total_steps is None and (self.epochs is None or self.steps_per_epoch is None):
            raise ValueRangeError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
        annealed(self.anneal_strategy, 0)  # which has to be one
        within("pct_start", self.pct_start, 0, 1)
        self.total_steps = self.total_steps or (self.epochs or 0) * (self.steps_per_epoch or 0)
        self.base_momentums = self.for_each_group(self.base_momentum)
        self.max_momentums = self.for_each_group(self.max_momentum)
        low, high = 0, 1
        top, end = self.pct_start * self.total_steps - 1, self.total_steps - 1
        # (last step, factors of the highest rate at both ends, which of the momenta at both ends)
        first, last = 1 / self.div_factor, 1 / self.div_factor / self.final_div_factor
        self.phases = [(top, first, 1.0, high, low), (end, 1.0, last, low, high)]
        if self.three_phase:
            self.phases[1:] = [(2 * top, 1.0, first, low, high), (end, first, last, high, high)]
        self.max_lrs = self.for_each_group(self.max_lr)
        if self.last_epoch == -1:
            for group, most in zip(self.optimizer.param_groups, self.max_lrs, strict=True):
                group["lr"] = most / self.div_factor
                group["max_lr"], group["min_lr"] = most, group["lr"] / self.final_div_factor

    def rate(self, base: float, now: float, place: int) -> Any:
        if self.last_epoch > self.total_steps:
            raise ValueRangeError(f"OneCycleLR has {self.total_steps} steps, and no more")
        starts = [0.0, *(end for end, *_ in self.phases)]
        number = sum(self.last_epoch > end for end, *_ in self.phases[:-1])
        start, (end, *ends) = starts[number], self.phases[number]
        share = (self.last_epoch - start) / (end - start)
        first, last, before, after = ends
        if self.cycle_momentum:
            group = self.optimizer.param_groups[place]
            momenta = [self.given_for(place, self.base_momentums),
                       self.given_for(place, self.max_momentums)]  # fmt: skip
            set_momentum(group, self._between(momenta[before], momenta[after], share))
        return self.given_for(place, self.max_lrs) * self._between(first, last, share)

    def _between(self, first: float, last: float, share: float) -> float:
        return first + (last - first) * annealed(self.anneal_strategy, share)


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when what is measured has not become better for more than `patience` steps.
    Better is lower (`mode="min"`) or higher ("max"), by a part (`threshold_mode="rel"`) or an
    amount ("abs") of at least `threshold`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueRangeError(f"no mode {mode!r} with threshold_mode {threshold_mode!r}")
        if not factor < 1:
            raise ValueRangeError(f"factor is below 1, not {factor}")
        check_optimiser(self, optimizer)
        self.optimizer, self.last_epoch = optimizer, 0
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        self.min_lrs = self.for_each_group(min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Say what was measured: a number, or a tensor of one."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            for place, group in enumerate(self.optimizer.param_groups):
                rate = max(float(group["lr"]) * self.factor, self.given_for(place, self.min_lrs))
                if float(group["lr"]) - rate > self.eps:
                    group["lr"] = rate

    def _is_better(self, value: float) -> bool:
        if self.threshold_mode == "abs":
            margin = self.threshold
        else:
            margin = self.threshold * abs(self.best) if math.isfinite(self.best) else 0.0
        return value < self.best - margin if self.mode == "min" else value > self.best + margin


class SWALR(LRScheduler):
    """From the rate that it finds to `swa_lr`, one for all groups or one for each, in
    `anneal_epochs` steps, along a cosine or a line; then it stays.
    """

    options = {"swa_lr": REQUIRED, "anneal_epochs": 10, "anneal_strategy": "cos"}

    def begin(self) -> None:
        annealed(self.anneal_strategy, 0)  # which has to be one
        self.ends = self.for_each_group(self.swa_lr)
        for group, rate in zip(self.optimizer.param_groups, self.ends, strict=True):
            group["swa_lr"] = rate

    def _share(self, step: int) -> float:
        done = min(1.0, max(0, step) / self.anneal_epochs) if self.anneal_epochs else 1.0
        return annealed(self.anneal_strategy, done)

    def rate(self, base: float, now: float, place: int) -> Any:
        group = self.optimizer.param_groups[place]
        end = group["swa_lr"] if "swa_lr" in group else self.given_for(place, self.ends)
        before, share = (self._share(self.last_epoch - back) for back in (1, 0))
        first = end if before == 1 else (now - before * end) / (1 - before)
        return end * share + first * (1 - share)


class SequentialLR(LRScheduler):
    """Schedules one after the other, changing at `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ):
        check_schedules(self, optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueRangeError(f"{len(schedulers)} schedules change {len(schedulers) - 1} times")
        self.optimizer, self.schedulers, self.milestones = optimizer, schedulers, list(milestones)
        self.last_epoch = last_epoch + 1
        # Each schedule has taken its first step; the first begins again at the first rates.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in schedulers:
            schedule.last_epoch -= 1
        schedulers[0].step()

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch += 1
        current = bisect.bisect_right(self.milestones, self.last_epoch)
        begins = current > 0 and self.milestones[current - 1] == self.last_epoch
        self.schedulers[current].step(*([0] if begins else []))

    def state_dict(self) -> dict[str, Any]:
        own = {"last_epoch": self.last_epoch, "_last_lr": self.get_last_lr()}
        parts = [one.state_dict() for one in self.schedulers]
        return own | {"_milestones": self.milestones, "_schedulers": parts}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.last_epoch = state_dict.get("last_epoch", self.last_epoch)
        older = state_dict.get("milestones", self.milestones)
        self.milestones = list(state_dict.get("_milestones", older))
        for one, state in zip(self.schedulers, state_dict["_schedulers"], strict=True):
            one.load_state_dict(state)


class ChainedScheduler(SequentialLR):
    """Several schedules at once, each acting on the rate that those before it left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        self.optimizer: Any = optimizer or getattr([*schedulers, None][0], "optimizer", None)
        self.schedulers, self.milestones, self.last_epoch = schedulers, [], 0
        check_schedules(self, self.optimizer, schedulers)

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch += 1
        for one in self.schedulers:
            one.step()


def set_momentum(group: Group, value: float) -> None:
    """Set `momentum`, or the first of `betas`."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    elif "momentum" in group:
        group["momentum"] = value
    else:
        raise ValueRangeError("the optimiser has no momentum; use cycle_momentum=False")


__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SWALR", "SequentialLR",
    "StepLR",
]  # fmt: skip
