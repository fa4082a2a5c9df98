"""Optimisers that scale a gradient by what they remember of its size or sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.nn.optim.kept import filled_like
from torpor.nn.optim.optimizer import Optimizer
from torpor.tensor import Tensor
from torpor.tensor.spelling import among


def is_on(number: Any) -> bool:
    """Whether a hyperparameter has an effect: one in a tensor may."""
    return isinstance(number, Tensor) or bool(number)


def decayed(value: Tensor, gradient: Tensor, weight_decay: float) -> Tensor:
    """The gradient of a loss to which weight_decay / 2 * value**2 is added."""
    return gradient + value * weight_decay if is_on(weight_decay) else gradient


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (optionally Nesterov's) and weight decay:
    v = momentum v + (1 - dampening) g, where the first v is g; p = p - lr v.
    """

    options = {
        "lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False,
    }  # fmt: skip
    kept = {"momentum_buffer": "momentum"}

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["nesterov"] and (not options["momentum"] or options["dampening"]):
            raise ValueRangeError("nesterov=True needs a momentum that is not 0, and no dampening")

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        if self.defaults["dampening"] and self.defaults["momentum"]:
            self.counted = {"_step": 0.0}
        super().add_param_group(param_group)

    def count(
        self, values: Mapping[str, Tensor], rate: Tensor, numbers: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        return {"_step": values["_step"] + 1}

    def _fitting(self, own: Mapping[str, Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
        found = super()._fitting(own, values)
        if found and self.counted:  # whoever has a velocity has made a step
            found["_step"] = Tensor(1.0)
        return found

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, *rest: Tensor, momentum: float,
        dampening: float, weight_decay: float, nesterov: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        gradient = decayed(value, gradient, weight_decay)
        if not rest or not is_on(momentum):
            return value - gradient * rate, *rest[:1]
        share: Any = 1.0
        if is_on(dampening) and len(rest) > 1:
            share = 1 - (rest[1] > 1).cast(gradient.dtype) * dampening
        velocity = rest[0] * momentum + gradient * share
        change = gradient + velocity * momentum if nesterov else velocity
        return value - change * rate, velocity


class RMSprop(Optimizer):
    """Hinton's division by a running mean of the gradient's size, optionally of its deviation from
    its mean (`centered`: Graves, 2013, arXiv:1308.0850, equation 40).
    """

    kept = {"square_avg": None, "momentum_buffer": "momentum", "grad_avg": "centered"}
    counted = {"step": 0.0}

    options = {
        "lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0,
        "centered": False,
    }  # fmt: skip

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, square: Tensor, *rest: Tensor,
        alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        after = list[Tensor]()
        gradient = decayed(value, gradient, weight_decay)
        square = square * alpha + gradient * gradient * (1 - alpha)
        size = square
        if centered:
            mean = rest[-2] * alpha + gradient * (1 - alpha)
            after, size = [mean], square - mean * mean
        change = gradient / (size.sqrt() + eps)
        if is_on(momentum) and len(rest) > 1 + centered:
            change = rest[0] * momentum + change
            after.insert(0, change)
        return value - change * rate, square, *after


class Adagrad(Optimizer):
    """Division by the root of all squares so far: Duchi, Hazan and Singer, 2011."""

    counted = {"step": 0.0}

    options = {
        "lr": 1e-2, "lr_decay": 0.0, "weight_decay": 0.0, "initial_accumulator_value": 0.0,
        "eps": 1e-10,
    }  # fmt: skip

    def initial(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        return {"sum": filled_like(parameter, options["initial_accumulator_value"])}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, total: Tensor, steps: Tensor,
        lr_decay: float, eps: float, weight_decay: float, initial_accumulator_value: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        gradient = decayed(value, gradient, weight_decay)
        total = total + gradient * gradient
        rate = rate / ((steps - 1) * lr_decay + 1)
        return value - gradient / (total.sqrt() + eps) * rate, total


class Adadelta(Optimizer):
    """Changes as large as earlier ones: Zeiler, 2012, arXiv:1212.5701, algorithm 1."""

    kept = {"square_avg": None, "acc_delta": None}
    counted = {"step": 0.0}

    options = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, square: Tensor, changes: Tensor,
        _: Tensor, rho: float, eps: float, weight_decay: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        gradient = decayed(value, gradient, weight_decay)
        square = square * rho + gradient * gradient * (1 - rho)
        change = (changes + eps).sqrt() / (square + eps).sqrt() * gradient
        changes = changes * rho + change * change * (1 - rho)
        return value - change * rate, square, changes


class Rprop(Optimizer):
    """Steps that grow while the gradient keeps its sign: Riedmiller and Braun, 1993."""

    counted = {"step": 0.0}

    options = {"lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50.0)}

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        if not 0 < options["etas"][0] < 1 < options["etas"][1]:
            raise ValueRangeError(f"etas are below 1 and above, not {options['etas']}")

    def initial(self, parameter: Tensor, options: Mapping[str, Any]) -> dict[str, Tensor]:
        return {"prev": filled_like(parameter), "step_size": filled_like(parameter, options["lr"])}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, before: Tensor, size: Tensor,
        _: Tensor, etas_0: float, etas_1: float, step_sizes_0: float, step_sizes_1: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        turned = before * gradient
        shrunk = (turned < 0).where(size * etas_0, size)
        size = (turned > 0).where(size * etas_1, shrunk).clamp(step_sizes_0, step_sizes_1)
        gradient = (turned < 0).where(gradient.zeros_like(), gradient)
        return value - gradient.sign() * size, gradient, size


class ASGD(Optimizer):
    """Averaged descent: Polyak and Juditsky, 1992; the mean is kept as `ax`. The rate of step t is
    lr / (1 + lambd lr (t - 1))**alpha.
    """

    kept = {"ax": None}
    counted = {"step": 0.0, "eta": 0.0, "mu": 1.0}  # the last two for the next step

    options = {"lr": 1e-2, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0.0}

    def count(
        self, values: Mapping[str, Tensor], rate: Tensor, numbers: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        steps = values["step"] + 1
        eta = rate / (steps * rate * numbers["lambd"] + 1) ** numbers["alpha"]
        return {"step": steps, "eta": eta, "mu": 1 / (steps - numbers["t0"]).maximum(1.0)}

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, mean: Tensor, steps: Tensor,
        eta: Tensor, mu: Tensor, lambd: float, alpha: float, t0: float, weight_decay: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        before = steps - 1
        gradient = decayed(value, gradient, weight_decay)
        eta = rate / (before * rate * lambd + 1) ** alpha
        value = value * (1 - eta * lambd) - gradient * eta
        mean = mean + (value - mean) / (before - t0).maximum(1.0)
        return value, mean


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal by Newton and Schulz's iteration: Jordan et al.,
    2024. For parameters of two axes; others want another optimiser. `adjust_lr_fn` is "original"
    (lr sqrt(max(1, rows / columns))) or "match_rms_adamw" (lr 0.2 sqrt(max(rows, columns))).
    """

    kept = {"momentum_buffer": None}

    options = {
        "lr": 1e-3, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True,
        "ns_coefficients": (3.4445, -4.775, 2.0315), "eps": 1e-7, "ns_steps": 5,
        "adjust_lr_fn": None,
    }  # fmt: skip

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        among("adjust_lr_fn", options["adjust_lr_fn"], None, "original", "match_rms_adamw")
        for parameter in options["params"]:
            if parameter.ndim != 2:
                raise ValueRangeError(f"Muon takes matrices, not a shape of {parameter.shape}")

    @staticmethod
    def rule(
        value: Tensor, gradient: Tensor, rate: Tensor, velocity: Tensor, weight_decay: float,
        momentum: float, nesterov: bool, eps: float, ns_coefficients_0: float,
        ns_coefficients_1: float, ns_coefficients_2: float, ns_steps: int, adjust_lr_fn: str | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        rows, columns = len(value), len(value.T)
        velocity = velocity * momentum + gradient * (1 - momentum)
        change = gradient * (1 - momentum) + velocity * momentum if nesterov else velocity
        change = change.T if rows > columns else change
        change = change / change.square().sum().sqrt().maximum(eps)
        for _ in range(ns_steps):
            square = change @ change.T
            mixed = square * ns_coefficients_1 + square @ square * ns_coefficients_2
            change = change * ns_coefficients_0 + mixed @ change
        change = change.T if rows > columns else change
        scale = max(1, rows / columns) ** 0.5
        if adjust_lr_fn == "match_rms_adamw":
            scale = 0.2 * max(rows, columns) ** 0.5
        value = value * (1 - rate * weight_decay)
        return value - change * (rate * scale), velocity
