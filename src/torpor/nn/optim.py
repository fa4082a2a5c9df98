"""Optimisers. A step updates every parameter and all state in one realisation.

Step counts and learning rates live in tensors, so that no step compiles anything new. Steps are
computed, and what optimisers remember is kept, in float64 for parameters of that format and in
float32 for all others: rates, decays and squares are often too small for 16 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torpor.base.dtypes import DType, dtypes
from torpor.base.errors import DTypeError, GradientError, ShapeError, ValueRangeError
from torpor.base.missing import names_of
from torpor.tensor import Tensor, no_grad
from torpor.tensor.differentiate import forget_gradients, leaf_number
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import within
from torpor.tensor.watch import is_watched
from torpor.tensor.wide import wide_dtype
from torpor.tensor.write import restored_on_failure


class Optimizer:
    """Base of optimisers. `lr` may be set at any time."""

    def __init__(self, params: Iterable[Tensor], lr: float):
        self.params = list({id(p): p for p in _checked(params)}.values())
        if not self.params:
            raise ShapeError(f"{type(self).__name__} got no parameters")
        within("lr", lr, 0)
        self._rate = lr
        self._lr = self._scalar(lr)

    def _scalar(self, value: float) -> Tensor:
        wide = {wide_dtype(parameter.dtype) for parameter in self.params}
        dtype = dtypes.float64 if dtypes.float64 in wide else dtypes.float32
        return Tensor([value], dtype=dtype, device=self.params[0].device).realize()

    def begin(self) -> None:
        """Have parameters and state computed, all together; at the end of making an optimiser."""
        self.params[0].realize(*self.params[1:], *self.state())

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self._rate

    @lr.setter
    def lr(self, value: float) -> None:
        within("lr", value, 0)
        self._rate = value
        self._lr.assign(self._scalar(value))

    def zero_grad(self) -> None:
        """Forget the gradients."""
        forget_gradients(self.params)

    def state(self) -> list[Tensor]:
        """The tensors that the optimiser itself keeps."""
        return []

    def step(self) -> None:
        """Update the parameters by their gradients and realise them, and with them what waits: the
        losses that `backward` was called on, if they are still held, and running statistics of
        layers: so nothing is computed twice. In a jitted function all of it, and the gradients that
        it leaves behind, are computed together when it returns. Where that raises, parameters and
        state stay as they were.
        """
        with restored_on_failure((*self.params, *self.state())):
            changed = self.schedule_step()
            if not is_watched():
                changed[0].realize(*changed[1:])

    def schedule_step(self) -> list[Tensor]:
        """Build the update without running it; gives everything that it changes."""
        if all(p.grad is None for p in self.params):
            raise GradientError("no parameter has a gradient; call backward() before step()")
        with no_grad():
            self.prepare()
            for number, parameter in enumerate(self.params):
                if parameter.grad is not None:
                    wide = wide_dtype(parameter.dtype)
                    self.update(number, parameter, parameter.grad.cast(wide))
        return [*self.params, *self.state()]

    def prepare(self) -> None:
        """What happens once a step, before the parameters."""

    def update(self, number: int, parameter: Tensor, gradient: Tensor) -> None:
        """Assign one parameter's new value, computed in the gradient's format."""
        raise NotImplementedError


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (optionally Nesterov's) and weight decay."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        super().__init__(params, lr)
        within("momentum", momentum, 0)
        within("weight_decay", weight_decay, 0)
        if nesterov and not momentum:
            raise ValueRangeError("nesterov=True needs a momentum that is not 0")
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.velocity = [_zeros_like(p) for p in self.params] if momentum else []
        self.begin()

    def state(self) -> list[Tensor]:
        return self.velocity

    def update(self, number: int, parameter: Tensor, gradient: Tensor) -> None:
        value = parameter.detach().cast(gradient.dtype)
        if self.weight_decay:
            gradient = gradient + value * self.weight_decay
        if self.momentum:
            velocity = self.velocity[number] * self.momentum + gradient
            self.velocity[number].assign(velocity)
            gradient = gradient + velocity * self.momentum if self.nesterov else velocity
        stepped = value - gradient * self._lr.cast(gradient.dtype)
        parameter.assign(stepped.cast(parameter.dtype))


class Adam(Optimizer):
    """Adam: Kingma and Ba, 2015, arXiv:1412.6980, algorithm 1."""

    decoupled = False  # whether weight decay acts on the parameter rather than on the gradient

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, lr)
        within("eps", eps, 0)
        within("weight_decay", weight_decay, 0)
        if not isinstance(betas, Sequence) or len(betas) != 2:
            raise ValueRangeError(f"betas are two numbers, not {betas}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueRangeError(f"each of the betas is at least 0 and less than 1, not {betas}")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.first = [_zeros_like(p) for p in self.params]
        self.second = [_zeros_like(p) for p in self.params]
        self.steps = Tensor([0], device=self.params[0].device).realize()
        # 1 - beta**steps: what is missing in means that began as zeros
        self.missing = self._scalar(0.0), self._scalar(0.0)
        self.begin()

    def state(self) -> list[Tensor]:
        return [*self.first, *self.second, self.steps, *self.missing]

    def prepare(self) -> None:
        self.steps.assign(self.steps + 1)
        for missing, beta in zip(self.missing, self.betas, strict=True):
            missing.assign(_missing(self.steps, missing.dtype, beta))

    def update(self, number: int, parameter: Tensor, gradient: Tensor) -> None:
        first, second, stepped = _adam(
            parameter, gradient, self.first[number], self.second[number], *self.missing, self._lr,
            self.betas[0], self.betas[1], self.eps, self.weight_decay, self.decoupled,
        )  # fmt: skip
        self.first[number].assign(first)
        self.second[number].assign(second)
        parameter.assign(stepped)


@repeated
def _missing(steps: Tensor, dtype: DType, beta: float) -> Tensor:
    """1 - beta**steps."""
    power: Tensor = steps.cast(dtype) * (math.log(beta) if beta else -math.inf)
    return -power.expm1()


@repeated
def _adam(
    parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, missing_first: Tensor,
    missing_second: Tensor, rate: Tensor, beta_first: float, beta_second: float, eps: float,
    decay: float, decoupled: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The next moments and the next parameter."""
    dtype = gradient.dtype
    value = parameter.cast(dtype)
    if decay and not decoupled:
        gradient = gradient + value * decay
    first = first * beta_first + gradient * (1 - beta_first)
    second = second * beta_second + gradient * gradient * (1 - beta_second)
    unbiased = (second / missing_second.cast(dtype)).sqrt() + eps
    change = first / missing_first.cast(dtype) / unbiased
    if decay and decoupled:
        change = change + value * decay
    return first, second, (value - change * rate.cast(dtype)).cast(parameter.dtype)


class AdamW(Adam):
    """Adam with decoupled weight decay: Loshchilov and Hutter, 2019, arXiv:1711.05101."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(params, lr, betas, eps, weight_decay)


if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.nn.optim", lambda: ["SGD", "Adam", "AdamW", "Optimizer"])


def _checked(params: Iterable[Tensor]) -> Iterable[Tensor]:
    if isinstance(params, Tensor):
        raise DTypeError("an optimiser takes a sequence of parameters; write [parameter]")
    for parameter in params:
        if not isinstance(parameter, Tensor):
            raise DTypeError(f"an optimiser takes tensors, not {type(parameter).__name__}")
        if parameter.requires_grad and leaf_number(parameter) is None:
            raise GradientError("an optimiser changes leaves, not what is computed from them")
        yield parameter


def _zeros_like(parameter: Tensor) -> Tensor:
    dtype = wide_dtype(parameter.dtype)
    made = Tensor.zeros(*parameter.shape, dtype=dtype, device=parameter.device)
    return made.contiguous()
