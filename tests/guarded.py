"""Memory that ends where the process may not look: a read or a write past it crashes."""

import ctypes
import mmap
import os

import numpy as np

from torpor.device.memory import Block

GARBAGE = 0xFF  # fresh memory holds this in every byte: NaN, -1, True


class Guarded:
    """`nbytes` bytes, right before a page that must not be touched."""

    def __init__(self, nbytes):
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.pages = mmap.mmap(-1, size + mmap.PAGESIZE)
        self.view = (ctypes.c_char * (size + mmap.PAGESIZE)).from_buffer(self.pages)
        start = ctypes.addressof(self.view)
        ctypes.memset(start, GARBAGE, size)
        if os.name == "posix":  # elsewhere it is memory as any other
            protect = ctypes.CDLL(None).mprotect
            protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            assert protect(start + size, mmap.PAGESIZE, 0) == 0
        self.address, self.start = start + size - nbytes, size - nbytes


def guarded_block(allocator, nbytes, spec):
    """`HostAllocator.allocate`, of memory that is given back to the system when it is free."""
    keeper = Guarded(nbytes)
    return Block(keeper.address, nbytes, keeper)


def guarded_array(array):
    """A copy of an array in such memory."""
    keeper = Guarded(array.nbytes)
    made = np.frombuffer(keeper.pages, array.dtype, array.size, keeper.start)
    made = made.reshape(array.shape)
    made[...] = array
    return made
