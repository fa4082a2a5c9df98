"""PyTorch's `torch.autograd` by its names."""

from __future__ import annotations

from torpor.tensor import derivatives as functional
from torpor.tensor.custom import Function
from torpor.tensor.gradcheck import gradcheck, gradgradcheck
from torpor.tensor.gradients import backward, grad
from torpor.tensor.mode import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)

__all__ = [
    "Function", "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck",
    "gradgradcheck",
    "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
