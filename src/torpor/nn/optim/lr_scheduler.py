"""Learning rates that change from step to step or from epoch to epoch.

A schedule writes the `lr` of each group when its `step` is called. Those that only scale what is
there may be chained: each acts on the rate that the others left.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.nn.optim.optimizer import Group, Optimizer
from torpor.tensor.spelling import within


class LRScheduler:
    """Base: subclasses say the rate that follows `now` at step `last_epoch`. `last_epoch` is -1 for
    a schedule that begins, else the number of the step that it goes on from.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueRangeError("a schedule that goes on needs groups with an initial_lr")
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.step()

    def rate(self, base: float, now: float, place: int) -> float:
        """The rate of a group that began with `base`, has `now`, and is number `place`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rate of each group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next rates, or to those of step `epoch`."""
        groups = self.optimizer.param_groups
        rates = self.get_last_lr() if epoch is None else self.base_lrs
        for at in [self.last_epoch + 1] if epoch is None else range(epoch + 1):
            self.last_epoch = at
            rates = [
                self.rate(base, now, place)
                for place, (base, now) in enumerate(zip(self.base_lrs, rates, strict=True))
            ]
        for group, rate in zip(groups, rates, strict=True):
            if rate != group["lr"]:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """Its numbers, without the optimiser and without functions."""
        return {k: v for k, v in vars(self).items() if k != "optimizer" and not callable(v)
                and not (isinstance(v, list) and any(map(callable, v)))}  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        vars(self).update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times a function of the step, one for all groups or one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        count = len(optimizer.param_groups)
        self.lr_lambdas = (
            list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * count
        )
        if len(self.lr_lambdas) != count:
            raise ValueRangeError(f"{len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        return base * float(self.lr_lambdas[place](self.last_epoch))


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the step."""

    def rate(self, base: float, now: float, place: int) -> float:
        return now * float(self.lr_lambdas[place](self.last_epoch)) if self.last_epoch else now


class _Scaled(LRScheduler):
    """A schedule that is a factor of the first rate."""

    def factor(self, step: int) -> float:
        raise NotImplementedError

    def rate(self, base: float, now: float, place: int) -> float:
        if self.last_epoch == 0:
            return now * self.factor(0)
        before = self.factor(self.last_epoch - 1)
        return now * self.factor(self.last_epoch) / before if before else now


class StepLR(_Scaled):
    """Times `gamma` every `step_size` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ):
        within("step_size", step_size, 1)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        turns = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return now * self.gamma if turns else now


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the steps `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        return now * self.gamma ** self.milestones.count(self.last_epoch)


class ConstantLR(_Scaled):
    """Times `factor` until step `total_iters`."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        within("factor", factor, 0, 1)
        self.share, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, step: int) -> float:
        return self.share if step < self.total_iters else 1.0


class LinearLR(_Scaled):
    """Times what goes in a line from `start_factor` to `end_factor` in `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if not 0 < start_factor <= 1:
            raise ValueRangeError(f"start_factor is above 0 and at most 1, not {start_factor}")
        within("end_factor", end_factor, 0, 1)
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, step: int) -> float:
        share = min(step, self.total_iters) / self.total_iters if self.total_iters else 1.0
        return self.start_factor + (self.end_factor - self.start_factor) * share


class ExponentialLR(_Scaled):
    """Times `gamma` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        return now * self.gamma if self.last_epoch else now


class PolynomialLR(_Scaled):
    """Times (1 - step / total_iters)**power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor(self, step: int) -> float:
        return float((1 - min(step, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Along a half wave from the first rate to `eta_min` in `T_max` steps, and back: Loshchilov and
    Hutter, 2017, arXiv:1608.03983, equation 5, without restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1
    ):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
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
    Loshchilov and Hutter, 2017, arXiv:1608.03983.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        within("T_0", T_0, 1)
        within("T_mult", T_mult, 1)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        at, length = self.last_epoch, self.T_0
        if self.T_mult == 1:
            at %= length
        while at >= length:
            at, length = at - length, length * self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again: Smith, 2017, arXiv:1506.01186. `mode` is
    "triangular", "triangular2" (each cycle half as high) or "exp_range" (times gamma**step).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float,
        max_lr: float,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ):
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueRangeError(f"mode is triangular, triangular2 or exp_range, not {mode!r}")
        self.base_lr, self.max_lr = base_lr, max_lr
        self.up, self.down = step_size_up, step_size_down or step_size_up
        self.mode, self.gamma, self.scale_fn, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self.momenta = (base_momentum, max_momentum) if cycle_momentum else None
        if last_epoch == -1:
            optimizer.lr = base_lr
        super().__init__(optimizer, last_epoch)

    def height(self) -> float:
        """How high this step is, from 0 to 1."""
        cycle, at = divmod(self.last_epoch, self.up + self.down)
        rise = at / self.up if at <= self.up else (self.up + self.down - at) / self.down
        if self.scale_fn is not None:
            by_cycle = self.scale_mode == "cycle"
            return rise * self.scale_fn(cycle + 1 if by_cycle else self.last_epoch)
        scales = {"triangular2": 0.5**cycle, "exp_range": self.gamma**self.last_epoch}
        return rise * scales.get(self.mode, 1.0)

    def rate(self, base: float, now: float, place: int) -> float:
        height = self.height()
        if self.momenta is not None:
            low, high = self.momenta
            set_momentum(self.optimizer.param_groups[place], high - (high - low) * height)
        return self.base_lr + (self.max_lr - self.base_lr) * height


class OneCycleLR(LRScheduler):
    """Up to `max_lr` in `pct_start` of the steps and down to almost nothing in the rest: Smith and
    Topin, 2018, arXiv:1708.07120. Momentum goes the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueRangeError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueRangeError(f"anneal_strategy is cos or linear, not {anneal_strategy!r}")
        within("pct_start", pct_start, 0, 1)
        self.total_steps = total_steps or (epochs or 0) * (steps_per_epoch or 0)
        self.anneal_strategy = anneal_strategy
        low, high = base_momentum, max_momentum
        top = pct_start * self.total_steps - 1
        # (last step, factors of the highest rate at both ends, momenta at both ends)
        first, last = 1 / div_factor, 1 / div_factor / final_div_factor
        self.phases = [(top, first, 1.0, high, low), (self.total_steps - 1, 1.0, last, low, high)]
        if three_phase:
            self.phases[1:] = [
                (2 * top, 1.0, first, low, high),
                (self.total_steps - 1, first, last, high, high),
            ]
        self.cycle_momentum = cycle_momentum
        count = len(optimizer.param_groups)
        self.max_lrs = list(max_lr) if isinstance(max_lr, Sequence) else [max_lr] * count
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["lr"] = most / div_factor
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, now: float, place: int) -> float:
        if self.last_epoch > self.total_steps:
            raise ValueRangeError(f"OneCycleLR has {self.total_steps} steps, and no more")
        starts = [0.0, *(end for end, *_ in self.phases)]
        number = sum(self.last_epoch > end for end, *_ in self.phases[:-1])
        start, (end, *ends) = starts[number], self.phases[number]
        share = (self.last_epoch - start) / (end - start)
        first, last, before, after = ends
        if self.cycle_momentum:
            group = self.optimizer.param_groups[place]
            set_momentum(group, self._between(before, after, share))
        return self.max_lrs[place] * self._between(first, last, share)

    def _between(self, first: float, last: float, share: float) -> float:
        if self.anneal_strategy == "cos":
            share = (1 - math.cos(math.pi * share)) / 2
        return first + (last - first) * share


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
        self.optimizer, self.last_epoch = optimizer, 0
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, Sequence) else [min_lr] * count
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
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(float(group["lr"]) * self.factor, least)
            if float(group["lr"]) - rate > self.eps:
                group["lr"] = rate

    def _is_better(self, value: float) -> bool:
        if self.threshold_mode == "abs":
            margin = self.threshold
        else:
            margin = self.threshold * abs(self.best) if math.isfinite(self.best) else 0.0
        return value < self.best - margin if self.mode == "min" else value > self.best + margin


class SequentialLR(LRScheduler):
    """Schedules one after the other, changing at `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ):
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
        own = {"last_epoch": self.last_epoch, "milestones": self.milestones}
        return own | {"_schedulers": [one.state_dict() for one in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.last_epoch = state_dict["last_epoch"]
        for one, state in zip(self.schedulers, state_dict["_schedulers"], strict=True):
            one.load_state_dict(state)


class ChainedScheduler(SequentialLR):
    """Several schedules at once, each acting on the rate that those before it left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        self.optimizer = optimizer or schedulers[0].optimizer
        self.schedulers, self.milestones, self.last_epoch = schedulers, [], 0
        if any(one.optimizer is not self.optimizer for one in schedulers):
            raise ValueRangeError("chained schedules are of one optimiser")

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
