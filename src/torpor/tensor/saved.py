"""PyTorch's `torch.autograd.graph`: what is done with tensors that are kept for gradients.

Operations keep none: a gradient is a graph of what they were made of, of which the compiler keeps
or computes again what it needs. So hooks see only what a `Function` keeps, by `save_for_backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torpor.base.missing import names_of
from torpor.tensor.custom import saving_hooks


@contextmanager
def saved_tensors_hooks(
    pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
) -> Iterator[None]:
    """Inside, a `Function` keeps `pack_hook(tensor)` of each tensor for its gradient, for which
    `unpack_hook` of that is the tensor again. The innermost hooks hold. Operations keep no tensors.
    """
    token = saving_hooks.set((pack_hook, unpack_hook))
    try:
        yield
    finally:
        saving_hooks.reset(token)


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Inside, a `Function` keeps its tensors on the device CPU."""

    def back(kept: tuple[Any, Any]) -> Any:
        return kept[1].to(kept[0])

    with saved_tensors_hooks(lambda one: (one.device, one.to("CPU")), back):
        yield


__all__ = ["save_on_cpu", "saved_tensors_hooks"]
__getattr__ = names_of("torpor.autograd.graph", lambda: __all__)
