"""Floor 4: compilers, allocators, executables and buffers of every device."""

from torpor.device.base import Allocator, Compiler, DeviceBase, Executable, Memory
from torpor.device.buffer import Buffer
from torpor.device.disk import disk_buffer
from torpor.device.npy import numpy_buffer
from torpor.device.registry import Device, Devices, named
from torpor.device.transfer import copy_buffer

__all__ = [
    "Allocator",
    "Buffer",
    "Compiler",
    "Device",
    "DeviceBase",
    "Devices",
    "Executable",
    "Memory",
    "copy_buffer",
    "disk_buffer",
    "named",
    "numpy_buffer",
]
