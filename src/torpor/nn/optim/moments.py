"""Adam and its relatives: running means of the gradient and of its square."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torpor.nn.optim.descent import decayed
from torpor.nn.optim.kept import filled_like
from torpor.nn.optim.optimizer import Optimizer, one_less_power
from torpor.tensor import Tensor
from torpor.tensor.spelling import within


class Moments(Optimizer):
    """Base of optimisers that correct two means which began as zeros."""

    kept = {"exp_avg": None, "exp_avg_sq": None}
    counted = {"step": 0.0, "_missing_first": 0.0, "_missing_second": 0.0}
    missing = {"_missing_first": "betas_0", "_missing_second": "betas_1"}


def _averaged(
    gradient: Tensor, first: Tensor, second: Tensor, beta_first: float, beta_second: float
) -> tuple[Tensor, Tensor]:
    first = first * beta_first + gradient * (1 - beta_first)
    return first, second * beta_second + gradient * gradient * (1 - beta_second)


class Adam(Moments):
    """Adam: Kingma and Ba, 2015, arXiv:1412.6980, algorithm 1. With `amsgrad` the largest mean of
    squares so far divides: Reddi, Kale and Kumar, 2018, arXiv:1904.09237.
    """

    options = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    kept = {**Moments.kept, "max_exp_avg_sq": "amsgrad"}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, first: Tensor, second: Tensor,
        *rest: Tensor, betas_0: float, betas_1: float, eps: float, weight_decay: float,
        amsgrad: bool, decoupled_weight_decay: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        *largest, _, missing_first, missing_second = rest
        if not decoupled_weight_decay:
            gradient = decayed(value, gradient, weight_decay)
        first, second = _averaged(gradient, first, second, betas_0, betas_1)
        largest = [largest[0].maximum(second)] if amsgrad else []
        size = (largest[0] if amsgrad else second) / missing_second
        change = first / missing_first / (size.sqrt() + eps)
        if decoupled_weight_decay:
            change = decayed(value, change, weight_decay)
        return value - change * rate, first, second, *largest


class AdamW(Adam):
    """Adam with decoupled weight decay: Loshchilov and Hutter, 2019, arXiv:1711.05101."""

    options = {**Adam.options, "weight_decay": 0.01, "decoupled_weight_decay": True}


class LAMB(Moments):
    """Adam's change made as long as the parameter: You et al., 2020, arXiv:1904.00962,
    algorithm 2.
    """

    options = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.0}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, first: Tensor, second: Tensor, _: Tensor,
        missing_first: Tensor, missing_second: Tensor, betas_0: float, betas_1: float, eps: float,
        weight_decay: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        first, second = _averaged(gradient, first, second, betas_0, betas_1)
        size = (second / missing_second).sqrt() + eps
        change = first / missing_first / size + value * weight_decay
        length, moved = value.square().sum().sqrt(), change.square().sum().sqrt()
        is_there = (length > 0).logical_and(moved > 0)
        trust = is_there.where(length / is_there.where(moved, 1.0), 1.0).cast(value.dtype)
        return value - change * (rate * trust), first, second


class NAdam(Optimizer):
    """Adam with Nesterov's momentum: Dozat, 2016; mu of step t is
    beta_1 (1 - 0.96**(t momentum_decay) / 2).
    """

    kept = {"exp_avg": None, "exp_avg_sq": None}
    counted = {"step": 0.0, "mu_product": 1.0, "_mu": 0.0, "_mu_next": 0.0, "_missing": 0.0}
    missing = {"_missing": "betas_1"}

    options = {
        "lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
        "momentum_decay": 4e-3, "decoupled_weight_decay": False,
    }  # fmt: skip

    def count(
        self, values: Mapping[str, Tensor], rate: Tensor, numbers: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        made = super().count(values, rate, numbers)
        first, decay = numbers["betas_0"], numbers["momentum_decay"]
        # 1 - 0.96**x / 2 = (1 + (1 - 0.96**x)) / 2
        now, after = (
            (one_less_power(at * decay, rate.dtype, 0.96) + 1) * (first / 2)
            for at in (made["step"], made["step"] + 1)
        )
        product = values["mu_product"] * now
        return {**made, "mu_product": product, "_mu": now, "_mu_next": after}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, first: Tensor, second: Tensor, _: Tensor,
        product: Tensor, mu: Tensor, mu_next: Tensor, missing: Tensor, betas_0: float,
        betas_1: float, eps: float, weight_decay: float, momentum_decay: float,
        decoupled_weight_decay: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if decoupled_weight_decay:
            value = value * (1 - rate * weight_decay)
        else:
            gradient = decayed(value, gradient, weight_decay)
        first, second = _averaged(gradient, first, second, betas_0, betas_1)
        size = (second / missing).sqrt() + eps
        now, ahead = (1 - mu) / (1 - product), mu_next / (1 - product * mu_next)
        return value - (gradient * now + first * ahead) / size * rate, first, second


class RAdam(Moments):
    """Adam without division while the mean of squares is uncertain: Liu et al., 2020,
    arXiv:1908.03265, algorithm 2.
    """

    options = {
        "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, first: Tensor, second: Tensor,
        steps: Tensor, missing_first: Tensor, missing_second: Tensor, betas_0: float,
        betas_1: float, eps: float, weight_decay: float, decoupled_weight_decay: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if decoupled_weight_decay:
            value = value * (1 - rate * weight_decay)
        else:
            gradient = decayed(value, gradient, weight_decay)
        first, second = _averaged(gradient, first, second, betas_0, betas_1)
        mean = first / missing_first
        most = 2 / (1 - betas_1) - 1
        length = most - steps * 2 * (1 - missing_second) / missing_second
        certain = length > 5
        length = certain.where(length, most).cast(value.dtype)
        share = (length - 4) * (length - 2) * most / (length * ((most - 4) * (most - 2)))
        divided = mean * (share * missing_second).sqrt() / (second.sqrt() + eps)
        return value - certain.where(divided, mean) * rate, first, second


class Adamax(Optimizer):
    """Adam by the largest gradient: Kingma and Ba, 2015, arXiv:1412.6980, algorithm 2."""

    kept = {"exp_avg": None, "exp_inf": None}
    counted = {"step": 0.0, "_missing": 0.0}
    missing = {"_missing": "betas_0"}

    options = {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, first: Tensor, largest: Tensor,
        _: Tensor, missing: Tensor, betas_0: float, betas_1: float, eps: float, weight_decay: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        gradient = decayed(value, gradient, weight_decay)
        first = first * betas_0 + gradient * (1 - betas_0)
        largest = (largest * betas_1).maximum(gradient.abs() + eps)
        change = first / largest * (rate / missing)
        return value - change, first, largest


class Adafactor(Optimizer):
    """Means of squares kept as a row and a column of each matrix: Shazeer and Stern, 2018,
    arXiv:1804.04235, with rates relative to the parameter's size. `eps` are the least square (by
    default the format's rounding step) and the least size of a parameter; `d` bounds changes.
    """

    counted = {"step": 0.0}

    options = {
        "lr": 1e-2, "beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0, "weight_decay": 0.0,
    }  # fmt: skip

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if "d" in options:
            within("d", options["d"], 1)
        if "beta2_decay" in options:
            within("beta2_decay", options["beta2_decay"], -math.inf, 0)
        for least in options.get("eps", ()):
            within("eps", least or 0.0, 0)

    def initial(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        made = filled_like(parameter)
        if parameter.ndim < 2:
            return {"variance": made}
        return {"row_var": made[..., :1].contiguous(), "col_var": made[..., :1, :].contiguous()}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, *rest: Tensor, beta2_decay: float,
        eps_0: float | None, eps_1: float, d: float, weight_decay: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        *kept, steps = rest
        least = 2.0 ** -(52 if value.dtype.bits == 64 else 23) if eps_0 is None else eps_0
        share = steps**beta2_decay
        size = value.square().mean().sqrt().maximum(eps_1) * rate.minimum(steps.rsqrt())
        square, after = gradient.square(), [one * (1 - share) for one in kept]
        if len(kept) == 1:
            after[0] = variance = after[0] + square * share
        else:
            after = [one + square.mean(at, keepdim=True) * share
                     for one, at in zip(after, (-1, -2), strict=True)]  # fmt: skip
            variance = after[0] * after[1] / after[0].mean(-2, keepdim=True).maximum(least)
        change = gradient * variance.maximum(least * least).rsqrt()
        bounded = (change.square().mean().sqrt() / d).maximum(1.0)
        return value * (1 - rate * weight_decay) - change * (size / bounded), *after
