"""What programs ask of `torch.cuda` and `torch.accelerator`: is there such a device; and seeds."""

from __future__ import annotations

from typing import Any, Final

from torpor.base.missing import names_of
from torpor.device import Device
from torpor.tensor.amp import cuda as amp
from torpor.tensor.mode import device
from torpor.tensor.random import manual_seed as manual_seed

_MOST: Final = 64  # devices of one machine

manual_seed_all = manual_seed
OutOfMemoryError = MemoryError


def is_available() -> bool:
    """Whether the device CUDA can be opened on this machine."""
    return not Device.why_not("CUDA")


def device_count() -> int:
    """How many there are."""
    return next((n for n in range(_MOST) if Device.why_not(f"CUDA:{n}")), _MOST)


def empty_cache() -> None:
    """Nothing: memory that is free goes back to the system by itself."""


def synchronize(device: Any = None) -> None:
    """Wait until what was computed on the device, CUDA unless named, is there."""
    Device[str(device or "CUDA")].synchronize()


def current_accelerator(check_available: bool = False) -> Any:
    """The device CUDA; None where there is none."""
    return device("CUDA") if is_available() else None


__all__ = [
    "OutOfMemoryError", "amp", "current_accelerator", "device_count", "empty_cache", "is_available",
    "manual_seed", "manual_seed_all", "synchronize",
]  # fmt: skip
__getattr__ = names_of("cuda", lambda: __all__)
