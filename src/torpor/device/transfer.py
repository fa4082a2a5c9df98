"""Copies between buffers of any two devices."""

from __future__ import annotations

import ctypes

import numpy as np

from torpor.base.errors import MemoryStateError
from torpor.device.buffer import Buffer


def copy_buffer(destination: Buffer, source: Buffer) -> None:
    """Make `destination` (allocated here if it is not) hold the bytes of `source`, as many."""
    if destination.nbytes != source.nbytes:
        raise MemoryStateError(
            f"cannot copy {source!r} of {source.nbytes} bytes to {destination!r} "
            f"of {destination.nbytes}"
        )
    if not destination.is_allocated():
        destination.allocate()
    if destination.memory.read_only:
        raise MemoryStateError(f"{destination!r} is read-only")
    seen_here, seen_there = destination.memory.address, source.memory.address
    if seen_here is not None and seen_there is not None:
        # memmove: the two may overlap, as views of one buffer. ctypes lets other threads run.
        ctypes.memmove(destination.address, source.address, source.nbytes)
    elif seen_there is not None:
        destination.copyin(source.numpy())
    elif seen_here is not None:
        source.copyout(destination.numpy())
    else:
        between = np.empty(source.nbytes, np.uint8)
        source.copyout(between)
        destination.copyin(between)
