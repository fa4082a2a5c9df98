"""Means of a model's parameters over its training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from torpor.base.errors import ValueRangeError
from torpor.nn.module import Module
from torpor.nn.optim.lr_scheduler import SWALR as SWALR
from torpor.nn.state import get_state_dict
from torpor.tensor import Tensor, no_grad

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
Averages = Callable[[list[Tensor], list[Tensor], Tensor], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """mean = decay mean + (1 - decay) parameter."""
    return lambda mean, value, count: mean * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The mean of all: Izmailov et al., 2018, arXiv:1803.05407."""
    return lambda mean, value, count: mean + (value - mean) / (count + 1)


def _of_all(average: Average) -> Averages:
    """The same for lists, written to the means."""

    def apply(means: list[Tensor], values: list[Tensor], count: Tensor) -> None:
        for mean, value in zip(means, values, strict=True):
            mean.assign(average(mean, value, count.cast(mean.dtype)).cast(mean.dtype))

    return apply


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for lists of means, which it writes to, and of parameters."""
    return _of_all(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` for lists of means, which it writes to, and of parameters."""
    return _of_all(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of `model`, on a device if one is given, whose parameters (with `use_buffers` all of
    its state) are means of those that `update_parameters` is given; `avg_fn(mean, value, count)`
    gives one, `multi_avg_fn(means, values, count)` writes to all; by default all count alike. The
    first call copies.
    """

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ):  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueRangeError("AveragedModel takes avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        self.n_averaged = Tensor(0)
        if device is not None:
            self.to(device)
        self._average = multi_avg_fn or _of_all(avg_fn or get_swa_avg_fn())
        self._all = use_buffers

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self.module(*arguments, **options)

    def update_parameters(self, model: Module) -> None:
        """Take in the parameters as they are now."""
        own, other = get_state_dict(self.module), get_state_dict(model)
        count = self.n_averaged
        with no_grad():
            values = {name: other[name].detach().to(mean.device) for name, mean in own.items()}
            averaged = [
                name for name, mean in own.items()
                if mean.requires_grad or (self._all and mean.dtype.kind != "bool")
            ]  # fmt: skip
            made = [own[name].detach().clone() for name in averaged]
            self._average(made, [values[name] for name in averaged], count)
            for name, mixed in zip(averaged, made, strict=True):
                values[name] = (count == 0).where(values[name], mixed)
            for name, mean in own.items():
                mean.assign(values[name].cast(mean.dtype))
            count.assign(count + 1)
        count.realize(*own.values())


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, from the inputs of `loader`,
    which are moved to the device, if one is given.
    """
    norms: list[Any] = [one for one in model.modules() if hasattr(one, "running_mean")]
    before, was = [one.momentum for one in norms], model.training
    for one in norms:
        one.running_mean.assign(one.running_mean.zeros_like())
        one.running_var.assign(one.running_var.ones_like())
    model.train()
    with no_grad():
        for seen, batch in enumerate(loader):
            for one in norms:
                one.momentum = 1 / (seen + 1)
            inputs = batch[0] if isinstance(batch, list | tuple) else batch
            model(inputs if device is None else inputs.to(device))
    for one, momentum in zip(norms, before, strict=True):
        one.momentum = momentum
    model.train(was)


__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip
