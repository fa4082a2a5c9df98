"""Losses scaled so that gradients fit a narrow format: PyTorch's `torch.amp.GradScaler`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import ValueRangeError
from torpor.tensor.handle import Handle


class GradScaler:
    """Multiplies a loss, so that its gradients are not rounded to 0 in float16, and the gradients
    by the inverse before a step. A step whose gradients are infinite or NaN is left out, and the
    scale made smaller by `backoff_factor`; after `growth_interval` others it grows by
    `growth_factor`. With `enabled=False` all this does nothing.

    >>> scaler = GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(Tensor(2.0)).item(), scaler.get_scale()
    (8.0, 4.0)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ):  # fmt: skip
        if enabled and not (growth_factor > 1 and 0 < backoff_factor < 1):
            what = "a growth_factor above 1 and a backoff_factor between 0 and 1"
            raise ValueRangeError(f"a GradScaler has {what}")
        self._enabled, self._scale, self._good = enabled, float(init_scale), 0
        self._factors, self._interval = (growth_factor, backoff_factor), growth_interval
        self._unscaled: dict[int, bool] = {}  # by optimiser: whether its gradients are finite

    def scale(self, outputs: Any) -> Any:
        """The loss, or each of several, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Handle):
            small = not outputs.ndim and outputs.dtype is dtypes.float16  # which ends before 2^16
            return (outputs.cast(dtypes.float32) if small else outputs) * self._scale
        return type(outputs)(self.scale(one) for one in outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, as `step` does, to clip
        them before.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise ValueRangeError("unscale_ was called for this optimiser since the last update")
        groups = optimizer.param_groups
        found = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        for gradient in found:
            gradient.mul_(1 / self._scale)
        flags = [gradient.detach().isfinite().all() for gradient in found]
        if flags:
            flags[0].realize(*flags[1:])
        self._unscaled[id(optimizer)] = all(flag.item() for flag in flags)

    def step(self, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        """The optimiser's step, if its gradients are finite; what it gives."""
        if self._enabled:
            if id(optimizer) not in self._unscaled:
                self.unscale_(optimizer)
            if not self._unscaled[id(optimizer)]:
                return None
        return optimizer.step(*arguments, **options)

    def update(self, new_scale: Any = None) -> None:
        """The next scale, after the steps of all optimisers; or the one given."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not all(self._unscaled.values()):
            self._scale, self._good = self._scale * self._factors[1], 0
        elif (good := self._good + 1) < self._interval:
            self._good = good
        else:
            self._scale, self._good = self._scale * self._factors[0], 0
        self._unscaled.clear()

    def get_scale(self) -> float:
        """The scale; 1 where it is not enabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Its numbers, by PyTorch's names."""
        growth, backoff = self._factors
        return {
            "scale": self._scale, "growth_factor": growth, "backoff_factor": backoff,
            "growth_interval": self._interval, "_growth_tracker": self._good,
        } if self._enabled else {}  # fmt: skip

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if self._enabled:
            self._scale, self._good = state_dict["scale"], state_dict["_growth_tracker"]
            self._factors = state_dict["growth_factor"], state_dict["backoff_factor"]
            self._interval = state_dict["growth_interval"]
