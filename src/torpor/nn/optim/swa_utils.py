"""Means of a model's parameters over its training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from torpor.nn.module import Module
from torpor.nn.state import get_state_dict
from torpor.tensor import Tensor, no_grad

Average = Callable[[Tensor, Tensor, Tensor], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """mean = decay mean + (1 - decay) parameter."""
    return lambda mean, value, count: mean * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The mean of all: Izmailov et al., 2018, arXiv:1803.05407."""
    return lambda mean, value, count: mean + (value - mean) / (count + 1)


class AveragedModel(Module):
    """A copy of `model` whose parameters (with `use_buffers` all of its state) are means of those
    that `update_parameters` is given; `avg_fn(mean, value, count)` says how, by default as all
    count alike. The first call copies.
    """

    def __init__(self, model: Module, avg_fn: Average | None = None, use_buffers: bool = False):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.n_averaged = Tensor(0)
        self._average, self._all = avg_fn or get_swa_avg_fn(), use_buffers

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self.module(*arguments, **options)

    def update_parameters(self, model: Module) -> None:
        """Take in the parameters as they are now."""
        own, other = get_state_dict(self.module), get_state_dict(model)
        count, changed = self.n_averaged, [self.n_averaged]
        with no_grad():
            for name, mean in own.items():
                value = other[name].detach()
                if mean.dtype.is_float and (mean.requires_grad or self._all):
                    share = count.cast(mean.dtype)
                    mixed = self._average(mean.detach(), value, share)
                    value = (count == 0).where(value, mixed)
                mean.assign(value.cast(mean.dtype).to(mean.device))
                changed.append(mean)
            count.assign(count + 1)
        changed[0].realize(*changed[1:])


def update_bn(loader: Iterable[Any], model: Module) -> None:
    """Compute the running statistics of a model's batch norms anew, from the inputs of `loader`."""
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
            model(batch[0] if isinstance(batch, list | tuple) else batch)
    for one, momentum in zip(norms, before, strict=True):
        one.momentum = momentum
    model.train(was)
