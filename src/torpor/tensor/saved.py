"""PyTorch's `torch.autograd.graph`: what is done with tensors that are kept for gradients.

Operations keep none: a gradient is a graph of what they were made of, of which the compiler keeps
or computes again what it needs. So hooks see only what a `Function` keeps, by `save_for_backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torpor.base.missing import names_of
from torpor.tensor.custom import saving_hooks
from torpor.tensor.mode import held


def saved_tensors_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> Any:
    """Inside, a `Function` keeps `pack_hook(tensor)` of each tensor for its gradient, for which
    `unpack_hook` of that is the tensor again. The innermost hooks hold. Operations keep no tensors.
    """
    return held(saving_hooks, (pack_hook, unpack_hook))


def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Any:
    """Inside, a `Function` keeps its tensors on the device CPU."""
    return saved_tensors_hooks(
        lambda one: (one.device, one.to("CPU")), lambda kept: kept[1].to(kept[0])
    )


__all__ = ["save_on_cpu", "saved_tensors_hooks"]
__getattr__ = names_of("torpor.autograd.graph", lambda: __all__)
